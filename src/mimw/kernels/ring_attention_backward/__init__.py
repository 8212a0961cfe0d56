"""The gradients of attention on a sequence that is cut over several GPUs, for Hopper: bf16 and fp16, head dims 64 and 128,
grouped queries, full or causal.

Input: this rank's q, k, v, o, the log-sum-exps of ../ring_attention, and the gradient of o. Output: the gradients of this
rank's q, k and v. For example:

    work = Workspace.of(world, batch, kv_heads, length, dim, dtype)
    launches(q, k, v, o, lse, do, dq, dk, dv, rows, sums, work, rank, programs)     four launches, each (kernel, grid, args, meta)

With five products a pair of blocks, as ../attention_backward. Keys and values come while programs compute on the rank's own
ones, and a rank's shares of dK and dV of other ranks' keys, as many bytes, go there while others are computed. What is not beside
the computation: each rank adds up the shares that it has been given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mimw

from .. import attention_backward
from ..attention_backward.configs import Configuration, configuration
from ..attention_backward.nouns import Form, KeysForm
from ..checks import PROGRAMS
from ..contract import Contract
from ..contract.memory import strides
from ..ring_attention import FITS, PUTTERS, halves
from ..ring_attention import Workspace as Forward
from ..ring_attention.gather import piece_shift
from .collect import ROWS, collect
from .kernel import ring_attention_backward as kernel

__all__ = ["CONTRACT", "Configuration", "Workspace", "collect", "kernel", "launches"]

CONTRACT = Contract(*FITS, "dk: =q (batch, kv_heads, length, dim) contiguous", "dv: =q (batch, kv_heads, length, dim) contiguous",
                    PROGRAMS)


@dataclass(frozen=True)
class Workspace:
    """`gathered` is ../ring_attention's, of this rank; `parts` is symmetric, 1-D and as large as its `whole`, of any content."""

    gathered: Forward
    parts: Any

    @classmethod
    def of(cls, world: mimw.World, batch: int, kv_heads: int, length: int, dim: int, dtype) -> Workspace:
        """The workspace of simulated GPUs."""
        size = Forward.elements(batch, kv_heads, length, dim, len(world))
        return cls(Forward.of(world, batch, kv_heads, length, dim, dtype), world.symmetric(size, dtype, "parts"))

    def at(self, rank: int) -> Workspace:
        """The workspace of one rank, of a workspace of simulated GPUs."""
        return Workspace(self.gathered.at(rank), self.parts[rank])


def launches(q, k, v, o, lse, do, dq, dk, dv, rows, sums, work: Workspace, rank: int, programs: int, causal: bool = False,
             balanced: bool = True, scale: float | None = None, chosen: Configuration | None = None, dlse=None,
             putters: int = PUTTERS) -> list[tuple]:
    """The launches that compute dq, dk and dv of one rank, in order; each a (kernel, grid, args, meta).

    args:      q, k, v, o, lse, causal, balanced, scale, putters    as `mimw.kernels.ring_attention.arguments` has them
               do, dq    like q
               dk, dv    like k, contiguous
               rows, sums    as `mimw.kernels.attention_backward.launches` has them, for this rank's queries
               work      this rank's Workspace; its `gathered` may be that of the forward launches
               rank      this rank, 0 to size - 1
               programs  how many programs add up the shares of dk and dv, no more than run at a time; the same at all ranks
               chosen    by default the measured configuration of ../attention_backward
               dlse      the gradient of lse, like it, if there is one
    errors:    ValueError where a shape, a stride or a type is not what the kernels take, with the numbers
    """
    parts = 2 if causal and balanced else 1
    of = CONTRACT.check(q=q, k=k, v=v, dk=dk, dv=dv, parts=parts, programs=programs)
    batch, heads, length, dim, kv_heads, size = of.batch, of.heads, of.length, of.dim, of.kv_heads, work.gathered.size
    chosen = chosen or configuration(dim, causal)
    first, (_, _, (*args, measures, _), _), last = attention_backward.launches(q, k, v, o, lse, do, dq, dk, dv, rows, sums, causal,
                                                                               scale, chosen, dlse)
    if length // parts % chosen.bm or length // parts % chosen.bn:
        raise ValueError(f"a chunk of {length // parts} rows is no multiple of {chosen.bm} queries and {chosen.bn} keys")
    describe = mimw.TensorDescriptor.from_tensor
    whole = halves(work.gathered, batch, kv_heads, length, dim)
    of_parts = halves(Forward(work.parts, None, None, None, size), batch, kv_heads, length, dim)
    of_keys = [1, 1, chosen.bn, dim]
    blocks = length // chosen.bn * size
    grid = (kv_heads, blocks, batch) if causal else (blocks, kv_heads, batch)       # places.py says why
    args = (*args[:3], *(describe(x, of_keys) for x in whole), *args[3:7], *of_parts, k, v, *whole,
            work.gathered.flags, work.gathered.state, work.gathered.world, rank, size, measures.scale, measures.log2_scale,
            heads, length, 0, piece_shift(batch * kv_heads), *strides(k)[:3], *strides(v)[:3])
    form = Form(chosen.bm, chosen.bn, heads // kv_heads, causal, dim, False, "tma", None)
    main = dict(FORM=KeysForm(form, dim, chosen.q_stages, chosen.do_stages), PARTS=parts,
                PUTTERS=0 if size == 1 else min(putters, kv_heads * blocks), num_warps=4)
    shares = (*of_parts, dk, dv, work.gathered.world, batch * kv_heads, length)
    programs = min(programs, batch * kv_heads * length // ROWS.value)
    return [first, (kernel, grid, args, main), last,
            (collect, (programs, ), shares, dict(D=dim, PARTS=parts, CAUSAL=causal, num_warps=8))]
