"""19  A product for each group of rows, on Blackwell: sizes that only the device knows, and a bias on the way out.

    python tutorials/19_blackwell_grouped_gemm.py    on a Blackwell GPU (sm_100a): check the result; elsewhere: simulate

C[rows of g] = A[rows of g] B[g] + bias[g], where the rows of group g are offsets[g] to offsets[g + 1] - 1: what a layer of
experts computes after its tokens have been sorted by expert. The sizes come from another kernel, so the host knows
neither how many tiles there are nor where they end. In place of the launcher's queue of tutorial 09:

    a fixed grid        as many programs as SMs; tile t belongs to program t modulo their number, and every role finds
                        by itself in which group its tiles lie
    a map a group       a tile's last rows may be those of the next group. Loading them does no harm. Storing would: so
                        the epilogue makes a tensor map for each group on the device, that ends where the group ends

The roles load, mma and epilogue, the ring and the two accumulators are those of tutorial 09.

How the program is run is harness.py's. It was simulated and compiled, and has not run on a chip.

Next: 20_blackwell_pair_addmm.py, where two SMs multiply together.
"""

import numpy as np
import triton.language as tl

import mimw
import mimw.tlx as tlx


# Step 1. The first row of a group, the row behind its last one, and how many tiles of C it has.
@mimw.jit
def extent(offsets, group, tiles_n, BM: tl.constexpr):
    start, end = tl.load(offsets + group), tl.load(offsets + group + 1)
    return start, end, tl.cdiv(end - start, BM) * tiles_n


@mimw.jit
def grouped_gemm(a_desc, b_desc, bias, c, offsets, groups, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                 STAGES: tl.constexpr, PARTS: tl.constexpr):
    """C = A B[group] + bias[group] of rows in groups. A and C have K and N columns, B is (groups, K, N), bias (groups, N)."""
    tl.static_assert(PARTS % 2 == 0, "parts of C go through the two places in turn, from tile to tile")
    DTYPE: tl.constexpr = tlx.dtype_of(a_desc)
    PART: tl.constexpr = BN // PARTS
    a_tiles, b_tiles = tlx.local_alloc((BM, BK), DTYPE, STAGES), tlx.local_alloc((BK, BN), DTYPE, STAGES)
    places = tlx.local_alloc((BM, PART), DTYPE, 2)
    sums = tlx.local_alloc((BM, BN), tl.float32, 2, tlx.storage_kind.tmem)
    full, empty = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    done, read = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    maps = tlx.allocate_tensor_descriptor(1)
    tiles_n = tl.cdiv(N, BN)

    with tlx.async_tasks():
        with tlx.async_task("default"):                           # epilogue
            tile, before, turn = tl.program_id(0), 0, 0
            for group in range(groups):
                start, end, tiles = extent(offsets, group, tiles_n, BM)
                # Step 2. Most groups have nothing for this program. The map may be written anew when no store needs it.
                if tile < before + tiles:
                    tlx.async_descriptor_store_wait(0)
                    tlx.make_tensor_descriptor(maps[0], c, [end, N], [N, 1], [BM, PART])
                while tile < before + tiles:
                    c_desc = tlx.reinterpret_tensor_descriptor(maps[0], [BM, PART], DTYPE)
                    m, n = start + (tile - before) // tiles_n * BM, (tile - before) % tiles_n * BN
                    which, phase = tlx.warp_spec.get_bufidx_phase(turn, 2)
                    tlx.barrier_wait(done[which], phase)
                    for part in tl.static_range(PARTS):
                        # Step 3. The bias of these columns, one value for all rows.
                        columns = n + part * PART + tl.arange(0, PART)
                        more = tl.load(bias + group * N + columns, mask=columns < N, other=0.0).to(tl.float32)
                        some = tlx.local_load(tlx.subslice(sums[which], part * PART, PART)) + more[None, :]
                        if part == PARTS - 1:
                            tlx.barrier_arrive(read[which])
                        tlx.async_descriptor_store_wait(1)
                        tlx.local_store(places[part % 2], some.to(DTYPE))
                        tlx.fence("async_shared")
                        tlx.async_descriptor_store(c_desc, places[part % 2], [m, n + part * PART])
                    tile += tl.num_programs(0)
                    turn += 1
                before += tiles
            tlx.async_descriptor_store_wait(0)

        with tlx.async_task(num_warps=1, num_regs=32):            # mma
            tile, before, turn, used = tl.program_id(0), 0, 0, 0
            for group in range(groups):
                start, end, tiles = extent(offsets, group, tiles_n, BM)
                while tile < before + tiles:
                    which, phase = tlx.warp_spec.get_bufidx_phase(turn, 2)
                    tlx.barrier_wait(read[which], phase ^ 1)
                    for k in range(0, K, BK):
                        slot, parity = tlx.warp_spec.get_bufidx_phase(used, STAGES)
                        tlx.barrier_wait(full[slot], parity)
                        tlx.async_dot(a_tiles[slot], b_tiles[slot], sums[which], use_acc=k > 0, mBarriers=[empty[slot]])
                        used += 1
                    tlx.tcgen05_commit(done[which])
                    tile += tl.num_programs(0)
                    turn += 1
                before += tiles

        # Step 4. B has a map of three dimensions, so that the columns of A behind K, which read as zeros, are multiplied by
        # zeros and not by the rows of the next group.
        with tlx.async_task(num_warps=1, num_regs=32):            # load
            tile, before, filled = tl.program_id(0), 0, 0
            for group in range(groups):
                start, end, tiles = extent(offsets, group, tiles_n, BM)
                while tile < before + tiles:
                    m, n = start + (tile - before) // tiles_n * BM, (tile - before) % tiles_n * BN
                    for k in range(0, K, BK):
                        slot, parity = tlx.warp_spec.get_bufidx_phase(filled, STAGES)
                        tlx.barrier_wait(empty[slot], parity ^ 1)
                        tlx.barrier_expect_bytes(full[slot], (BM + BN) * BK * tlx.size_of(DTYPE))
                        tlx.async_descriptor_load(a_desc, a_tiles[slot], [m, k], full[slot])
                        tlx.async_descriptor_load(b_desc, b_tiles[slot], [group, k, n], full[slot])
                        filled += 1
                    tile += tl.num_programs(0)
                before += tiles


