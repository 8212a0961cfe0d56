"""The launches of a mixture of experts with fp8 weights: tokens and inner rows are quantised on the way, 1 x 128 numbers a scale.

Input: tokens, matrices with a scale for each 128 x 128, experts and weights of each token. Output: out (tokens, hidden). For
example:

    scaled_launches(x, gate_up, down, gate_up_scale, down_scale, ids, weights, out, room, programs)     as `launches`
    scaled_room_for(tokens, k, experts, inner, hidden)                                                  as `room_for`
    scaled_product(a, scale_a, b, scale_b, c, experts, total, n, programs, bm, gated)             one of them
"""

from __future__ import annotations

from dataclasses import dataclass

from ..checks import PROGRAMS, lie, work_fits
from ..contract import Contract
from ..contract.memory import strides
from ..contract.types import of as type_name
from ..descriptors import described
from ..moe_align import arguments as align_arguments
from ..moe_align import outputs
from .configs import SHARED_BYTES, configuration
from .few_rows_scaled import few_rows_scaled_gemm
from .few_tokens import FEW, few
from .nouns import FewRowsScaledForm, ScaledForm, ScaleSteps
from .rows import combine, quantise
from .scaled import scaled_expert_gemm

FP8 = ("float8_e4m3fn", "float8_e5m2")
BLOCK = 1024                # columns of a token that one program quantises or sums
SCALED = 128                # numbers along K, and rows of weights, that share a scale
GROUP_M = 8
CONTRACT = Contract(
    "x: float (tokens, hidden) rows", "gate_up: fp8 (experts, 2 * inner, hidden) tma", "down: fp8 (experts, hidden, inner) tma",
    f"gate_up_scale: fp32 (experts, 2 * inner // {SCALED}, cdiv(hidden, {SCALED}))",
    f"down_scale: fp32 (experts, cdiv(hidden, {SCALED}), inner // {SCALED})", "ids: int (tokens, k)", "weights: any (tokens, k)",
    "out: float (tokens, hidden)", PROGRAMS,
    f"inner % {SCALED} == 0 -- inner must be a multiple of {SCALED}, so that the gate's scales are not also those of up")


@dataclass(frozen=True)
class ScaledConfiguration:
    """Blocks of `bm` rows; so many consumers `swapped`, whose products' rows are weights, or 0."""

    bm: int = 128
    swapped: int = 0


def scaled_configuration(rows: int, experts: int) -> ScaledConfiguration:
    """The configuration for so many rows in all: blocks as in bf16, at most the 128 rows of two consumers."""
    return ScaledConfiguration(min(128, configuration(rows, experts).bm))


