"""The gradients of chunks whose gates by key need no cuts (gates.py): 64 columns of keys a program; with 128 columns of values two
programs are on a multiprocessor side by side, of which one multiplies while the other waits.

Input: descriptors and pointers of what `gradients` has, bf16. Output: the same; chunks that need cuts get anything:

    gradients_by_key[(chunks * HV * K / 64, )](maps, given.g, given.beta, work.b, written.dbeta, table, problem, FORM=form)

All tiles are asked for at once, by TMA. With m = b - b_C / 2, E = e^m, F = e^-m and h = e^(b_C / 2), by element and by column,
products of rows with rows have their factors outside of the sum, and what they are added to begins it:

    dq   = E (dP (F K) + scale h (dO S^T))                      up = E (dA (F K) - h (dR S^T))
    down = F (dP^T (E Q) + dA^T (E K))                          end = F h (N D^T)

Sums over rows are products with triangles of ones: b of g, which is two numbers of fp16, as exact as fp32 where it is above -120;
dg of two numbers of bf16. S D, summed over values, is the diagonal of a product.
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_varlen.maps import FAR
from ..linear_attention.gates import LOG2_E
from ..linear_attention.nouns import C
from .gates import diagonal
from .nouns import chunk_of, numbers_of, rows_of, store_numbers

OPERAND = tlx.layout(((4, 8, 4), (2, 2, 8)), ((2, 64, 1024), (1, 512, 8)))      # how 128 threads hold sums and left operands


class Maps(NamedTuple):
    """Descriptors: of rows of a head, which end with their sequence: 64 columns of q and k, all V of do, N and dv, None
    without the delta rule; of 64 columns of states: S^T and D^T; of 64 columns of rows of results: dq, dk and dg."""

    q: Any
    k: Any
    do: Any
    N: Any
    dv: Any
    S: Any
    D: Any
    dq: Any
    dk: Any
    dg: Any


@tle.struct
class Tiles:
    """Shared memory: rows of do, N and dv; S^T, and in its place later a part of db; D^T; q and k, later E Q and E K; two tiles of
    g, and in their place F K, then dq and dk, then dg; `columns`: h and S D. `full` are the barriers of q and k, of values, of
    states, and of q and k once more."""

    do: Any
    N: Any
    dv: Any
    S: Any
    db: Any
    D: Any
    rows: Any
    g: Any
    falling: Any
    of_rows: Any
    dg: Any
    columns: Any
    full: Any


@mimw.jit
def tiles_of(maps, form):
    """Memory for one chunk."""
    TYPE: tl.constexpr = tlx.dtype_of(maps.q)
    RESULT: tl.constexpr = tlx.dtype_of(maps.dq)
    COUNT: tl.constexpr = 1 if RESULT == tl.float32 else 2
    do, N, dv = tlx.local_alloc((C, form.V), TYPE, 1)[0], tlx.local_alloc((C, form.V), TYPE, 1)[0], None
    if form.DELTA:
        dv = tlx.local_alloc((C, form.V), TYPE, 1)[0]
    D, of_state = tlx.local_alloc((form.V, C), TYPE, 1)[0], tlx.storage_alias_spec()
    S, db = tlx.local_alloc((form.V, C), TYPE, 1, reuse=of_state)[0], tlx.local_alloc((C, C), tl.float32, 1, reuse=of_state)[0]
    spec = tlx.storage_alias_spec()
    g, of_rows = tlx.local_alloc((C, C), tl.float16, 2, reuse=spec), tlx.local_alloc((C, C), RESULT, COUNT, reuse=spec)
    falling, dg = tlx.local_alloc((C, C), TYPE, 1, reuse=spec), tlx.local_alloc((C, C), tlx.dtype_of(maps.dg), 1, reuse=spec)
    rows, columns = tlx.local_alloc((C, C), TYPE, 2), tlx.local_alloc((C, ), tl.float32, 2)
    return Tiles(do, N, dv, S, db, D, rows, g, falling[0], of_rows, dg[0], columns, tlx.alloc_barriers(4))


@mimw.jit
def half_of(tile, number: tl.constexpr):
    """64 columns of a tile of rows of values, or 64 rows of one of a state, as memory for something else."""
    if tile.shape[0] == C:
        return tlx.local_slice(tile, [0, number * C], [C, C])
    else:
        return tlx.local_slice(tile, [number * C, 0], [C, C])


@mimw.jit
def places(here, head, column):
    """The coordinates of a chunk's rows."""
    return [FAR, here.end, head, FAR - (here.end - here.first.to(tl.int32)), column]


@mimw.jit
def ask_rows(maps, q, k, full, at):
    """Starts the loads of q and k."""
    tlx.barrier_expect_bytes(full, 4 * C * C)
    tlx.async_descriptor_load(maps.q, q, at, full)
    tlx.async_descriptor_load(maps.k, k, at, full)


