"""Small kernels of Gluon's, which are launched, simulated and checked.

    scaled[(2, )](x, y, 200, 1.5, BLOCK=128)                y = 1.5 x, behind a mask
    column_sums[(1, )](x_desc, y, 7, SLOTS=2, WAITS=True)   y = the sum of x (7 * 16, 64) over its rows, through a ring; without
                                                            WAITS a tile is read before it has landed

Input: arrays or torch tensors, Gluon's descriptors of them. Output: the arrays. Shapes: as above; the mistake is the missing wait.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

ROWS, COLUMNS = gl.constexpr(16), gl.constexpr(64)


@gluon.jit
def scaled(x, y, n, factor, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([2], [32], [gl.num_warps()], [0])
    at = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout)
    gl.store(y + at, factor * gl.load(x + at, mask=at < n), mask=at < n)


@gluon.jit
def column_sums(x_desc, y, n, SLOTS: gl.constexpr, WAITS: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 2], [1, 32], [4, 1], [1, 0])
    tiles = gl.allocate_shared_memory(gl.float32, [SLOTS, ROWS, COLUMNS], x_desc.layout)
    full = mbarrier.allocate_mbarrier(batch=SLOTS)
    for first in gl.static_range(SLOTS):
        mbarrier.init(full.index(first), count=1)
        mbarrier.expect(full.index(first), x_desc.block_type.nbytes, pred=first < n)
        tma.async_load(x_desc, [first * ROWS, 0], full.index(first), tiles.index(first), first < n)
    sums = gl.zeros([ROWS, COLUMNS], gl.float32, layout)
    for tile in range(n):
        slot = tile % SLOTS
        if WAITS:
            mbarrier.wait(full.index(slot), tile // SLOTS & 1)
        sums += tiles.index(slot).load(layout)     # READ
        further = tile + SLOTS < n
        mbarrier.expect(full.index(slot), x_desc.block_type.nbytes, pred=further)
        tma.async_load(x_desc, [(tile + SLOTS) * ROWS, 0], full.index(slot), tiles.index(slot), further)
    gl.store(y + gl.arange(0, COLUMNS, gl.SliceLayout(0, layout)), gl.sum(sums, 0))


def tiles_of(x):
    """The descriptor of a float32 tensor that `column_sums` takes."""
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    block = [ROWS.value, COLUMNS.value]
    return TensorDescriptor.from_tensor(x, block, gl.NVMMASharedLayout.get_default_for(block, gl.float32))
