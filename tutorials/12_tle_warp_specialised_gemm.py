"""12  A warp-specialised GEMM in TLE: partitions and pipes, and not one barrier.

    python tutorials/12_tle_warp_specialised_gemm.py     on a GPU: check, measure against cuBLAS; elsewhere: simulate

Tutorial 02 wrote this kernel with tasks, barriers and parities. Here the same machine code comes from two ideas:

    tle.gpu.warp_specialize    functions that run side by side, each on warps of its own
    tle.pipe                   a ring of buffers between one writer and its readers, with what it takes to keep it

Five partitions and three pipes:

    load, 1 warp        for each tile of A and B: TMA into the pipe `tiles`
    low, 4 warps        reads the upper half of the tiles of A and all of B; its result goes into the pipe `low_out`
    high, 4 warps       reads the lower half of the tiles of A and all of B; its result goes into the pipe `high_out`
    2 x save, 1 warp    TMA from `low_out` and `high_out` to C, so that no task that multiplies waits for a store

The steps and the launch (`arguments`, of numpy arrays for the simulator and of torch tensors on a GPU) are here; the matrices,
the checking and the measuring are harness.py's.

Next: 13_stream_compaction.py, where the output's place depends on the data.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx


@mimw.jit
def tile_origin(tile, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr):
    """First row and first column of output tile number `tile`, down bands of GROUP_M tile rows as in tutorial 01."""
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = tile // (GROUP_M * tiles_n) * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    within = tile % (GROUP_M * tiles_n)
    return (first + within % height) * BM, within // height * BN


# Step 1. The producer. `acquire(i)` waits until all readers have released what was in the place of chunk i, and gives the
# buffers; `commit(i)` says that chunk i is complete. Both name the chunk by its number alone, 0, 1, 2, ...; which place and
# which parity that is, the pipe works out. The copies are TMA's, so commit waits for nothing: the pipe makes the chunk
# complete when its bytes have landed.
@mimw.jit
def load(tiles, a_desc, b_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr):
    """Chunk after chunk of A and B, for all output tiles of this program."""
    chunk = 0
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), tl.num_programs(0)):
        m, n = tile_origin(tile, M, N, BM, BN, GROUP_M)
        for k in range(0, K, BK):
            slot = tiles.acquire(chunk)
            tle.gpu.copy(a_desc, slot.a_low, [BM // 2, BK], [m, k])
            tle.gpu.copy(a_desc, slot.a_high, [BM // 2, BK], [m + BM // 2, k])
            tle.gpu.copy(b_desc, slot.b, [BK, BN], [k, n])
            tiles.commit(chunk)
            chunk += 1


# Step 2. A consumer: one function, used by two partitions. Each has a reader of its own, and a chunk's place is free when
# both have released it. As in tutorial 01 one product stays under way: when `async_dot_wait(1)` returns, the product
# before this one has read its operands, so it is the chunk before this one that is released.
@mimw.jit
def multiply(tiles, out, M, N, K, A: tl.constexpr, ROWS: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PIECES: tl.constexpr):
    """The products of ROWS rows of A, called `A` in the slots, with B; each result as PIECES chunks of `out`."""
    chunk, piece = 0, 0
    for tile in range(tl.program_id(0), tl.cdiv(M, 2 * ROWS) * tl.cdiv(N, BN), tl.num_programs(0)):
        slot = tiles.wait(chunk).slot
        acc = tlx.async_dot(slot.fields[A], slot.b, tl.zeros((ROWS, BN), tl.float32))
        chunk += 1
        for k in range(BK, K, BK):
            slot = tiles.wait(chunk).slot
            acc = tlx.async_dot(slot.fields[A], slot.b, acc)
            acc = tlx.async_dot_wait(1, acc)
            tiles.release(chunk - 1)
            chunk += 1
        acc = tlx.async_dot_wait(0, acc)
        tiles.release(chunk - 1)

        # Step 3. Ordinary stores through pointers fill this pipe. Its commit orders them before TMA's reads, which go by another
        # path to shared memory (in tutorial 02 a fence had to be written there, and could be forgotten).
        parts = columns(acc, PIECES)
        for part in tl.static_range(PIECES):
            slot = out.acquire(piece + part)
            tl.store(tle.gpu.local_ptr(slot.c), parts[part].to(slot.c.dtype))
            out.commit(piece + part)
        piece += PIECES


@mimw.jit
def columns(acc, PIECES: tl.constexpr):
    """`acc` as PIECES (2 or 4) tiles of equal width, by halving; no element changes its thread."""
    left, right = acc.reshape(acc.shape[0], 2, acc.shape[1] // 2).permute(0, 2, 1).split()
    if PIECES == 2:
        return left, right
    first, second = left.reshape(acc.shape[0], 2, acc.shape[1] // 4).permute(0, 2, 1).split()
    third, fourth = right.reshape(acc.shape[0], 2, acc.shape[1] // 4).permute(0, 2, 1).split()
    return first, second, third, fourth


@mimw.jit
def save(out, c_desc, row, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr, PIECES: tl.constexpr):
    """Results from `out` to C, `row` rows below the first of each output tile."""
    piece = 0
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), tl.num_programs(0)):
        m, n = tile_origin(tile, M, N, BM, BN, GROUP_M)
        for part in tl.static_range(PIECES):
            tle.gpu.copy(out.wait(piece).slot.c, c_desc, [BM // 2, BN // PIECES], [m + row, n + part * (BN // PIECES)])
            out.release(piece)
            piece += 1


@mimw.jit
def gemm(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
         STAGES: tl.constexpr, PIECES: tl.constexpr, ROOM: tl.constexpr):
    """C[M, N] = A[M, K] B[K, N], by a persistent grid as in tutorial 02."""
    # Step 4. The nouns. A pipe's fields are arrays with one entry a place in front; the writer sees all of them, a reader those
    # that it names.
    tiles = tle.pipe(capacity=STAGES, readers=("low", "high"), a_low=tle.gpu.alloc([STAGES, BM // 2, BK], a_desc.dtype),
                     a_high=tle.gpu.alloc([STAGES, BM // 2, BK], a_desc.dtype), b=tle.gpu.alloc([STAGES, BK, BN], b_desc.dtype))
    low_out = tle.pipe(capacity=ROOM, c=tle.gpu.alloc([ROOM, BM // 2, BN // PIECES], c_desc.dtype))
    high_out = tle.pipe(capacity=ROOM, c=tle.gpu.alloc([ROOM, BM // 2, BN // PIECES], c_desc.dtype))
    low, high = tiles.reader("low", fields=("a_low", "b")), tiles.reader("high", fields=("a_high", "b"))

    # Step 5. The cast. The first function runs on the kernel's own warps, and on the registers that the others do not ask for.
    tle.gpu.warp_specialize([
        (multiply, (low, low_out.writer(), M, N, K, "a_low", BM // 2, BN, BK, PIECES)),
        (multiply, (high, high_out.writer(), M, N, K, "a_high", BM // 2, BN, BK, PIECES)),
        (load, (tiles.writer(), a_desc, b_desc, M, N, K, BM, BN, BK, GROUP_M)),
        (save, (low_out.reader(), c_desc, 0, M, N, BM, BN, GROUP_M, PIECES)),
        (save, (high_out.reader(), c_desc, BM // 2, M, N, BM, BN, GROUP_M, PIECES)),
    ], [4, 1, 1, 1], [240, 24, 24, 24])


# Step 6. What if? Each of these is one edit:
#
#     both readers are tiles.reader("low")              refused              one reader in two partitions
#     `chunk - 1` becomes `chunk` in the loop           refused              a product may still read the released slot
#     `tiles.release(chunk - 1)` after it is left out   WaitCycle            the producer waits for a slot that is not released
#     `piece += 1` in `save` is left out                TooFewArrivals       the second slot is never released


def arguments(a, b, c, programs, BM=128, BN=256, BK=64, GROUP_M=8, STAGES=4, PIECES=4, ROOM=2):
    """(grid, args, meta) of the launch that computes c = a b, of numpy arrays (simulated) or torch tensors (GPU)."""
    (m, k), n = a.shape, b.shape[1]
    grid = (min(programs, -(-m // BM) * -(-n // BN)), )
    describe = mimw.TensorDescriptor.from_tensor
    args = describe(a, [BM // 2, BK]), describe(b, [BK, BN]), describe(c, [BM // 2, BN // PIECES]), m, n, k
    return grid, args, dict(BM=BM, BN=BN, BK=BK, GROUP_M=GROUP_M, STAGES=STAGES, PIECES=PIECES, ROOM=ROOM, num_warps=4)


# Measured on an H200 (this program, M = N = K = 8192, fp16):
#
#     TLE warp-specialised GEMM {'M': 8192, 'N': 8192, 'K': 8192}: 1575.1 us 698 TFLOP/s; cuBLAS 1623.8 us 677 TFLOP/s
#       (ratio 1.031); error 0.0e+00; NVIDIA H200, torch 2.11.0, 2026-11-21


def case():
    """A small product on numpy arrays, and what it should be: `mimw check 12_tle_warp_specialised_gemm.py:case`."""
    import harness
    return harness.product(gemm, arguments, 256, 256, 192, 2, BN=128, STAGES=2)


if __name__ == "__main__":
    import harness
    harness.gemm("TLE warp-specialised GEMM", gemm, arguments, case, persistent=True)
