"""The gradients of chunks by warps with roles: one loads chunk after chunk by TMA, warp groups multiply (columns.py).

Input: descriptors of what `gradients` has, gates a head or none. Output: the same, of all chunks and heads:

    gradients_by_roles[(programs, )](maps, given.beta, written, table, count, problem, FORM=form)

A program takes every `programs`-th place, a chunk of a head. A consumer has K_TILE = 64 columns of keys; products of rows with
rows, which have none, both make. Pipes: `values`, load -> consumers: BV = 64 columns of values at a time; `rows`, load ->
consumers: q, k and b; `parts`, second consumer -> first: its columns' share of dg, which is linear in them.
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_varlen.maps import FAR
from ..consumers import consumer, consumers
from ..linear_attention.nouns import CHUNK_FIELDS, C
from .columns import compute
from .nouns import BY_HEAD, Turned

SLOTS = tl.constexpr(2)         # of values


class Maps(NamedTuple):
    """Descriptors: of rows of a head, 64 columns, that end with their sequence: q, k, do, N and dv; of 64 columns of values and of
    keys of a state: S^T and D^T; and of b, None without gates."""

    q: Any
    k: Any
    do: Any
    N: Any
    dv: Any
    S: Any
    D: Any
    b: Any


@tle.struct
class Values:
    """Slots of 64 columns of values: rows of do, N and dv, and S^T and D^T, a consumer after the other."""

    do: Any
    N: Any
    dv: Any
    S: Any
    D: Any


@tle.struct
class Rows:
    """Slots of rows of q and k, a consumer after the other, and of b, None without gates."""

    q: Any
    k: Any
    b: Any


@mimw.jit
def copy_columns(desc, into, at, column, form):
    """K columns of rows of keys, or of a state, a consumer's behind the other's; `at` has the other coordinates."""
    for me in tl.static_range(form.K // form.K_TILE):
        part = tlx.local_slice(into, [me * C, 0], [C, form.K_TILE])
        tle.gpu.copy(desc, part, [C, form.K_TILE], at + [column + me * form.K_TILE])


@mimw.jit
def load(values, rows, maps, table, count, problem, form):
    """Place after place."""
    BLOCKS: tl.constexpr = form.V // form.BV
    turn = 0
    for place in range(tl.program_id(0), count, tl.num_programs(0)):
        chunk, head = place // problem.HV, place % problem.HV
        first, end = tl.load(table + chunk * CHUNK_FIELDS), tl.load(table + chunk * CHUNK_FIELDS + 1)
        of_value = [FAR, end, head, FAR - (end - first)]
        of_key = [FAR, end, head // form.GROUP, FAR - (end - first)]
        for block in tl.static_range(BLOCKS):
            slot, column = values.acquire(turn * BLOCKS + block), block * form.BV
            tle.gpu.copy(maps.N, slot.N, [C, form.BV], of_value + [column])
            tle.gpu.copy(maps.do, slot.do, [C, form.BV], of_value + [column])
            if form.DELTA:
                tle.gpu.copy(maps.dv, slot.dv, [C, form.BV], of_value + [column])
            copy_columns(maps.S, slot.S, [place * form.V + column], 0, form)
            copy_columns(maps.D, slot.D, [place * form.V + column], 0, form)
            values.commit(turn * BLOCKS + block)
        slot = rows.acquire(turn)
        copy_columns(maps.k, slot.k, of_key, 0, form)
        copy_columns(maps.q, slot.q, of_key, 0, form)
        if form.GATE == BY_HEAD:
            tle.gpu.copy(maps.b, slot.b, [1, C], [place, 0])
        rows.commit(turn)
        turn += 1


@mimw.jit
def alloc(NEEDED: tl.constexpr, SLOTS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, TYPE: tl.constexpr):
    """Slots of tiles, or None where they are not needed."""
    if NEEDED:
        return tle.gpu.alloc([SLOTS, HEIGHT, WIDTH], TYPE)
    else:
        return None


@mimw.jit
def gradients_by_roles(maps, beta, written, table, count, problem, FORM: tl.constexpr):
    """All places of this program; `count` is that of all."""
    TYPE: tl.constexpr = tlx.dtype_of(maps.q)
    CONSUMERS: tl.constexpr = FORM.K // FORM.K_TILE
    WIDE: tl.constexpr = CONSUMERS * C
    HAS_B: tl.constexpr = FORM.GATE == BY_HEAD
    of_values = Values(alloc(True, SLOTS, C, FORM.BV, TYPE), alloc(True, SLOTS, C, FORM.BV, TYPE),
                       alloc(FORM.DELTA, SLOTS, C, FORM.BV, TYPE), alloc(True, SLOTS, WIDE, FORM.K_TILE, TYPE),
                       alloc(True, SLOTS, WIDE, FORM.K_TILE, TYPE))
    of_rows = Rows(alloc(True, 1, WIDE, FORM.K_TILE, TYPE), alloc(True, 1, WIDE, FORM.K_TILE, TYPE),
                   alloc(HAS_B, 1, 1, C, tl.float32))
    values = tle.pipe(of_values, capacity=SLOTS, readers=consumers(CONSUMERS), name="values")
    rows = tle.pipe(of_rows, capacity=1, readers=consumers(CONSUMERS), name="rows")
    turned, parts = tlx.local_alloc((C, C), TYPE, 2 * CONSUMERS), None
    if HAS_B and CONSUMERS == 2:
        parts = tle.pipe(capacity=2, dg=tle.gpu.alloc([2, 1, C], tl.float32), name="parts")

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=240, replicate=CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            compute(values.reader(consumer(me)), rows.reader(consumer(me)), parts, Turned(turned[2 * me], turned[2 * me + 1]), beta,
                    written, table, count, problem, me, FORM)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(values.writer(), rows.writer(), maps, table, count, problem, FORM)
