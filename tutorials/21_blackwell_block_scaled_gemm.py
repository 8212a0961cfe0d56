"""21  Products of block-scaled numbers on Blackwell: mxfp8, mxfp4 and nvfp4 by one kernel.

    python tutorials/21_blackwell_block_scaled_gemm.py    on a Blackwell GPU (sm_100a): check; elsewhere: simulate

Numbers of eight or four bits have little range. So a few neighbours along K share a scale, and the tensor cores multiply by
the scales of both operands while they add up: C = A B^T, where element k of a row counts as often as its block's scale says.

    format    elements                   a scale for    scales
    mxfp8     e4m3, or e5m2, 8 bits      32 elements    e8m0: a power of two
    mxfp4     e2m1, 4 bits, in pairs     32 elements    e8m0
    nvfp4     e2m1, 4 bits, in pairs     16 elements    e4m3: steps between the powers of two

The tensor cores read scales out of tensor memory, where 128 rows of four scales lie as 32 rows of 16 bytes, once for each of
the four warps' lanes. Scales come by TMA in that order already, as matrices of `packed` below, beside the tiles they belong
to. Given in shared memory, they are copied on by the product itself. Copies and products of a thread are done one after the
other, so one table for each operand is enough, without a wait.

The roles load, mma and epilogue, the ring and the accumulators are those of tutorial 09, on a fixed grid as in 19.

How the program is run is harness.py's. It was simulated and compiled, and has not run on a chip.
"""