# Step 5. What if? One edit each, and what `mimw.check` says:
#
#     a map that ends at the last row      DataRace           two programs write the first rows of a group
#     `part == 0` for the arrival          SlotReusedEarly    products of the next tile but one over sums not yet read
#     `use_acc=True`                       UnwrittenRead      the first product adds to what nobody has written
#     `store_wait(2)`                      SourceOverwritten  a place is filled while TMA still reads it


def arguments(a, b, bias, c, offsets, programs, BM=128, BN=256, BK=64, STAGES=3, PARTS=4):
    """(grid, args, meta) of the launch; a is (rows, K), b (groups, K, N), bias (groups, N), c (rows, N), offsets (groups + 1, )."""
    groups, k, n = b.shape
    describe = mimw.TensorDescriptor.from_tensor
    args = describe(a, [BM, BK]), describe(b, [1, BK, BN]), bias, c, offsets, groups, n, k
    return (programs, ), args, dict(BM=BM, BN=BN, BK=BK, STAGES=STAGES, PARTS=PARTS, num_warps=4)


def problem(sizes, n, k):
    """(a, b, bias, c, offsets) for groups of so many rows."""
    random = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    a, b, bias = (random.standard_normal(shape, np.float32).astype(np.float16)
                  for shape in ((max(1, offsets[-1]), k), (len(sizes), k, n), (len(sizes), n)))
    return a, b, bias, np.full((len(a), n), np.nan, np.float16), offsets


def expected(a, b, bias, offsets):
    parts = [a[first:end].astype(np.float32) @ one + some.astype(np.float32)
             for first, end, one, some in zip(offsets, offsets[1:], b.astype(np.float32), bias)]
    return np.concatenate(parts)


def case():
    """Four groups, one of them empty, on two programs: `mimw check 19_blackwell_grouped_gemm.py:case --target sm_100a`."""
    a, b, bias, c, offsets = problem((150, 0, 40, 130), 128, 64)
    return mimw.Case(grouped_gemm, *arguments(a, b, bias, c, offsets, 2, BN=64, BK=32, STAGES=2, PARTS=2),
                     expected={"c": expected(a, b, bias, offsets)})


def simulate_one():
    """Four groups, an empty one among them, on two simulated programs."""
    import harness
    harness.simulated(case(), target="sm_100a")


def launch_one(rows, n, k):
    """The result on the GPU, with eight groups of random sizes."""
    import torch
    import triton
    if torch.cuda.get_device_capability()[0] != 10:
        return simulate_one()
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda", dtype=torch.int8))
    cuts = torch.randint(0, rows + 1, (7, )).sort().values
    offsets = torch.cat([torch.zeros(1), cuts, torch.tensor([rows])]).int()
    a, b, bias = (torch.randn(shape, device="cuda", dtype=torch.float16) for shape in ((rows, k), (8, k, n), (8, n)))
    c = torch.empty(rows, n, device="cuda", dtype=torch.float16)
    programs = torch.cuda.get_device_properties(0).multi_processor_count
    grid, args, meta = arguments(a, b, bias, c, offsets.cuda(), programs)
    grouped_gemm[grid](*args, **meta)
    wanted = torch.cat([a[first:end] @ b[g] + bias[g] for g, (first, end) in enumerate(zip(offsets, offsets[1:]))])
    print("largest difference to cuBLAS:", (c - wanted).abs().max().item())


if __name__ == "__main__":
    import harness
    harness.run(simulate_one, launch_one, (8192, 4096, 4096))
