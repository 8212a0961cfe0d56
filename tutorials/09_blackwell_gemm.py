"""09  A GEMM for Blackwell: sums in tensor memory, tiles from the launcher, four roles that share barriers only.

    python tutorials/09_blackwell_gemm.py    on a Blackwell GPU (sm_100a): check the result; elsewhere: simulate

In tutorial 02 the warps that multiply hold the sums in their registers, so they also have to store them, and meanwhile
the tensor cores rest, or a second consumer takes its turn (03). On Blackwell the tensor cores add up in a memory of
their own, 128 lanes of 512 columns, and one thread starts them. So the task that multiplies holds nothing, and goes on
with the next tile in another half of the columns while another task reads the last one out:

    load, 1 warp       for each tile of A and B: wait until a slot is free, ask TMA to fill it
    mma, 1 warp        for each: wait until the slot is full, start a product into one of two accumulators
    epilogue, 4 warps  for each tile of C: wait until its accumulator is done, convert, store
    ask, 1 warp        for each tile of C: ask the launcher for the next one (tutorial 08)

The grid has a program for each tile of C. A program that runs takes over programs that have not started, so programs
are as many as SMs at any time, and a fast program does more.

How the program is run is harness.py's. It was simulated and compiled, and has not run on a chip.

Next: 10_blackwell_attention.py, where tensor memory hands tiles from role to role.
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def tile_origin(tile, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr):
    """First row and first column of output tile number `tile`, in the order of tutorial 01."""
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = tile // (GROUP_M * tiles_n) * GROUP_M
    height = min(tiles_m - first, GROUP_M)
    within = tile % (GROUP_M * tiles_n)
    return (first + within % height) * BM, within // height * BN


@mimw.jit
def next_tile(context, turn, ANSWERS: tl.constexpr):
    """The tile that a role goes on with after `turn` others, -1 for none."""
    stage, phase = tlx.warp_spec.get_bufidx_phase(turn, ANSWERS)
    return tlx.clc_consumer(context, phase, k=stage)


@mimw.jit
def gemm(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
         STAGES: tl.constexpr, PARTS: tl.constexpr, ANSWERS: tl.constexpr):
    """C[M, N] = A[M, K] B[K, N], a program for each (BM, BN) tile of C."""
    # Step 1. The nouns: slots for tiles of A and B, as before; two accumulators in tensor memory, BN of its 512 columns
    # each; and two places from which TMA stores a part of C, since a whole tile of it would not fit beside the slots.
    tl.static_assert(PARTS % 2 == 0, "parts of C go through the two places in turn, from tile to tile")
    PART: tl.constexpr = BN // PARTS
    a_tiles = tlx.local_alloc((BM, BK), tlx.dtype_of(a_desc), STAGES)
    b_tiles = tlx.local_alloc((BK, BN), tlx.dtype_of(b_desc), STAGES)
    c_tiles = tlx.local_alloc((BM, PART), tlx.dtype_of(c_desc), 2)
    sums = tlx.local_alloc((BM, BN), tl.float32, 2, tlx.storage_kind.tmem)

    # Step 2. A pair of barriers for each ring: slots are full or empty, sums are done or read. All four roles go
    # through the same tiles, so all four read each of the launcher's answers.
    full, empty = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    done, read = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    context = tlx.clc_create_context(4, ANSWERS)
    BYTES: tl.constexpr = (BM + BN) * BK * tlx.size_of(tlx.dtype_of(a_desc))

    with tlx.async_tasks():
        # Step 3. The epilogue runs on the kernel's own four warps: a warp reaches 32 of the 128 lanes.
        with tlx.async_task("default"):                           # epilogue
            tile, turn = tl.program_id(0), 0
            while tile != -1:
                m, n = tile_origin(tile, M, N, BM, BN, GROUP_M)
                which, phase = tlx.warp_spec.get_bufidx_phase(turn, 2)
                tlx.barrier_wait(done[which], phase)
                for part in tl.static_range(PARTS):
                    c = tlx.local_load(tlx.subslice(sums[which], part * PART, PART)).to(tlx.dtype_of(c_desc))
                    # Step 4. The last columns are in registers: the next tile but one may be summed here.
                    if part == PARTS - 1:
                        tlx.barrier_arrive(read[which])
                    # Step 5. Of the two places the older one is free again when at most one store is unfinished.
                    tlx.async_descriptor_store_wait(1)
                    tlx.local_store(c_tiles[part % 2], c)
                    tlx.fence("async_shared")
                    tlx.async_descriptor_store(c_desc, c_tiles[part % 2], [m, n + part * PART])
                tile = next_tile(context, turn, ANSWERS)
                turn += 1
            tlx.async_descriptor_store_wait(0)

        # Step 6. Products of one task run one after the other, so no wait is needed between them. `mBarriers` has the tensor
        # cores arrive once they have read a slot; the commit arrives once all products of the tile are added up.
        with tlx.async_task(num_warps=1, num_regs=24):            # mma
            tile, turn, used = tl.program_id(0), 0, 0
            while tile != -1:
                which, phase = tlx.warp_spec.get_bufidx_phase(turn, 2)
                tlx.barrier_wait(read[which], phase ^ 1)
                for k in range(0, K, BK):
                    slot, parity = tlx.warp_spec.get_bufidx_phase(used, STAGES)
                    tlx.barrier_wait(full[slot], parity)
                    tlx.async_dot(a_tiles[slot], b_tiles[slot], sums[which], use_acc=k > 0, mBarriers=[empty[slot]])
                    used += 1
                tlx.tcgen05_commit(done[which])
                tile = next_tile(context, turn, ANSWERS)
                turn += 1

        with tlx.async_task(num_warps=1, num_regs=24):            # load
            tile, turn, filled = tl.program_id(0), 0, 0
            while tile != -1:
                m, n = tile_origin(tile, M, N, BM, BN, GROUP_M)
                for k in range(0, K, BK):
                    slot, parity = tlx.warp_spec.get_bufidx_phase(filled, STAGES)
                    tlx.barrier_wait(empty[slot], parity ^ 1)
                    tlx.barrier_expect_bytes(full[slot], BYTES)
                    tlx.async_descriptor_load(a_desc, a_tiles[slot], [m, k], full[slot])
                    tlx.async_descriptor_load(b_desc, b_tiles[slot], [k, n], full[slot])
                    filled += 1
                tile = next_tile(context, turn, ANSWERS)
                turn += 1

        # Step 7. Two answers ahead, so that load and mma may begin a tile while the epilogue is two behind. More would
        # take tiles that another program could begin.
        with tlx.async_task(num_warps=1, num_regs=24):            # ask
            tile, turn = tl.program_id(0), 0
            while tile != -1:
                stage, phase = tlx.warp_spec.get_bufidx_phase(turn, ANSWERS)
                tlx.clc_producer(context, phase ^ 1, k=stage)
                tile = next_tile(context, turn, ANSWERS)
                turn += 1


# Step 8. What if? One edit each, and what `mimw.check` says:
#
#     `part == 0` in step 4            SlotReusedEarly      products of the next tile but one over sums not yet read
#     `subslice(sums[0], ...)`         SlotReusedEarly      or of the next tile
#     `clc_create_context(3, ...)`     SlotReusedEarly      an answer is overwritten that a role has not read
#     no `tcgen05_commit`              TooFewArrivals       refused before a run: no arrival comes on `done`
#     `use_acc=True`                   UnwrittenRead        the first product adds to what nobody has written


def arguments(a, b, c, BM=128, BN=256, BK=64, GROUP_M=8, STAGES=3, PARTS=4, ANSWERS=2):
    """(grid, args, meta) of the launch that computes c = a b, of numpy arrays (simulated) or torch tensors (GPU)."""
    (m, k), n = a.shape, b.shape[1]
    describe = mimw.TensorDescriptor.from_tensor
    args = describe(a, [BM, BK]), describe(b, [BK, BN]), describe(c, [BM, BN // PARTS]), m, n, k
    return (-(-m // BM) * -(-n // BN), ), args, dict(BM=BM, BN=BN, BK=BK, GROUP_M=GROUP_M, STAGES=STAGES, PARTS=PARTS,
                                                     ANSWERS=ANSWERS, num_warps=4)


def matrices(m, n, k):
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape, np.float32).astype(np.float16) for shape in ((m, k), (k, n)))
    return a, b, np.full((m, n), np.nan, np.float16)


def case():
    """A few tiles on numpy arrays, and what should come out: `mimw check 09_blackwell_gemm.py:case --target sm_100a`."""
    a, b, c = matrices(256, 192, 128)
    return mimw.Case(gemm, *arguments(a, b, c, BN=64, BK=32, STAGES=2, PARTS=2), expected=a.astype(np.float32) @ b)


def simulate_one():
    """A few tiles on the simulator, with few programs resident at a time."""
    import harness
    harness.simulated(case(), seeds=4, target="sm_100a")


def launch_one(m, n, k):
    """The result on the GPU."""
    import torch
    if torch.cuda.get_device_capability()[0] != 10:
        return simulate_one()
    a, b = (torch.randn(shape, device="cuda", dtype=torch.float16) for shape in ((m, k), (k, n)))
    c = torch.empty(m, n, device="cuda", dtype=torch.float16)
    grid, args, meta = arguments(a, b, c)
    gemm[grid](*args, **meta)
    print("largest difference to cuBLAS:", (c - a @ b).abs().max().item())


if __name__ == "__main__":
    import harness
    harness.run(simulate_one, launch_one, (8192, 8192, 8192))
