"""Tensor memory and the products that add up there: against numpy in the simulator, and compiled for sm_100a.

No chip with tensor memory was at hand: what is asserted of the compiled kernels is their PTX and SASS.
"""

import re

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import LayoutConflict, OutOfTensorMemory
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_assembly
from tests.lowering.harness import Case

BF16, E5M2, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn
NAMES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float8_e5m2": "fp8e5", "float8_e4m3fn": "fp8e4nv", "int8": "i8",
         "int32": "i32"}
TARGET = "sm_100a"


def simulated(kernel, *args, **meta):
    return mimw.simulate(kernel, (1, ), *args, target=TARGET, races=True, **meta)


def compiled(kernel, args, warps=4, by=compile_kernel, **meta):
    """A kernel for arrays and numbers like `args`."""
    names = kernel.arg_names
    signature = {name: f"*{NAMES[arg.dtype.name]}" if isinstance(arg, np.ndarray) else "i32" for name, arg in zip(names, args)}
    return Case(kernel, signature, meta).compiled(TARGET, by=by, num_warps=warps)


def ptx_of(kernel, args, warps=4, **meta):
    return compiled(kernel, args, warps, to_assembly, **meta).stage("ptx")


def values(shape, dtype, seed=0):
    """Small integers: every product and sum is exact in every type, so results compare as equal."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


@mimw.jit
def there_and_back(source, target, M: tl.constexpr, N: tl.constexpr, IN_TASK: tl.constexpr):
    buffers = tlx.local_alloc((M, N), tlx.dtype_of(source), 2, tlx.storage_kind.tmem)
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    if IN_TASK:
        with tlx.async_tasks():
            with tlx.async_task("default"):
                pass
            with tlx.async_task(num_warps=4):
                here = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
                tlx.local_store(buffers[1], tl.load(source + here))
                tl.store(target + here, tlx.local_load(buffers[1]))
    else:
        tlx.local_store(buffers[1], tl.load(source + at))
        tl.store(target + at, tlx.local_load(buffers[1]))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16, E5M2, np.int32])
@pytest.mark.parametrize("rows, columns", [(128, 64), (64, 128), (128, 4)])
def test_a_tile_comes_back(dtype, rows, columns):
    source, target = values((rows, columns), dtype), np.zeros((rows, columns), dtype)
    simulated(there_and_back, source, target, rows, columns, False)
    np.testing.assert_array_equal(source, target)


@pytest.mark.long(but=["fp32-True", "64 rows-False"], everywhere=True)
@pytest.mark.parametrize("in_task", [False, True])
@pytest.mark.parametrize("dtype, rows, columns, instruction", [
    (np.float32, 128, 64, r"tcgen05\.ld\.sync\.aligned\.32x32b\.x64"), (np.float32, 64, 128,
    r"tcgen05\.ld\.sync\.aligned\.16x32bx2"), (BF16, 128, 64, r"tcgen05\.ld\.sync\.aligned\.32x32b\.x32"),
], ids=["fp32", "64 rows", "bf16"])
def test_loads_and_stores_compile(dtype, rows, columns, instruction, in_task, sass_has):
    source = np.zeros((rows, columns), dtype)
    found = compiled(there_and_back, (source, source), M=rows, N=columns, IN_TASK=in_task)
    ptx = found.stage("ptx")
    assert re.search(instruction, ptx) and "tcgen05.wait::ld" in ptx and "tcgen05.wait::st" in ptx
    assert len(re.findall(r"tcgen05\.alloc", ptx)) == 1
    sass_has(found, "LDTM", "STTM")


@mimw.jit
def product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, A: tl.constexpr, B: tl.constexpr, FORM: tl.constexpr,
            ACC: tl.constexpr):
    """c = a @ b, plus c before it if ACC. A, B: "rows", "columns" (a transposed view), A also "tmem". FORM: how it is waited
    for."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    acc = tlx.local_alloc((M, N), tlx.dtype_of(c), 1, tlx.storage_kind.tmem)
    if A == "columns":
        left_rows = tlx.local_alloc((K, M), tlx.dtype_of(a), 1)
        tlx.local_store(left_rows[0], tl.load(a + m[None, :] * K + k[:, None]))
        left = tlx.local_trans(left_rows[0])
    elif A == "rows":
        left_rows = tlx.local_alloc((M, K), tlx.dtype_of(a), 1)
        tlx.local_store(left_rows[0], tl.load(a + m[:, None] * K + k[None, :]))
        left = left_rows[0]
    else:
        left_rows = tlx.local_alloc((M, K), tlx.dtype_of(a), 1, tlx.storage_kind.tmem)
        tlx.local_store(left_rows[0], tl.load(a + m[:, None] * K + k[None, :]))
        left = left_rows[0]
    if B == "columns":
        right_rows = tlx.local_alloc((N, K), tlx.dtype_of(b), 1)
        tlx.local_store(right_rows[0], tl.load(b + k[None, :] * N + n[:, None]))
        right = tlx.local_trans(right_rows[0])
    else:
        right_rows = tlx.local_alloc((K, N), tlx.dtype_of(b), 1)
        tlx.local_store(right_rows[0], tl.load(b + k[:, None] * N + n[None, :]))
        right = right_rows[0]
    at = m[:, None] * N + n[None, :]
    if ACC:
        tlx.local_store(acc[0], tl.load(c + at))
    done = tlx.alloc_barriers(2)
    if FORM == "sync":
        tlx.async_dot(left, right, acc[0], use_acc=ACC)
    elif FORM == "commit":
        tlx.async_dot(left, right, acc[0], use_acc=ACC, force_async=True)
        tlx.tcgen05_commit(done[0])
        tlx.barrier_wait(done[0], 0)
    elif FORM == "two":
        tlx.async_dot(left, right, acc[0], use_acc=ACC, mBarriers=[done[0], done[1]])
        tlx.barrier_wait(done[0], 0)
        tlx.barrier_wait(done[1], 0)
    else:
        tlx.async_dot(left, right, acc[0], use_acc=ACC, mBarriers=[done[0]])
        tlx.barrier_wait(done[0], 0)
    tl.store(c + at, tlx.local_load(acc[0]))