def scaled_room_for(tokens: int, k: int, experts: int, inner: int, hidden: int, bm: int | None = None) -> dict:
    """Name -> (shape, type) of what `scaled_launches` needs for work; a type None is x's, "fp8" the matrices'. What is in them does
    not matter. The scales of rows lie one step of 128 numbers behind the other."""
    numel = tokens * k
    bm = bm or scaled_configuration(numel, experts).bm
    length, blocks, total = outputs(numel, experts, bm)
    rows = -(-min(numel * bm, length) // bm) * bm
    lists = dict(tokens=length, experts=blocks, total=total, places=numel, counters=experts)
    return {name: ((size, ), "int32") for name, size in lists.items()} | dict(
        spread=((rows, hidden), "fp8"), spread_scale=((-(-hidden // SCALED), rows), "float32"), inner=((rows, inner), None),
        quantised=((rows, inner), "fp8"), quantised_scale=((-(-inner // SCALED), rows), "float32"), rows=((rows, hidden), None))


def scaled_product(a, scale_a, b, scale_b, c, experts, total, n: int, programs: int, bm: int, gated: bool,
                   swapped: int = 0, counter=None, half: int = 64) -> tuple:
    """(kernel, grid, args, meta) of c = a b^T for blocks of rows, or of silu(a gate^T) (a up^T), with scales. `swapped` is how many
    consumers there are whose products' rows are weights, or 0. With a `counter`, an int32 that is 0, tiles are stolen, where none
    is. They have two halves of 64 or 128 weights."""
    operands, steps = (described(a, [bm, SCALED]), described(scale_a, [1, bm])), ScaleSteps(*strides(scale_b))
    if swapped:
        width = 64 * swapped if gated else 128 * swapped
        stages = min(24, SHARED_BYTES // ((bm + 128 * swapped) * SCALED + max(128, 4 * bm)))
        args = *operands, described(b, [1, width, SCALED]), c, scale_b, steps, experts, total, n, a.shape[1]
        meta = dict(FORM=FewRowsScaledForm(bm, 1, stages, swapped, gated), num_warps=4, launch_pdl=True)
        return few_rows_scaled_gemm, (min(programs, c.shape[0] // bm * -(-n // width)), ), args, meta
    tall, width = max(64, bm), half if gated else 2 * half
    staging = (1 if gated else 2) * (tall // 64) * 64 * 64 * c.dtype.itemsize
    stages = min(12, (SHARED_BYTES - staging) // ((tall + 2 * half) * SCALED + 4 * tall + 64))
    args = (*operands, described(b, [1, width, SCALED]), described(c, [min(bm, 64), 64]), scale_b, steps, experts, total, counter,
            n, a.shape[1])
    meta = dict(FORM=ScaledForm(bm, GROUP_M, stages, gated, half), num_warps=4, launch_pdl=True)
    return scaled_expert_gemm, (min(programs, c.shape[0] // bm * -(-n // width)), ), args, meta


def scaled_launches(x, gate_up, down, gate_up_scale, down_scale, ids, weights, out, room: dict, programs: int,
                    bm: int | None = None, swapped: int | None = None) -> list[tuple]:
    """[(kernel, grid, args, meta), ...] as `launches`, for fp8 weights.

    args:      x              (tokens, hidden) of bf16, fp16 or fp32, rows contiguous
               gate_up, down  (experts, 2 inner, hidden) and (experts, hidden, inner) of fp8, rows contiguous; inner a multiple of
                              128
               gate_up_scale, down_scale    fp32, any strides: (experts, cdiv(rows, 128), cdiv(columns, 128)) of those
               bm             rows of a block: 16, 32, 64 or 128; by default by how many rows an expert has
               swapped        with blocks of 64 rows or fewer: the consumers of products whose rows are weights, 1 or 2; by default
                              none are
               the others     as `launches`
    errors:    ValueError where a shape, a stride or a type is not what TMA and wgmma take, with the numbers
    """
    of = CONTRACT.check(x=x, gate_up=gate_up, down=down, gate_up_scale=gate_up_scale, down_scale=down_scale, ids=ids,
                        weights=weights, out=out, programs=programs)
    tokens, hidden, k, experts, inner = of.tokens, of.hidden, of.k, of.experts, of.inner
    usual = scaled_configuration(tokens * k, experts)
    bm, swapped = bm or usual.bm, usual.swapped if swapped is None else swapped
    types = {None: type_name(x), "fp8": type_name(gate_up)}
    work_fits(room, {name: (shape, types.get(type_, type_))
                     for name, (shape, type_) in scaled_room_for(tokens, k, experts, inner, hidden, bm).items()})
    lie("tma", **{f"room[{name!r}]": room[name] for name in ("inner", "rows", "quantised")})
    lists, places, rows = [room[name] for name in ("tokens", "experts", "total")], room["places"], room["rows"].shape[0]
    wide = -(-hidden // BLOCK)
    meta = dict(TOP_K=k, IN_PLACE=False, BLOCK=BLOCK, num_warps=4)
    if tokens * k <= FEW and bm <= 64:
        before = [few(x, ids, room["spread"], room["spread_scale"], places, *lists[1:], experts, bm)]
    else:
        before = [align_arguments(ids, *lists, room["counters"], experts, bm, programs, places=places),
                  (quantise, (tokens, wide), (x, places, room["spread"], room["spread_scale"], hidden, strides(x)[0], rows), meta)]
    first = scaled_product(room["spread"], room["spread_scale"], gate_up, gate_up_scale, room["inner"], *lists[1:], inner, programs,
                           bm, True, swapped)
    args = room["inner"], places, room["quantised"], room["quantised_scale"], inner, inner, rows
    between = quantise, (tokens * k, -(-inner // BLOCK)), args, {**meta, "TOP_K": 1, "IN_PLACE": True}
    second = scaled_product(room["quantised"], room["quantised_scale"], down, down_scale, room["rows"], *lists[1:], hidden,
                            programs, bm, False, swapped)
    args = room["rows"], places, weights, out, hidden, *strides(weights)
    last = combine, (tokens, wide), args, dict(TOP_K=k, BLOCK=BLOCK, num_warps=4, launch_pdl=True)
    return [*before, first, between, second, last]
