"""20  C = A B + D on pairs of SMs: one product over two tensor cores, and an addend that waits where the result will leave.

    python tutorials/20_blackwell_pair_addmm.py    on a Blackwell GPU (sm_100a): check the result; elsewhere: simulate

A CTA of tutorial 09 loads 96 bytes for each cycle of its products, and L2 gives about 70: not the tensor cores are the limit,
but the path to them. Two SMs side by side can multiply together. Each holds 128 rows of A and half of the columns of B, one
thread of the even CTA starts the product of 256 x 256, and both tensor cores read B's halves out of both memories. So each CTA
loads half of B, 64 bytes a cycle. These roles of tutorial 09 change for a pair:

    load, 1 warp       each CTA its rows of A and its half of B; the bytes of both complete on a barrier of the even CTA
    mma, 1 warp        of the even CTA alone; a commit arrives in both CTAs
    epilogue, 4 warps  each CTA its own 128 rows of the sums; the even CTA's next product waits for both
    ask, 1 warp        the pair asks as one, and gets the work of a pair

and new is `bring`, 1 warp, which has TMA fetch D. A part of D lands where that part of C will leave from: the epilogue
reads it, adds, and writes the sum into the same place. A place is free again when its store has read it.

How the program is run is harness.py's. It was simulated and compiled, and has not run on a chip.

Next: 21_blackwell_block_scaled_gemm.py, of numbers of eight and of four bits.
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def pair_origin(tile, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr):
    """First row and first column of the 2 BM x BN tile of C that the pair of program `tile` computes."""
    pair, tiles_m, tiles_n = tile // 2, tl.cdiv(M, 2 * BM), tl.cdiv(N, BN)
    first = pair // (GROUP_M * tiles_n) * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    within = pair % (GROUP_M * tiles_n)
    return (first + within % height) * (2 * BM), within // height * BN


@mimw.jit
def next_tile(context, turn, ANSWERS: tl.constexpr):
    """The tile that a role goes on with after `turn` others, -1 for none."""
    stage, phase = tlx.warp_spec.get_bufidx_phase(turn, ANSWERS)
    return tlx.clc_consumer(context, phase, k=stage)


@mimw.jit
def addmm(a_desc, b_desc, d_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
          STAGES: tl.constexpr, PARTS: tl.constexpr, PLACES: tl.constexpr, ANSWERS: tl.constexpr):
    """C[M, N] = A[M, K] B[K, N] + D[M, N]; a pair of programs for each (2 BM, BN) tile of C, clusters of two along the grid."""
    # Step 1. The nouns are those of one CTA. A pair's product wants A's rows and B's columns in halves, and all of the columns
    # of C: an accumulator has BN columns in both CTAs, each for its own BM rows.
    tl.static_assert(PLACES > 1, "a place gets free when the next one has been stored from")
    DTYPE: tl.constexpr = tlx.dtype_of(a_desc)
    HALF: tl.constexpr = BN // 2
    PART: tl.constexpr = BN // PARTS
    a_tiles, b_tiles = tlx.local_alloc((BM, BK), DTYPE, STAGES), tlx.local_alloc((BK, HALF), DTYPE, STAGES)
    places = tlx.local_alloc((BM, PART), tlx.dtype_of(c_desc), PLACES)
    sums = tlx.local_alloc((BM, BN), tl.float32, 2, tlx.storage_kind.tmem)

    # Step 2. Who arrives where. `empty` and `done`: a commit, in both CTAs. `full`: bytes, on the even CTA. `read`: the
    # epilogues of both, on the even CTA. Answers are read by nine: four roles in both CTAs, and mma in the even one.
    full, empty = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    done, read = tlx.alloc_barriers(2), tlx.alloc_barriers(2, arrive_count=2)
    brought, free = tlx.alloc_barriers(PLACES), tlx.alloc_barriers(PLACES)
    context = tlx.clc_create_context(9, ANSWERS)
    rank = tlx.cluster_cta_rank()
    BYTES: tl.constexpr = (BM + HALF) * BK * tlx.size_of(DTYPE)

    with tlx.async_tasks():
        with tlx.async_task("default"):                           # epilogue
            tile, turn, number = tl.program_id(0), 0, 0
            while tile != -1:
                m, n = pair_origin(tile, M, N, BM, BN, GROUP_M)
                which, phase = tlx.warp_spec.get_bufidx_phase(turn, 2)
                tlx.barrier_wait(done[which], phase)
                for part in tl.static_range(PARTS):
                    place, parity = tlx.warp_spec.get_bufidx_phase(number, PLACES)
                    some = tlx.local_load(tlx.subslice(sums[which], part * PART, PART))
                    # Step 3. These warps have read the last columns of their rows. The product waits for both CTAs to say so.
                    if part == PARTS - 1:
                        tlx.barrier_arrive(read[which], 1, 0)
                    # Step 4. Add, in place. What a place held before, a part of D, is in registers when it is overwritten.
                    tlx.barrier_wait(brought[place], parity)
                    some += tlx.local_load(places[place]).to(tl.float32)
                    tlx.local_store(places[place], some.to(tlx.dtype_of(c_desc)))
                    tlx.fence("async_shared")
                    tlx.async_descriptor_store(c_desc, places[place], [m + rank * BM, n + part * PART])
                    # Step 5. At most this store is unfinished: the one before has read its place. Before the first is none.
                    tlx.async_descriptor_store_wait(1)
                    tlx.barrier_arrive(free[(number + PLACES - 1) % PLACES], pred=number > 0)
                    number += 1
                tile = next_tile(context, turn, ANSWERS)
                turn += 1
            tlx.async_descriptor_store_wait(0)

        # Step 6. The products of both CTAs. The odd one has no say: its tensor core is driven from here, its slots are released
        # and its epilogue waits for the same commits, and needs no wait for anything of its own.
        with tlx.async_task(num_warps=1, num_regs=48):            # mma
            if rank == 0:
                tile, turn, used = tl.program_id(0), 0, 0
                while tile != -1:
                    which, phase = tlx.warp_spec.get_bufidx_phase(turn, 2)
                    tlx.barrier_wait(read[which], phase ^ 1)
                    for k in range(0, K, BK):
                        slot, parity = tlx.warp_spec.get_bufidx_phase(used, STAGES)
                        tlx.barrier_wait(full[slot], parity)
                        tlx.async_dot(a_tiles[slot], b_tiles[slot], sums[which], use_acc=k > 0, mBarriers=[empty[slot]],
                                      two_ctas=True)
                        used += 1
                    tlx.tcgen05_commit(done[which], two_ctas=True)
                    tile = next_tile(context, turn, ANSWERS)
                    turn += 1

        # Step 7. Each CTA fills its own slots, and `two_ctas` has the bytes counted on the even CTA's barrier, which expects those
        # of both. Bytes may come before they are expected.
        with tlx.async_task(num_warps=1, num_regs=48):            # load
            tile, turn, filled = tl.program_id(0), 0, 0
            while tile != -1:
                m, n = pair_origin(tile, M, N, BM, BN, GROUP_M)
                for k in range(0, K, BK):
                    slot, parity = tlx.warp_spec.get_bufidx_phase(filled, STAGES)
                    tlx.barrier_wait(empty[slot], parity ^ 1)
                    tlx.barrier_expect_bytes(full[slot], 2 * BYTES, pred=rank == 0)
                    tlx.async_descriptor_load(a_desc, a_tiles[slot], [m + rank * BM, k], full[slot], two_ctas=True)
                    tlx.async_descriptor_load(b_desc, b_tiles[slot], [k, n + rank * HALF], full[slot], two_ctas=True)
                    filled += 1
                tile = next_tile(context, turn, ANSWERS)
                turn += 1

        # Step 8. D comes while the tile is multiplied, as far as there are places. It is the CTA's own, and so is the barrier.
        with tlx.async_task(num_warps=1, num_regs=48):            # addend
            tile, turn, number = tl.program_id(0), 0, 0
            while tile != -1:
                m, n = pair_origin(tile, M, N, BM, BN, GROUP_M)
                for part in tl.static_range(PARTS):
                    place, parity = tlx.warp_spec.get_bufidx_phase(number, PLACES)
                    tlx.barrier_wait(free[place], parity ^ 1)
                    tlx.barrier_expect_bytes(brought[place], BM * PART * tlx.size_of(tlx.dtype_of(d_desc)))
                    tlx.async_descriptor_load(d_desc, places[place], [m + rank * BM, n + part * PART], brought[place])
                    number += 1
                tile = next_tile(context, turn, ANSWERS)
                turn += 1

        with tlx.async_task(num_warps=1, num_regs=48):            # ask
            tile, turn = tl.program_id(0), 0
            while tile != -1:
                stage, phase = tlx.warp_spec.get_bufidx_phase(turn, ANSWERS)
                tlx.clc_producer(context, phase ^ 1, k=stage)
                tile = next_tile(context, turn, ANSWERS)
                turn += 1


# Step 9. What if? One edit each, and what `mimw.check` says:
#
#     `part == 0` in step 3                  SlotReusedEarly      products over sums that are not yet read
#     `read` with one arrival                WaitCycle            two CTAs arrive: the phase is over twice in a turn
#     `tcgen05_commit` without `two_ctas`    nothing              in a kernel of pairs every commit is the pair's
#     `BYTES` for `2 * BYTES`                BytesNotExpected     the bytes of both complete on the even CTA
#     `store_wait(2)` in step 5              SourceOverwritten    D comes into a place that TMA still reads
#     `clc_create_context(10, ...)`          TooFewArrivals       the odd CTA's mma reads no answers
#
# What `mimw predict` says at 8192 x 8192 x 8192, unmeasured: 562 us (1950 TFLOP/s), bound by the tensor cores;
# of tutorial 09, bound by L2, 647 us (1700).
#
# The other way to signal the even CTA that the odd one is ready: loads without `two_ctas`, each CTA waits for its own bytes and
# then arrives on a barrier of the even CTA, `barrier_arrive(both[slot], 1, remote_cta_rank=0)`. It takes a warp in the odd
# CTA and a way between SMs for each slot (tests/kernels/pair_addmm.py).


def arguments(a, b, d, c, BM=128, BN=256, BK=64, GROUP_M=8, STAGES=5, PARTS=4, PLACES=3, ANSWERS=2):
    """(grid, args, meta) of the launch that computes c = a b + d, of numpy arrays (simulated) or torch tensors (GPU)."""
    (m, k), n = a.shape, b.shape[1]
    describe = mimw.TensorDescriptor.from_tensor
    args = (describe(a, [BM, BK]), describe(b, [BK, BN // 2]), describe(d, [BM, BN // PARTS]), describe(c, [BM, BN // PARTS]),
            m, n, k)
    meta = dict(BM=BM, BN=BN, BK=BK, GROUP_M=GROUP_M, STAGES=STAGES, PARTS=PARTS, PLACES=PLACES, ANSWERS=ANSWERS, num_warps=4,
                ctas_per_cga=(2, 1, 1))
    return (2 * (-(-m // (2 * BM)) * -(-n // BN)), ), args, meta


def matrices(m, n, k):
    """a, b, d, and room for c."""
    random = np.random.default_rng(0)
    a, b, d = (random.standard_normal(shape, np.float32).astype(np.float16) for shape in ((m, k), (k, n), (m, n)))
    return a, b, d, np.full((m, n), np.nan, np.float16)


def expected(a, b, d):
    return a.astype(np.float32) @ b.astype(np.float32) + d.astype(np.float32)


def case():
    """A few tiles on numpy arrays, and what should come out: `mimw check 20_blackwell_pair_addmm.py:case --target sm_100a`."""
    a, b, d, c = matrices(384, 192, 96)
    return mimw.Case(addmm, *arguments(a, b, d, c, BN=64, BK=32, STAGES=2, PARTS=2, PLACES=2),
                     expected={"c_desc": expected(a, b, d)})


def simulate_one():
    """A few tiles on the simulator, with few pairs resident at a time."""
    import harness
    harness.simulated(case(), target="sm_100a")


def launch_one(m, n, k):
    """The result on the GPU."""
    import torch
    if torch.cuda.get_device_capability()[0] != 10:
        return simulate_one()
    a, b, d = (torch.randn(shape, device="cuda", dtype=torch.float16) for shape in ((m, k), (k, n), (m, n)))
    c = torch.empty(m, n, device="cuda", dtype=torch.float16)
    grid, args, meta = arguments(a, b, d, c)
    addmm[grid](*args, **meta)
    print("largest difference to cuBLAS:", (c - torch.addmm(d, a, b)).abs().max().item())


if __name__ == "__main__":
    import harness
    harness.run(simulate_one, launch_one, (8192, 8192, 8192))
