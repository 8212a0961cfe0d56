"""Kernels whose programs are several CTAs (`num_ctas`): of stock Triton, and of Gluon, with a mistake where a switch is off.

    rows_divided[(3, )](x, out, 1000, BLOCK=1024, num_ctas=2)           a row lies in both CTAs: its sum crosses them

Input: arrays or descriptors, `RIGHT` to mend the mistake. Output: the arrays. Shapes stand at each kernel.
"""

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    clc,
    tcgen05_commit,
    tcgen05_mma,
)
from triton.experimental.gluon.language.nvidia.hopper import cluster, mbarrier, tma

TRIPS = gl.constexpr(3)


@triton.jit
def rows_divided(x, out, n, BLOCK: tl.constexpr):
    """out = x / the sum of each row; x and out fp32 (programs, n)."""
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=0.0)
    tl.store(out + tl.program_id(0) * n + at, row / tl.sum(row, 0), mask=at < n)


@triton.jit
def product(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """c = a b; a fp16 (programs M, K), b (K, N), c fp32. Both CTAs load all of b."""
    rows, keys, columns = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, BK), tl.arange(0, N)
    sums = tl.zeros((M, N), tl.float32)
    for k in range(0, K, BK):
        left = tl.load(a + rows[:, None] * K + k + keys[None, :])
        sums = tl.dot(left, tl.load(b + (k + keys[:, None]) * N + columns[None, :]), sums)
    tl.store(c + rows[:, None] * N + columns[None, :], sums)


@triton.jit
def product_by_blocks(a, b, c, K, BLOCK: tl.constexpr):
    """c = a b by TMA; a fp16 (128, K), b (K, 128), c (128, 128), K in steps of BLOCK."""
    sums = tl.zeros((128, 128), tl.float32)
    for k in range(0, K, BLOCK):
        sums = tl.dot(a.load([0, k]), b.load([k, 0]), sums)
    c.store([0, 0], sums.to(tl.float16))


@triton.jit
def turned(x, out, B: tl.constexpr):
    """out = x transposed, then the sums of its columns and of its rows; x fp32 (B, B), out (B B + 2 B)."""
    r = tl.arange(0, B)
    tile = tl.load(x + r[:, None] * B + r[None, :])
    tl.store(out + r[None, :] * B + r[:, None], tile)
    tl.store(out + B * B + r, tl.sum(tile, 0))
    tl.store(out + B * B + B + r, tl.sum(tile, 1))


@triton.jit
def counted(x, total, out, bins, B: tl.constexpr):
    """total += the sum of x, out = what it was, bins += how often each number from 0 to 15 is in x; all int32, x (B)."""
    numbers = tl.load(x + tl.arange(0, B))
    tl.store(out + tl.program_id(0), tl.atomic_add(total, tl.sum(numbers, 0)))
    tl.atomic_add(bins + tl.arange(0, 16), tl.histogram(numbers, 16))


@triton.jit
def told_to_another_program(x, out, flag, B: tl.constexpr, RELEASE: tl.constexpr, ACQUIRE: tl.constexpr):
    """out = x, then x + 1, from program 0 by way of program 1; int32 x (B), out (2 B), flag (2) of zeros. The mistakes: an order
    that is relaxed."""
    at = tl.arange(0, B)
    if tl.program_id(0) == 0:
        tl.store(out + at, tl.load(x + at))
        tl.atomic_store(flag, 1, sem=RELEASE)
    else:
        tl.atomic_poll(flag, 1, sem=ACQUIRE)
        tl.store(out + B + at, tl.load(out + B - 1 - at) + tl.atomic_load(flag))
        tl.atomic_add(flag + 1, 1, sem="acq_rel")


@triton.jit
def looked_up(x, out, B: tl.constexpr):
    """out = x backwards, which Triton 3.9 compiles to a look into the CTA's own shared memory; fp32 (B)."""
    at = tl.arange(0, B)
    tl.store(out + at, tl.gather(tl.load(x + at), B - 1 - at, 0))


@triton.jit
def product_of_a_product(a, b, c, d, TRIPS: tl.constexpr):
    """d = the sum of (a_i b_i) c_i; a fp16 (64, TRIPS 64), b and c fp16 (TRIPS 64, 64) by descriptors, d fp32 (64, 64). With
    several CTAs the mistake is Triton's."""
    rows, columns = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    sums = tl.zeros((64, 64), tl.float32)
    for trip in range(TRIPS):
        left = tl.load(a + rows * 64 * TRIPS + trip * 64 + columns)
        first = tl.dot(left, b.load([trip * 64, 0]))
        sums = tl.dot(first.to(tl.float16), c.load([trip * 64, 0]), sums)
    tl.store(d + rows * 64 + columns, sums)