CASES = [
    (128, 128, 64, np.float16, np.float32, "rows", "columns", "barrier"), (128, 64, 32, BF16, np.float32, "columns", "rows",
    "barrier"), (64, 256, 64, BF16, np.float32, "rows", "rows", "sync"), (128, 32, 128, E5M2, np.float32, "rows", "columns",
    "commit"), (128, 64, 64, E4M3, np.float32, "columns", "rows", "two"), (128, 64, 32, np.float32, np.float32, "rows",
    "columns", "barrier"), (128, 64, 64, np.int8, np.int32, "rows", "columns", "barrier"), (128, 64, 64, BF16, np.float32,
    "tmem", "rows", "barrier"),
]
KINDS = {"float16": "f16", "bfloat16": "f16", "float32": "tf32", "float8_e5m2": "f8f6f4", "float8_e4m3fn": "f8f6f4", "int8": "i8"}
MMA_OF = {"f16": "UTCHMMA", "tf32": "UTCHMMA", "f8f6f4": "UTCQMMA", "i8": "UTCIMMA"}


def arguments(m, n, k, dtype, c_dtype):
    return values((m, k), dtype, 1), values((k, n), dtype, 2), values((m, n), c_dtype, 3)


@pytest.mark.parametrize("acc", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_products(case, acc):
    m, n, k, dtype, c_dtype, a_view, b_view, form = case
    a, b, c = arguments(m, n, k, dtype, c_dtype)
    wanted = a.astype(np.float32) @ b.astype(np.float32) + (c.astype(np.float32) if acc else 0)
    simulated(product, a, b, c, m, n, k, a_view, b_view, form, acc)
    np.testing.assert_array_equal(c.astype(np.float32), wanted)


@pytest.mark.long(but=list(map(str, [*CASES[1::2], CASES[6]])), everywhere=True)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_products_compile(case, sass_has):
    """With four warps or, where that takes LLVM a second and more, with eight."""
    m, n, k, dtype, c_dtype, a_view, b_view, form = case
    found = compiled(product, arguments(m, n, k, dtype, c_dtype), 4 if n * k <= 64 * 32 else 8, M=m, N=n, K=k, A=a_view,
                     B=b_view, FORM=form, ACC=False)
    ptx, kind = found.stage("ptx"), KINDS[np.dtype(dtype).name]
    assert f"tcgen05.mma.cta_group::1.kind::{kind}" in ptx
    commits = len(re.findall(r"tcgen05\.commit\.cta_group::1\.mbarrier::arrive::one", ptx))
    assert commits == 2 if form in ("two", "commit") else commits == 1
    assert "fence.proxy.async" in ptx, "operands that the task wrote itself are fenced by the compiler"
    sass_has(found, MMA_OF[kind], "UTCBAR")


@mimw.jit
def conditional(a, b, c, use, go, K: tl.constexpr):
    """Two products; `use` and `go` are known at run time only."""
    at_a = tl.arange(0, 128)[:, None] * K + tl.arange(0, K)[None, :]
    at_b = tl.arange(0, K)[:, None] * 64 + tl.arange(0, 64)[None, :]
    left, right = tlx.local_alloc((128, K), tl.float16, 1), tlx.local_alloc((K, 64), tl.float16, 1)
    acc = tlx.local_alloc((128, 64), tl.float32, 1, tlx.storage_kind.tmem)
    done = tlx.alloc_barriers(1)
    tlx.local_store(left[0], tl.load(a + at_a))
    tlx.local_store(right[0], tl.load(b + at_b))
    tlx.async_dot(left[0], right[0], acc[0], use_acc=False)
    tlx.async_dot(left[0], right[0], acc[0], use_acc=use > 0, pred=go > 0, force_async=True)
    tlx.tcgen05_commit(done[0])
    tlx.barrier_wait(done[0], 0)
    tl.store(c + tl.arange(0, 128)[:, None] * 64 + tl.arange(0, 64)[None, :], tlx.local_load(acc[0]))


@pytest.mark.parametrize("use, go, times", [(0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 2)])
def test_use_acc_and_pred_at_run_time(use, go, times):
    a, b, c = arguments(128, 64, 32, np.float16, np.float32)
    simulated(conditional, a, b, c, use, go, 32)
    np.testing.assert_array_equal(c, times * (a.astype(np.float32) @ b.astype(np.float32)))


def test_a_predicate_skips_the_arrival_too():
    """`pred` of a product with barriers holds for its arrivals."""
    ptx = ptx_of(conditional, (*arguments(128, 64, 32, np.float16, np.float32), 1, 1), K=32)
    assert re.search(r"@%p\d+ tcgen05\.mma", ptx) and "@leader tcgen05.commit" in ptx


@mimw.jit
def columns(source, target, SHARED: tl.constexpr):
    """S in 128 columns; P, half as wide, over its first ones; a vector behind both."""
    at = tl.arange(0, 128)[:, None] * 128 + tl.arange(0, 128)[None, :]
    half = tl.arange(0, 128)[:, None] * 64 + tl.arange(0, 64)[None, :]
    spec = tlx.storage_alias_spec(tlx.storage_kind.tmem)
    s = tlx.local_alloc((128, 128), tl.float32, 2, tlx.storage_kind.tmem, reuse=spec)
    p = tlx.local_alloc((128, 128), tl.float16, 2, tlx.storage_kind.tmem, reuse=spec)
    alpha = tlx.local_alloc((128, 1), tl.float32, 2, tlx.storage_kind.tmem, reuse=spec)
    if SHARED:
        spec.set_buffer_overlap(tlx.reuse_group(s, tlx.reuse_group(p, alpha, group_type=tlx.reuse_group_type.distinct)))
    else:
        spec.set_buffer_overlap(tlx.reuse_group(s, p, alpha, group_type=tlx.reuse_group_type.distinct))
    tlx.local_store(s[1], tl.load(source + at))
    x = tlx.local_load(tlx.subslice(s[1], 64, 64))
    tlx.local_store(p[1], tl.load(source + at).to(tl.float16))
    tlx.local_store(alpha[1], tl.load(source + tl.arange(0, 128)[:, None] * 128 + tl.arange(0, 1)[None, :]))
    y = tlx.local_load(tlx.local_slice(p[1], [0, 64], [128, 64]))
    z = tlx.local_load(alpha[1])
    tl.store(target + half, x + y.to(tl.float32) + z)


@pytest.mark.long(but=["False"], everywhere=True)
@pytest.mark.parametrize("shared", [True, False])
def test_aliases_and_slices(shared):
    source, target = values((128, 128), np.float32), np.zeros((128, 64), np.float32)
    simulated(columns, source, target, shared)
    np.testing.assert_array_equal(target, 2 * source[:, 64:] + source[:, :1])
    ptx = ptx_of(columns, (source, target), warps=8, SHARED=shared)
    columns_taken = int(re.search(r"tcgen05\.alloc\S+ \[%r\d+\], (\d+);", ptx)[1])
    assert columns_taken == 256 * (1 if shared else 2)


@mimw.jit
def reinterpreted(source, target):
    at = tl.arange(0, 128)[:, None] * 32 + tl.arange(0, 32)[None, :]
    x = tlx.local_alloc((128, 32), tl.float32, 1, tlx.storage_kind.tmem)
    tlx.local_store(x[0], tl.load(source + at))
    tl.store(target + at, tlx.local_load(tlx.local_reinterpret(x[0], tl.int32)))


def test_the_same_columns_as_another_type():
    source, target = values((128, 32), np.float32), np.zeros((128, 32), np.int32)
    simulated(reinterpreted, source, target)
    np.testing.assert_array_equal(target, source.view(np.int32))
    assert "tcgen05.ld" in ptx_of(reinterpreted, (source, target))


@mimw.jit
def ring(source, target, steps, N: tl.constexpr):
    """A ring of accumulators that is indexed at run time."""
    at = tl.arange(0, 128)[:, None] * N + tl.arange(0, N)[None, :]
    slots = tlx.local_alloc((128, N), tl.float32, 2, tlx.storage_kind.tmem)
    for i in range(steps):
        tlx.local_store(slots[i % 2], tl.load(source + i * 128 * N + at))
        tl.store(target + i * 128 * N + at, tlx.local_load(slots[i % 2]) * 2)


def test_a_ring_at_run_time():
    source = values((5, 128, 16), np.float32)
    target = np.zeros_like(source)
    simulated(ring, source, target, 5, 16)
    np.testing.assert_array_equal(target, 2 * source)
    assert "tcgen05.ld" in ptx_of(ring, (source, target, 5), N=16)


@mimw.jit
def pinned(source, target, LAYOUT: tl.constexpr):
    at = tl.arange(0, 128)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tile = tlx.local_alloc((128, 64), tl.float32, 1, tlx.storage_kind.tmem)
    tlx.local_store(tile[0], tl.load(source + at))
    tl.store(target + at, tlx.local_load(tile[0], layout=LAYOUT) + 1)


# thread bits: 5 of lanes, 2 of warps; value bits: those of registers; strides are row-major positions of (128, 64)
BY_ROWS = tlx.layout(((2, 2, 2, 2, 2, 2, 2), (2, 2, 2, 2, 2, 2)), ((64, 128, 256, 512, 1024, 2048, 4096), (1, 2, 4, 8, 16, 32)))
AS_MMA = tlx.layout(((2, 2, 2, 2, 2, 2, 2), (2, 2, 2, 2, 2, 2)), ((2, 4, 64, 128, 256, 2048, 4096), (1, 512, 8, 16, 32, 1024)))
OTHER = tlx.layout(((2, 2, 2, 2, 2, 2, 2), (2, 2, 2, 2, 2, 2)), ((1, 2, 4, 8, 16, 64, 128), (32, 256, 512, 1024, 2048, 4096)))


@pytest.mark.long(but=["rows", "other"], everywhere=True)
@pytest.mark.parametrize("layout, instruction", [(BY_ROWS, "32x32b.x64"), (AS_MMA, "16x256b"), (OTHER, "32x32b.x64")],
                         ids=["rows", "mma", "other"])
def test_a_pinned_layout(layout, instruction):
    """One that a shape of `tcgen05.ld` has is loaded by it; another is converted to."""
    source, target = values((128, 64), np.float32), np.zeros((128, 64), np.float32)
    simulated(pinned, source, target, layout)
    np.testing.assert_array_equal(target, source + 1)
    ptx = ptx_of(pinned, (source, target), LAYOUT=layout)
    assert f"tcgen05.ld.sync.aligned.{instruction}" in ptx


# ---- what is refused --------------------------------------------------------------------------------------------------


@mimw.jit
def too_much(target):
    a = tlx.local_alloc((128, 256), tl.float32, 2, tlx.storage_kind.tmem)
    b = tlx.local_alloc((128, 64), tl.float16, 3, tlx.storage_kind.tmem)
    tlx.local_store(a[0], tl.zeros((128, 256), tl.float32))
    tlx.local_store(b[0], tl.zeros((128, 64), tl.float16))


def test_more_than_all_columns_are_refused_with_the_sum():
    with pytest.raises(OutOfTensorMemory, match=r"608 columns .* has 512: 96 too many") as found:
        simulated(too_much, np.zeros(4, np.float32))
    assert "2 x 256 = 512 columns" in str(found.value) and "3 x 32 = 96 columns" in str(found.value)


@mimw.jit
def two_warps(target):
    x = tlx.local_alloc((128, 32), tl.float32, 1, tlx.storage_kind.tmem)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        with tlx.async_task(num_warps=2):
            tlx.local_store(x[0], tl.zeros((128, 32), tl.float32))


def test_fewer_than_four_warps_reach_only_some_lanes():
    with pytest.raises(LayoutConflict, match="whole warpgroups of 4 warps"):
        compiled(two_warps, (np.zeros(4, np.float32), ))


def refused(body, target=TARGET):
    """The error of a kernel with this body."""
    with pytest.raises(Exception) as found:
        mimw.simulate(body, (1, ), np.zeros(4, np.float32), target=target)
    return str(found.value)


@mimw.jit
def rank_three(p):
    tlx.local_alloc((2, 128, 64), tl.float32, 1, tlx.storage_kind.tmem)


@mimw.jit
def ninety_rows(p):
    tlx.local_alloc((96, 64), tl.float32, 1, tlx.storage_kind.tmem)


@mimw.jit
def rows_of_tmem(p):
    x = tlx.local_alloc((128, 64), tl.float32, 1, tlx.storage_kind.tmem)
    tlx.local_slice(x[0], [64, 0], [64, 64])


@mimw.jit
def narrow_slice(p):
    x = tlx.local_alloc((128, 64), tl.float16, 1, tlx.storage_kind.tmem)
    tlx.subslice(x[0], 1, 2)


@mimw.jit
def register_operand(p):
    x, b = tlx.local_alloc((128, 64), tl.float32, 1, tlx.storage_kind.tmem), tlx.local_alloc((64, 64), tl.float16, 1)
    tlx.async_dot(tl.zeros((128, 64), tl.float16), b[0], x[0])


@mimw.jit
def many_rows(p):
    x, b = tlx.local_alloc((128, 64), tl.float32, 1, tlx.storage_kind.tmem), tlx.local_alloc((64, 64), tl.float16, 1)
    a = tlx.local_alloc((256, 64), tl.float16, 1)
    tlx.async_dot(a[0], b[0], x[0])


@mimw.jit
def wrong_accumulator(p):
    x, b = tlx.local_alloc((128, 64), tl.float32, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    a = tlx.local_alloc((128, 64), tl.float16, 1)
    tlx.async_dot(a[0], b[0], x[0])


@mimw.jit
def gathered(p):
    x = tlx.local_alloc((128, 64), tl.float32, 1, tlx.storage_kind.tmem)
    tlx.local_gather(x[0], tl.zeros((128, 64), tl.int32), 1)


@mimw.jit
def reshaped(p):
    x = tlx.local_alloc((128, 64), tl.float32, 1, tlx.storage_kind.tmem)
    tlx.local_reinterpret(x[0], tl.float32, [64, 128])


@mimw.jit
def one_row(p):
    x = tlx.local_alloc((128, 64), tl.float32, 1, tlx.storage_kind.tmem)
    tlx.local_view(x[0], 3)


@mimw.jit
def narrow_copy(p):
    x = tlx.local_alloc((128, 16), tl.float8e5, 1, tlx.storage_kind.tmem)
    tlx.tmem_copy(tlx.local_alloc((128, 16), tl.float8e5, 1)[0], x[0])


@pytest.mark.parametrize("kernel, words", [
    (one_row, "is one buffer, and tensor memory has no buffers of one row"), (narrow_copy, "rows of a tile have 32 bytes at least"),
    (rank_three, "rank 2"), (ninety_rows, "64 or 128 rows, got 96"), (rows_of_tmem, "all 128 rows"),
    (narrow_slice, "a column of tensor memory has 32 bits"), (register_operand, "register operand is not supported on Blackwell"),
    (many_rows, "M must be 64 or 128"), (wrong_accumulator, "`acc` lies in tensor memory"), (gathered, "must be in shared memory"),
    (reshaped, "`shape` is for shared memory"),
], ids=lambda one: getattr(one, "__name__", ""))
def test_refused(kernel, words):
    assert words in refused(kernel)


def test_tensor_memory_below_blackwell():
    assert "tmem is only available on Blackwell" in refused(rank_three, "sm_90a")
