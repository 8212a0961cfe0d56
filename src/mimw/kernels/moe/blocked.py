"""Experts in fp8 of rows that lie in blocks already, with their scales beside them, as they come from other GPUs.

Input: rows in blocks of one expert each, where each expert's blocks end, and matrices with a scale for each 128 x 128. Output: a
row of bf16 for each. For example:

    quantise_arguments(x, rows, scales)         (kernel, grid, args, meta): tokens as they go to other GPUs, scales by row
    room = {name: ... for name, (shape, type) in blocked_room_for(places, local, inner, hidden, 128).items()}
    blocked_launches(rows, scales, ends, gate_up, down, gate_up_scale, down_scale, y, room, programs, 128)

Rows bring their scales one behind the other; the products want those of one step of K side by side, so a launch turns them around,
and says whose the blocks are. How many rows there are the device alone knows: programs that find none are over at once.
"""

from __future__ import annotations

import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx

from ..contract.memory import strides
from .fp8 import SCALED, scaled_product
from .rows import in_fp8

WIDE = 1024                 # that a program quantises at a time
SIDE_BY_SIDE = 16           # programs a multiprocessor that quantise, since each waits for its row


@mimw.jit
def quantise_rows(x_ptr, rows_ptr, scales_ptr, total_ptr, ROWS, WIDTH, x_row, next_row, next_step, BLOCK: tl.constexpr):
    """The first rows of x in fp8, `total` of them, or all ROWS; the scale of numbers 128 s and on of row r goes to
    scales[r next_row + s next_step]."""
    count = ROWS if total_ptr is None else tl.minimum(tl.load(total_ptr), ROWS)
    step = tl.program_id(1) * (BLOCK // 128) + tl.arange(0, BLOCK // 128)
    at = step[:, None] * 128 + tl.arange(0, 128)[None, :]
    for number in range(tl.program_id(0), count, tl.num_programs(0)):
        row = number.to(tl.int64)
        narrow, scale = in_fp8(tl.load(x_ptr + row * x_row + at, mask=at < WIDTH, other=0.0), tlx.dtype_of(rows_ptr))
        tl.store(rows_ptr + row * WIDTH + at, narrow, mask=at < WIDTH)
        tl.store(scales_ptr + row * next_row + step.to(tl.int64) * next_step, scale, mask=step * 128 < WIDTH)


@mimw.jit
def prepare(ends_ptr, scales_ptr, turned_ptr, experts_ptr, counter_ptr, PLACES, LOCAL: tl.constexpr, STEPS: tl.constexpr,
            COLUMNS: tl.constexpr, BM: tl.constexpr):
    """Of each block of BM rows the expert, and the first STEPS of a row's COLUMNS scales the other way around, (STEPS, PLACES). The
    counter becomes 0."""
    expert, row, step = tl.arange(0, triton.next_power_of_2(LOCAL)), tl.arange(0, BM), tl.arange(0, triton.next_power_of_2(STEPS))
    ends = tl.load(ends_ptr + expert, mask=expert < LOCAL, other=PLACES)
    if tl.program_id(0) == 0:
        tl.store(counter_ptr, 0)
    for block in range(tl.program_id(0), tl.load(ends_ptr + LOCAL - 1) // BM, tl.num_programs(0)):
        tl.store(experts_ptr + block, tl.sum((ends <= block * BM).to(tl.int32)))
        at = (block * BM + row).to(tl.int64)
        scales = tl.load(scales_ptr + at[:, None] * COLUMNS + step[None, :], mask=step[None, :] < STEPS, other=0.0)
        tl.store(turned_ptr + step[:, None].to(tl.int64) * PLACES + at[None, :], tl.trans(scales), mask=step[:, None] < STEPS)


def quantise_arguments(x, rows, scales, programs: int, total=None, by_row: bool = True) -> tuple:
    """(kernel, grid, args, meta) that quantise the rows of x, `total` of them if that is given, an int32.

    args:      x       (count, width), rows contiguous; bf16, fp16 or fp32
               rows    (count, width), contiguous, of e4m3 or e5m2
               scales  fp32: (count, cdiv(width, 128)), or, not by_row, the other way around; any strides
    """
    (count, width), wide = x.shape, -(-x.shape[1] // WIDE)
    steps = strides(scales) if by_row else strides(scales)[::-1]
    args = x, rows, scales, total, count, width, strides(x)[0], *steps
    return quantise_rows, (max(1, min(count, programs * SIDE_BY_SIDE // wide)), wide), args, dict(BLOCK=WIDE, num_warps=4)


def blocked_room_for(places: int, inner: int, hidden: int, bm: int) -> dict:
    """Name -> (shape, type) of what `blocked_launches` needs for work, of `places` rows at most; a type None is y's, "fp8" the
    matrices'. What is in them does not matter."""
    return dict(turned=((-(-hidden // SCALED), places), "float32"), experts=((places // bm, ), "int32"), counter=((1, ), "int32"),
                inner=((places, inner), None), quantised=((places, inner), "fp8"),
                quantised_scale=((-(-inner // SCALED), places), "float32"))


def halves_for(bm: int) -> tuple[int, int]:
    """The weights in each half of a tile, of both products: wide where two consumers multiply and add in turn."""
    return (128, 128) if bm == 128 else (64, 64)


def blocked_launches(rows, scales, ends, gate_up, down, gate_up_scale, down_scale, y, room: dict, programs: int, bm: int,
                     drawn: bool = False, total=None, halves: tuple[int, int] | None = None) -> list[tuple]:
    """[(kernel, grid, args, meta), ...], one after the other: y[i] = down[e] (silu(gate) up), where e is the expert of row i.

    args:      rows      (places, hidden), contiguous, fp8 of the matrices' type: whole blocks of bm rows
               scales    (places, cdiv(hidden, 128) or more) fp32, contiguous
               ends      (experts) int32: the row behind each expert's last block
               gate_up, down, gate_up_scale, down_scale     as `scaled_launches`
               y         (places, hidden), contiguous: bf16, fp16 or fp32
               room      arrays as `blocked_room_for` says, by name
               programs  of the products: one a multiprocessor, or fewer
               bm        16, 32, 64 or 128
               drawn     whether tiles are drawn: then programs that begin late hold up nobody
               total     (opt) the last number of ends, as an array of its own
               halves    64 or 128 weights in each half of the first product's tiles, and of the second one's; by default as
                         `halves_for` says
    """
    (places, hidden), inner, local = rows.shape, down.shape[2], down.shape[0]
    total, turned, experts = ends[local - 1:] if total is None else total, room["turned"], room["experts"]
    counter, halves = room["counter"] if drawn else None, halves or halves_for(bm)
    args = ends, scales, turned, experts, room["counter"], places
    meta = dict(LOCAL=local, STEPS=-(-hidden // SCALED), COLUMNS=scales.shape[1], BM=bm, num_warps=4)
    first = prepare, (min(places // bm, 4 * programs), ), args, meta
    up = scaled_product(rows, turned, gate_up, gate_up_scale, room["inner"], experts, total, inner, programs, bm, True,
                        counter=counter, half=halves[0])
    between = quantise_arguments(room["inner"], room["quantised"], room["quantised_scale"], programs, total, by_row=False)
    back = scaled_product(room["quantised"], room["quantised_scale"], down, down_scale, y, experts, total, hidden, programs, bm,
                          False, counter=counter, half=halves[1])
    return [first, up, between, back]


__all__ = ["blocked_launches", "blocked_room_for", "halves_for", "prepare", "quantise_arguments", "quantise_rows"]