import ml_dtypes
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
def block_scaled_gemm(a_desc, b_desc, a_scale_desc, b_scale_desc, c_desc, M, N, K, FORMAT: tl.constexpr, BLOCK: tl.constexpr,
                      BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, STAGES: tl.constexpr,
                      PARTS: tl.constexpr, SUMS: tl.constexpr):
    """C[M, N] = (A scaled) (B scaled)^T; A is (M, K) and B (N, K) elements of FORMAT, with a scale for each BLOCK of a row."""
    # Step 1. Sizes. A row of BK elements of e2m1 is BK / 2 bytes. Scales go in groups: four along K, of 128 rows, are 512 bytes.
    tl.static_assert(BM == 128 and BN % 128 == 0, "a group of scales has 128 rows")
    tl.static_assert(PARTS % 2 == 0, "parts of C go through the two places in turn, from tile to tile")
    WIDTH: tl.constexpr = BK // 2 if FORMAT == "e2m1" else BK
    GROUPS: tl.constexpr = BK // BLOCK // 4
    PART: tl.constexpr = BN // PARTS
    BYTES: tl.constexpr = (BM + BN) * (WIDTH + BK // BLOCK)

    # Step 2. The nouns. A slot has four things now: tiles of A and B, and the scales of both.
    a_tiles = tlx.local_alloc((BM, WIDTH), tlx.dtype_of(a_desc), STAGES)
    b_tiles = tlx.local_alloc((BN, WIDTH), tlx.dtype_of(b_desc), STAGES)
    a_scales = tlx.local_alloc((1, BM // 128, GROUPS, 2, 256), tl.uint8, STAGES)
    b_scales = tlx.local_alloc((1, BN // 128, GROUPS, 2, 256), tl.uint8, STAGES)
    places = tlx.local_alloc((BM, PART), tlx.dtype_of(c_desc), 2)

    # Step 3. Of the 512 columns the tables of scales take some, four for each group. Two accumulators of 256 columns leave
    # none, so there is one of 256, or there are two of 128. With one, the tensor cores rest while a tile is read
    # out; with two narrow ones, L2 has to give half as much again for each product. `mimw predict` says which is worse, below.
    sums = tlx.local_alloc((BM, BN), tl.float32, SUMS, tlx.storage_kind.tmem)
    full, empty = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    done, read = tlx.alloc_barriers(SUMS), tlx.alloc_barriers(SUMS)
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)

    with tlx.async_tasks():
        with tlx.async_task("default"):                           # epilogue
            turn = 0
            for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
                m, n = tile_origin(tile, M, N, BM, BN, GROUP_M)
                which, phase = tlx.warp_spec.get_bufidx_phase(turn, SUMS)
                tlx.barrier_wait(done[which], phase)
                for part in tl.static_range(PARTS):
                    c = tlx.local_load(tlx.subslice(sums[which], part * PART, PART)).to(tlx.dtype_of(c_desc))
                    if part == PARTS - 1:
                        tlx.barrier_arrive(read[which])
                    tlx.async_descriptor_store_wait(1)
                    tlx.local_store(places[part % 2], c)
                    tlx.fence("async_shared")
                    tlx.async_descriptor_store(c_desc, places[part % 2], [m, n + part * PART])
                turn += 1
            tlx.async_descriptor_store_wait(0)

        # Step 4. One call for the copies of both tables and the product. The slot is free when all three are done: `mBarriers`
        # has them arrive together. B lies as (N, K), so its transposed view is what is multiplied by.
        with tlx.async_task(num_warps=1, num_regs=48):            # mma
            turn, used = 0, 0
            for _ in range(tl.program_id(0), tiles, tl.num_programs(0)):
                which, phase = tlx.warp_spec.get_bufidx_phase(turn, SUMS)
                tlx.barrier_wait(read[which], phase ^ 1)
                for k in range(0, K, BK):
                    slot, parity = tlx.warp_spec.get_bufidx_phase(used, STAGES)
                    tlx.barrier_wait(full[slot], parity)
                    tlx.async_dot_scaled(a_tiles[slot], tlx.local_trans(b_tiles[slot]), sums[which], a_scales[slot], FORMAT,
                                         b_scales[slot], FORMAT, use_acc=k > 0, mBarriers=[empty[slot]])
                    used += 1
                tlx.tcgen05_commit(done[which])
                turn += 1

        # Step 5. Offsets count what the descriptors do: bytes of packed pairs, groups of scales. The scales' matrices have four
        # more dimensions than one would think, so that a box is what a table wants.
        with tlx.async_task(num_warps=1, num_regs=48):            # load
            filled = 0
            for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
                m, n = tile_origin(tile, M, N, BM, BN, GROUP_M)
                for k in range(0, tl.cdiv(K, BK)):
                    slot, parity = tlx.warp_spec.get_bufidx_phase(filled, STAGES)
                    tlx.barrier_wait(empty[slot], parity ^ 1)
                    tlx.barrier_expect_bytes(full[slot], BYTES)
                    tlx.async_descriptor_load(a_desc, a_tiles[slot], [m, k * WIDTH], full[slot])
                    tlx.async_descriptor_load(b_desc, b_tiles[slot], [n, k * WIDTH], full[slot])
                    tlx.async_descriptor_load(a_scale_desc, a_scales[slot], [0, m // 128, k * GROUPS, 0, 0], full[slot])
                    tlx.async_descriptor_load(b_scale_desc, b_scales[slot], [0, n // 128, k * GROUPS, 0, 0], full[slot])
                    filled += 1


# Step 6. What if? One edit each, and what `mimw.check` says:
#
#     no `+ BK // BLOCK` in BYTES      BytesNotExpected     a slot is full before all scales are there
#     `b_scales[0]` in the product     CopyReadEarly        scales of another step, which may be coming in
#     no wait for `empty`              CopyReadEarly        tiles and scales come in over those of a product that has not begun
#     no wait for `read`               SlotReusedEarly      products over sums not yet read
#     `SUMS=2` and `BN=256`            OutOfTensorMemory    refused before a run, with the columns of each array
#
# What `mimw predict` says at 8192 x 8192 x 8192, unmeasured: mxfp8 352 us (3100 TFLOP/s), mxfp4 193 (5700), nvfp4 207 (5300), all
# bound by L2. With two accumulators of 128 columns: 624, 320 and 320.


# Step 7. What the numbers are. A block's scale takes its largest element to the end of the elements' range.
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
FORMATS = {"mxfp8": ("e4m3", 32, 128, 4), "mxfp4": ("e2m1", 32, 256, 4), "nvfp4": ("e2m1", 16, 256, 3)}  # ..., block, BK, STAGES


def quantised(x, name):
    """(elements, scales, what they stand for) of a matrix of fp32; elements of e2m1 in pairs, the first in the low bits."""
    element, block, *_ = FORMATS[name]
    blocks = x.reshape(len(x), -1, block)
    largest = np.maximum(np.abs(blocks).max(-1, keepdims=True), 2.0**-100)
    if name == "nvfp4":
        scales = (largest / 6).astype(ml_dtypes.float8_e4m3fn)
    else:
        scales = np.exp2(np.ceil(np.log2(largest / (6 if element == "e2m1" else 448)))).astype(ml_dtypes.float8_e8m0fnu)
    wide = scales.astype(np.float32)
    small = np.divide(blocks, wide, out=np.zeros_like(blocks), where=wide > 0)
    if element == "e4m3":
        data = small.reshape(x.shape).astype(ml_dtypes.float8_e4m3fn)
        meant = data.astype(np.float32)
    else:
        code = np.abs(np.abs(small)[..., None] - E2M1).argmin(-1).reshape(x.shape)
        meant = np.where(small.reshape(x.shape) < 0, -E2M1[code], E2M1[code])
        code = (code | 8 * np.signbit(meant)).astype(np.uint8)
        data = code[:, ::2] | code[:, 1::2] << 4
    return data, scales[..., 0].view(np.uint8), meant * np.repeat(wide[..., 0], block, 1)


def packed(scales):
    """Scales (rows, columns) as TMA is to find them: (1, rows / 128, columns / 4, 2, 256), with zeros behind the end."""
    scales = np.pad(scales, [(0, -size % whole) for size, whole in zip(scales.shape, (128, 4))])
    rows, columns = scales.shape
    groups = scales.reshape(rows // 128, 4, 32, columns // 4, 4).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(groups).reshape(1, rows // 128, columns // 4, 2, 256)


def arguments(a, b, a_scales, b_scales, c, name, programs, BM=128, BN=256, BK=None, GROUP_M=8, STAGES=None, PARTS=8, SUMS=1):
    """(grid, args, meta) of the launch that computes c = a b^T in the format `name`; scales packed."""
    element, block, step, stages = FORMATS[name]
    step, stages, describe = BK or step, STAGES or stages, mimw.TensorDescriptor.from_tensor
    width, pairs = (step // 2, 2) if element == "e2m1" else (step, 1)
    groups = step // block // 4
    args = (describe(a, [BM, width]), describe(b, [BN, width]), describe(a_scales, [1, BM // 128, groups, 2, 256]),
            describe(b_scales, [1, BN // 128, groups, 2, 256]), describe(c, [BM, BN // PARTS]), *c.shape, a.shape[1] * pairs)
    meta = dict(FORMAT=element, BLOCK=block, BM=BM, BN=BN, BK=step, GROUP_M=GROUP_M, STAGES=stages, PARTS=PARTS, SUMS=SUMS)
    return (programs, ), args, meta | dict(num_warps=4)


def problem(m, n, k, name):
    """((a, b, packed scales of a and of b, room for c), what c should become); rows are of different size."""
    random = np.random.default_rng(0)
    (a, a_scales, a_meant), (b, b_scales, b_meant) = (
        quantised(np.ldexp(random.standard_normal((rows, k), np.float32), random.integers(-3, 4, (rows, 1))), name)
        for rows in (m, n))
    return (a, b, packed(a_scales), packed(b_scales), np.full((m, n), np.nan, np.float16)), a_meant @ b_meant.T


def case(name="mxfp8"):
    """Four tiles on numpy arrays, and their product: `mimw check 21_blackwell_block_scaled_gemm.py:case --target sm_100a`."""
    arrays, wanted = problem(256, 256, 512, name)
    return mimw.Case(block_scaled_gemm, *arguments(*arrays, name, 2, BN=128, STAGES=2, PARTS=2, SUMS=2),
                     expected={"c_desc": wanted})


def simulate_one():
    """Four tiles on two simulated programs, in each format."""
    import harness
    for name in FORMATS:
        print(name)
        harness.simulated(case(name), target="sm_100a")


def launch_one(m, n, k):
    """The result on the GPU, in each format."""
    import torch
    if torch.cuda.get_device_capability()[0] != 10:
        return simulate_one()
    programs = torch.cuda.get_device_properties(0).multi_processor_count
    for name in FORMATS:
        arrays, wanted = problem(m, n, k, name)
        on_gpu = [torch.from_numpy(x.view(np.uint8)).cuda().view(torch.float8_e4m3fn if x.dtype.name.startswith("float8")
                                                                else torch.uint8) for x in arrays[:-1]]
        c = torch.empty(m, n, device="cuda", dtype=torch.float16)
        grid, args, meta = arguments(*on_gpu, c=c, name=name, programs=programs)
        block_scaled_gemm[grid](*args, **meta)
        print(f"{name}: largest difference to numpy:", np.abs(c.cpu().numpy() - wanted).max())


if __name__ == "__main__":
    import harness
    harness.run(simulate_one, launch_one, (4096, 4096, 4096))
