"""Pointers into shared memory: every index form, arithmetic, control flow and calls, against numpy."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel
from tests.kernels.swizzled import swizzled
from tests.tle.compiling import refused


@mimw.jit
def grid_of(ROWS: tl.constexpr, COLS: tl.constexpr):
    """Row and column of each element of a tile."""
    rows = tl.broadcast_to(tl.arange(0, ROWS)[:, None], (ROWS, COLS))
    return rows, tl.broadcast_to(tl.arange(0, COLS)[None, :], (ROWS, COLS))


@mimw.jit
def reverse_rows(x, y, ROWS: tl.constexpr, COLS: tl.constexpr, MMA: tl.constexpr):
    buffer = tle.gpu.alloc([ROWS, COLS], x.dtype.element_ty, swizzled([ROWS, COLS], x.dtype.element_ty, MMA))
    rows, cols = grid_of(ROWS, COLS)
    tl.store(tle.gpu.local_ptr(buffer), tl.load(x + rows * COLS + cols))
    picked = tl.load(tle.gpu.local_ptr(buffer, (ROWS - 1 - rows, cols)), mask=cols < COLS - 3, other=7)
    tl.store(y + rows * COLS + cols, picked)


@pytest.mark.parametrize("mma", [True, False])
@pytest.mark.parametrize("dtype, rows, cols", [(np.float32, 16, 32), (np.float16, 8, 128), (np.int8, 64, 4), (np.int64, 4, 16),
                                               (np.float16, 1, 8)])
def test_full_view_in_and_picked_elements_out(machine, dtype, rows, cols, mma):
    x = (np.arange(rows * cols) % 100).astype(dtype).reshape(rows, cols)
    y = np.zeros_like(x)
    machine.launch(reverse_rows, (1, ), x, y, rows, cols, mma)
    expected = x[::-1].copy()
    expected[:, cols - 3:] = 7
    assert (y == expected).all()


@mimw.jit
def scalars(x, y, N: tl.constexpr):
    """Every element through its own scalar pointer, of an i64 index, a loop counter and an int."""
    buffer = tle.gpu.alloc((2, N), x.dtype.element_ty)
    rows, cols = grid_of(2, N)
    tl.store(tle.gpu.local_ptr(buffer), tl.load(x + rows * N + cols))
    for i in range(N):
        at = i.to(tl.int64)
        old = tl.load(tle.gpu.local_ptr(buffer, (1, at)), mask=i != 3, other=50)
        tl.store(tle.gpu.local_ptr(buffer, (0, i)), old * 2, mask=i != 5)
    tl.store(y + tl.arange(0, N), tl.load(tle.gpu.local_ptr(buffer, (tl.zeros([N], tl.int32), tl.arange(0, N)))))


@pytest.mark.parametrize("warps", [1, 4])
def test_scalar_pointers_see_what_was_stored_before(machine, warps):
    x, y = np.arange(32, dtype=np.float32).reshape(2, 16), np.zeros(16, np.float32)
    machine.launch(scalars, (1, ), x, y, 16, num_warps=warps)
    expected = x[1] * 2
    expected[3], expected[5] = 100, x[0, 5]
    assert (y == expected).all()


@mimw.jit
def step_forward(pointer, by):
    return pointer + by


@mimw.jit
def walk(x, y, rounds, N: tl.constexpr, MMA: tl.constexpr):
    """A pointer that moves through a loop, an `if`, a `while`, a helper and shape words."""
    buffer = tle.gpu.alloc([N, N], x.dtype.element_ty, swizzled([N, N], x.dtype.element_ty, MMA))
    rows, cols = grid_of(N, N)
    tl.store(tle.gpu.local_ptr(buffer), tl.load(x + rows * N + cols))
    along = tl.arange(0, N)
    row = tle.gpu.local_ptr(buffer, (0, 0)) + along
    total = tl.zeros([N], x.dtype.element_ty)
    for i in range(rounds):
        if i % 2 == 0:
            seen = row
        else:
            seen = step_forward(row, 1) - 1
        total += tl.load(seen)
        row = step_forward(row, N)
    tl.store(y + along, total)
    corner, left = tle.gpu.local_ptr(buffer, (N - 1, N - 1)), N
    while left > 0:
        left -= 1
        tl.store(y + N + left, tl.load(corner))
        corner -= N + 1
    column = tle.gpu.local_ptr(buffer, (along, tl.full([N], 1, tl.int32)))
    block = tl.broadcast_to(tl.expand_dims(column, 1), (N, 2)) + tl.arange(0, 2)[None, :]
    flat = tl.load(tl.reshape(block, (2 * N, )))
    tl.store(y + 2 * N + tl.arange(0, 2 * N), flat)


@pytest.mark.parametrize("mma", [True, False])
def test_arithmetic_control_flow_and_helpers(machine, mma):
    n, rounds = 16, 5
    x, y = np.random.default_rng(0).integers(0, 100, (n, n)).astype(np.float32), np.zeros(4 * n, np.float32)
    machine.launch(walk, (1, ), x, y, rounds, n, mma)
    assert (y[:n] == x[:rounds].sum(0)).all() and (y[n:2 * n] == x.diagonal()).all()
    assert (y[2 * n:] == x[:, 1:3].reshape(-1)).all()


@mimw.jit
def slots(x, y, STAGES: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Slots of an array whose number need not be a power of two; then the whole array, by all three indices."""
    buffer = tle.gpu.alloc([STAGES, ROWS, COLS], x.dtype.element_ty)
    rows, cols = grid_of(ROWS, COLS)
    for stage in range(STAGES):
        pointers = tle.gpu.local_ptr(buffer.slot(stage))
        tl.store(pointers, tl.load(x + (stage * ROWS + rows) * COLS + cols))
        tl.store(tle.gpu.local_ptr(buffer.slot(stage), (rows, cols)), tl.load(pointers) + stage)
    at = tl.arange(0, 64)
    stage, row, col = at % STAGES, at % ROWS, at * 7 % COLS
    tl.store(y + at, tl.load(tle.gpu.local_ptr(buffer, (stage, row, col))))


