"""What each chunk needs of its own keys, queries and gates, where every column of the keys has gates of its own.

Input: maps of q, k and g that end with each sequence (attention_varlen/maps.py), a pointer of beta, and the table of chunks.
Output: T and P of each chunk, its last b, and its rows of q and k with their gates (see __init__.py):

    prepare_by_key[(chunks, HV)](q, k, g, beta, last, T, P, q_out, k_out, w_out, bounds, table, problem, ..., num_warps=4)

e^(b_i - b_j) is a product e^(b_i - m) e^(m - b_j) with a row's b for m, so that a tensor core sums over columns. Where, in COLUMNS
columns, gates before and behind a chunk's middle sum to no less than -FAR, m is the b between, for the whole chunk, and rows with
gates come from the same two powers. Elsewhere each block of 16 rows has its own m, and gates count as FLOOR at least, since
e^(m - b_j) overflows otherwise: by that, and by what underflows, an element of P, or of A, is wrong by at most 8e-5 of the lengths
of q_i and k_j, a fiftieth of what bf16 rounds.
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_varlen.maps import FAR as END
from .forgotten import growth
from .nouns import CHUNK_FIELDS, C
from .prepare import LOG2_E, diagonal, numbers_of, place_of, put_inverse, put_tile

BLOCK = tl.constexpr(16)
BLOCKS = tl.constexpr(4)
COLUMNS = tl.constexpr(64)      # of keys at a time
FAR = tl.constexpr(80.0)        # e^80 and its sums are finite in bf16 and fp32
FLOOR = tl.constexpr(-9.5)

# Registers of 4 warps. A warp has a block of 16 rows, a thread two columns of it: sums over rows stay within a thread but for the
# totals of blocks, and an instruction stores, or reads, 128 or 256 bytes of one row.
TILE = tl.constexpr(tlx.layout(((32, 4), (2, 16)), ((2, 1024), (1, 64))))           # of (BLOCKS, BLOCK, COLUMNS), or (C, COLUMNS)
OWN = tl.constexpr(tlx.layout(((32, 4), (2, )), ((2, 64), (1, ))))                  # of (BLOCKS, COLUMNS): the warp's block
ALL = tl.constexpr(tlx.layout(((32, 4), (2, 4)), ((2, 0), (1, 64))))                # of (BLOCKS, COLUMNS): all blocks in each warp
ROWS = tl.constexpr(tlx.layout(((16, 2, 4), (32, )), ((64, 32, 1024), (1, ))))      # of (C, COLUMNS): two threads have a row


@tle.struct
class Chunk:
    """COLUMNS columns of a chunk at a time, as TMA brings them: q (None without one), k and g, with a barrier each."""

    q: Any
    k: Any
    g: Any
    filled: Any


@tle.struct
class Operands:
    """Of the products of COLUMNS columns: q and k times e^(b - m), None for where q and k of the chunk lie, which have been read
    then; k times e^(m - b), in turn; and numbers of blocks that all warps want."""

    q: Any
    k: Any
    fall: Any
    numbers: Any


@tle.struct
class Outputs:
    """Pointers of rows with gates at COLUMNS columns of the chunk: q e^b, k e^b (None for what a call does without), k e^(end - b)."""

    q: Any
    k: Any
    w: Any
    K: tl.constexpr


@mimw.jit
def buffers(Q: tl.constexpr, TYPE: tl.constexpr, GATES: tl.constexpr, OPERAND: tl.constexpr, K: tl.constexpr):
    """(Chunk, Operands). What falls takes the place of gates, which are in registers then, unless it is wider."""
    PARTS: tl.constexpr = K // COLUMNS
    FALLS: tl.constexpr = min(2, PARTS)
    k, filled = tlx.local_alloc((C, COLUMNS), TYPE, PARTS), tlx.alloc_barriers(PARTS)
    q, rising_q, rising_k = None, None, None
    if Q:
        q = tlx.local_alloc((C, COLUMNS), TYPE, PARTS)
    if tlx.size_of(GATES) >= tlx.size_of(OPERAND):
        both = tlx.storage_alias_spec()
        g = tlx.local_alloc((C, COLUMNS), GATES, PARTS, reuse=both)
        fall = tlx.local_alloc((C, COLUMNS), OPERAND, FALLS, reuse=both)
        both.set_buffer_overlap(tlx.reuse_group(g, fall))
    else:
        g, fall = tlx.local_alloc((C, COLUMNS), GATES, PARTS), tlx.local_alloc((C, COLUMNS), OPERAND, FALLS)
    if OPERAND != TYPE:
        rising_k = tlx.local_alloc((C, COLUMNS), OPERAND, 1)
        if Q:
            rising_q = tlx.local_alloc((C, COLUMNS), OPERAND, 1)
    numbers = tlx.local_alloc((BLOCKS, COLUMNS), tl.float32, 2)
    return Chunk(q, k, g, filled), Operands(rising_q, rising_k, fall, numbers)


@mimw.jit
def bring(desc, buffer, end, first, head, column: tl.constexpr, filled):
    """COLUMNS columns of the chunk's rows of a head."""
    place = [END, end, head, END - (end - first), column]
    tlx.async_descriptor_load(desc, tlx.local_reshape(buffer, [1, 1, 1, C, COLUMNS]), place, filled)


