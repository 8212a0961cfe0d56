"""Parts of rows in a ring of slots: how the kernels of norms, softmax, cross entropy and their gradients divide rows, and how one
warp keeps the ring full by bulk copies while consumers take the rows in turn.

Input: matrices [ROWS, N], whose rows a cluster splits among its CTAs. Output: parts of rows in shared memory. For example:

    load_rows((x, dy), (x_row, dy_row), (x_tiles, dy_tiles), full, free, ROWS, ...)     the producer, for all rows of its cluster
    slot = taken_slot(full, free, turn, me, STAGES, CONSUMERS)                          consumer `me` has its next row's parts there

CTA number `rank` has the columns from rank * CHUNK * CHUNKS on: CHUNKS chunks of CHUNK columns, since a tile has a power of two of
elements, and a row need not. Cluster c takes the rows c, c + clusters, ...
"""

import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def chunk_at(rank, chunk, units, UNIT: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr, EVEN: tl.constexpr):
    """The first column that chunk number `chunk` of a CTA holds. A chunk that would stick out of the row is moved to the left, so
    that all copies have one size; `inside` says which of its columns are its own."""
    first = (rank * CHUNKS + chunk) * (CHUNK // UNIT)
    return (first if EVEN else tl.minimum(first, units - CHUNK // UNIT)) * UNIT


@mimw.jit
def own_columns(rank, units, UNIT: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr, EVEN: tl.constexpr):
    """Masks of the columns that belong to each chunk and to no other one, or None where these are all."""
    inside = None
    if not EVEN:
        inside = ()
        for chunk in tl.static_range(CHUNKS):
            columns = chunk_at(rank, chunk, units, UNIT, CHUNK, CHUNKS, EVEN) + tl.arange(0, CHUNK)
            inside = inside + (columns >= (rank * CHUNKS + chunk) * CHUNK, )
    return inside


@mimw.jit
def start_part(pointer, tiles, first, arrived, rank, units, UNIT: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr,
               EVEN: tl.constexpr):
    """Start the copies of this CTA's part of the row at `pointer` into the tiles `first`, first + 1, ..."""
    for chunk in tl.static_range(CHUNKS):
        tlx.async_load(pointer + chunk_at(rank, chunk, units, UNIT, CHUNK, CHUNKS, EVEN), tiles[first + chunk], bulk=True,
                       barrier=arrived)


@triton.constexpr_function
def bytes_of(pointers):
    """Bytes of one element of each of the pointers that are not None."""
    return sum(pointer.dtype.element_ty.primitive_bitwidth // 8 for pointer in pointers if pointer is not None)


@mimw.jit
def tiles_for(pointer, COUNT: tl.constexpr, CHUNK: tl.constexpr):
    """COUNT buffers of CHUNK elements of what `pointer` points at; None for None."""
    return None if pointer is None else tlx.local_alloc((CHUNK, ), tlx.dtype_of(pointer), COUNT)


@mimw.jit
def start_rows(pointers, row_steps, tiles, first_row, slot, full, rank, units, UNIT: tl.constexpr, CHUNK: tl.constexpr,
               CHUNKS: tl.constexpr, EVEN: tl.constexpr, ROWS_EACH: tl.constexpr = 1):
    """Start the copies of this CTA's parts of ROWS_EACH rows into a slot, of each of the arrays that are not None."""
    tlx.barrier_expect_bytes(full[slot], ROWS_EACH * CHUNK * CHUNKS * bytes_of(pointers))
    for i in tl.static_range(ROWS_EACH):
        row = (first_row + i).to(tl.int64)
        for j in tl.static_range(len(pointers)):
            if pointers[j] is not None:
                start_part(pointers[j] + row * row_steps[j], tiles[j], (slot * ROWS_EACH + i) * CHUNKS, full[slot], rank, units,
                           UNIT, CHUNK, CHUNKS, EVEN)


@mimw.jit
def load_rows(pointers, row_steps, tiles, full, free, BLOCKS, units, rank, cluster, clusters, UNIT: tl.constexpr,
              CHUNK: tl.constexpr, CHUNKS: tl.constexpr, STAGES: tl.constexpr, EVEN: tl.constexpr, ROWS_EACH: tl.constexpr = 1):
    """This CTA's parts of its cluster's blocks of ROWS_EACH rows, in order."""
    step = 0
    for block in range(cluster, BLOCKS, clusters):
        slot = step % STAGES
        tlx.barrier_wait(free[slot], (step // STAGES & 1) ^ 1)
        start_rows(pointers, row_steps, tiles, block * ROWS_EACH, slot, full, rank, units, UNIT, CHUNK, CHUNKS, EVEN, ROWS_EACH)
        step += 1


@mimw.jit
def taken_slot(full, free, turn, me: tl.constexpr, STAGES: tl.constexpr, CONSUMERS: tl.constexpr):
    """The slot of the row that consumer number `me` takes in its turn, once the row's parts are there."""
    step = turn * CONSUMERS + me
    slot = step % STAGES
    if STAGES % CONSUMERS:
        # The slot is not always this consumer's. Copies land in any order, so its last row, another consumer's, may still be on its
        # way; then a wait for the row that comes next, two phases later, would return at once.
        tlx.barrier_wait(free[slot], (step // STAGES & 1) ^ 1)
    tlx.barrier_wait(full[slot], step // STAGES & 1)
    return slot


@mimw.jit
def places_to_tell(COUNT: tl.constexpr, CONSUMERS: tl.constexpr, CLUSTER: tl.constexpr):
    """(buffers for COUNT numbers of each CTA of the cluster, their barriers), two for each consumer: who has sent for its row i + 1
    has read what came for row i - 1, not for row i. None, None without a cluster."""
    parts, arrived = None, None
    if CLUSTER > 1:
        parts = tlx.local_alloc((CLUSTER, COUNT), tl.float32, 2 * CONSUMERS)
        arrived = tlx.alloc_barriers(2 * CONSUMERS)
    return parts, arrived
