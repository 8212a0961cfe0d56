"""The gradients of chunks by warps with roles: one loads by TMA, eight multiply (multiply.py), one stores (finish.py).

Input: descriptors of what `gradients` has, gates a head or none. Output: the same, of all chunks and heads:

    gradients_by_roles[(programs, )](maps, given.beta, written, table, count, problem, FORM=form)

A program takes every `programs`-th place, a chunk of a head. Pipes: `values`, load -> compute: BV = 64 columns of values at a time;
`rows`, load -> compute: q, k and b; `results`, compute -> finish: dq and dk, and numbers of rows.
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_varlen.maps import place as place_of
from ..linear_attention.nouns import CHUNK_FIELDS, C
from .finish import finish
from .multiply import PARTS, compute
from .nouns import BY_HEAD

SLOTS = tl.constexpr(2)         # of values


class Maps(NamedTuple):
    """Descriptors: of rows of a head, which end with their sequence: all columns of q, k, dq and dk, and 64 of do, N and dv; of 64
    rows of a state: S^T and D^T; and of b, None without gates."""

    q: Any
    k: Any
    do: Any
    N: Any
    dv: Any
    S: Any
    D: Any
    b: Any
    dq: Any
    dk: Any


@tle.struct
class Values:
    """Slots of 64 columns of values: rows of do, N and dv, and S^T and D^T."""

    do: Any
    N: Any
    dv: Any
    S: Any
    D: Any


@tle.struct
class Rows:
    """Slots of rows of q and k, and of b, None without gates."""

    q: Any
    k: Any
    b: Any


@tle.struct
class Scores:
    """Memory for the gradients of scores as operands; None where they are not needed."""

    dP: Any
    dA: Any


@tle.struct
class Found:
    """Slots of dq or dk; and with dk of each row a sum, in parts: with gates of db without ends, and of k end, and with the delta
    rule of dv N."""

    rows: Any
    db: Any
    ends: Any
    rest: Any


@mimw.jit
def load(values, rows, maps, table, count, problem, form):
    """Place after place."""
    BLOCKS: tl.constexpr = form.V // form.BV
    turn = 0
    for place in range(tl.program_id(0), count, tl.num_programs(0)):
        chunk, head = place // problem.HV, place % problem.HV
        first, end = tl.load(table + chunk * CHUNK_FIELDS), tl.load(table + chunk * CHUNK_FIELDS + 1)
        of_value = place_of(first, end - first, head, 0)[:4]
        for block in tl.static_range(BLOCKS):
            slot, column = values.acquire(turn * BLOCKS + block), block * form.BV
            tle.gpu.copy(maps.N, slot.N, [C, form.BV], of_value + [column])
            tle.gpu.copy(maps.do, slot.do, [C, form.BV], of_value + [column])
            if form.DELTA:
                tle.gpu.copy(maps.dv, slot.dv, [C, form.BV], of_value + [column])
            tle.gpu.copy(maps.S, slot.S, [form.BV, form.K], [place * form.V + column, 0])
            tle.gpu.copy(maps.D, slot.D, [form.BV, form.K], [place * form.V + column, 0])
            values.commit(turn * BLOCKS + block)
        slot, of_key = rows.acquire(turn), place_of(first, end - first, head // form.GROUP, 0)
        tle.gpu.copy(maps.k, slot.k, [C, form.K], of_key)
        tle.gpu.copy(maps.q, slot.q, [C, form.K], of_key)
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
    OUT: tl.constexpr = tlx.dtype_of(maps.dq)
    AHEAD: tl.constexpr = 32 // OUT.primitive_bitwidth      # of dq and dk: in fp32 there is no room for both
    HAS_B: tl.constexpr = FORM.GATE == BY_HEAD
    of_values = Values(alloc(True, SLOTS, C, FORM.BV, TYPE), alloc(True, SLOTS, C, FORM.BV, TYPE),
                       alloc(FORM.DELTA, SLOTS, C, FORM.BV, TYPE), alloc(True, SLOTS, FORM.BV, FORM.K, TYPE),
                       alloc(True, SLOTS, FORM.BV, FORM.K, TYPE))
    of_rows = Rows(alloc(True, 1, C, FORM.K, TYPE), alloc(True, 1, C, FORM.K, TYPE), alloc(HAS_B, 1, 1, C, tl.float32))
    found = Found(alloc(True, AHEAD, C, FORM.K, OUT), alloc(HAS_B, AHEAD, C, PARTS, tl.float32),
                  alloc(HAS_B, AHEAD, C, PARTS, tl.float32), alloc(FORM.DELTA, AHEAD, C, PARTS, tl.float32))
    values, rows = tle.pipe(of_values, capacity=SLOTS, name="values"), tle.pipe(of_rows, capacity=1, name="rows")
    results = tle.pipe(found, capacity=AHEAD, name="results")
    scores = Scores(alloc(True, 1, C, C, TYPE), alloc(FORM.DELTA, 1, C, C, TYPE))

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=232):  # products
            compute(values.reader(), rows.reader(), of_rows, results.writer(), scores, count, problem, FORM)
        with tlx.async_task(num_warps=1, num_regs=40):  # producer
            load(values.writer(), rows.writer(), maps, table, count, problem, FORM)
        with tlx.async_task(num_warps=1, num_regs=40):  # writer
            finish(results.reader(), maps.dq, maps.dk, beta, written, table, count, problem, FORM)
