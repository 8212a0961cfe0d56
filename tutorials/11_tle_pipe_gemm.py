"""11  A pipelined GEMM in TLE: the loop of tutorial 01 with a pipe in it.

    python tutorials/11_tle_pipe_gemm.py        on a GPU: check, measure against cuBLAS; elsewhere: simulate

Tutorial 01 asked for tiles ahead of time and counted groups of copies. A pipe knows chunks instead: the writer acquires
chunk i, fills its buffers and commits it; the reader waits for chunk i, uses it and releases it. Writer and reader may be
the same warps, as here; they may as well be partitions of their own, as in tutorial 12, and nothing in the calls changes.

The steps and the launch (`arguments`, of numpy arrays for the simulator and of torch tensors on a GPU) are here; the matrices,
the checking and the measuring are harness.py's.

Next: 12_tle_warp_specialised_gemm.py.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx


# Step 1. Filling one chunk. `copy` from a tensor descriptor is TMA's work: one thread asks, the hardware computes addresses,
# and what sticks out of the matrix reads as zero. Inside acquire and commit it does not wait; the chunk is complete when
# its bytes are there, and that is what the reader waits for.
@mimw.jit
def fetch(tiles, chunk, a_desc, b_desc, m, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Chunk number `chunk` of the operands of the output tile at (m, n)."""
    slot = tiles.acquire(chunk)
    tle.gpu.copy(a_desc, slot.a, [BM, BK], [m, chunk * BK])
    tle.gpu.copy(b_desc, slot.b, [BK, BN], [chunk * BK, n])
    tiles.commit(chunk)


@mimw.jit
def gemm(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
         STAGES: tl.constexpr):
    """C[M, N] = A[M, K] B[K, N], one (BM, BN) tile a program, in bands as in tutorial 01."""
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    per_band = GROUP_M * tiles_n
    first = (tl.program_id(0) // per_band) * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    m = (first + tl.program_id(0) % per_band % height) * BM
    n = (tl.program_id(0) % per_band // height) * BN

    # Step 2. The noun: STAGES places for a tile of A and one of B. How they lie in shared memory the solver works out from TMA
    # and the tensor cores, which both want the same swizzle.
    tiles = tle.pipe(capacity=STAGES, name="tiles", a=tle.gpu.alloc([STAGES, BM, BK], a_desc.dtype),
                     b=tle.gpu.alloc([STAGES, BK, BN], b_desc.dtype))
    writer, reader = tiles.writer(), tiles.reader()

    # Step 3. As in tutorial 01 the writer is STAGES - 1 chunks ahead. A K that has fewer is no special case: what there is not
    # is not fetched, and no reader waits for it.
    chunks = tl.cdiv(K, BK)
    for chunk in tl.static_range(STAGES - 1):
        if chunk < chunks:
            fetch(writer, chunk, a_desc, b_desc, m, n, BM, BN, BK)

    acc = tl.zeros((BM, BN), tl.float32)
    for chunk in range(chunks):
        # Step 4. One product stays under way. When `async_dot_wait(1)` returns, the one before has read its operands, so its
        # chunk is released, and that is the place into which the next fetch goes.
        slot = reader.wait(chunk).slot
        acc = tlx.async_dot(slot.a, slot.b, acc)
        acc = tlx.async_dot_wait(1, acc)
        if chunk > 0:
            reader.release(chunk - 1)
        if chunk + STAGES - 1 < chunks:
            fetch(writer, chunk + STAGES - 1, a_desc, b_desc, m, n, BM, BN, BK)

    # Step 5. The result goes back through shared memory, so that TMA can store it. `local_ptr` gives pointers into a buffer, and
    # `copy` sees what was stored through them.
    acc = tlx.async_dot_wait(0, acc)
    result = tle.gpu.alloc([BM, BN], c_desc.dtype)
    tl.store(tle.gpu.local_ptr(result), acc.to(c_desc.dtype))
    tle.gpu.copy(result, c_desc, [BM, BN], [m, n])


# Step 6. What if? Each of these is one edit:
#
#     `release(chunk - 1)` becomes `release(chunk)`          refused        the product may still read the released slot
#     `if chunk > 0:` and its release are left out           TooFewArrivals the writer waits for a slot that is not released
#     `fetch` of `chunk + STAGES` where `- 1` stands now     WaitCycle      chunks are acquired one after the other


def arguments(a, b, c, programs=0, BM=128, BN=256, BK=64, GROUP_M=8, STAGES=3, num_warps=8):
    """(grid, args, meta) of the launch that computes c = a b, of numpy arrays (simulated) or torch tensors (GPU)."""
    (m, k), n = a.shape, b.shape[1]
    describe = mimw.TensorDescriptor.from_tensor
    args = describe(a, [BM, BK]), describe(b, [BK, BN]), describe(c, [BM, BN]), m, n, k
    return (-(-m // BM) * -(-n // BN), ), args, dict(BM=BM, BN=BN, BK=BK, GROUP_M=GROUP_M, STAGES=STAGES, num_warps=num_warps)


# Measured on an H200 (this program, M = N = K = 8192, fp16):
#
#     TLE pipe GEMM {'M': 8192, 'N': 8192, 'K': 8192}: 1623.6 us 677 TFLOP/s; cuBLAS 1622.6 us 678 TFLOP/s (ratio 0.999);
#       error 0.0e+00; NVIDIA H200, torch 2.11.0, 2026-11-21


def case():
    """A small product on numpy arrays, and what it should be: `mimw check 11_tle_pipe_gemm.py:case`."""
    import harness
    return harness.product(gemm, arguments, 128, 128, 256, BM=64, BN=64, STAGES=3, num_warps=4)


if __name__ == "__main__":
    import harness
    harness.gemm("TLE pipe GEMM", gemm, arguments, case)
