"""`tle.gpu.copy` in all directions: by tensor descriptor of rank 1 to 5 and by pointers, whole blocks and boxes."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_assembly


@mimw.jit
def double_tiles(x, y, tiles, STAGES: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Each tile in, doubled in shared memory, and out again, with no barrier of the author's."""
    buffer = tle.gpu.alloc([STAGES, ROWS, COLS], x.dtype)
    for tile in range(tiles):
        slot = buffer.slot(tile % STAGES)
        tle.gpu.copy(x, slot, [ROWS, COLS], [tile * ROWS, 0])
        pointers = tle.gpu.local_ptr(slot)
        tl.store(pointers, tl.load(pointers) * 2)
        tle.gpu.copy(slot, y, [ROWS, COLS], [tile * ROWS, 0])


@pytest.mark.parametrize("dtype, rows, cols, stages", [(np.float16, 16, 64, 2), (np.float32, 8, 32, 3), (np.float16, 1, 256, 2),
                                                       (np.int8, 4, 16, 1)])
def test_tiles_through_shared_memory(machine, dtype, rows, cols, stages):
    """The last tile is only partly there: zeros come in, and nothing goes out."""
    x = (np.arange((4 * rows + max(1, rows // 2)) * cols) % 50).astype(dtype).reshape(-1, cols)
    y = np.zeros_like(x)
    describe = mimw.TensorDescriptor.from_tensor
    machine.launch(double_tiles, (1, ), describe(x, [rows, cols]), describe(y, [rows, cols]), 5, stages, rows, cols)
    assert (y == x * 2).all()


@mimw.jit
def move_block(x, y, SHAPE: tl.constexpr, AT: tl.constexpr):
    buffer = tle.gpu.alloc(SHAPE, x.dtype)
    tle.gpu.copy(x, buffer, SHAPE, AT)
    tle.gpu.copy(buffer, y, SHAPE, AT)


@pytest.mark.parametrize("shape, at", [((64, ), (32, )), ((8, 16), (0, 16)), ((2, 4, 32), (1, 4, 0)), ((2, 2, 4, 16), (0, 2, 0, 0)),
                                       ((2, 1, 2, 2, 16), (0, 1, 0, 0, 0))])
def test_every_rank(machine, shape, at):
    whole = tuple(2 * extent for extent in shape)
    x = np.arange(np.prod(whole)).astype(np.float32).reshape(whole)
    y = np.zeros_like(x)
    describe = mimw.TensorDescriptor.from_tensor
    machine.launch(move_block, (1, ), describe(x, list(shape)), describe(y, list(shape)), shape, at)
    box = tuple(slice(start, start + extent) for start, extent in zip(at, shape))
    assert (y[box] == x[box]).all() and y.sum(dtype=np.float64) == x[box].sum(dtype=np.float64)


@mimw.jit
def turn_matrices(x, y, count, ROWS: tl.constexpr, COLS: tl.constexpr):
    buffer = tle.gpu.alloc([ROWS, COLS], x.dtype)
    for i in range(count):
        tle.gpu.copy(x, buffer, x.block_shape, [i, 0, 0])
        tle.gpu.copy(buffer, y, [ROWS, COLS], [count - 1 - i, 0, 0])


def test_a_matrix_of_many(machine):
    """The buffer lacks the first dimension of the block, which is single; nothing of a matrix goes to the next one."""
    x = np.arange(3 * 6 * 16, dtype=np.float32).reshape(3, 6, 16)
    y, describe = np.zeros_like(x), mimw.TensorDescriptor.from_tensor
    machine.launch(turn_matrices, (1, ), describe(x, [1, 8, 16]), describe(y, [1, 8, 16]), 3, 8, 16)
    assert (y == x[::-1]).all()


@mimw.jit
def rows_in_slots(x, y, rows, STAGES: tl.constexpr, N: tl.constexpr):
    buffer = tle.gpu.alloc([STAGES, N], x.dtype)
    for row in range(rows):
        tle.gpu.copy(x, buffer.slot(row % STAGES), [N], [row * N])
        tle.gpu.copy(buffer.slot(row % STAGES), y, [N], [row * N])


@pytest.mark.parametrize("stages", [2, 3])
def test_slots_of_one_dimension(machine, stages):
    x = np.arange(1024, dtype=np.float32)
    y, describe = np.zeros_like(x), mimw.TensorDescriptor.from_tensor
    machine.launch(rows_in_slots, (1, ), describe(x, [256]), describe(y, [256]), 4, stages, 256)
    assert (y == x).all()


@mimw.jit
def by_pointers(x, y, ROWS: tl.constexpr, COLS: tl.constexpr):
    """In as a whole; out again turned, through pointers into the buffer, then a box of it by `copy`."""
    buffer = tle.gpu.alloc([ROWS, COLS], x.dtype.element_ty)
    rows, cols = tl.arange(0, ROWS)[:, None], tl.arange(0, COLS)[None, :]
    tle.gpu.copy(x + rows * COLS + cols, buffer, [ROWS, COLS])
    half = tl.arange(0, ROWS // 2)[:, None]
    tle.gpu.copy(buffer, y + half * COLS + cols, [ROWS // 2, COLS])
    tle.gpu.copy(x + cols, buffer, [ROWS, COLS])
    tle.gpu.copy(buffer, y + ROWS // 2 * COLS + rows * COLS + cols, [ROWS, COLS])


@pytest.mark.parametrize("dtype, rows, cols", [(np.float16, 16, 64), (np.int32, 8, 8)])
def test_pointers(machine, dtype, rows, cols):
    x, y = (np.arange(rows * cols) % 100).astype(dtype).reshape(rows, cols), np.zeros((rows + rows // 2, cols), dtype)
    machine.launch(by_pointers, (1, ), x, y, rows, cols)
    assert (y == np.concatenate([x[:rows // 2], np.broadcast_to(x[0], (rows, cols))])).all()


@mimw.jit
def ragged(x, y, EXPERTS: tl.constexpr, ROOM: tl.constexpr):
    """A box shorter than the buffer and than the block of pointers: nothing beyond it is read or written in global memory."""
    buffer = tle.gpu.alloc([ROOM], x.dtype.element_ty)
    at = tl.arange(0, ROOM)
    tle.gpu.copy(x + at, buffer, [EXPERTS])
    tle.gpu.copy(buffer, y + at, [EXPERTS])


def test_a_box_shorter_than_the_block(machine):
    x, y = np.arange(40, dtype=np.int32), np.full(64, -1, np.int32)
    machine.launch(ragged, (1, ), x, y, 40, 64)
    assert (y[:40] == x).all() and (y[40:] == -1).all()


@mimw.jit
def odd_rows(x, y, ROWS: tl.constexpr, COLS: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    """A buffer of A x B, in a block of pointers of ROWS x COLS."""
    buffer = tle.gpu.alloc([A, B], x.dtype.element_ty)
    rows, cols = tl.arange(0, ROWS)[:, None], tl.arange(0, COLS)[None, :]
    tle.gpu.copy(x + rows * B + cols, buffer, [A, B])
    tle.gpu.copy(buffer, y + rows * B + cols, [A, B])


def test_a_buffer_that_is_no_power_of_two(machine):
    x, y = np.arange(60, dtype=np.float32).reshape(5, 12), np.zeros((5, 12), np.float32)
    machine.launch(odd_rows, (1, ), x, y, 8, 16, 5, 12)
    assert (y == x).all()


def test_tma_and_its_fences_in_the_right_order():
    """Stores, fence, barrier, TMA store; and a barrier between the wait for it and the next round."""
    block = "tensordesc<fp16[16,64]>"
    sizes = dict(STAGES=2, ROWS=16, COLS=64)
    ptx = to_assembly(double_tiles, {"x": block, "y": block, "tiles": "i32"}, sizes, "sm_90a").stages["ptx"]
    marks = [("st.shared.b16", "store"), ("st.shared.v", "store"), ("fence.proxy.async", "fence"), ("bar.sync", "sync"),
             ("cp.async.bulk.tensor.2d.shared", "load"), ("cp.async.bulk.tensor.2d.global", "save"), ("bulk.wait_group", "wait")]
    seen = [name for line in ptx.splitlines() for text, name in marks if text in line]
    order = [name for index, name in enumerate(seen) if index == 0 or seen[index - 1] != name]
    load, save = order.index("load"), order.index("save")
    assert order[load - 1] == "sync" and "fence" in order[:load]
    assert order[save - 3:save + 3] == ["store", "fence", "sync", "save", "wait", "sync"]


def test_a_pipe_takes_the_load():
    """Between a pipe's acquire and its commit, a load into the slot is the pipe's to complete; others complete by themselves."""
    from mimw.compiler.passes import drop_unused, expand_pipes
    from tests.language.harness import Kernel
    kernel = Kernel()
    desc, pointers = kernel.descriptor("desc", tl.float16, 16, 32), kernel.tensor("x", tl.pointer_type(tl.float16), 16, 32)
    fields = {name: kernel(tle.gpu.alloc, (2, 16, 32), tl.float16) for name in ("a", "b")}
    other = kernel(tle.gpu.alloc, (16, 32), tl.float16)
    writer = kernel(kernel(tle.pipe, capacity=2, **fields).writer)
    slot = kernel(writer.acquire, 0)
    kernel(tle.gpu.copy, desc, slot.fields["a"], [16, 32], [0, 0])
    kernel(tle.gpu.copy, pointers, slot.fields["b"], [16, 32])
    kernel(tle.gpu.copy, desc, other, [16, 32], [0, 0])
    kernel(tle.gpu.copy, pointers, other, [16, 32])
    kernel(writer.commit, 0)
    copies = [op for op in drop_unused(expand_pipes(kernel.program())).body.ops if op.name.startswith(("tma", "async"))]
    assert [op.name for op in copies] == ["tma_load", "async_load", "tma_fetch", "async_load", "async_commit", "async_wait",
                                          "async_commit", "async_wait"]
    assert ["of_copy" in op.attrs for op in copies] == [False, False, False, True, True, True, False, False]
    assert copies[0].descriptor is copies[2].descriptor and copies[1].buffer is not copies[3].buffer


@mimw.jit
def streamed(x, y, POLICY: tl.constexpr):
    """One block by a pipe, one without, and out again."""
    one = tle.pipe(capacity=1, x=tle.gpu.alloc([1, 16, 64], x.dtype))
    other = tle.gpu.alloc([16, 64], x.dtype)
    writer, reader = one.writer(), one.reader()
    tle.gpu.copy(x, writer.acquire(0).x, [16, 64], [0, 0], eviction_policy=POLICY)
    writer.commit(0)
    tle.gpu.copy(x, other, [16, 64], [16, 0], eviction_policy=POLICY)
    tle.gpu.copy(reader.wait(0).slot.x, y, [16, 64], [0, 0], eviction_policy=POLICY)
    reader.release(0)
    tle.gpu.copy(other, y, [16, 64], [16, 0], eviction_policy=POLICY)


@pytest.mark.parametrize("policy", ["", "evict_first", "evict_last"])
def test_eviction_policies(machine, policy):
    x = np.arange(32 * 64).astype(np.float16).reshape(32, 64)
    y, describe = np.zeros_like(x), mimw.TensorDescriptor.from_tensor
    machine.launch(streamed, (1, ), describe(x, [16, 64]), describe(y, [16, 64]), policy)
    assert (y == x).all()
    block = "tensordesc<fp16[16,64]>"
    ptx = to_assembly(streamed, {"x": block, "y": block}, dict(POLICY=policy), "sm_90a").stages["ptx"]
    assert ptx.count(".L2::cache_hint") == (4 if policy else 0)
    assert (f"createpolicy.fractional.L2::{policy}" in ptx) == bool(policy)


@pytest.mark.parametrize("policy, by, text", [("evict_normal", "desc", "eviction_policy must be one of"),
                                              ("evict_first", "pointers", "belongs to a block of a tensor descriptor")])
def test_refused_policies(policy, by, text):
    from tests.language.harness import Kernel
    kernel = Kernel()
    tile = kernel(tle.gpu.alloc, (16, 32), tl.float16)
    if by == "desc":
        given = kernel.descriptor("desc", tl.float16, 16, 32), tile, [16, 32], [0, 0]
    else:
        given = kernel.tensor("x", tl.pointer_type(tl.float16), 16, 32), tile, [16, 32]
    with pytest.raises(ValueError, match=text):
        kernel(tle.gpu.copy, *given, eviction_policy=policy)


def test_no_tma_on_older_chips():
    block = "tensordesc<fp16[16,64]>"
    with pytest.raises(Exception, match="sm_80 cannot do 'tle.gpu.copy from a tensor descriptor'"):
        compile_kernel(double_tiles, {"x": block, "y": block, "tiles": "i32"}, dict(STAGES=2, ROWS=16, COLS=64), "sm_80")


@pytest.mark.parametrize("target", ["sm_80", "sm_100a", "gfx942", "gfx950"])
def test_pointers_on_other_targets(target):
    assert compile_kernel(by_pointers, {"x": "*fp16", "y": "*fp16"}, dict(ROWS=16, COLS=64), target).stages


@mimw.jit
def two_at_once(x, w, y, AGAIN: tl.constexpr, N: tl.constexpr, BY: tl.constexpr):
    """Two copies with nothing between them; with AGAIN, both into one buffer."""
    a, b = tle.gpu.alloc([N, N], tl.float16), tle.gpu.alloc([N, N], tl.float16)
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    if BY == "tma":
        tle.gpu.copy(x, a, [N, N], [0, 0])
        tle.gpu.copy(w, a if AGAIN else b, [N, N], [0, 0])
    else:
        tle.gpu.copy(x + at, a, [N, N])
        tle.gpu.copy(w + at, a if AGAIN else b, [N, N])
    total = tl.load(tle.gpu.local_ptr(a))
    if not AGAIN:
        total += tl.load(tle.gpu.local_ptr(b))
    tl.store(y + at, total)


@pytest.mark.parametrize("by", ["tma", "pointers"])
@pytest.mark.parametrize("again", [False, True])
def test_copies_in_a_row(machine, again, by):
    x, w = (np.random.default_rng(seed).integers(0, 99, (64, 64)).astype(np.float16) for seed in (0, 1))
    y, describe = np.zeros_like(x), mimw.TensorDescriptor.from_tensor
    sources = (describe(x, [64, 64]), describe(w, [64, 64])) if by == "tma" else (x, w)
    machine.launch(two_at_once, (1, ), *sources, y, again, 64, by)
    assert (y == (w if again else x + w)).all()


@pytest.mark.parametrize("by, wait", [("tma", "mbarrier.try_wait"), ("pointers", "cp.async.wait_group")])
@pytest.mark.parametrize("again, waits", [(False, 1), (True, 2)])
def test_copies_in_a_row_are_waited_for_once(again, waits, by, wait):
    kind = "tensordesc<fp16[64,64]>" if by == "tma" else "*fp16"
    attrs = None if by == "tma" else {(0, ): [["tt.divisibility", 16]], (1, ): [["tt.divisibility", 16]]}
    ptx = to_assembly(two_at_once, {"x": kind, "w": kind, "y": "*fp16"}, dict(AGAIN=again, N=64, BY=by), "sm_90a",
                      attrs=attrs).stages["ptx"]
    assert ptx.count(wait) == waits
