"""Words that become others on AMD's chips: the same numbers as on sm_90a, at the edges too; what is refused, and how.

Nothing here has run on a chip of AMD.
"""

import re

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.backends.driver import expand_signature

import mimw
from mimw import TensorDescriptor, tle, tlx
from mimw.errors import KernelError, TargetError
from tests.compiling import to_assembly

AMD = ("gfx942", "gfx950", "gfx1250")


def cause(error):
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def same_as_on_hopper(kernel, arrays, launch, **meta):
    """Simulate on sm_90a and on each chip of AMD, with a look for races; `launch(arrays)` gives the arguments. The arrays of
    sm_90a, to which all others are equal."""
    found = {}
    for chip in ("sm_90a", *AMD):
        found[chip] = [array.copy() for array in arrays]
        mimw.simulate(kernel, (1, ), *launch(*found[chip]), target=chip, races=True, **meta)
        for mine, hoppers in zip(found[chip], found["sm_90a"]):
            np.testing.assert_array_equal(mine, hoppers)
    return found["sm_90a"]


@mimw.jit
def block(x, y, row, column, go, N: tl.constexpr):
    """A block by barrier, if `go`, into a buffer of threes, and out again at a place of its own."""
    tile = tlx.local_alloc((N, N), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    tlx.local_store(tile[0], tl.full((N, N), 3, tl.float16))
    tlx.fence("async_shared")
    tlx.barrier_expect_bytes(full[0], N * N * 2, pred=go != 0)
    tlx.async_descriptor_load(x, tile[0], [row, column], full[0], pred=go != 0)
    tlx.barrier_wait(full[0], 0, pred=go != 0)
    tlx.async_descriptor_store(y, tile[0], [N // 2, 8])
    tlx.async_descriptor_store_wait(0)


@pytest.mark.parametrize("padding", ["zero", "nan"])
@pytest.mark.parametrize("row, column, go", [(0, 0, 1), (-8, 16, 1), (24, -8, 1), (40, 0, 1), (16, 0, 0)])
def test_blocks_over_the_edges(padding, row, column, go):
    x = np.random.default_rng(0).standard_normal((40, 24)).astype(np.float16)
    described = TensorDescriptor.from_tensor
    _, y = same_as_on_hopper(block, [x, np.zeros((32, 24), np.float16)],
                             lambda x, y: (described(x, [16, 16], padding), described(y, [16, 16]), row, column, go), N=16)
    outside = np.nan if padding == "nan" else 0
    full = np.full((72, 56), outside, np.float16)
    full[16:56, 16:40] = x
    wanted = full[16 + row:32 + row, 16 + column:32 + column] if go else np.full((16, 16), 3, np.float16)
    np.testing.assert_array_equal(y[8:24, 8:24], wanted)
    assert not y[:8].any() and not y[24:].any() and not y[:, :8].any()


@mimw.jit
def ranked(x, y, batch):
    """A block of one matrix of a batch, into a buffer without that dimension."""
    tile = tlx.local_alloc((8, 16), tl.float32, 1)
    tle.gpu.copy(x, tile[0], [8, 16], [batch, 8, 0])
    tle.gpu.copy(tile[0], y, [8, 16], [batch, 0, 0])


@pytest.mark.parametrize("batch", [1, 3])
def test_leading_dimensions(batch):
    x = np.random.default_rng(0).standard_normal((3, 12, 16)).astype(np.float32)
    described = TensorDescriptor.from_tensor
    _, y = same_as_on_hopper(ranked, [x, np.zeros((3, 8, 16), np.float32)],
                             lambda x, y: (described(x, [1, 8, 16]), described(y, [1, 8, 16]), batch))
    assert (y[1, :4] == x[1, 8:]).all() == (batch == 1) and not y[0].any()


@mimw.jit
def rows(x, y, picked, N: tl.constexpr):
    """Rows that a tile picks, by barrier, and out again to the rows of another order."""
    tile = tlx.local_alloc((N, 16), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    numbers = tl.load(picked + tl.arange(0, N))
    tlx.barrier_expect_bytes(full[0], N * 64)
    tlx.async_descriptor_gather(x, tile[0], numbers, 8, full[0])
    tlx.barrier_wait(full[0], 0)
    tlx.async_descriptor_scatter(y, tile[0], tl.arange(0, N) ^ 1, 0)
    tlx.async_descriptor_store_wait(0)


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_picked_rows(padding):
    x = np.random.default_rng(0).standard_normal((12, 24)).astype(np.float32)
    picked, described = np.array([3, 11, 0, 12, 5, -1, 5, 7], np.int32), TensorDescriptor.from_tensor
    _, y, _ = same_as_on_hopper(rows, [x, np.zeros((7, 16), np.float32), picked],
                                lambda x, y, picked: (described(x, [1, 16], padding), described(y, [1, 16]), picked), N=8)
    wanted = np.full((8, 16), np.nan if padding == "nan" else 0, np.float32)
    there = (picked >= 0) & (picked < 12)
    wanted[there] = x[picked[there], 8:]
    np.testing.assert_array_equal(y, wanted[np.arange(7) ^ 1])


@mimw.jit
def made(x, y, extent, stride, DTYPE: tl.constexpr):
    """Descriptors that the kernel makes, and Triton's own words on them, beside a word of ours."""
    tlx.fence("async_shared")
    source = tl.make_tensor_descriptor(x, [extent, extent], [stride, 1], [8, 16], padding_option="nan")
    target = tlx.make_tensor_descriptor(None, y, [extent, 16], [16, 1], [8, 16])
    tlx.async_descriptor_prefetch_tensor(source, [0, 0])
    target.store([0, 0], source.load([extent - 4, 0]))
    target.atomic_add([4, 0], tl.full((8, 16), 2, DTYPE))


def test_descriptors_of_the_kernel():
    x = np.random.default_rng(0).standard_normal((20, 32)).astype(np.float32)
    _, y = same_as_on_hopper(made, [x, np.ones((20, 16), np.float32)], lambda x, y: (x, y, 20, 32), DTYPE=tl.float32)
    assert (y[:4] == x[16:, :16]).all() and np.isnan(y[4:8]).all() and (y[8:12] == 3).all() and (y[12:] == 1).all()


@mimw.jit
def two_copiers(x, y, out, N: tl.constexpr):
    """A barrier whose bytes one task expects and two tasks bring, of different sizes, twice."""
    a, b = tlx.local_alloc((N, 16), tl.float32, 2), tlx.local_alloc((2 * N, 16), tl.float32, 2)
    full, free = tlx.alloc_barriers(2, arrive_count=2), tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            for i in range(4):
                tlx.barrier_wait(full[i % 2], i // 2 & 1)
                tile = tlx.local_load(a[i % 2])
                other = tl.sum(tl.reshape(tlx.local_load(b[i % 2]), (2, N, 16)), 0)
                tlx.barrier_arrive(free[i % 2])
                tl.store(out + (i * N + tl.arange(0, N))[:, None] * 16 + tl.arange(0, 16)[None, :], tile + other)
        with tlx.async_task(num_warps=4):
            for i in range(4):
                tlx.barrier_wait(free[i % 2], (i // 2 & 1) ^ 1)
                tlx.barrier_expect_bytes(full[i % 2], 3 * N * 64)
                tlx.async_descriptor_load(x, a[i % 2], [i * N, 0], full[i % 2])
        with tlx.async_task(num_warps=4):
            for i in range(4):
                tlx.barrier_wait(free[i % 2], (i // 2 & 1) ^ 1)
                tlx.async_descriptor_load(y, b[i % 2], [i * 2 * N, 0], full[i % 2])
                tlx.barrier_arrive(full[i % 2])


def arguments_of_two_copiers(x, y, out):
    return TensorDescriptor.from_tensor(x, [8, 16]), TensorDescriptor.from_tensor(y, [16, 16]), out


def test_bytes_that_two_tasks_bring():
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((rows, 16)).astype(np.float32) for rows in (32, 64))
    _, _, out = same_as_on_hopper(two_copiers, [x, y, np.zeros((32, 16), np.float32)], arguments_of_two_copiers, N=8)
    wanted = x + y.reshape(4, 2, 8, 16).sum(1).reshape(32, 16)
    np.testing.assert_allclose(out, wanted, rtol=1e-6)


@pytest.mark.parametrize("chip", AMD)
def test_bytes_in_units_are_right_in_all_schedules(chip):
    x, y, out = np.zeros((32, 16), np.float32), np.zeros((64, 16), np.float32), np.zeros((32, 16), np.float32)
    report = mimw.check(two_copiers, (1, ), *arguments_of_two_copiers(x, y, out), N=8, target=chip)
    assert report.ok


@mimw.jit
def reused_early(x, out, N: tl.constexpr):
    """The reader gives the slot back before it reads."""
    tile = tlx.local_alloc((N, N), tl.float16, 1)
    full, free = tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            for i in range(3):
                tlx.barrier_wait(full[0], i & 1)
                tlx.barrier_arrive(free[0])
                tl.store(out + tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :], tlx.local_load(tile[0]))
        with tlx.async_task(num_warps=4):
            for i in range(3):
                tlx.barrier_wait(free[0], (i & 1) ^ 1)
                tlx.barrier_expect_bytes(full[0], N * N * 2)
                tlx.async_descriptor_load(x, tile[0], [i * N, 0], full[0])


@pytest.mark.parametrize("chip", AMD)
def test_a_race_is_found(chip):
    x, out = np.zeros((48, 16), np.float16), np.zeros((16, 16), np.float16)
    report = mimw.check(reused_early, (1, ), TensorDescriptor.from_tensor(x, [16, 16]), out, N=16, target=chip)
    assert not report.ok


@pytest.mark.parametrize("chip", AMD)
def test_a_descriptor_of_the_launch_is_passed_as_its_parts(chip):
    """The arguments in the metadata are those that Triton's launcher passes: the expanded signature, by their bytes."""
    compiled = to_assembly(block, {"x": "tensordesc<fp16[16,16]>", "y": "tensordesc<fp16[16,16]>", "row": "i32", "column": "i32",
                                   "go": "i32"}, {"N": 16}, target=chip)
    sizes = re.findall(r"\.size: +(\d+)\n +\.value_kind: +(?:by_value|global_buffer)", compiled.amdgcn)
    expanded = expand_signature(("tensordesc<fp16[16,16]>", "tensordesc<fp16[16,16]>", "i32", "i32", "i32"), None, "tensordesc")
    bytes_of = {"i1": "1", "i32": "4", "i64": "8", "*fp16": "8"}
    assert sizes[:len(expanded)] == [bytes_of[one] for one in expanded]
    assert not compiled.metadata.tensordesc_meta


@mimw.jit
def arriving_products(a, out):
    tile, done = tlx.local_alloc((64, 64), tl.float16, 1), tlx.alloc_barriers(1)
    tlx.async_dot(tile[0], tile[0], mBarriers=[done[0]])


@mimw.jit
def largest(y, DTYPE: tl.constexpr):
    tile = tlx.local_alloc((16, 16), DTYPE, 1)
    tlx.local_store(tile[0], tl.zeros((16, 16), DTYPE))
    tlx.async_descriptor_store(y, tile[0], [0, 0], store_reduce="max")


@mimw.jit
def either(x, y, go):
    tile = tlx.local_alloc((16, 16), tl.float16, 1)
    desc = x
    if go:
        desc = y
    tle.gpu.copy(desc, tile[0], [16, 16], [0, 0])


@mimw.jit
def multicast(x):
    tile, full = tlx.local_alloc((16, 16), tl.float16, 1), tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 512)
    tlx.async_descriptor_load(x, tile[0], [0, 0], full[0], multicast_targets=[0])


@mimw.jit
def slots():
    tlx.allocate_tensor_descriptor(2)


@mimw.jit
def bulk(x):
    tile = tlx.local_alloc((64, ), tl.float32, 1)
    tlx.async_store(x, tile[0], 256)


D = "tensordesc<fp16[16,16]>"
REFUSED = {
    arriving_products: ({"a": "*fp16", "out": "*fp32"}, {}, KernelError, "arrive behind it: tlx.barrier_arrive"),
    largest: ({"y": D}, {"DTYPE": tl.float16}, TargetError, "no atomic gives the max of fp16.*\n.*tl.atomic_max"),
    either: ({"x": D, "y": D, "go": "i32"}, {}, TargetError, "copy by a descriptor of its own in each branch"),
    multicast: ({"x": D}, {}, TargetError, "it has no clusters.*\n.*through global memory"),
    slots: ({}, {}, NotImplementedError, "make it where it is used, by make_tensor_descriptor"),
    bulk: ({"x": "*fp32"}, {}, NotImplementedError, "store by tl.store.pointers, tlx.local_load.buffer.. there"),
}


@pytest.mark.parametrize("kernel", REFUSED)
def test_refused_with_the_way_round(kernel):
    signature, constants, kind, text = REFUSED[kernel]
    with pytest.raises((KernelError, TargetError, NotImplementedError, triton.CompilationError)) as caught:
        to_assembly(kernel, signature, constants, target="gfx950")
    assert isinstance(cause(caught.value), kind) and re.search(text, str(caught.value), re.DOTALL)
    assert re.search(r"test_mapped_words.py:\d+", str(caught.value))


@pytest.mark.parametrize("chip, atomic", [("gfx942", "global_atomic_pk_add_f16"), ("gfx950", "global_atomic_pk_add_bf16"),
                                          ("gfx1250", "global_atomic_add_f32")])
def test_reductions(chip, atomic):
    element = {"f16": "fp16", "bf16": "bf16", "f32": "fp32"}[atomic.rpartition("_")[2]]
    compiled = to_assembly(added, {"y": f"tensordesc<{element}[16,16]>"}, target=chip)
    assert atomic in compiled.amdgcn


@mimw.jit
def added(y):
    tile = tlx.local_alloc((16, 16), tlx.dtype_of(y), 1)
    tlx.local_store(tile[0], tl.full((16, 16), 3, tlx.dtype_of(y)))
    tlx.async_descriptor_store(y, tile[0], [0, 8], store_reduce="add")


def test_explain_says_what_became_of_each_word():
    x = TensorDescriptor.from_tensor(np.zeros((48, 16), np.float16), [16, 16])
    explained = mimw.explain(reused_early, (1, ), x, np.zeros((16, 16), np.float16), N=16, target="gfx942")
    lines = explained.sections["Calls that this chip replaces by others"].splitlines()
    assert [line.split("  ")[0] for line in lines] == ["barrier_expect_bytes", "async_descriptor_load"]
    assert all("test_mapped_words.py:" in line for line in lines) and "copies by pointers" in lines[1]
    hopper = mimw.explain(reused_early, (1, ), x, np.zeros((16, 16), np.float16), N=16, target="sm_90a")
    assert "Calls that this chip replaces by others" not in hopper.sections


@mimw.jit
def both_engines(x_desc, out, N: tl.constexpr):
    tiles = tlx.local_alloc((N, N), tl.float16, 2)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], N * N * 2)
    tlx.async_descriptor_load(x_desc, tiles[0], [0, 0], full[0])
    tlx.async_amd_descriptor_load(x_desc, tiles[1], [0, 0])
    tlx.async_amd_descriptor_wait(0)
    tlx.barrier_wait(full[0], 0)
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tlx.local_load(tiles[0]) + tlx.local_load(tiles[1]))


def test_words_of_tma_and_of_the_mover_do_not_share_a_kernel():
    x = TensorDescriptor.from_tensor(np.zeros((16, 16), np.float16), [16, 16])
    with pytest.raises(triton.CompilationError, match="data mover moves by descriptors, and this kernel has TMA copies"):
        mimw.compile(both_engines, (1, ), x, np.zeros((16, 16), np.float16), N=16, target="gfx1250")


@mimw.jit
def by_the_mover(x_desc, out, N: tl.constexpr):
    tile = tlx.local_alloc((N, N), tl.float16, 1)
    tlx.local_store(tile[0], x_desc.load([0, 0]))
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tlx.local_load(tile[0]))


@pytest.mark.parametrize("chip, instruction", [("gfx1250", "tensor_load_to_lds"), ("gfx950", "global_load")])
def test_without_words_of_tma_a_descriptor_goes_by_the_chips_own_engine(chip, instruction):
    numbers = np.arange(256, dtype=np.float16).reshape(16, 16)
    x, out = TensorDescriptor.from_tensor(numbers, [16, 16]), np.zeros((16, 16), np.float16)
    mimw.simulate(by_the_mover, (1, ), x, out, N=16, target=chip)
    assert (out == numbers).all()
    assert instruction in mimw.compile(by_the_mover, (1, ), x, out, N=16, target=chip).amdgcn
