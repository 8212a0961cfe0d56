"""Sums over the logits of a last linear layer on Hopper, without the logits: a GEMM whose tiles end as a few numbers a row.

Input: descriptors of x [M, K] and of the weight [N, K], or [K, N], targets [M]. Output: for each column of tiles and each row of x
the logarithm of a sum of powers, and the sum of logits; for each row the logit of its target. For example:

    kernel, grid, args, meta = arguments(x, weight.T, targets, lses, owns, others, room, programs)
    kernel[grid](*args, **meta)

The roles are those of the GEMM (../gemm/roles.py); in the place of its output stands `Statistics`. All logits are in units of
log2(e). The numbers of a tile go to `room`, [tiles along N, M], and `combined` puts those of a row together: a sum of powers
2^(x - largest) of 128 columns has an error of 128 roundings at most, and no sum depends on which program came first.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle

from ..cross_entropy.softcap import capped
from ..gemm.operands import Operands
from ..gemm.roles import input_pipe, run_roles
from ..gemm.sources import OneMatrix
from ..gemm.tiles import Problem
from ..softmax.sums import LN2, LOG2E, finite


@tle.struct
class Statistics:
    """The places of a tile's numbers: `lses` and `others` are [tiles along N, M], `others` None where nobody wants sums of logits;
    `owns` is [M]. `cap` is the bound of the logits, or None."""
    problem: Problem
    targets: tl.tensor
    bias: tl.tensor | None
    cap: Any
    lses: tl.tensor
    others: tl.tensor | None
    owns: tl.tensor
    WHOLE: tl.constexpr

    @mimw.jit
    def store(self, acc, at, part):
        """Reduce an output tile, and write a number or two a row."""
        rows, columns = at.m + tl.arange(0, acc.shape[0]), at.n + tl.arange(0, acc.shape[1])
        M, N = self.problem.M, self.problem.N
        x = acc
        if self.bias is not None:
            x += tl.load(self.bias + columns, mask=columns < N, other=0.0).to(tl.float32)[None, :]
        x = capped(x, self.cap) * LOG2E
        within = rows < M
        target = tl.load(self.targets + rows, mask=within, other=-1)
        target_at = (target - at.n).to(tl.int32)
        here = (target >= at.n) & (target < at.n + part.COLUMNS) & (target < N)
        place = (at.n // part.COLUMNS).to(tl.int64) * M + rows
        if tl.max(here.to(tl.int32)) > 0:
            own = tl.sum(tl.where((columns - at.n)[None, :] == target_at[:, None], x, 0.0), 1)
            tl.store(self.owns + rows, own * LN2, mask=within & here)
        if self.others is not None:
            counted = x if self.WHOLE else tl.where((columns < N)[None, :], x, 0.0)
            tl.store(self.others + place, tl.sum(counted, 1), mask=within)
        if not self.WHOLE:
            x = tl.where((columns < N)[None, :], x, float("-inf"))
        largest = finite(tl.max(x, 1))
        total = tl.sum(tl.exp2(x - largest[:, None]), 1)
        tl.store(self.lses + place, largest + tl.log2(total), mask=within)


@mimw.jit
def linear_cross_entropy(x_desc, weight_desc, targets, lses, others, owns, bias, sizes, cap, FORM: tl.constexpr,
                         WHOLE: tl.constexpr):
    """The numbers of each tile, of x [M, K] times the weight's transpose. FORM is a `Form`; WHOLE: N is a multiple of its tiles."""
    problem = Problem(sizes.M, sizes.N, sizes.K)
    operands = Operands(x_desc, weight_desc, FORM.tiles.B_IS_NK)
    inputs = input_pipe(operands, FORM.tiles, FORM.STAGES)
    out = Statistics(problem, targets, bias, cap, lses, others, owns, WHOLE)
    run_roles(inputs, OneMatrix(problem, FORM.tiles), operands, out)


@mimw.jit
def combined(lses, others, lse_ptr, sums_ptr, M, tiles, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """The logarithm of each row's sum of powers, and its sum of logits, from those of the tiles."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    within = rows < M
    largests, totals = tl.full((BLOCK, ROWS), float("-inf"), tl.float32), tl.zeros((BLOCK, ROWS), tl.float32)
    sums = tl.zeros((BLOCK, ROWS), tl.float32)
    for first in range(0, tiles, BLOCK):
        tile = first + tl.arange(0, BLOCK)
        at = tile.to(tl.int64)[:, None] * M + rows[None, :]
        inside = (tile < tiles)[:, None] & within[None, :]
        x = tl.load(lses + at, mask=inside, other=float("-inf"))
        new = tl.maximum(largests, x, propagate_nan=tl.PropagateNan.ALL)
        totals = totals * tl.exp2(largests - finite(new)) + tl.exp2(x - finite(new))
        largests = new
        if others is not None:
            sums += tl.load(others + at, mask=inside, other=0.0)
    largest = finite(tl.max(largests, 0))
    total = tl.sum(totals * tl.exp2(largests - largest[None, :]), 0)
    tl.store(lse_ptr + rows, (largest + tl.log2(total)) * LN2, mask=within)
    if others is not None:
        tl.store(sums_ptr + rows, tl.sum(sums, 0) * LN2, mask=within)