@pytest.mark.parametrize("stages, rows, cols", [(2, 8, 64), (3, 8, 64), (3, 4, 4)])
def test_slots(machine, stages, rows, cols):
    x, y = np.random.default_rng(1).integers(0, 99, (stages, rows, cols)).astype(np.float16), np.zeros(64, np.float16)
    machine.launch(slots, (1, ), x, y, stages, rows, cols)
    at = np.arange(64)
    assert (y == x[at % stages, at % rows, at * 7 % cols] + at % stages).all()


@mimw.jit
def odd_extents(x, y, A: tl.constexpr, B: tl.constexpr, N: tl.constexpr):
    """An array of A x B, neither a power of two, filled and read by row-major position and by index."""
    buffer = tle.gpu.alloc([A, B], x.dtype.element_ty)
    at = tl.arange(0, N)
    first = tle.gpu.local_ptr(buffer, (0, 0))
    tl.store(first + at, tl.load(x + at, mask=at < A * B, other=0), mask=at < A * B)
    turned = tl.load(tle.gpu.local_ptr(buffer, (at % A, at // A)), mask=at < A * B, other=0)
    tl.store(y + at, turned, mask=at < A * B)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_extents_that_are_no_powers_of_two(machine, dtype):
    x = np.arange(5 * 11).astype(dtype).reshape(5, 11)
    y = np.zeros((11, 5), dtype)
    machine.launch(odd_extents, (1, ), x, y, 5, 11, 64)
    assert (y == x.T).all()


@mimw.jit
def masked(x, mask, y, ROWS: tl.constexpr, COLS: tl.constexpr, MMA: tl.constexpr):
    """Stores that leave memory alone where the mask is false, also of one value for all."""
    buffer = tle.gpu.alloc([ROWS, COLS], x.dtype.element_ty, swizzled([ROWS, COLS], x.dtype.element_ty, MMA))
    rows, cols = grid_of(ROWS, COLS)
    at = rows * COLS + cols
    asked = tl.load(mask + at) != 0
    view = tle.gpu.local_ptr(buffer)
    tl.store(view, 1)
    tl.store(view, tl.load(x + at), mask=asked)
    tl.store(tle.gpu.local_ptr(buffer, (rows, cols)), 5, mask=(cols == 0) & asked)
    # An index that is out of range where the mask is false.
    tl.store(tle.gpu.local_ptr(buffer, (rows + 10000 * (cols > 0), cols)), 6, mask=(cols == 0) & (rows == 0))
    tl.store(y + at, tl.load(view, mask=rows < ROWS - 1, other=9))


@pytest.mark.long(everywhere=["float16-False-1", "float64-False-1", "int32-True-4", "uint8-True-1"])
@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("mma", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.float16, np.uint8])
def test_masked_stores(machine, dtype, mma, warps):
    random = np.random.default_rng(2)
    x, mask = random.integers(20, 90, (8, 16)).astype(dtype), random.integers(0, 2, (8, 16), np.int8)
    y = np.zeros_like(x)
    machine.launch(masked, (1, ), x, mask, y, 8, 16, mma, num_warps=warps)
    expected = np.where(mask != 0, x, dtype(1))
    expected[:, 0] = np.where(mask[:, 0] != 0, dtype(5), expected[:, 0])
    expected[0, 0], expected[-1] = 6, 9
    assert (y == expected).all()


@mimw.jit
def started(x, y, flags, N: tl.constexpr):
    """init_value, rank 0, bool, and a buffer of TLX."""
    at = tl.arange(0, N)
    filled = tle.gpu.alloc([N], tl.int32, init_value=tl.full([N], 3, tl.int32))
    one = tle.gpu.alloc([], tl.int32)
    tl.store(tle.gpu.local_ptr(one), tl.sum(tl.load(tle.gpu.local_ptr(filled))))
    even = tle.gpu.alloc([N], tl.int1)
    tl.store(tle.gpu.local_ptr(even), at % 2 == 0)
    theirs = tlx.local_alloc((N, ), tl.int32, 2)
    tl.store(tle.gpu.local_ptr(theirs[1]), tl.load(x + at))
    back = tl.load(tle.gpu.local_ptr(theirs, (tl.full([N], 1, tl.int32), N - 1 - at)))
    tl.store(y + at, back + tl.load(tle.gpu.local_ptr(one)))
    tl.store(flags + at, tl.load(tle.gpu.local_ptr(even, (N - 1 - at, ))).to(tl.int8))


def test_init_value_rank_0_bool_and_buffers_of_tlx(machine):
    x, y, flags = np.arange(32, dtype=np.int32), np.zeros(32, np.int32), np.zeros(32, np.int8)
    machine.launch(started, (1, ), x, y, flags, 32)
    assert (y == x[::-1] + 96).all() and (flags == np.arange(32) % 2).all()


@mimw.jit
def exchange(x, y, N: tl.constexpr):
    """Two tasks, each of its own warps, that hand a tile on through pointers and barriers."""
    buffer = tle.gpu.alloc([N], tl.float32)
    full = tlx.alloc_barriers(1)
    tle.gpu.local_ptr(buffer)  # nobody uses it
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, N)
            tlx.barrier_wait(full[0], 0)
            tl.store(y + at, tl.load(tle.gpu.local_ptr(buffer, (N - 1 - at, ))))
        with tlx.async_task(num_warps=2):
            at = tl.arange(0, N)
            tl.store(tle.gpu.local_ptr(buffer), tl.load(x + at))
            tlx.barrier_arrive(full[0])


def test_in_tasks(machine):
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    machine.launch(exchange, (1, ), x, y, 256)
    assert (y == x[::-1]).all()


def test_ttgir_of_a_view_and_of_picked_elements():
    compiled = compile_kernel(reverse_rows, {"x": "*fp16", "y": "*fp16"}, dict(ROWS=16, COLS=64, MMA=True), "sm_90a")
    ttgir = compiled.stages["ttgir"]
    assert ttgir.count("ttg.local_store") == 1 and ttgir.count("ttg.local_gather") == 1 and compiled.stages["cubin"]


@pytest.mark.parametrize("target", ["sm_80", "sm_100a", "gfx942", "gfx950"])
def test_other_targets(target):
    assert compile_kernel(walk, {"x": "*fp32", "y": "*fp32", "rounds": "i32"}, dict(N=16, MMA=True), target).stages


@mimw.jit
def views(x, y, at):
    """Pointers into a slice and into a transpose of a TLX buffer; a choice between two slots of one array."""
    tiles = tlx.local_alloc((32, 64), tlx.dtype_of(x), 2)
    rows, cols = grid_of(32, 64)
    tlx.local_store(tiles[1], tl.load(x + rows * 64 + cols))
    tlx.local_store(tiles[0], tl.load(x + rows * 64 + cols) + 100)
    i = tl.arange(0, 16)
    part, turned = tlx.local_slice(tiles[1], [at, 0], [16, 64]), tlx.local_trans(tiles[1])
    tl.store(y + i, tl.load(tle.gpu.local_ptr(part, (i, i * 3))))
    tl.store(y + 16 + i, tl.load(tle.gpu.local_ptr(turned, (i * 3, i))))
    first, second = tle.gpu.local_ptr(tiles[0], (i, i)), tle.gpu.local_ptr(tiles[1], (i, i))
    tl.store(y + 32 + i, tl.load(tl.where(i % 2 == 0, first, second)))
    if at > 0:
        chosen = tle.gpu.local_ptr(tiles[0])
    else:
        chosen = tle.gpu.local_ptr(tiles[1])
    tl.store(y + 64 + rows * 64 + cols, tl.load(chosen))


def test_views_of_tlx_and_a_choice_between_slots(machine):
    x, y = np.random.default_rng(3).integers(0, 99, (32, 64)).astype(np.float32), np.zeros(64 + 2048, np.float32)
    machine.launch(views, (1, ), x, y, 16)
    i = np.arange(16)
    assert (y[:16] == x[16:][i, i * 3]).all() and (y[16:32] == x.T[i * 3, i]).all()
    assert (y[32:48] == x[i, i] + 100 * (i % 2 == 0)).all() and (y[64:].reshape(32, 64) == x + 100).all()


@mimw.jit
def bytes_of_eight(x, y, N: tl.constexpr):
    buffer = tle.gpu.alloc([N], x.dtype.element_ty)
    at = tl.arange(0, N)
    pointers, turned = tle.gpu.local_ptr(buffer), tle.gpu.local_ptr(buffer, (N - 1 - at, ))
    tl.store(pointers, tl.load(x + at))
    tl.store(pointers, tl.load(turned), mask=at < 4)
    tl.store(y + at, tl.load(turned))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "bfloat16"])
