"""02  A warp-specialised GEMM: one warp copies, two warpgroups multiply, and barriers are all they share.

    python tutorials/02_warp_specialised_gemm.py    on a GPU: check, measure against cuBLAS; elsewhere: simulate

In tutorial 01 every warp copied, waited and multiplied in turn. Here each role is a program of its own, a *task* with
its own warps:

    producer, 1 warp          for each tile of A and B: wait until a slot is empty, ask TMA to fill it
    consumers, 4 warps each   for each tile: wait until its slot is full, multiply, say that it is empty

No task counts groups of copies any more. The slots form a ring, and each has two barriers, `full` and `empty`.

The steps and the launch (`arguments`, of numpy arrays for the simulator and of torch tensors on a GPU) are here; the matrices,
the checking and the measuring are harness.py's.

Next: 03_ping_pong_gemm.py, where the tensor cores go on while a consumer stores its result.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


# Step 1. The grid is persistent: as many programs as the GPU has SMs, each of which computes the output tiles p, p +
# programs, ... So the producer may fetch the next tile's first operands while the consumers still store the last
# result. The order of the tiles, down bands of GROUP_M tile rows, is that of tutorial 01.
@mimw.jit
def tile_origin(tile, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr):
    """First row and first column of output tile number `tile`."""
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = tile // (GROUP_M * tiles_n) * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    within = tile % (GROUP_M * tiles_n)
    return (first + within % height) * BM, within // height * BN


@mimw.jit
def gemm(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
         STAGES: tl.constexpr):
    """C[M, N] = A[M, K] B[K, N]; two consumers share each (BM, BN) tile of C, each with BM / 2 of its rows."""
    # Step 2. The nouns. A ring of STAGES slots, each with a tile of A and one of B, and for each consumer a place from
    # which TMA stores half of its result at a time.
    a_tiles = tlx.local_alloc((BM, BK), tlx.dtype_of(a_desc), STAGES)
    b_tiles = tlx.local_alloc((BK, BN), tlx.dtype_of(b_desc), STAGES)
    c_tiles = tlx.local_alloc((BM // 2, BN // 2), tlx.dtype_of(c_desc), 2)

    # Step 3. An mbarrier completes a phase when enough arrivals have come, and all bytes that were announced. `full`
    # wants one arrival (the producer's) and the bytes of both tiles; `empty` wants one arrival from each consumer.
    full = tlx.alloc_barriers(STAGES)
    empty = tlx.alloc_barriers(STAGES, arrive_count=2)
    BYTES: tl.constexpr = (BM + BN) * BK * tlx.size_of(tlx.dtype_of(a_desc))

    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    with tlx.async_tasks():

        # Step 4. The producer. TMA computes addresses, swizzles and checks bounds in hardware (what sticks out of a
        # matrix reads as zero), so one warp with 24 registers a thread is plenty. `get_bufidx_phase(i, STAGES)` is (i %
        # STAGES, i // STAGES & 1): the slot, and the parity of its round. A wait for parity p returns when a phase of
        # parity p is over. In its first round the producer must not wait at all, and a fresh barrier counts as having
        # completed parity 1; hence `phase ^ 1`.
        with tlx.async_task(num_warps=1, num_regs=24):            # producer
            filled = 0
            for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
                m, n = tile_origin(tile, M, N, BM, BN, GROUP_M)
                for k in range(0, K, BK):
                    slot, phase = tlx.warp_spec.get_bufidx_phase(filled, STAGES)
                    tlx.barrier_wait(empty[slot], phase ^ 1)
                    tlx.barrier_expect_bytes(full[slot], BYTES)
                    tlx.async_descriptor_load(a_desc, a_tiles[slot], [m, k], full[slot])
                    tlx.async_descriptor_load(b_desc, b_tiles[slot], [k, n], full[slot])
                    filled += 1

        # Step 5. The consumers: one body, two instances. The default task runs on the kernel's own warps (num_warps=4,
        # one warpgroup), its replica on four more. The producer's registers go to them: 240 a thread, of which 128 hold
        # acc.
        with tlx.async_task("default", num_regs=240, replicate=2):    # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            row: tl.constexpr = me * (BM // 2)
            used = 0
            for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
                m, n = tile_origin(tile, M, N, BM, BN, GROUP_M)
                acc = tl.zeros((BM // 2, BN), tl.float32)
                last = 0
                for k in range(0, K, BK):
                    slot, phase = tlx.warp_spec.get_bufidx_phase(used, STAGES)
                    tlx.barrier_wait(full[slot], phase)
                    # Step 6. As in tutorial 01 one dot stays in flight: when `async_dot_wait(1)` returns, the dot
                    # before this one has read its operands, so it is the slot before this one that is empty.
                    acc = tlx.async_dot(tlx.local_slice(a_tiles[slot], [row, 0], [BM // 2, BK]), b_tiles[slot], acc)
                    acc = tlx.async_dot_wait(1, acc)
                    tlx.barrier_arrive(empty[last], pred=k > 0)
                    last = slot
                    used += 1
                acc = tlx.async_dot_wait(0, acc)
                tlx.barrier_arrive(empty[last])

                # Step 7. The epilogue. Splitting acc in column halves moves nothing between threads. A half goes to
                # shared memory by ordinary stores; TMA reads it through the asynchronous proxy, and a fence stands
                # between the two. Before the place is overwritten the store that reads it must be over; the first of
                # these waits finds it so long ago.
                halves = acc.to(tlx.dtype_of(c_desc)).reshape(BM // 2, 2, BN // 2).permute(0, 2, 1).split()
                for half in tl.static_range(2):
                    tlx.async_descriptor_store_wait(0)
                    tlx.local_store(c_tiles[me], halves[half])
                    tlx.fence("async_shared")
                    tlx.async_descriptor_store(c_desc, c_tiles[me], [m + row, n + half * (BN // 2)])
            tlx.async_descriptor_store_wait(0)


# Step 8. What if? Each of these is one edit, and `mimw.check`, which this program calls where it simulates, names the lines:
#
#     `phase ^ 1` becomes `phase`          PhaseOffByOne         the producer waits for a round that never comes
#     `empty[slot]` before the dot wait    OperandOverwritten    TMA fills a slot that wgmma still reads
#     `arrive_count=2` is left out         OperandOverwritten    the same: the faster consumer speaks for both
#     the fence is left out                nothing               TMA might store what was there before, so the compiler puts one in


def arguments(a, b, c, programs, BM=128, BN=256, BK=64, GROUP_M=8, STAGES=4):
    """(grid, args, meta) of the launch that computes c = a b, of numpy arrays (simulated) or torch tensors (GPU)."""
    (m, k), n = a.shape, b.shape[1]
    grid = (min(programs, -(-m // BM) * -(-n // BN)), )
    describe = mimw.TensorDescriptor.from_tensor
    args = describe(a, [BM, BK]), describe(b, [BK, BN]), describe(c, [BM // 2, BN // 2]), m, n, k
    return grid, args, dict(BM=BM, BN=BN, BK=BK, GROUP_M=GROUP_M, STAGES=STAGES, num_warps=4)


# Measured on an H200 (this program, M = N = K = 8192, fp16, torch 2.11.0, 2026-11-21; only the ratio means much):
#
#     1638.9 us 671 TFLOP/s; cuBLAS 1678.5 us 655 TFLOP/s (ratio 1.024)


def case():
    """A small product on numpy arrays, and what it should be: `mimw check 02_warp_specialised_gemm.py:case`."""
    import harness
    return harness.product(gemm, arguments, 256, 256, 192, 2, BN=128, STAGES=2)


if __name__ == "__main__":
    import harness
    harness.gemm("warp-specialised GEMM", gemm, arguments, case, persistent=True)
