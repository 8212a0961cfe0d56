"""Kernels of Gluon's for Blackwell whose programs are several CTAs (`num_ctas`): products with block scales, rows that are picked.

    scaled_product[(1, )](a, b, a_scales, b_scales, c, K=256, PAIR=True, RIGHT=True, num_ctas=2)    scales go to tensor memory first

Input: descriptors, `RIGHT` to mend the mistake. Output: the arrays. Shapes stand at each kernel.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    TensorMemoryScalesLayout,
    allocate_tensor_memory,
    tcgen05_commit,
    tcgen05_copy,
    tcgen05_mma,
    tcgen05_mma_barrier_count,
    tcgen05_mma_scaled,
    tma,
)
from triton.experimental.gluon.language.nvidia.hopper import mbarrier


@gluon.jit
def table(packed, ROWS: gl.constexpr):
    """Rows of four scales, out of blocks of 128 of them (PTX ISA, tcgen05.mma, "Scale factor layout")."""
    apart = packed.reshape((packed.shape[1], packed.shape[2], 32, 4, 4)).permute((0, 3, 2, 1, 4))
    return apart.reshape((ROWS, 4))


@gluon.jit
def scaled_product(a, b, a_scales, b_scales, c, K: gl.constexpr, PAIR: gl.constexpr, RIGHT: gl.constexpr):
    """c = a b^T with a scale for each 32 elements; a fp8 (128 CTAs, K), b (128, K), scales uint8 packed, by descriptors of (1,
    rows / 128, K / 128, 2, 256), c fp32 (128 CTAs, 128). CTAs have rows of a and c each, and, of a pair, halves of b, but all have
    all of its scales. The mistake: scales are copied into tensor memory before they have landed."""
    M: gl.constexpr = c.block_type.shape[0]
    rows: gl.constexpr = c.layout.cga_layout
    left = gl.allocate_shared_memory(a.dtype, a.block_type.shape, a.layout)
    right = gl.allocate_shared_memory(b.dtype, b.block_type.shape, b.layout)
    of_left = gl.allocate_shared_memory(gl.uint8, a_scales.block_type.shape, a_scales.layout)
    of_right = gl.allocate_shared_memory(gl.uint8, b_scales.block_type.shape, b_scales.layout)
    layout: gl.constexpr = TensorMemoryLayout((128, 128), col_stride=1, cga_layout=rows, two_ctas=PAIR)
    sums = allocate_tensor_memory(gl.float32, [M, 128], layout)
    full, done = mbarrier.allocate_mbarrier(two_ctas=PAIR), mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.init(done, count=tcgen05_mma_barrier_count([left, right], PAIR, PAIR))
    for trip in range(K // 128):
        mbarrier.expect(full, a.nbytes_per_cta + b.nbytes_per_cta + a_scales.nbytes_per_cta + b_scales.nbytes_per_cta)
        tma.async_load(a, [0, trip * 128], full, left)
        tma.async_load(b, [0, trip * 128], full, right)
        tma.async_load(a_scales, [0, 0, trip, 0, 0], full, of_left)
        tma.async_load(b_scales, [0, 0, trip, 0, 0], full, of_right, multicast=PAIR)
        if RIGHT:
            mbarrier.wait(full, trip & 1)
        left_table = allocate_tensor_memory(gl.uint8, [M, 4], TensorMemoryScalesLayout(rows))
        right_table = allocate_tensor_memory(gl.uint8, [128, 4], TensorMemoryScalesLayout([[0, 0]] * len(rows)))
        tcgen05_copy(table(of_left, M), left_table)
        tcgen05_copy(table(of_right, 128), right_table)
        if not RIGHT:
            mbarrier.wait(full, trip & 1)
        tcgen05_mma_scaled(left, right.permute((1, 0)), sums, left_table, right_table, "e4m3", "e4m3", use_acc=trip > 0)
        tcgen05_commit(done, descs=[left, right] if PAIR else [])
        mbarrier.wait(done, trip & 1)
    out = gl.allocate_shared_memory(gl.float32, [M, 128], c.layout)
    out.store(sums.load())
    tma.async_store(c, [0, 0], out)
    tma.store_wait(0)


@gluon.jit
def tables_in_a_pool(a, b, a_scales, b_scales, c, PAIR: gl.constexpr, RIGHT: gl.constexpr):
    """c = a b^T with a scale for each 32 elements; a fp8 (128 CTAs, 128), b (256, 128), scales as of `scaled_product`, c fp32 (128
    CTAs, 256); sums and tables are parts of one allocation. The mistake: one table lies over the other."""
    M: gl.constexpr = c.block_type.shape[0]
    rows: gl.constexpr = c.layout.cga_layout
    left = gl.allocate_shared_memory(a.dtype, a.block_type.shape, a.layout)
    right = gl.allocate_shared_memory(b.dtype, b.block_type.shape, b.layout)
    of_left = gl.allocate_shared_memory(gl.uint8, a_scales.block_type.shape, a_scales.layout)
    of_right = gl.allocate_shared_memory(gl.uint8, b_scales.block_type.shape, b_scales.layout)
    layout: gl.constexpr = TensorMemoryLayout((128, 512), col_stride=1, cga_layout=rows, two_ctas=PAIR)
    pool = allocate_tensor_memory(gl.float32, [M, 512], layout)
    sums = pool.slice(0, 256)
    left_table = pool.slice(256, 4).reinterpret(gl.uint8, [M, 4], TensorMemoryScalesLayout(rows))
    both: gl.constexpr = TensorMemoryScalesLayout([[0, 0]] * len(rows))
    right_table = pool.slice(260 if RIGHT else 256, 8).reinterpret(gl.uint8, [256, 4], both)
    full, done = mbarrier.allocate_mbarrier(two_ctas=PAIR), mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.init(done, count=1)
    mbarrier.expect(full, a.nbytes_per_cta + b.nbytes_per_cta + a_scales.nbytes_per_cta + b_scales.nbytes_per_cta)
    tma.async_load(a, [0, 0], full, left)
    tma.async_load(b, [0, 0], full, right)
    tma.async_load(a_scales, [0, 0, 0, 0, 0], full, of_left)
    tma.async_load(b_scales, [0, 0, 0, 0, 0], full, of_right, multicast=PAIR)
    mbarrier.wait(full, 0)
    tcgen05_copy(table(of_left, M), left_table)
    tcgen05_copy(table(of_right, 256), right_table)
    tcgen05_mma_scaled(left, right.permute((1, 0)), sums, left_table, right_table, "e4m3", "e4m3", use_acc=False)
    tcgen05_commit(done)
    mbarrier.wait(done, 0)
    out = gl.allocate_shared_memory(gl.float32, [M, 256], c.layout)
    out.store(sums.load())
    tma.async_store(c, [0, 0], out)
    tma.store_wait(0)


@gluon.jit
def rows_moved(source, target, numbers, CGA: gl.constexpr, RIGHT: gl.constexpr):
    """target[numbers] = source[numbers]; fp16 (rows, 64), by descriptors of one row with the layout of 64, numbers int32 (64). The
    mistake: rows leave the tile before they have landed there."""
    layout: gl.constexpr = gl.SliceLayout(0, gl.BlockedLayout([1, 4], [32, 1], [1, 4], [1, 0], cga_layout=CGA))
    tile = gl.allocate_shared_memory(gl.float16, [64, 64], source.layout)
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    rows = gl.load(numbers + gl.arange(0, 64, layout))
    mbarrier.expect(full, tile.nbytes_per_cta)
    tma.async_gather(source, rows, 0, full, tile, multicast=True)
    if RIGHT:
        mbarrier.wait(full, 0)
    tma.async_scatter(target, rows, 0, tile)
    if not RIGHT:
        mbarrier.wait(full, 0)
    tma.store_wait(0)


@gluon.jit
def product_of_picked_rows(a, b, numbers, c, K: gl.constexpr, CGA: gl.constexpr, RIGHT: gl.constexpr):
    """c = a b[numbers]^T by pairs of CTAs, of which each gathers half of the rows of b, for other pairs too; a fp16 (128 CTAs, K),
    b (rows, K), c fp16 (128 CTAs, 64), numbers int32 (64). The mistake: the rows' bytes are not expected."""
    M: gl.constexpr = c.block_type.shape[0]
    rows: gl.constexpr = c.layout.cga_layout
    layout: gl.constexpr = gl.SliceLayout(0, gl.BlockedLayout([1, 4], [32, 1], [1, 4], [1, 0], cga_layout=CGA))
    left = gl.allocate_shared_memory(gl.float16, a.block_type.shape, a.layout)
    right = gl.allocate_shared_memory(gl.float16, [64, 64], b.layout)
    of_sums: gl.constexpr = TensorMemoryLayout((128, 64), col_stride=1, cga_layout=rows, two_ctas=True)
    sums = allocate_tensor_memory(gl.float32, [M, 64], of_sums)
    full, done = mbarrier.allocate_mbarrier(two_ctas=True), mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.init(done, count=tcgen05_mma_barrier_count([left, right], True, True))
    picked = gl.load(numbers + gl.arange(0, 64, layout))
    for trip in range(K // 64):
        mbarrier.expect(full, left.nbytes_per_cta + right.nbytes_per_cta * RIGHT)
        tma.async_load(a, [0, trip * 64], full, left)
        tma.async_gather(b, picked, trip * 64, full, right, multicast=True)
        mbarrier.wait(full, trip & 1)
        tcgen05_mma(left, right.permute((1, 0)), sums, use_acc=trip > 0)
        tcgen05_commit(done, descs=[left, right])
        mbarrier.wait(done, trip & 1)
    out = gl.allocate_shared_memory(gl.float16, [M, 64], c.layout)
    out.store(sums.load().to(gl.float16))
    tma.async_store(c, [0, 0], out)
    tma.store_wait(0)