@mimw.jit
def ask_values(tiles, maps, at, state, form):
    """Starts the loads of all else."""
    tlx.barrier_expect_bytes(tiles.full[1], (6 if form.DELTA else 4) * C * form.V)
    tlx.async_descriptor_load(maps.N, tiles.N, at, tiles.full[1])
    tlx.async_descriptor_load(maps.do, tiles.do, at, tiles.full[1])
    if form.DELTA:
        tlx.async_descriptor_load(maps.dv, tiles.dv, at, tiles.full[1])
    tlx.barrier_expect_bytes(tiles.full[2], 4 * C * form.V)
    tlx.async_descriptor_load(maps.S, tiles.S, state, tiles.full[2])
    tlx.async_descriptor_load(maps.D, tiles.D, state, tiles.full[2])


@mimw.jit
def put_gates(high, low, g):
    """g as the sum of two numbers of fp16."""
    rounded = g.to(tl.float16)
    tlx.local_store(high, rounded)
    tlx.local_store(low, (g - rounded.to(tl.float32)).to(tl.float16))


@mimw.jit
def put_parts(high, low, x):
    """x as the sum of two numbers of bf16, the first one cut off, not rounded: a mask is cheaper than a conversion and back."""
    cut = (x.to(tl.int32, bitcast=True) & -65536).to(tl.float32, bitcast=True)
    tlx.local_store(high, cut.to(tl.bfloat16))
    tlx.local_store(low, (x - cut).to(tl.bfloat16))


@mimw.jit
def up_to(TYPE: tl.constexpr):
    """1 at j <= i, 0 elsewhere: (C, C), where left operands lie in registers."""
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    return tlx.require_layout(tl.where(j <= i, 1.0, 0.0), OPERAND).to(TYPE)


@mimw.jit
def from_and_before():
    """1 at j >= i, and at j < i: the bits of the other one, of which a word holds two."""
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    one = tlx.require_layout(tl.where(j >= i, 1.0, 0.0), OPERAND).to(tl.bfloat16)
    return one, (one.to(tl.int16, bitcast=True) ^ 0x3F80).to(tl.bfloat16, bitcast=True)


@mimw.jit
def below(scores):
    """Scores below the diagonal, of the type of operands."""
    at = tl.arange(0, C)
    return tl.where(at[:, None] > at[None, :], scores, 0.0).to(tl.bfloat16)


@mimw.jit
def give(desc, place, tile, at):
    """Stores rows of results by way of a place."""
    tlx.local_store(place, tile.to(place.dtype))
    tlx.fence("async_shared")
    tlx.async_descriptor_store(desc, place, at)


@mimw.jit
def column_of(place):
    """A number for each column, (1, 64), read where it is wanted: sums take nearly all registers."""
    return tlx.local_load(place)[None, :]


@mimw.jit
def factors(tiles, last, form):
    """E of each element; h, E Q, E K and F K go where products want them."""
    ones = up_to(tl.float16)
    b = tlx.async_dot(ones, tiles.g[1], tlx.async_dot(ones, tiles.g[0]))
    tlx.barrier_wait(tiles.full[0], 0)
    keys = tlx.local_load(tiles.rows[1]).to(tl.float32)
    half = last * (0.5 * LOG2_E)
    middle = tlx.async_dot_wait(0, b) * LOG2_E - half[None, :]
    rise = tl.exp2(middle)
    tlx.local_store(tiles.falling, (keys * tl.exp2(-middle)).to(tiles.falling.dtype))
    tlx.local_store(tiles.rows[0], (tlx.local_load(tiles.rows[0]).to(tl.float32) * rise).to(tiles.falling.dtype))
    if form.DELTA:
        tlx.local_store(tiles.rows[1], (keys * rise).to(tiles.falling.dtype))
    tlx.local_store(tiles.columns[0], tl.exp2(half))
    return rise


