"""Kernels of Gluon's whose programs are several CTAs (`num_ctas`), on elements of each other's shared memory.

    picked[(1, )](x, out, CGA=[[1, 0]], AXIS=0, RIGHT=True, num_ctas=2)         a CTA has rows, and picks those of all

Input: arrays, `RIGHT` to mend the mistake. Output: the arrays. Shapes stand at each kernel.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import cluster, mbarrier


@gluon.jit
def picked(x, out, CGA: gl.constexpr, AXIS: gl.constexpr, RIGHT: gl.constexpr):
    """out = x backwards along an axis, then x, which is sent back; fp32 x (64, 64), out (2, 64, 64). The mistake: nobody meets
    where other CTAs' elements are picked."""
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0], cga_layout=[[1, 0]])
    rows, columns = gl.arange(0, 64, gl.SliceLayout(1, layout))[:, None], gl.arange(0, 64, gl.SliceLayout(0, layout))[None, :]
    tile = gl.allocate_shared_memory(gl.float32, [64, 64], gl.SwizzledSharedLayout(1, 1, 1, [1, 0], cga_layout=CGA))
    at = rows * 64 + columns
    numbers = 63 - rows + columns * 0 if AXIS == 0 else 63 - columns + rows * 0
    if RIGHT:
        cluster.barrier()
    tile.store(gl.load(x + at))
    if RIGHT:
        cluster.barrier()
    turned = tile.gather(numbers, AXIS)
    gl.store(out + at, turned)
    if RIGHT:
        cluster.barrier()
    tile.scatter(turned, numbers, AXIS)
    if RIGHT:
        cluster.barrier()
    gl.store(out + 64 * 64 + at, tile.load(layout))


@gluon.jit
def first_rows(x, out, FROM: gl.constexpr):
    """out = rows 0 to 31 of x, twice, which CTA 0 has; fp32 (64, 64). The mistake: with other bits of a rank than FROM=0 a CTA
    hears of itself alone."""
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0], cga_layout=[[1, 0]])
    rows, columns = gl.arange(0, 64, gl.SliceLayout(1, layout))[:, None], gl.arange(0, 64, gl.SliceLayout(0, layout))[None, :]
    tile = gl.allocate_shared_memory(gl.float32, [64, 64], gl.SwizzledSharedLayout(1, 1, 1, [1, 0], cga_layout=[[1, 0]]))
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    tile.store(gl.load(x + rows * 64 + columns))
    mbarrier.arrive(full, count=1, from_cta=FROM)
    mbarrier.wait(full, 0)
    gl.store(out + rows * 64 + columns, tile.gather(rows % 32 + columns * 0, 0))


@gluon.jit
def counted(x, out, TILE: gl.constexpr, BINS: gl.constexpr, RIGHT: gl.constexpr):
    """out = how often each number from 0 to 255 is in x, then the sum of what was there before; int32 x (256), out (257). The
    mistake: nobody meets before and behind the atomics."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0], cga_layout=TILE)
    of_bins: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0], cga_layout=BINS)
    bins = gl.allocate_shared_memory(gl.int32, [256], gl.SwizzledSharedLayout(1, 1, 1, [0], cga_layout=BINS))
    bins.store(gl.full([256], 0, gl.int32, of_bins))
    if RIGHT:
        cluster.barrier()
    before = bins.atomic_scatter_add(gl.full([256], 1, gl.int32, layout), gl.load(x + gl.arange(0, 256, layout)), 0)
    if RIGHT:
        cluster.barrier()
    gl.store(out + gl.arange(0, 256, of_bins), bins.load(of_bins))
    gl.store(out + 256, gl.sum(before, 0))


@gluon.jit
def put_into_all(x, out, ALL: gl.constexpr):
    """out = x, fp32 (64, 64): a CTA stores its rows into a tile that both have. The mistake: all rows are read of it, where Triton
    3.9 has stored a CTA's own into its own tile alone."""
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0], cga_layout=[[1, 0]])
    read: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0], cga_layout=[[0, 0]] if ALL else [[1, 0]])
    rows, columns = gl.arange(0, 64, gl.SliceLayout(1, layout))[:, None], gl.arange(0, 64, gl.SliceLayout(0, layout))[None, :]
    tile = gl.allocate_shared_memory(gl.float32, [64, 64], gl.SwizzledSharedLayout(1, 1, 1, [1, 0], cga_layout=[[0, 0]]))
    tile.store(gl.load(x + rows * 64 + columns))
    rows, columns = gl.arange(0, 64, gl.SliceLayout(1, read))[:, None], gl.arange(0, 64, gl.SliceLayout(0, read))[None, :]
    gl.store(out + rows * 64 + columns, tile.load(read))


@gluon.jit
def seen_otherwise(x, out):
    """out = the rows of x in twos, those of each CTA; fp32 x (64, 64), out (32, 128)."""
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0], cga_layout=[[1, 0]])
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0], cga_layout=[[1, 0]])
    rows, columns = gl.arange(0, 64, gl.SliceLayout(1, layout))[:, None], gl.arange(0, 64, gl.SliceLayout(0, layout))[None, :]
    tile = gl.allocate_shared_memory(gl.float32, [64, 64], plain)
    tile.store(gl.load(x + rows * 64 + columns))
    wide = tile.reinterpret(gl.float32, [32, 128], plain)
    rows, columns = gl.arange(0, 32, gl.SliceLayout(1, layout))[:, None], gl.arange(0, 128, gl.SliceLayout(0, layout))[None, :]
    gl.store(out + rows * 128 + columns, wide.load(layout))