def test_small_floats(machine, dtype):
    import ml_dtypes
    x = np.arange(64, dtype=np.float32).astype(getattr(ml_dtypes, dtype))
    y = np.zeros_like(x)
    machine.launch(bytes_of_eight, (1, ), x, y, 64)
    expected = x.copy()
    expected[:4] = x[:-5:-1]
    assert (y.view(np.uint8) == expected[::-1].copy().view(np.uint8)).all()


@mimw.jit
def no_pointers(out, mesh: tl.constexpr, CASE: tl.constexpr):
    buffer = tle.gpu.alloc([16], tl.int32)
    if CASE == "load":
        tl.load(buffer)
    elif CASE == "store":
        tl.store(tle.remote(buffer, 1, mesh), 1)
    elif CASE == "atomic_max":
        tl.atomic_max(buffer, 1)
    elif CASE == "atomic_cas":
        tl.atomic_cas(buffer, 1, 2)
    else:
        tl.load(tle.make_sharded_tensor(out, tle.sharding(mesh, ["cluster"]), [16]))


@pytest.mark.parametrize("case, way", [("load", "tle.gpu.local_ptr(buffer), or all"), ("store", "tle.gpu.local_ptr(buffer)"),
                                       ("atomic_max", "tl.atomic_max: takes"), ("atomic_cas", "tl.atomic_cas: takes"),
                                       ("a shard", "tle.remote(tensor, shard)")])
