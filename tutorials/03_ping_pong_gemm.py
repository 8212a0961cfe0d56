"""03  A ping-pong GEMM: while one consumer stores its tile, the other one multiplies.

    python tutorials/03_ping_pong_gemm.py    on a GPU: check, measure against cuBLAS; elsewhere: simulate

In tutorial 02 both consumers work on one output tile. They finish it together, store it together, and meanwhile the
tensor cores have nothing to do: a few percent of the time at K = 8192, more where K is shorter. Here each consumer has
output tiles of its own, in turn, half a period apart:

    consumer 0    multiply tile 0 | store       | multiply tile 2 | store       | ...
    consumer 1    wait            | multiply tile 1 | store       | multiply tile 3 | ...

The producer need not know. It fills the ring in the order of the tiles, and the consumer whose turn it is empties it.

The steps and the launch (`arguments`, of numpy arrays for the simulator and of torch tensors on a GPU) are here; the matrices,
the checking and the measuring are harness.py's.

Next: 04_multicast_gemm.py, where two SMs share what they load.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def tile_origin(tile, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr):
    """First row and first column of output tile number `tile`, down bands of GROUP_M tile rows."""
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = tile // (GROUP_M * tiles_n) * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    within = tile % (GROUP_M * tiles_n)
    return (first + within % height) * BM, within // height * BN


@mimw.jit
def gemm(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
         STAGES: tl.constexpr):
    """C[M, N] = A[M, K] B[K, N]; two consumers take the (BM, BN) tiles of C in turn."""
    # Step 1. The nouns. One consumer's accumulator is now the whole tile, so the tile is smaller than in tutorial 02,
    # and the ring can be longer. Each consumer stores from a place of its own. A slot has one reader, hence one arrival
    # empties it.
    a_tiles = tlx.local_alloc((BM, BK), tlx.dtype_of(a_desc), STAGES)
    b_tiles = tlx.local_alloc((BK, BN), tlx.dtype_of(b_desc), STAGES)
    c_tiles = tlx.local_alloc((BM, BN), tlx.dtype_of(c_desc), 2)
    full = tlx.alloc_barriers(STAGES)
    empty = tlx.alloc_barriers(STAGES)
    # Step 2. What is new: `turn[c]` completes a phase whenever consumer c may multiply.
    turn = tlx.alloc_barriers(2)
    BYTES: tl.constexpr = (BM + BN) * BK * tlx.size_of(tlx.dtype_of(a_desc))

    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    with tlx.async_tasks():

        # Step 3. The producer of tutorial 02, word for word.
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

        # Step 4. Consumer c takes every other tile of this program, from the c-th on. Where its operands are in the
        # ring it computes: it starts c tiles of slots in, and after each of its own tiles it skips those of the
        # other's.
        with tlx.async_task("default", num_regs=240, replicate=2):    # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            slots_per_tile = tl.cdiv(K, BK)
            used = me * slots_per_tile
            # Step 5. Consumer 0 has the first turn by itself: a fresh barrier counts as having completed parity
            # 1.
            turn_phase = 1 - me
            for tile in range(tl.program_id(0) + me * tl.num_programs(0), tiles, 2 * tl.num_programs(0)):
                m, n = tile_origin(tile, M, N, BM, BN, GROUP_M)
                # Step 6. Two reasons to take turns. Speed: two consumers that multiply at the same time also store at
                # the same time. And correctness: `full[slot]` says which parity it has completed, not which round. A
                # consumer that came here while the other is two rounds behind would take an old completion for its own.
                tlx.barrier_wait(turn[me], turn_phase)
                turn_phase ^= 1
                acc = tl.zeros((BM, BN), tl.float32)
                last = 0
                for k in range(0, K, BK):
                    slot, phase = tlx.warp_spec.get_bufidx_phase(used, STAGES)
                    tlx.barrier_wait(full[slot], phase)
                    acc = tlx.async_dot(a_tiles[slot], b_tiles[slot], acc)
                    acc = tlx.async_dot_wait(1, acc)
                    tlx.barrier_arrive(empty[last], pred=k > 0)
                    last = slot
                    used += 1
                # Step 7. The turn passes when the last dot has *started*: the other's first dot queues up behind it,
                # and the tensor cores see no gap.
                tlx.barrier_arrive(turn[1 - me])
                acc = tlx.async_dot_wait(0, acc)
                tlx.barrier_arrive(empty[last])
                used += slots_per_tile

                # Step 8. The epilogue has all the time in which the other multiplies, so it is the simplest one.
                tlx.async_descriptor_store_wait(0)
                tlx.local_store(c_tiles[me], acc.to(tlx.dtype_of(c_desc)))
                tlx.fence("async_shared")
                tlx.async_descriptor_store(c_desc, c_tiles[me], [m, n])
            tlx.async_descriptor_store_wait(0)


# Step 9. What if? One edit each, and what `mimw.check` says:
#
#     no wait for the turn                OperandOverwritten    step 6: consumer 1 takes what was loaded for consumer 0
#     both start with `turn_phase = 0`    WaitCycle             each waits for the other
#
# An odd number of tiles is no special case: no consumer waits for the last turn.


def arguments(a, b, c, programs, BM=128, BN=128, BK=64, GROUP_M=8, STAGES=5):
    """(grid, args, meta) of the launch that computes c = a b, of numpy arrays (simulated) or torch tensors (GPU)."""
    (m, k), n = a.shape, b.shape[1]
    grid = (min(programs, -(-m // BM) * -(-n // BN)), )
    describe = mimw.TensorDescriptor.from_tensor
    args = describe(a, [BM, BK]), describe(b, [BK, BN]), describe(c, [BM, BN]), m, n, k
    return grid, args, dict(BM=BM, BN=BN, BK=BK, GROUP_M=GROUP_M, STAGES=STAGES, num_warps=4)


# Measured on an H200 (this program, M = N = K = 8192, fp16, torch 2.11.0, 2026-11-21; only the ratio means much):
#
#     1632.7 us 673 TFLOP/s; cuBLAS 1672.2 us 658 TFLOP/s (ratio 1.024)
#
# At this K the epilogue of tutorial 02 is 2 % of the time and the larger tile makes up for it, so the two are equal.
# Where K is short ping-pong wins: 1.06 to 1.08 at K = 1024, in the library's form (benchmarks/notes/gemm.md).


def case():
    """A small product on numpy arrays, and what it should be: `mimw check 03_ping_pong_gemm.py:case`."""
    import harness
    return harness.product(gemm, arguments, 192, 192, 192, 2, BM=64, BN=64, STAGES=2)


if __name__ == "__main__":
    import harness
    harness.gemm("ping-pong GEMM", gemm, arguments, case, persistent=True)