@gluon.jit
def sent_to_both(source, target, RIGHT: gl.constexpr):
    """target = source, fp16 (3 64, 64), in blocks of (64, 64) that one CTA loads for both. The mistake: it loads the next one
    while the other CTA still reads."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=[[0, 0]])
    rows, columns = gl.arange(0, 64, gl.SliceLayout(1, layout)), gl.arange(0, 64, gl.SliceLayout(0, layout))
    places = gl.expand_dims(rows, 1) * 64 + gl.expand_dims(columns, 0)
    tile = gl.allocate_shared_memory(gl.float16, [64, 64], source.layout)
    full = mbarrier.allocate_mbarrier()
    free = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout(cga_layout=[[0]]))
    mbarrier.init(full, count=1)
    mbarrier.init(free, count=1)
    for trip in range(TRIPS):
        if RIGHT:
            mbarrier.wait(free, trip & 1 ^ 1)
        mbarrier.expect(full, source.nbytes_per_cta)
        tma.async_load(source, [trip * 64, 0], full, tile, multicast=True)
        mbarrier.wait(full, trip & 1)
        read = tile.load(layout)
        mbarrier.arrive(free, count=1)
        gl.store(target + trip * 64 * 64 + places, read)


@gluon.jit
def product_of_a_pair(a, b, c, RIGHT: gl.constexpr):
    """c = a b by the tensor cores of two CTAs; a fp16 (256, 128), b (128, 64), c fp16 (256, 64). The mistake: operands are loaded
    over those of a product that nobody has waited for, in the other CTA, too."""
    left = gl.allocate_shared_memory(gl.float16, [256, 64], a.layout)
    right = gl.allocate_shared_memory(gl.float16, [64, 64], b.layout)
    sums = allocate_tensor_memory(gl.float32, [256, 64], TensorMemoryLayout((128, 64), col_stride=1, cga_layout=c.layout.cga_layout,
                                                                            two_ctas=True))
    full, done = mbarrier.allocate_mbarrier(two_ctas=True), mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.init(done, count=1)
    for trip in range(2):
        mbarrier.expect(full, a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [0, trip * 64], full, left)
        tma.async_load(b, [trip * 64, 0], full, right)
        mbarrier.wait(full, trip, deps=[left, right])
        tcgen05_mma(left, right, sums, use_acc=trip > 0, mbarriers=[done])
        if RIGHT:
            mbarrier.wait(done, trip, deps=[left, right])
    if not RIGHT:
        mbarrier.wait(done, 1, deps=[left, right])
    out = gl.allocate_shared_memory(gl.float16, [256, 64], c.layout)
    out.store(sums.load().to(gl.float16))
    tma.async_store(c, [0, 0], out)
    tma.store_wait(0)


@gluon.jit
def drawn(out, RIGHT: gl.constexpr):
    """out = the number of each program that was asked for; int32 (programs). The mistake, of several CTAs: the first asks again
    before another one has looked at the last answer."""
    same: gl.constexpr = [[0]] * (gl.num_ctas().bit_length() - 1)
    answer = gl.allocate_shared_memory(gl.int64, [2], gl.SwizzledSharedLayout(1, 1, 1, [0], cga_layout=same))
    landed = mbarrier.allocate_mbarrier()
    seen = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout(cga_layout=same))
    mbarrier.init(landed, count=1)
    mbarrier.init(seen, count=1)
    program, works, trip = gl.program_id(0), gl.to_tensor(True), 0
    while works:
        gl.store(out + program, program)
        if RIGHT:
            mbarrier.wait(seen, trip & 1 ^ 1)
        mbarrier.expect(landed, 16)
        clc.try_cancel(answer, landed)
        mbarrier.wait(landed, trip & 1)
        taken = clc.load_result(answer)
        mbarrier.arrive(seen, count=1)
        program, works, trip = taken.program_id(0), taken.is_canceled(), trip + 1


@gluon.jit
def loads_of_a_pair(a, b, left, right, full, free, K: gl.constexpr, RIGHT: gl.constexpr):
    for trip in range(K // 64):
        slot, phase = trip % 2, trip // 2 & 1
        if RIGHT:
            mbarrier.wait(free.index(slot), phase ^ 1)
        mbarrier.expect(full.index(slot), a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [0, trip * 64], full.index(slot), left.index(slot))
        tma.async_load(b, [trip * 64, 0], full.index(slot), right.index(slot))


@gluon.jit
def products_of_a_pair(left, right, full, free, sums, done, K: gl.constexpr):
    for trip in range(K // 64):
        slot, phase = trip % 2, trip // 2 & 1
        mbarrier.wait(full.index(slot), phase)
        tcgen05_mma(left.index(slot), right.index(slot), sums, use_acc=trip > 0)
        tcgen05_commit(free.index(slot))
    tcgen05_commit(done)


@gluon.jit
def stores_of_a_pair(c, sums, done):
    mbarrier.wait(done, 0)
    out = gl.allocate_shared_memory(gl.float16, [256, 64], c.layout)
    out.store(sums.load().to(gl.float16))
    tma.async_store(c, [0, 0], out)
    tma.store_wait(0)


@gluon.jit
def pair_in_tasks(a, b, c, K: gl.constexpr, RIGHT: gl.constexpr):
    """c = a b, a task each for loads, for products of two CTAs, and for the result; a fp16 (256, K), b (K, 64), c fp16 (256, 64).
    The mistake: nobody waits before a slot is loaded again."""
    left = gl.allocate_shared_memory(gl.float16, [2, 256, 64], a.layout)
    right = gl.allocate_shared_memory(gl.float16, [2, 64, 64], b.layout)
    sums = allocate_tensor_memory(gl.float32, [256, 64], TensorMemoryLayout((128, 64), col_stride=1, cga_layout=c.layout.cga_layout,
                                                                            two_ctas=True))
    full, free = mbarrier.allocate_mbarrier(batch=2, two_ctas=True), mbarrier.allocate_mbarrier(batch=2)
    done = mbarrier.allocate_mbarrier()
    for slot in gl.static_range(2):
        mbarrier.init(full.index(slot), count=1)
        mbarrier.init(free.index(slot), count=1)
    mbarrier.init(done, count=1)
    gl.warp_specialize([(stores_of_a_pair, (c, sums, done)),
                        (loads_of_a_pair, (a, b, left, right, full, free, K, RIGHT)),
                        (products_of_a_pair, (left, right, full, free, sums, done, K))], [1, 1], [24, 24])


@gluon.jit
def shares_of_a_row(x, out, ROW: gl.constexpr, TWICE: gl.constexpr):
    bits: gl.constexpr = gl.num_ctas().bit_length() - 1
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0], cga_layout=[[1], [2]][:bits])
    at = ROW * 256 + gl.arange(0, 256, layout)
    row = gl.load(x + at)
    row /= gl.sum(row, 0)
    if TWICE:
        row /= gl.sum(row, 0)
    gl.store(out + at, row)


@gluon.jit
def sums_in_tasks(x, out):
    """out = x / the sum of each row, of two rows twice; a task for each row, fp32 (3, 256)."""
    gl.warp_specialize([(shares_of_a_row, (x, out, 0, True)), (shares_of_a_row, (x, out, 1, False)),
                        (shares_of_a_row, (x, out, 2, True))], [4, 4], [24, 24])


@gluon.jit
def filled(x, tile, full):
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0], cga_layout=[[1, 0]])
    rows, columns = gl.arange(0, 64, gl.SliceLayout(1, layout)), gl.arange(0, 64, gl.SliceLayout(0, layout))
    tile.store(gl.load(x + rows[:, None] * 64 + columns[None, :]))
    mbarrier.arrive(full, count=1)


@gluon.jit
def emptied(out, tile, full, RIGHT: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0], cga_layout=[[0, 1]])
    rows, columns = gl.arange(0, 64, gl.SliceLayout(1, layout)), gl.arange(0, 64, gl.SliceLayout(0, layout))
    mbarrier.wait(full, 0)
    if RIGHT:
        cluster.barrier()
    gl.store(out + rows[:, None] * 64 + columns[None, :], tile.load(layout))


@gluon.jit
def handed_over(x, out, RIGHT: gl.constexpr):
    """out = x, fp32 (64, 64): one task stores rows into a tile, the other loads columns. The mistake: it waits for its own CTA's
    rows, and not for those of the other CTA."""
    tile = gl.allocate_shared_memory(gl.float32, [64, 64], gl.SwizzledSharedLayout(1, 1, 1, [1, 0], cga_layout=[[1, 0]]))
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    gl.warp_specialize([(filled, (x, tile, full)), (emptied, (out, tile, full, RIGHT))], [4], [24])
