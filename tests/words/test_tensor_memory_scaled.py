"""Block scales: tables of them in tensor memory, copies that bring them, and products by them.

The simulator against numpy and `ml_dtypes`; what is compiled for sm_100a by its PTX and SASS, since no chip was at hand.
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
from tests.kernels.scaled_product import product

E5M2, E4M3, E8M0 = ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
TARGET = "sm_100a"
FORMATS = {"e4m3": (E4M3, "fp8e4nv"), "e5m2": (E5M2, "fp8e5"), "e2m1": (np.uint8, "u8")}


def packed(table, form=4):
    """A table (r, c) of scales in one of the packed forms."""
    rows, columns = table.shape
    down, across = rows // 128, columns // 4
    blocks = table.reshape(down, 4, 32, across, 4).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(blocks).reshape(packed_shape(rows, columns, form))


def packed_shape(rows, columns, form):
    down, across = rows // 128, columns // 4
    return {4: (down, across, 32, 16), 5: (down, across, 32, 4, 4), 256: (1, down, across, 2, 256), 2: (down, across * 512),
            "2 x 256": (down, across, 2, 256)}[form]


# ---- tables -----------------------------------------------------------------------------------------------------------


@mimw.jit
def table_and_back(source, target, R: tl.constexpr, C: tl.constexpr, FIRST: tl.constexpr, SIZE: tl.constexpr):
    """A table beside a tile and another table, stored whole; some of its columns loaded."""
    other = tlx.local_alloc((128, 64), tl.float32, 1, tlx.storage_kind.tmem)
    tables = tlx.local_alloc((R, C), tl.uint8, 2, tlx.storage_kind.tmem)
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    tlx.local_store(other[0], tl.zeros((128, 64), tl.float32))
    tlx.local_store(tables[0], tl.zeros((R, C), tl.uint8))
    tlx.local_store(tables[1], tl.load(source + at))
    part = tl.arange(0, R)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    tl.store(target + part, tlx.local_load(tlx.subslice(tables[1], FIRST, SIZE)))


@pytest.mark.long(but=["128-4-0-4", "32-16-8-4", "256-8-4-4"], everywhere=True)
@pytest.mark.parametrize("rows, columns, first, size", [(128, 4, 0, 4), (128, 16, 4, 8), (256, 8, 4, 4), (64, 8, 0, 8),
                                                        (32, 16, 8, 4)])
def test_a_table_comes_back(rows, columns, first, size):
    source = np.random.default_rng(0).integers(0, 256, (rows, columns)).astype(np.uint8)
    target = np.zeros((rows, size), np.uint8)
    meta = dict(R=rows, C=columns, FIRST=first, SIZE=size)
    mimw.simulate(table_and_back, (1, ), source, target, target=TARGET, races=True, **meta)
    np.testing.assert_array_equal(target, source[:, first:first + size])
    ptx = to_assembly(table_and_back, {"source": "*u8", "target": "*u8"}, meta, TARGET).stage("ptx")
    assert len(re.findall(r"tcgen05\.alloc", ptx)) == 1 and "tcgen05.st" in ptx and "tcgen05.ld" in ptx


# ---- copies -----------------------------------------------------------------------------------------------------------


@mimw.jit
def copied(source, target, R: tl.constexpr, C: tl.constexpr, SHAPE: tl.constexpr, IN_TASK: tl.constexpr):
    """Packed scales by plain stores, copied and read back."""
    scales = tlx.local_alloc(SHAPE, tl.uint8, 1)
    table = tlx.local_alloc((R, C), tl.uint8, 2, tlx.storage_kind.tmem)
    done = tlx.alloc_barriers(1)
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    tlx.local_store(scales[0], tl.load(source + tl.arange(0, R * C)).reshape(SHAPE))
    if IN_TASK:
        tlx.fence("async_shared")
        with tlx.async_tasks():
            with tlx.async_task("default"):
                tlx.barrier_wait(done[0], 0)
                tl.store(target + at, tlx.local_load(table[1]))
            with tlx.async_task(num_warps=1):
                tlx.tmem_copy(scales[0], table[1])
                tlx.tcgen05_commit(done[0])
    else:
        tlx.tmem_copy(scales[0], table[1])
        tlx.tcgen05_commit(done[0])
        tlx.barrier_wait(done[0], 0)
        tl.store(target + at, tlx.local_load(table[1]))


@pytest.mark.long(but=["128-4-2 x 256-False", "128-8-5-False", "256-8-4-True", "128-16-2-True"], everywhere=True)
@pytest.mark.parametrize("in_task", [False, True])
@pytest.mark.parametrize("rows, columns, form", [(128, 4, 4), (256, 8, 4), (128, 8, 5), (256, 4, 256), (256, 8, 2), (128, 16, 2),
                                                 (128, 4, "2 x 256"), (256, 8, "2 x 256")])
def test_packed_scales_are_copied(rows, columns, form, in_task, sass_has):
    table = np.random.default_rng(1).integers(0, 256, (rows, columns)).astype(np.uint8)
    target = np.zeros_like(table)
    meta = dict(R=rows, C=columns, SHAPE=packed_shape(rows, columns, form), IN_TASK=in_task)
    mimw.simulate(copied, (1, ), packed(table, form), target, target=TARGET, races=True, **meta)
    np.testing.assert_array_equal(target, table)
    found = compile_kernel(copied, {"source": "*u8", "target": "*u8"}, meta, TARGET)
    assert len(re.findall(r"tcgen05\.cp\.cta_group::1\.warpx4\.32x128b", found.stage("ptx"))) == rows * columns // 512
    assert "fence.proxy.async" in found.stage("ptx")
    sass_has(found, r"UTCCP\.T\.S\.4x32dp128bit")


@mimw.jit
def copied_tile(source, target, N: tl.constexpr):
    tile = tlx.local_alloc((128, N), tlx.dtype_of(source), 1)
    into = tlx.local_alloc((128, N), tlx.dtype_of(source), 2, tlx.storage_kind.tmem)
    done = tlx.alloc_barriers(1)
    at = tl.arange(0, 128)[:, None] * N + tl.arange(0, N)[None, :]
    tlx.local_store(tile[0], tl.load(source + at))
    tlx.tmem_copy(tile[0], into[1])
    tlx.tcgen05_commit(done[0])
    tlx.barrier_wait(done[0], 0)
    tl.store(target + at, tlx.local_load(into[1]))


@pytest.mark.long(but=["*fp8e5-128", "*fp32-16", "*fp16-64"], everywhere=True)
@pytest.mark.parametrize("dtype, name, columns", [(np.float32, "fp32", 64), (np.float32, "fp32", 16), (np.float16, "fp16", 64),
                                                  (ml_dtypes.bfloat16, "bf16", 128), (E5M2, "fp8e5", 128)], ids=str)
def test_tiles_are_copied(dtype, name, columns, sass_has):
    source = np.random.default_rng(2).integers(-3, 4, (128, columns)).astype(dtype)
    target = np.zeros_like(source)
    mimw.simulate(copied_tile, (1, ), source, target, columns, target=TARGET, races=True)
    np.testing.assert_array_equal(target, source)
    found = compile_kernel(copied_tile, {"source": f"*{name}", "target": f"*{name}"}, {"N": columns}, TARGET, dict(num_warps=8))
    assert len(re.findall(r"tcgen05\.cp\.cta_group::1\.128x256b", found.stage("ptx"))) == columns * source.itemsize // 32
    sass_has(found, "UTCCP")


def test_rows_repeated_for_each_warp():
    """What the copy writes is a tile of bytes: 32 of each row, in 8 columns; a block of 32 rows fills four of them."""
    source = np.random.default_rng(3).integers(0, 256, (64, 16)).astype(np.uint8)
    target = np.zeros((128, 32), np.uint8)
    mimw.simulate(repeated, (1, ), source, target, target=TARGET)
    np.testing.assert_array_equal(target, np.tile(np.concatenate([source[:32], source[32:]], 1), (4, 1)))
    ptx = compile_kernel(repeated, {"source": "*u8", "target": "*u8"}, {}, TARGET).stage("ptx")
    first, second = re.findall(r"tcgen05\.cp\.cta_group::1\.warpx4\.32x128b \[ (%r\d+) \+ 0 \], %rd\d+", ptx)
    assert re.search(rf"add\.s32\s+{second}, {first}, 4;", ptx)
    assert "tcgen05.ld.sync.aligned.32x32b.x8.b32" in ptx


@mimw.jit
def repeated(source, target):
    rows = tlx.local_alloc((64, 16), tl.uint8, 1)
    table = tlx.local_alloc((128, 32), tl.uint8, 1, tlx.storage_kind.tmem)
    done = tlx.alloc_barriers(1)
    tlx.local_store(rows[0], tl.load(source + tl.arange(0, 64)[:, None] * 16 + tl.arange(0, 16)[None, :]))
    tlx.tmem_copy(rows[0], table[0])
    tlx.tcgen05_commit(done[0])
    tlx.barrier_wait(done[0], 0)
    tl.store(target + tl.arange(0, 128)[:, None] * 32 + tl.arange(0, 32)[None, :], tlx.local_load(table[0]))


# ---- products ---------------------------------------------------------------------------------------------------------


def elements(shape, format_, seed):
    """Elements of a format, (rows, K), as the kernel has them and as fp32."""
    random = np.random.default_rng(seed)
    if format_ == "e2m1":
        codes = random.integers(0, 16, shape).astype(np.uint8)
        return codes[:, ::2] | codes[:, 1::2] << 4, E2M1[codes]
    tile = random.integers(-8, 9, shape).astype(np.float32).astype(FORMATS[format_][0])
    return tile, tile.astype(np.float32)


def scales(rows, columns, block, seed):
    """Scales of powers of two, so that all sums are exact in fp32."""
    power = np.random.default_rng(seed).integers(-2, 3, (rows, columns))
    table = (2.0 ** power).astype(np.float32).astype(E8M0 if block == 32 else E4M3)
    return table.view(np.uint8), table.astype(np.float32)


def reference(x, x_scale, w, w_scale, block):
    return (x * np.repeat(x_scale, block, 1)) @ (w * np.repeat(w_scale, block, 1)).T


MX8, MX4, NV4 = "kind::mxf8f6f4.block_scale.block32", "kind::mxf4.block_scale.block32", "kind::mxf4nvf4.block_scale.block16"
CASES = [  # N, K, formats, block, place, form of packed scales, form of the wait, instruction, SASS
    (128, 128, "e4m3", "e4m3", 32, "smem", 4, "barrier", MX8, "UTCQMMA"),
    (256, 128, "e5m2", "e4m3", 32, "smem", 256, "sync", MX8, "UTCQMMA"),
    (64, 256, "e4m3", "e5m2", 32, "copied", 5, "commit", MX8, "UTCQMMA"),
    (32, 64, "e4m3", "e4m3", 32, "stored", 4, "barrier", MX8, "UTCQMMA"),
    (128, 256, "e2m1", "e2m1", 32, "smem", 5, "barrier", MX4, "UTCOMMA"),
    (64, 256, "e2m1", "e2m1", 32, "stored", 4, "sync", MX4, "UTCOMMA"),
    (128, 256, "e2m1", "e2m1", 16, "smem", "2 x 256", "barrier", NV4, "UTCOMMA"),
    (128, 64, "e2m1", "e2m1", 16, "copied", 2, "commit", NV4, "UTCOMMA"),
    (128, 128, "e4m3", "e2m1", 32, "smem", 4, "barrier", MX8, "UTCQMMA"),
    (64, 128, "e2m1", "e5m2", 32, "copied", 4, "sync", MX8, "UTCQMMA"),
]


def launch_of(case):
    """Arguments, constants, the signature and the result of a case."""
    n, k, fx, fw, block, place, form, wait, *_ = case
    (x, x_wide), (w, w_wide) = elements((128, 2 * k), fx, 1), elements((n, 2 * k), fw, 2)
    rows = n if place == "stored" else max(n, 128)
    (sx, sx_wide), (sw, sw_wide) = scales(128, 2 * k // block, block, 3), scales(rows, 2 * k // block, block, 4)
    halves = [[table[:, :k // block], table[:, k // block:]] for table in (sx, sw)]
    sx, sw = (np.stack([half if place == "stored" else packed(half, form).ravel() for half in two]) for two in halves)
    x_desc, w_desc = (mimw.TensorDescriptor.from_tensor(tile, [len(tile), tile.shape[1] // 2]) for tile in (x, w))
    c = np.full((128, n), np.nan, np.float32)
    shapes = (packed_shape(128, k // block, form), packed_shape(rows, k // block, form)) if place != "stored" else (None, None)
    meta = dict(N=n, K=k, FX=fx, FW=fw, PLACE=place, SX=shapes[0], SW=shapes[1], BLOCK=block, FORM=wait)
    signature = {"x_desc": f"tensordesc<{FORMATS[fx][1]}[128,{x.shape[1] // 2}]>", "sx": "*u8", "sw": "*u8", "c": "*fp32",
                 "w_desc": f"tensordesc<{FORMATS[fw][1]}[{n},{w.shape[1] // 2}]>"}
    return (x_desc, w_desc, sx, sw, c), meta, signature, reference(x_wide, sx_wide, w_wide, sw_wide[:n], block)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_products(case):
    args, meta, _, wanted = launch_of(case)
    mimw.simulate(product, (1, ), *args, target=TARGET, races=True, **meta)
    np.testing.assert_array_equal(args[-1], wanted)


@pytest.mark.long(but=["(128, *", "(64, *", "(32, *"], everywhere=True)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_products_compile(case, sass_has):
    """With four warps or, compiled in half the time, with eight."""
    _, meta, signature, _ = launch_of(case)
    found = compile_kernel(product, signature, meta, TARGET, dict(num_warps=8 if CASES.index(case) % 4 else 4))
    ptx = found.stage("ptx")
    sass_has(found, case[-1])
    assert f"tcgen05.mma.cta_group::1.{case[-2]}" in ptx
    assert ("tcgen05.cp.cta_group::1.warpx4.32x128b" in ptx) == (case[5] != "stored")
    assert len(re.findall(r"tcgen05\.alloc", ptx)) == 1


# ---- what is refused --------------------------------------------------------------------------------------------------


@mimw.jit
def refusal(p, CASE: tl.constexpr):
    """One wrong argument each."""
    x, w = tlx.local_alloc((128, 128), tl.float8e4nv, 1), tlx.local_alloc((64, 128), tl.float8e4nv, 1)
    half = tlx.local_alloc((64, 128), tl.float8e4nv, 1)
    pairs, turned = tlx.local_alloc((64, 64), tl.uint8, 1), tlx.local_alloc((64, 64), tl.uint8, 1)
    sums = tlx.local_alloc((128, 64), tl.float32, 1, tlx.storage_kind.tmem)
    scales, flat = tlx.local_alloc((1, 1, 32, 16), tl.uint8, 1), tlx.local_alloc((128, 4), tl.uint8, 1)
    table = tlx.local_alloc((128, 4), tl.uint8, 1, tlx.storage_kind.tmem)
    wide = tlx.local_alloc((128, 8), tl.uint8, 1, tlx.storage_kind.tmem)
    y = tlx.local_trans(w[0])
    if CASE == "format":
        tlx.async_dot_scaled(x[0], y, sums[0], scales[0], "fp16", scales[0], "e4m3")
    elif CASE == "rows":
        tlx.async_dot_scaled(half[0], y, sums[0], scales[0], "e4m3", scales[0], "e4m3")
    elif CASE == "plain scales":
        tlx.async_dot_scaled(x[0], y, sums[0], flat[0], "e4m3", scales[0], "e4m3")
    elif CASE == "wide scales":
        tlx.async_dot_scaled(x[0], y, sums[0], wide[0], "e4m3", scales[0], "e4m3")
    elif CASE == "type":
        tlx.async_dot_scaled(x[0], y, sums[0], scales[0], "e5m2", scales[0], "e4m3")
    elif CASE == "K":
        tlx.async_dot_scaled(x[0], tlx.local_trans(pairs[0]), sums[0], scales[0], "e4m3", scales[0], "e4m3")
    elif CASE == "turned":
        tlx.async_dot_scaled(x[0], turned[0], sums[0], scales[0], "e4m3", scales[0], "e2m1")
    elif CASE == "registers":
        tlx.async_dot_scaled(tl.zeros((128, 128), tl.float8e4nv), y, sums[0], scales[0], "e4m3", scales[0], "e4m3")
    elif CASE == "flat copy":
        tlx.tmem_copy(flat[0], table[0])
    elif CASE == "other table":
        tlx.tmem_copy(scales[0], wide[0])
    elif CASE == "back":
        tlx.tmem_copy(table[0], scales[0])
    elif CASE == "tile":
        tlx.tmem_copy(x[0], sums[0])


@pytest.mark.parametrize("case, text", [
    ("format", r"A_format must be one of \('e2m1', 'e4m3', 'e5m2'\), got 'fp16'"), ("rows", "M must be 128, got M = 64"),
    ("plain scales", r"A_scale in shared memory must be packed: \[128, 4\] scales as \[1, 1, 32, 16\] .* got \[128, 4\]"),
    ("wide scales", r"A_scale in tensor memory must have the shape \[128, 4\], got \[128, 8\]"),
    ("type", "A of format 'e5m2' holds fp8e5 or uint8, got fp8e4nv"), ("K", "inner dimensions differ"),
    ("turned", "fp4 is read only contiguous along K"), ("registers", "register operand is not supported on Blackwell"),
    ("flat copy", "scale tmem_copy requires an explicit packed i8 SMEM shape"),
    ("other table", r"scale tmem_copy requires an explicit packed i8 SMEM shape: for scales \[128, 8\] \[1, 2, 32, 16\]"),
    ("back", "`src` must lie in shared memory"), ("tile", "must be of one shape and dtype"),
])
def test_refusals(case, text):
    with pytest.raises(Exception, match=text):
        mimw.simulate(refusal, (1, ), np.zeros(4, np.float32), case, target=TARGET)


def test_refusals_below_blackwell():
    with pytest.raises(Exception, match="only available on Blackwell"):
        mimw.simulate(below, (1, ), np.zeros(4, np.float32), target="sm_90a")


@mimw.jit
def below(p):
    x = tlx.local_alloc((1, 1, 32, 16), tl.uint8, 1)
    tlx.tmem_copy(x[0], x[0])


@mimw.jit
def full_of_columns(p):
    """All columns are taken; the scales in shared memory need 8 more."""
    x, w = tlx.local_alloc((128, 128), tl.float8e4nv, 1), tlx.local_alloc((64, 128), tl.float8e4nv, 1)
    sums = tlx.local_alloc((128, 64), tl.float32, 8, tlx.storage_kind.tmem)
    scales = tlx.local_alloc((1, 1, 32, 16), tl.uint8, 1)
    tlx.async_dot_scaled(x[0], tlx.local_trans(w[0]), sums[0], scales[0], "e4m3", scales[0], "e4m3", use_acc=False)
    tlx.local_store(sums[1], tl.zeros((128, 64), tl.float32))


def test_scales_count_among_the_columns():
    with pytest.raises(OutOfTensorMemory, match="520 columns .* has 512: 8 too many") as found:
        mimw.simulate(full_of_columns, (1, ), np.zeros(4, np.float32), target=TARGET)
    assert "scales_copied" in str(found.value)


@mimw.jit
def pinned_otherwise(x_desc, w_desc, PIN: tl.constexpr):
    x, w = tlx.local_alloc((128, 128), tl.float8e4nv, 1), tlx.local_alloc((64, 64), tl.uint8, 1, layout=PIN)
    sums = tlx.local_alloc((128, 64), tl.float32, 1, tlx.storage_kind.tmem)
    scales = tlx.local_alloc((1, 1, 32, 16), tl.uint8, 1)
    tlx.async_dot_scaled(x[0], tlx.local_trans(w[0]), sums[0], scales[0], "e4m3", scales[0], "e2m1", use_acc=False)


def test_fp4_that_is_pinned_without_padding():
    pin = tlx.nv_mma_shared_layout_encoding.make_default((64, 64), tl.uint8)
    with pytest.raises(LayoutConflict, match="multiplies by fp8"):
        mimw.simulate(pinned_otherwise, (1, ), np.zeros(4, np.float32), np.zeros(4, np.float32), pin, target=TARGET)
