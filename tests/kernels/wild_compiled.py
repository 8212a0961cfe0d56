"""Small Gluon kernels with mistakes that published kernels have: `check_compiled` finds each, and passes it with the switch.

    freed_the_next_one[(1, )](out, RIGHT=False)         a reader gives back the slot that it reads next

Input: arrays or descriptors of numpy, `RIGHT` to mend the mistake. Output: the arrays. Shapes stand at each kernel; docs/BUGS.md
says where the mistakes are.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

TILES, COLUMNS, SLOTS = gl.constexpr(4), gl.constexpr(128), gl.constexpr(2)


@gluon.jit
def read_tiles(slots, full, free, out, RIGHT: gl.constexpr, layout: gl.constexpr):
    columns = gl.arange(0, COLUMNS, layout)
    for tile in range(TILES):
        slot = tile % SLOTS
        mbarrier.wait(full.index(slot), tile // SLOTS & 1)
        gl.store(out + tile * COLUMNS + columns, slots.index(slot).load(layout))
        given_back = slot if RIGHT else (tile + 1) % SLOTS
        mbarrier.arrive(free.index(given_back))


@gluon.jit
def write_tiles(slots, full, free, out, RIGHT: gl.constexpr, layout: gl.constexpr):
    for tile in range(TILES):
        slot = tile % SLOTS
        mbarrier.wait(free.index(slot), tile // SLOTS & 1 ^ 1)
        slots.index(slot).store(gl.arange(0, COLUMNS, layout) + tile)
        mbarrier.arrive(full.index(slot))


@gluon.jit
def freed_the_next_one(out, RIGHT: gl.constexpr):
    """`out`, int32 (4, 128): tile + column."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    slots = gl.allocate_shared_memory(gl.int32, [SLOTS, COLUMNS], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    full = mbarrier.allocate_mbarrier(batch=SLOTS)
    free = mbarrier.allocate_mbarrier(batch=SLOTS)
    for slot in gl.static_range(SLOTS):
        mbarrier.init(full.index(slot), count=1)
        mbarrier.init(free.index(slot), count=1)
    gl.warp_specialize([(read_tiles, (slots, full, free, out, RIGHT, layout)),
                        (write_tiles, (slots, full, free, out, RIGHT, layout))], [4], [32])


@gluon.jit
def load(desc, tiles, full, tile, pred):
    slot = tile % SLOTS
    mbarrier.expect(full.index(slot), desc.block_type.nbytes, pred=pred)
    tma.async_load(desc, [tile * 16, 0], full.index(slot), tiles.index(slot), pred)


@gluon.jit
def one_load_too_many(source, target, n, RIGHT: gl.constexpr):
    """Copy n tiles of 16 rows from one fp16 (16 n, 64) to another; the next tile is loaded ahead, behind the last one, too."""
    tiles = gl.allocate_shared_memory(source.dtype, [SLOTS] + source.block_type.shape, source.layout)
    full = mbarrier.allocate_mbarrier(batch=SLOTS)
    for slot in gl.static_range(SLOTS):
        mbarrier.init(full.index(slot), count=1)
    load(source, tiles, full, 0, True)
    for tile in range(n):
        load(source, tiles, full, tile + 1, tile + 1 < n if RIGHT else True)
        mbarrier.wait(full.index(tile % SLOTS), tile // SLOTS & 1)
        tma.async_store(target, [tile * 16, 0], tiles.index(tile % SLOTS))
        tma.store_wait(0)


@gluon.jit
def rows_for_columns(target, RIGHT: gl.constexpr):
    """Ones in all of a matrix, fp16, tile by tile of 16 x 64, whatever its shape."""
    ROWS: gl.constexpr = target.block_type.shape[0]
    WIDTH: gl.constexpr = target.block_type.shape[1]
    m = target.shape[0] if RIGHT else target.shape[1]
    n = target.shape[1] if RIGHT else target.shape[0]
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    tile = gl.allocate_shared_memory(target.dtype, [ROWS, WIDTH], target.layout, gl.full([ROWS, WIDTH], 1.0, gl.float16, layout))
    fence_async_shared()
    for number in range(gl.cdiv(m, ROWS) * gl.cdiv(n, WIDTH)):
        tma.async_store(target, [number % gl.cdiv(m, ROWS) * ROWS, number // gl.cdiv(m, ROWS) * WIDTH], tile)
        tma.store_wait(0)
