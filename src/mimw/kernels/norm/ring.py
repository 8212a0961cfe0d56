"""Parts of rows in a ring of slots: how the kernels of norms, softmax, cross entropy and their gradients divide rows, and how one
warp keeps the ring full by bulk copies while consumers take the rows in turn.

Input: matrices [ROWS, N], whose rows a cluster splits among its CTAs. Output: parts of rows in shared memory. For example:

    FORM = RingForm(8, 1024, 2, 4, 5, 2, True)                      a launch's constants, made outside of the kernel
    part, rows = part_of(rank, units, FORM), cluster_rows(ROWS, FORM.CLUSTER)
    ring = ring_of(FORM.STAGES, FORM.CONSUMERS)
    load_rows((x, dy), (x_tiles, dy_tiles), rows, ring, part)       the producer, for all rows of its cluster
    slot = taken_slot(ring, turn, me)                               consumer `me` has its next row's parts there

CTA number `rank` has the columns from rank * CHUNK * CHUNKS on: CHUNKS chunks of CHUNK columns, since a tile has a power of two of
elements, and a row need not. Cluster c takes the rows c, c + clusters, ...
"""

from typing import Any

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx


@tle.struct
class Matrix:
    """Rows in global memory, `step` elements apart; its pointer is None where there is no such matrix."""
    pointer: tl.tensor | None
    step: Any

    @mimw.jit
    def row(self, number):
        """Pointer to the first element of a row."""
        return self.pointer + number.to(tl.int64) * self.step


@tle.struct
class RingForm:
    """The constants of a launch: rows in units of UNIT elements, parts of CHUNKS chunks of CHUNK columns for each CTA of a CLUSTER,
    all of them whole where EVEN; STAGES slots of the ring, which CONSUMERS take in turn."""
    UNIT: tl.constexpr
    CHUNK: tl.constexpr
    CHUNKS: tl.constexpr
    CLUSTER: tl.constexpr
    STAGES: tl.constexpr
    CONSUMERS: tl.constexpr
    EVEN: tl.constexpr


@tle.struct
class Part:
    """A row's part that CTA number `rank` of its cluster has. A row is `units` times UNIT columns; EVEN: all parts are whole."""
    rank: Any
    units: Any
    UNIT: tl.constexpr
    CHUNK: tl.constexpr
    CHUNKS: tl.constexpr
    CLUSTER: tl.constexpr
    EVEN: tl.constexpr


@tle.struct
class Rows:
    """The blocks of EACH rows that a cluster takes: of `count` each `clusters`-th one, from number `cluster` on."""
    count: Any
    cluster: tl.tensor
    clusters: tl.tensor
    EACH: tl.constexpr = 1


@tle.struct
class Ring:
    """The barriers of STAGES slots, which CONSUMERS consumers take in turn."""
    full: tlx.mbarrier
    free: tlx.mbarrier
    STAGES: tl.constexpr
    CONSUMERS: tl.constexpr


@mimw.jit
def part_of(rank, units, FORM: tl.constexpr):
    """The part of CTA number `rank`, of rows of so many units."""
    return Part(rank, units, FORM.UNIT, FORM.CHUNK, FORM.CHUNKS, FORM.CLUSTER, FORM.EVEN)


@mimw.jit
def cluster_rows(count, CLUSTER: tl.constexpr, EACH: tl.constexpr = 1):
    """The rows of this program's cluster."""
    return Rows(count, tl.program_id(0) // CLUSTER, tl.num_programs(0) // CLUSTER, EACH)


@mimw.jit
def ring_of(STAGES: tl.constexpr, CONSUMERS: tl.constexpr):
    """A ring with all slots free."""
    return Ring(tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES), STAGES, CONSUMERS)