@mimw.jit
def begin(chunk, q, k, g, table, problem, K: tl.constexpr):
    """All columns of this program's chunk, on their way."""
    at, head = table + tl.program_id(0) * CHUNK_FIELDS, tl.program_id(1)
    first, end, of_key = tl.load(at), tl.load(at + 1), head // (problem.HV // problem.H)
    BYTES: tl.constexpr = C * COLUMNS * (tlx.size_of(chunk.g.dtype) + (1 if q is None else 2) * tlx.size_of(chunk.k.dtype))
    for part in tl.static_range(K // COLUMNS):
        tlx.barrier_expect_bytes(chunk.filled[part], BYTES)
        bring(g, chunk.g[part], end, first, head, part * COLUMNS, chunk.filled[part])
        bring(k, chunk.k[part], end, first, of_key, part * COLUMNS, chunk.filled[part])
        if q is not None:
            bring(q, chunk.q[part], end, first, of_key, part * COLUMNS, chunk.filled[part])


@mimw.jit
def tile_of(buffer):
    """A buffer of (C, COLUMNS) in fp32, as TILE."""
    tile = tl.reshape(tlx.local_load(buffer, layout=TILE), (BLOCKS, BLOCK, COLUMNS))
    return tlx.require_layout(tile, TILE).to(tl.float32)


@mimw.jit
def put_operand(buffer, tile):
    """A tile of numbers, as TILE, to where a product reads it."""
    tile = tlx.require_layout(tile.to(buffer.dtype), TILE)
    tlx.local_store(buffer, tlx.require_layout(tl.reshape(tile, (C, COLUMNS)), TILE))


@mimw.jit
def put_rows(pointer, tile, K: tl.constexpr):
    """A tile of rows with gates."""
    n, i = tl.arange(0, BLOCKS)[:, None, None], tl.arange(0, BLOCK)[None, :, None]
    at = (n * BLOCK + i) * K + tl.arange(0, COLUMNS)[None, None, :]
    tl.store(pointer + tlx.require_layout(at, TILE), tlx.require_layout(tile.to(pointer.dtype.element_ty), TILE))


@mimw.jit
def block_of(tile, number):
    """Row `number` of each block."""
    return tl.sum(tl.where(tl.arange(0, BLOCK)[None, :, None] == number, tile, -0.0), 1)     # x + -0.0 is x


@mimw.jit
def everywhere(numbers, tile):
    """A tile of (BLOCKS, COLUMNS), as OWN, for all warps, as ALL."""
    tlx.local_store(numbers, tlx.require_layout(tile, OWN))
    return tlx.local_load(numbers, layout=ALL)


@mimw.jit
def one_of(totals, number):
    """Row `number` of (BLOCKS, COLUMNS)."""
    return tl.sum(tl.where(tl.arange(0, BLOCKS)[:, None] == number, totals, -0.0), 0)


@mimw.jit
def products(q, k, fall, of_queries, of_keys):
    """The sums and q k^T, k k^T of operands."""
    right = tl.trans(tlx.local_load(fall))
    if q is not None:
        of_queries = tl.dot(tlx.local_load(q), right, of_queries)
    return of_queries, tl.dot(tlx.local_load(k), right, of_keys)


@mimw.jit
def near(queries, keys, x, before, behind, q, k, fall, outputs):
    """Operands and rows with gates, by x = b - m; `before` is m and `behind` end - m, all for powers of 2."""
    rise, left = tl.exp2(x), tl.exp2(-x) * keys
    put_operand(fall, left)
    put_rows(outputs.w, left * tl.exp2(behind)[None, None, :], outputs.K)
    grown = tl.exp2(before)[None, None, :]
    put_operand(k, keys * rise)
    if outputs.k is not None:
        put_rows(outputs.k, keys * rise * grown, outputs.K)
    if queries is not None:
        put_operand(q, queries * rise)
        put_rows(outputs.q, queries * rise * grown, outputs.K)


@mimw.jit
def far_rows(queries, keys, b, end, outputs):
    """Rows with gates, by b and its last row."""
    put_rows(outputs.w, keys * tl.exp2(end[None, None, :] - b), outputs.K)
    if outputs.k is not None:
        put_rows(outputs.k, keys * tl.exp2(b), outputs.K)
    if queries is not None:
        put_rows(outputs.q, queries * tl.exp2(b), outputs.K)


@mimw.jit
def far(queries, keys, gates, numbers, q, k, fall, of_queries, of_keys):
    """The sums and products, of one block of rows after the other."""
    n, within = tl.arange(0, BLOCKS), tl.cumsum(tl.maximum(gates, FLOOR) * LOG2_E, 1)
    totals = everywhere(numbers, block_of(within, BLOCK - 1))
    before = tl.zeros((BLOCKS, COLUMNS), tl.float32)
    for block in tl.static_range(BLOCKS - 1):
        before += tl.where(n[:, None] > block, one_of(totals, block)[None, :], 0.0)
    b = within + tlx.require_layout(before, OWN)[:, None, :]
    middles = everywhere(numbers, block_of(b, BLOCK // 2))
    for block in range(BLOCKS):
        x = b - one_of(middles, block)[None, None, :]
        rise = tl.exp2(tl.where(n[:, None, None] == block, x, float("-inf")))
        put_operand(fall, keys * tl.exp2(tl.where(n[:, None, None] <= block, -x, float("-inf"))))
        put_operand(k, keys * rise)
        if queries is not None:
            put_operand(q, queries * rise)
        of_queries, of_keys = products(None if queries is None else q, k, fall, of_queries, of_keys)
    return of_queries, of_keys


@mimw.jit
def prepare_by_key(q, k, g, beta, last, T_out, P_out, q_out, k_out, w_out, bounds, table, problem, K: tl.constexpr):
    """T, P, the last b, rows with gates and the bound of a chunk and head (forgotten.py); T and k_out only with beta, P and q_out
    only with q."""
    TYPE: tl.constexpr = tlx.dtype_of(k)
    OPERAND: tl.constexpr = tl.bfloat16 if TYPE == tl.bfloat16 else tl.float32     # fp16 does not hold e^FAR
    chunk, operands = buffers(q is not None, TYPE, tlx.dtype_of(g), OPERAND, K)
    begin(chunk, q, k, g, table, problem, K)
    place, n = place_of(table, problem), tl.arange(0, BLOCKS)[:, None]
    of_queries, of_keys = tl.zeros((C, C), tl.float32), tl.zeros((C, C), tl.float32)
    largest = tl.full((C if beta is not None else 1, ), float("-inf"), tl.float32)     # of gates in each row, or of b at the end
    for part in tl.range(0, K // COLUMNS, num_stages=1):
        tlx.barrier_wait(chunk.filled[part], 0)
        if bounds is not None and beta is not None:
            largest = tl.maximum(largest, tl.max(tlx.local_load(chunk.g[part], layout=ROWS).to(tl.float32), 1))
        gates, queries, keys = tile_of(chunk.g[part]), None, tile_of(chunk.k[part])
        if q is not None:
            queries = tile_of(chunk.q[part])
        within = tl.cumsum(gates, 1)
        totals = everywhere(operands.numbers[part % 2], block_of(within, BLOCK - 1))
        before, behind = tl.sum(tl.where(n < 2, totals, -0.0), 0), tl.sum(tl.where(n >= 2, totals, -0.0), 0)
        if beta is None:
            largest = tl.maximum(largest, tl.max(before + behind, 0))
        at = place.number * K + part * COLUMNS
        tl.store(last + at + tl.arange(0, COLUMNS), before + behind)
        at = place.number * (C * K) + part * COLUMNS
        outputs = Outputs(None if q is None else q_out + at, None if beta is None else k_out + at, w_out + at, K)
        rising_q, rising_k, fall = operands.q, operands.k, operands.fall[part % 2]
        if OPERAND == TYPE:
            rising_k = chunk.k[part]
            if q is not None:
                rising_q = chunk.q[part]
        else:
            rising_k = operands.k[0]
            if q is not None:
                rising_q = operands.q[0]
        shift = tl.where(n == 3, one_of(totals, 2)[None, :], 0.0) - tl.where(n == 1, one_of(totals, 1)[None, :], 0.0)
        shift -= tl.where(n == 0, before[None, :], 0.0)
        x = within + tlx.require_layout(shift, OWN)[:, None, :]
        if tl.min(tl.minimum(before, behind), 0) >= -FAR:
            near(queries, keys, x * LOG2_E, before * LOG2_E, behind * LOG2_E, rising_q, rising_k, fall, outputs)
            of_queries, of_keys = products(rising_q, rising_k, fall, of_queries, of_keys)
        else:
            far_rows(queries, keys, (x + before[None, None, :]) * LOG2_E, (before + behind) * LOG2_E, outputs)
            of_queries, of_keys = far(queries, keys, gates, operands.numbers[part % 2], rising_q, rising_k, fall, of_queries,
                                      of_keys)
    i, j = tl.arange(0, C)[:, None], tl.arange(0, C)[None, :]
    if q is not None:
        put_tile(P_out, tl.where(i >= j, of_queries, 0.0), place)
    bound = tl.sum(largest, 0)
    if beta is not None:
        weight = numbers_of(beta, place)
        bound += growth(diagonal(of_keys), weight)
        put_inverse(T_out, tl.where(i > j, of_keys, 0.0), weight, place)
    if bounds is not None:
        tl.store(bounds + place.number, bound)