def test_buffers_and_shards_are_no_pointers(case, way):
    refused(ValueError, way, no_pointers, {"out": "*i32"}, mesh=tle.device_mesh({"cluster": 2}), CASE=case)


@mimw.jit
def spread(x, y, RANK: tl.constexpr):
    """Indices that differ in extents of 1, for loads, stores and atomics; as a column, a row, and a plane of three."""
    rows, cols = tl.arange(0, 32)[:, None], tl.arange(0, 64)[None, :]
    if RANK == 2:
        buffer = tle.gpu.alloc([32, 64], tl.int32)
        tl.store(tle.gpu.local_ptr(buffer, (rows, cols)), tl.load(x + rows * 64 + cols))
        tl.atomic_add(tle.gpu.local_ptr(buffer, (rows, tl.zeros([1, 1], tl.int32) + 3)), tl.full([32, 1], 100, tl.int32))
        tl.store(y + rows * 64 + cols, tl.load(tle.gpu.local_ptr(buffer, (31 - rows, cols))))
    else:
        buffer = tle.gpu.alloc([2, 32, 64], tl.int32)
        plane = tl.arange(0, 2)[:, None, None]
        at = (plane, rows[None, :, :], cols[None, :, :])
        tl.store(tle.gpu.local_ptr(buffer, at), tl.load(x + rows * 64 + cols)[None, :, :] + plane)
        tl.store(y + rows * 64 + cols, tl.sum(tl.load(tle.gpu.local_ptr(buffer, at)), 0))


@pytest.mark.parametrize("rank", [2, 3])
def test_rows_of_a_column_and_columns_of_a_row_are_spread(machine, rank):
    x, y = np.arange(32 * 64, dtype=np.int32).reshape(32, 64), np.zeros((32, 64), np.int32)
    machine.launch(spread, (1, ), x, y, rank)
    if rank == 2:
        x[:, 3] += 100
    assert (y == (x[::-1] if rank == 2 else 2 * x + 1)).all()