@mimw.jit
def chunk_at(part, chunk):
    """The first column that chunk number `chunk` of a CTA holds. A chunk that would stick out of the row is moved to the left, so
    that all copies have one size; `inside` says which of its columns are its own."""
    first = (part.rank * part.CHUNKS + chunk) * (part.CHUNK // part.UNIT)
    return (first if part.EVEN else tl.minimum(first, part.units - part.CHUNK // part.UNIT)) * part.UNIT


@mimw.jit
def chunk_columns(part, chunk):
    """The columns of a chunk."""
    return chunk_at(part, chunk) + tl.arange(0, part.CHUNK)


@mimw.jit
def own_columns(part):
    """Masks of the columns that belong to each chunk and to no other one, or None where these are all."""
    inside = None
    if not part.EVEN:
        inside = ()
        for chunk in tl.static_range(part.CHUNKS):
            inside = inside + (chunk_columns(part, chunk) >= (part.rank * part.CHUNKS + chunk) * part.CHUNK, )
    return inside


@mimw.jit
def start_part(part, pointer, tiles, first, arrived):
    """Start the copies of this CTA's part of the row at `pointer` into the tiles `first`, first + 1, ..."""
    for chunk in tl.static_range(part.CHUNKS):
        tlx.async_load(pointer + chunk_at(part, chunk), tiles[first + chunk], bulk=True, barrier=arrived)


@triton.constexpr_function
def bytes_of(pointers):
    """Bytes of one element of each of the pointers that are not None."""
    return sum(pointer.dtype.element_ty.primitive_bitwidth // 8 for pointer in pointers if pointer is not None)


@triton.constexpr_function
def matrices_bytes(matrices):
    """`bytes_of` the pointers of matrices."""
    return bytes_of(tuple(matrix.pointer for matrix in matrices))


@mimw.jit
def tiles_for(pointer, COUNT: tl.constexpr, CHUNK: tl.constexpr):
    """COUNT buffers of CHUNK elements of what `pointer` points at; None for None."""
    return None if pointer is None else tlx.local_alloc((CHUNK, ), tlx.dtype_of(pointer), COUNT)


@mimw.jit
def start_rows(matrices, tiles, first_row, slot, full, part, EACH: tl.constexpr = 1):
    """Start the copies of this CTA's parts of EACH rows into a slot, of each of the matrices that are there."""
    expect_rows(matrices, slot, full, part, EACH)
    copy_rows(matrices, tiles, first_row, slot, full, part, EACH)


@mimw.jit
def expect_rows(matrices, slot, full, part, EACH: tl.constexpr):
    """Say how many bytes come into a slot; copies may have begun before."""
    tlx.barrier_expect_bytes(full[slot], EACH * part.CHUNK * part.CHUNKS * matrices_bytes(matrices))


@mimw.jit
def copy_rows(matrices, tiles, first_row, slot, full, part, EACH: tl.constexpr):
    """The copies of `start_rows`."""
    for i in tl.static_range(EACH):
        row = (first_row + i).to(tl.int64)
        for j in tl.static_range(len(matrices)):
            if matrices[j].pointer is not None:
                start_part(part, matrices[j].row(row), tiles[j], (slot * EACH + i) * part.CHUNKS, full[slot])


@mimw.jit
def load_rows(matrices, tiles, rows, ring, part):
    """This CTA's parts of its cluster's rows, in order."""
    step = 0
    for block in range(rows.cluster, rows.count, rows.clusters):
        slot = step % ring.STAGES
        tlx.barrier_wait(ring.free[slot], (step // ring.STAGES & 1) ^ 1)
        start_rows(matrices, tiles, block * rows.EACH, slot, ring.full, part, rows.EACH)
        step += 1


@mimw.jit
def taken_slot(ring, turn, me: tl.constexpr):
    """The slot of the row that consumer number `me` takes in its turn, once the row's parts are there."""
    step = turn * ring.CONSUMERS + me
    slot = step % ring.STAGES
    if ring.STAGES % ring.CONSUMERS:
        # The slot is not always this consumer's. Copies land in any order, so its last row, another consumer's, may still be on its
        # way; then a wait for the row that comes next, two phases later, would return at once.
        tlx.barrier_wait(ring.free[slot], (step // ring.STAGES & 1) ^ 1)
    tlx.barrier_wait(ring.full[slot], step // ring.STAGES & 1)
    return slot