@mimw.jit
def compute(tiles, maps, weight, last, dbeta, here, head, column, at_keys, into, problem, form):
    """dq, dk and dg of 64 columns of keys from `column` on, loaded from `at_keys`, stored to `into`, and dbeta with the first of
    them. `weight` is beta, `last` b_C of these columns."""
    rise = factors(tiles, last, form)
    tlx.barrier_wait(tiles.full[1], 0)
    across = tlx.local_trans(tiles.N)
    dP = tlx.async_dot(tiles.do, across)
    if form.DELTA:
        dA = tlx.async_dot_wait(0, tlx.async_dot(tiles.dv, across))
    dP = tlx.async_dot_wait(0, dP)
    own, scores = diagonal(dP) * problem.scale, below(dP * problem.scale)
    if form.DELTA:
        of_dA = below(-dA)
        if column == 0:
            store_numbers(dbeta, diagonal(dA) / (weight * weight), here, head, problem.HV)
    tlx.barrier_wait(tiles.full[2], 0)
    dq = tlx.async_dot(tiles.do, tiles.S)
    if form.DELTA:
        up = tlx.async_dot_wait(0, tlx.async_dot(tiles.dv, tiles.S))
    dq = tlx.async_dot_wait(0, dq)
    # do and dv have been read. q and k have got factors: as they are they come once more.
    q, k = half_of(tiles.do, 1), half_of(tiles.dv, 1) if form.DELTA else half_of(tiles.do, 0)
    ask_rows(maps, q, k, tiles.full[3], at_keys)
    tlx.local_store(tiles.columns[1], diagonal(tlx.async_dot_wait(0, tlx.async_dot(tlx.local_trans(tiles.S), tiles.D))))
    half = column_of(tiles.columns[0])
    dq = tlx.async_dot(scores, tiles.falling, dq * (half * problem.scale))
    if form.DELTA:
        up = tlx.async_dot(of_dA, tiles.falling, up * -half)
    turned = half_of(tiles.do, 0) if form.DELTA else tiles.rows[1]
    tlx.local_store(turned, scores)
    if form.DELTA:
        tlx.local_store(half_of(tiles.dv, 0), of_dA)
        up = tlx.async_dot_wait(0, up) * rise
    dq = tlx.async_dot_wait(0, dq) * rise

    tlx.barrier_wait(tiles.full[3], 0)
    queries, keys = tlx.local_load(q).to(tl.float32), tlx.local_load(k).to(tl.float32)
    give(maps.dq, tiles.of_rows[0], dq + own[:, None] * keys, into)
    dk, db = own[:, None] * queries, queries * dq
    if form.DELTA:
        dk, db = dk + up, db + keys * up
    tlx.local_store(tiles.db, db)       # in registers ptxas would keep what it is made of instead, and spill that
    down, end = tlx.async_dot(tlx.local_trans(turned), tiles.rows[0]), tlx.async_dot(tiles.N, tiles.D)
    if form.DELTA:
        down = tlx.async_dot(tlx.local_trans(half_of(tiles.dv, 0)), tiles.rows[1], down)
    fall = tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [rise], tl.float32, True, 1)
    keys *= fall
    down, end = tlx.async_dot_wait(0, down), tlx.async_dot_wait(0, end) * column_of(tiles.columns[0])
    if tiles.of_rows.num == 1:
        tlx.async_descriptor_store_wait(0)
    give(maps.dk, tiles.of_rows[tiles.of_rows.num - 1], dk + fall * (down + end), into)
    put_parts(half_of(tiles.N, 0), half_of(tiles.N, 1), tlx.local_load(tiles.db) - keys * down)
    put_parts(half_of(tiles.D, 0), half_of(tiles.D, 1), keys * end)
    from_here, before = from_and_before()
    dg = tlx.async_dot(from_here, half_of(tiles.N, 1), tlx.async_dot(from_here, half_of(tiles.N, 0)))
    dg = tlx.async_dot(before, half_of(tiles.D, 1), tlx.async_dot(before, half_of(tiles.D, 0), dg))
    half = column_of(tiles.columns[0])
    dg = tlx.async_dot_wait(0, dg) + half * half * column_of(tiles.columns[1])
    tlx.async_descriptor_store_wait(0)
    give(maps.dg, tiles.dg, dg, into)
    tlx.async_descriptor_store_wait(0)


@mimw.jit
def gradients_by_key(maps, g, beta, last, dbeta, table, problem, FORM: tl.constexpr):
    """K_TILE = 64 columns of keys of a chunk and head."""
    PARTS: tl.constexpr = FORM.K // FORM.K_TILE
    place, column = tl.program_id(0) // PARTS, tl.program_id(0) % PARTS * FORM.K_TILE
    head, here = place % problem.HV, chunk_of(table, place // problem.HV)
    tiles, weight = tiles_of(maps, FORM), None
    at_keys = places(here, head // FORM.GROUP, column)
    ask_rows(maps, tiles.rows[0], tiles.rows[1], tiles.full[0], at_keys)
    gates = rows_of(g, here, head, problem.HV, FORM.K, column, FORM.K_TILE).to(tl.float32)
    at_end = tl.load(last + place.to(tl.int64) * FORM.K + column + tl.arange(0, FORM.K_TILE))
    if FORM.DELTA:
        weight = numbers_of(beta, here, head, problem.HV, 1.0)
    ask_values(tiles, maps, places(here, head, 0), [place * FORM.V, column], FORM)
    put_gates(tiles.g[0], tiles.g[1], gates)
    compute(tiles, maps, weight, at_end, dbeta, here, head, column, at_keys, places(here, head, column), problem, FORM)