@mimw.jit
def spread_operands(x, y):
    """The design's own: rows of [64, 1] and columns of [1, 64], which are a box that `tl.dot` reads where it lies."""
    buffer = tle.gpu.alloc([64, 64], tl.float16, nv_mma_shared_layout=True)
    rows, cols = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    tl.store(tle.gpu.local_ptr(buffer, (rows, cols)), tl.load(x + rows * 64 + cols))
    tile = tl.load(tle.gpu.local_ptr(buffer, (rows, cols)))
    tl.store(y + rows * 64 + cols, tl.dot(tile, tl.load(tle.gpu.local_ptr(buffer, (rows, cols)))))


def test_a_box_of_spread_indices_is_an_operand(machine):
    x, y = (np.random.default_rng(1).integers(-3, 3, (64, 64))).astype(np.float16), np.zeros((64, 64), np.float32)
    machine.launch(spread_operands, (1, ), x, y)
    assert (y == x.astype(np.float32) @ x.astype(np.float32)).all()


def test_it_is_read_where_it_lies():
    compiled = compile_kernel(spread_operands, {"x": "*fp16", "y": "*fp32"}, {}, "sm_90a")
    assert "wgmma" in compiled.ptx and "ttg.local_gather" not in compiled.ttgir and "ttg.local_load" not in compiled.ttgir
    assert "ttg.local_gather" not in compile_kernel(spread_operands, {"x": "*fp16", "y": "*fp32"}, {}, "sm_100a").ttgir


@mimw.jit
def no_spread(out):
    buffer = tle.gpu.alloc([16, 16], tl.int32)
    tl.store(tle.gpu.local_ptr(buffer, (tl.arange(0, 16), tl.arange(0, 8))), 1)


def test_what_does_not_broadcast():
    refused(ValueError, "[16], [8] do not broadcast to one shape", no_spread, {"out": "*i32"})


@mimw.jit
def broadcast_indices(x, y, number, CASE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Elements of a buffer of three dimensions, picked by indices of several ranks."""
    buffer = tle.gpu.alloc([4, ROWS, COLS], tl.float32)
    planes, rows, cols = tl.arange(0, 4), tl.arange(0, ROWS), tl.arange(0, COLS)
    whole = planes[:, None, None] * (ROWS * COLS) + rows[:, None] * COLS + cols
    tl.store(tle.gpu.local_ptr(buffer, (planes[:, None, None], rows[:, None], cols)), tl.load(x + whole))
    if CASE == "ranks":
        at = (rows[:, None] % 4, rows[:, None], cols)
    elif CASE == "argument":
        at = (number, rows[:, None], cols)
    elif CASE == "vector":
        at = (cols % 4, cols % ROWS, cols)
    elif CASE == "scalars":
        at = (3, number, cols)
    else:
        at = ((planes[:, None, None], cols * 0, COLS - 1 - cols))
    picked = tl.load(tle.gpu.local_ptr(buffer, at))
    if CASE == "ranks" or CASE == "argument":
        tl.store(y + rows[:, None] * COLS + cols, picked)
    elif CASE == "planes":
        tl.store(y + planes[:, None, None] * COLS + cols, picked)
    else:
        tl.store(y + cols, picked)


@pytest.mark.parametrize("case", ["ranks", "argument", "vector", "scalars", "planes"])
@pytest.mark.parametrize("rows, cols", [(8, 16), (5, 12)])
def test_indices_broadcast_as_numpys_do(machine, case, rows, cols):
    x = np.arange(4 * rows * cols, dtype=np.float32).reshape(4, rows, cols)
    row, col = np.arange(rows), np.arange(cols)
    picked = {"ranks": (row[:, None] % 4, row[:, None], col), "argument": (2, row[:, None], col),
              "vector": (col % 4, col % rows, col), "scalars": (3, 2, col),
              "planes": (np.arange(4)[:, None, None], col * 0, cols - 1 - col)}[case]
    expected = x[picked]
    y = np.zeros_like(expected)
    machine.launch(broadcast_indices, (1, ), x, y, 2, case, rows, cols)
    assert (y == expected).all()


@pytest.mark.parametrize("rows, cols", [(8, 16), (5, 12)])
def test_broadcast_indices_compile(rows, cols):
    types = {"x": "*fp32", "y": "*fp32", "number": "i32"}
    for case, target in (("ranks", "sm_90a"), ("planes", "sm_100a"), ("scalars", "sm_80")):
        text = compile_kernel(broadcast_indices, types, {"CASE": case, "ROWS": rows, "COLS": cols}, target).ttgir
        assert "ttg.local_gather" in text or "ttg.local_load" in text
