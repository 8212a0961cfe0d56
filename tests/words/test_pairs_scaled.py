"""Block-scaled products of pairs of CTAs, and copies to the tensor memory of both: against numpy in the simulator, and compiled for
sm_100a.

No chip with tensor memory was at hand: what is asserted of the compiled kernels is their PTX and SASS.
"""

import re

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.compiling import to_assembly, to_ttgir
from tests.kernels.pair_scaled_gemm import launch, pair_scaled_gemm
from tests.lowering.harness import Case

TARGET, PAIR = "sm_100a", {"ctas_per_cga": (2, 1, 1)}
NAMES = {"e4m3": "fp8e4nv", "e5m2": "fp8e5", "e2m1": "u8"}
MX8, MX4, NV4 = "mxf8f6f4.block_scale.block32", "mxf4.block_scale.block32", "mxf4nvf4.block_scale.block16"
CASES = [       # what is launched, the instruction, how many of them a step of the ring takes
    (dict(), MX8, 4), (dict(fa="e5m2", fb="e4m3", PLACE="copied", n=256, bn=256), MX8, 4),
    (dict(fa="e2m1", fb="e2m1", GUARD=False), MX4, 2),
    (dict(fa="e2m1", fb="e2m1", block=16, n=256, bn=256), NV4, 2),
    (dict(fa="e4m3", fb="e2m1", PLACE="copied"), MX8, 4),
    (dict(fa="e2m1", fb="e5m2", bk=256), MX8, 8),
]


@pytest.mark.parametrize("case", [*CASES, (dict(MEET=True, n=256, bn=256, k=512), )], ids=str)
def test_a_gemm(case):
    (kernel, grid, args, meta), wanted = launch(**case[0])
    mimw.simulate(kernel, grid, *args, races=True, **meta)
    np.testing.assert_array_equal(args[4], wanted)


def signature_of(fa, fb, block, bn, bk):
    wa, wb = (bk // 2 if one == "e2m1" else bk for one in (fa, fb))
    groups = bk // block // 4
    return dict(a_desc=f"tensordesc<{NAMES[fa]}[128, {wa}]>", b_desc=f"tensordesc<{NAMES[fb]}[{bn // 2}, {wb}]>",
                sa_desc=f"tensordesc<u8[1, 1, {groups}, 2, 256]>", sb_desc=f"tensordesc<u8[1, {bn // 128}, {groups}, 2, 256]>",
                c_ptr="*fp32", N="i32", K="i32")


def gemm_case(fa="e4m3", fb="e4m3", block=32, bn=128, bk=128, n=None, **switches):
    return Case(pair_scaled_gemm, signature_of(fa, fb, block, bn, bk),
                dict(FA=fa, FB=fb, BLOCK=block, BN=bn, BK=bk, STAGES=2, **switches), PAIR)


@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[3], CASES[5]], ids=str)
def test_the_gemm_compiles(case):
    """The assembly stands in the TTGIR as it is."""
    text, (_, kind, count) = gemm_case(**case[0]).compiled(TARGET, by=to_ttgir).stage("ttgir"), case
    assert text.count(f"@leader tcgen05.mma.cta_group::2.kind::{kind} [") == count
    assert "@leader tcgen05.cp.cta_group::2.warpx4.32x128b [" in text and "cta_group::1" not in text
    assert len(re.findall(r"cp\.async\.bulk\.tensor\.5d\.cta_group::2", text)) == 2
    assert text.count("ttng.fence_async_shared") == 1, "that of the barriers: TMA wrote what is read"


@mimw.jit
def every_kind(p):
    """Products that nobody fills or waits for."""
    x, w = tlx.local_alloc((128, 128), tl.uint8, 1), tlx.local_alloc((64, 128), tl.uint8, 1)
    acc = tlx.local_alloc((128, 128), tl.float32, 1, tlx.storage_kind.tmem)
    scales, more, most = (tlx.local_alloc((1, 1, 32, 16), tl.uint8, 1), tlx.local_alloc((1, 2, 32, 16), tl.uint8, 1),
                          tlx.local_alloc((1, 4, 32, 16), tl.uint8, 1))
    y = tlx.local_trans(w[0])
    tlx.async_dot_scaled(x[0], y, acc[0], scales[0], "e4m3", scales[0], "e5m2", two_ctas=True, force_async=True)
    tlx.async_dot_scaled(x[0], y, acc[0], more[0], "e2m1", more[0], "e2m1", two_ctas=True, force_async=True)
    tlx.async_dot_scaled(x[0], y, acc[0], most[0], "e2m1", most[0], "e2m1", two_ctas=True, force_async=True)


def test_the_instructions_of_the_chip():
    made = Case(every_kind, dict(p="*fp32"), {}, PAIR).compiled(TARGET)
    ptx, sass = made.stage("ptx"), made.stage("sass")
    assert "tcgen05.alloc.cta_group::2" in ptx and "tcgen05.dealloc.cta_group::2" in ptx and "cta_group::1" not in ptx
    assert {"UTCQMMA.2CTA", "UTCOMMA.2CTA", "UTCOMMA.2CTA.4X", "UTCCP.T.S.2CTA.4x32dp128bit"} <= set(re.findall(r"UT[\w.]+", sass))


def test_a_prediction_ends():
    (kernel, grid, args, meta), _ = launch(PLACE="copied")
    assert mimw.predict(kernel, grid, *args, **meta).cycles > 0


@pytest.mark.parametrize("form", ["device", "pair", "multicast"])
def test_padded_fp4_is_copied_as_tritons_own_loads_copy_it(form):
    """TMA counts both fp4 of a byte, and a box is 128 of them."""

    @mimw.jit
    def load(pointer, desc, FORM: tl.constexpr):
        if FORM == "device":
            desc = tl.make_tensor_descriptor(pointer, [1024, 512], [512, 1], [64, 128])
        tile, other = tlx.local_alloc((64, 128), tl.uint8, 1), tlx.local_alloc((128, 256), tl.float8e4nv, 1)
        acc = tlx.local_alloc((128, 128), tl.float32, 1, tlx.storage_kind.tmem)
        scales = tlx.local_alloc((128, 8), tl.uint8, 1, tlx.storage_kind.tmem)
        full = tlx.alloc_barriers(1)
        if FORM == "multicast":
            tlx.async_descriptor_load(desc, tile[0], [0, 64], full[0], multicast_targets=[0, 1])
        else:
            tlx.async_descriptor_load(desc, tile[0], [0, 64], full[0], two_ctas=True)
        tlx.async_dot_scaled(other[0], tlx.local_trans(tile[0]), acc[0], scales[0], "e4m3", scales[0], "e2m1", two_ctas=True,
                             force_async=True)

    made = to_assembly(load, dict(pointer="*u8", desc="tensordesc<u8[64, 128]>"), dict(FORM=form), TARGET, PAIR)
    ptx = re.sub(r"\t\.loc.*\n", "", made.stage("ptx"))
    box = r"add\.u32 to, \S+ (\d+);\nadd\.s32 c0, .*\nadd\.s32 c1, \S+ (\d+);\nadd\.s32 c1, c1, c1;\n@on cp"
    boxes = re.findall(box, ptx)
    assert boxes == [("0", "0"), ("8192", "64")]
    if form == "device":
        created = next(line for line in made.stage("ttgir").splitlines() if "tensormap_create" in line)
        assert "[%c128_i32, %c64_i32], [%c1024_i32, %c1024_i32], [%c512_i64]" in created and "elem_type = 14" in created


# ---- tables and tiles -----------------------------------------------------------------------------------------------------


@mimw.jit
def stored(a, b, sa, sb, c, N: tl.constexpr, TRANS: tl.constexpr, TMEM: tl.constexpr):
    """c = a @ b of fp8, (256, 128) x (128, N), by tables that both CTAs store; operands contiguous along K, or along the others.
    TMEM: A goes through tensor memory, by a copy of a tile."""
    rank = tlx.cluster_cta_rank()
    m, n, k, s = rank * 128 + tl.arange(0, 128), rank * (N // 2) + tl.arange(0, N // 2), tl.arange(0, 128), tl.arange(0, 4)
    acc = tlx.local_alloc((128, N), tl.float32, 1, tlx.storage_kind.tmem)
    left_scales = tlx.local_alloc((128, 4), tl.uint8, 1, tlx.storage_kind.tmem)
    right_scales = tlx.local_alloc((N, 4), tl.uint8, 1, tlx.storage_kind.tmem)
    done = tlx.alloc_barriers(1)
    tlx.local_store(left_scales[0], tl.load(sa + m[:, None] * 4 + s[None, :]))
    tlx.local_store(right_scales[0], tl.load(sb + tl.arange(0, N)[:, None] * 4 + s[None, :]))
    if TRANS:
        left_tile = tlx.local_alloc((128, 128), tl.float8e4nv, 1)
        tlx.local_store(left_tile[0], tl.load(a + m[None, :] * 128 + k[:, None]))
        left = tlx.local_trans(left_tile[0])
        right_tile = tlx.local_alloc((128, N // 2), tl.float8e4nv, 1)
        tlx.local_store(right_tile[0], tl.load(b + k[:, None] * N + n[None, :]))
        right = right_tile[0]
    else:
        left_tile = tlx.local_alloc((128, 128), tl.float8e4nv, 1)
        tlx.local_store(left_tile[0], tl.load(a + m[:, None] * 128 + k[None, :]))
        left = left_tile[0]
        right_tile = tlx.local_alloc((N // 2, 128), tl.float8e4nv, 1)
        tlx.local_store(right_tile[0], tl.load(b + k[None, :] * N + n[:, None]))
        right = tlx.local_trans(right_tile[0])
    if TMEM:
        left_memory = tlx.local_alloc((128, 128), tl.float8e4nv, 1, tlx.storage_kind.tmem)
    tlx.fence("async_shared")
    tlx.cluster_barrier()
    if TMEM:
        tlx.tmem_copy(left, left_memory[0])
        tlx.async_dot_scaled(left_memory[0], right, acc[0], left_scales[0], "e4m3", right_scales[0], "e4m3", use_acc=False,
                             mBarriers=[done[0]], two_ctas=True)
        tlx.barrier_wait(done[0], 0)
    else:
        tlx.async_dot_scaled(left, right, acc[0], left_scales[0], "e4m3", right_scales[0], "e4m3", use_acc=False, two_ctas=True)
    tl.store(c + m[:, None] * N + tl.arange(0, N)[None, :], tlx.local_load(acc[0]))


STORED = [(64, False, False), (64, True, False), (32, False, True)]


@pytest.mark.parametrize("n, trans, tmem", STORED)
def test_tables_that_both_store(n, trans, tmem):
    random = np.random.default_rng(3)
    a, b = (random.integers(-3, 4, shape).astype(ml_dtypes.float8_e4m3fn) for shape in ((256, 128), (128, n)))
    sa, sb = (random.integers(126, 130, (rows, 4)).astype(np.uint8) for rows in (256, n))
    c = np.zeros((256, n), np.float32)
    mimw.simulate(stored, (2, ), a, b, sa, sb, c, n, trans, tmem, target=TARGET, races=True, **PAIR)
    wide = [np.repeat(np.exp2(one.astype(np.float32) - 127), 32, 1) for one in (sa, sb)]
    np.testing.assert_array_equal(c, (a.astype(np.float32) * wide[0]) @ (b.astype(np.float32) * wide[1].T))


@pytest.mark.long(but=["32-*"], everywhere=True)
@pytest.mark.parametrize("n, trans, tmem", STORED[1:])
def test_tables_that_both_store_compile(n, trans, tmem):
    signature = dict(a="*fp8e4nv", b="*fp8e4nv", sa="*u8", sb="*u8", c="*fp32")
    ptx = to_assembly(stored, signature, dict(N=n, TRANS=trans, TMEM=tmem), TARGET, PAIR).stage("ptx")
    told = [int(number) for number in re.findall(rf"kind::{MX8} \[.*?\], \S+ right, (\d+),", ptx)]
    assert len(told) == 4 and all((number >> 15 & 3 == 3) == trans for number in told), "bits 15 and 16: neither lies along K"
    assert len(re.findall(r"@leader tcgen05\.cp\.cta_group::2\.128x256b \[", ptx)) == (4 if tmem else 0)


# ---- what is refused ------------------------------------------------------------------------------------------------------


@mimw.jit
def refusal(p, CASE: tl.constexpr):
    """One wrong argument each."""
    x, w = tlx.local_alloc((128, 128), tl.float8e4nv, 1), tlx.local_alloc((64, 128), tl.float8e4nv, 1)
    wide = tlx.local_alloc((256, 128), tl.float8e4nv, 1)
    sums = tlx.local_alloc((128, 128), tl.float32, 1, tlx.storage_kind.tmem)
    half, most = (tlx.local_alloc((128, 64), tl.float32, 1, tlx.storage_kind.tmem),
                  tlx.local_alloc((128, 256), tl.float32, 1, tlx.storage_kind.tmem))
    left, narrow = (tlx.local_alloc((128, 4), tl.uint8, 1, tlx.storage_kind.tmem),
                    tlx.local_alloc((64, 4), tl.uint8, 1, tlx.storage_kind.tmem))
    y = tlx.local_trans(w[0])
    if CASE == "acc":
        tlx.async_dot_scaled(x[0], y, half[0], left[0], "e4m3", left[0], "e4m3", two_ctas=True)
    elif CASE == "scales":
        tlx.async_dot_scaled(x[0], y, sums[0], left[0], "e4m3", narrow[0], "e4m3", two_ctas=True)
    elif CASE == "columns":
        tlx.async_dot_scaled(x[0], tlx.local_trans(wide[0]), most[0], left[0], "e4m3", left[0], "e4m3", two_ctas=True)
    elif CASE == "mixed":
        tlx.async_dot_scaled(x[0], y, sums[0], left[0], "e4m3", left[0], "e4m3", two_ctas=True)
        tlx.async_dot_scaled(x[0], y, half[0], left[0], "e4m3", left[0], "e4m3")
    elif CASE == "lone":
        tlx.async_dot_scaled(x[0], y, sums[0], left[0], "e4m3", left[0], "e4m3", two_ctas=True)


@pytest.mark.parametrize("case, text", [
    ("acc", r"`acc` must have the shape \[128, 128\]"),
    ("scales", r"B_scale in tensor memory must have the shape \[128, 4\], got \[64, 4\]"),
    ("columns", "got N = 512 with the columns of both CTAs"), ("mixed", "2cta together or 1cta together"),
    ("lone", "is in no pair"),
])
def test_refusals(case, text):
    cluster = None if case == "lone" else (2, 1, 1)
    with pytest.raises(Exception, match=text):
        mimw.simulate(refusal, (2, ), np.zeros(4, np.float32), case, target=TARGET, ctas_per_cga=cluster)


@mimw.jit
def repeated(source, target):
    """32 rows of each CTA that the copy repeats for each warp."""
    rank = tlx.cluster_cta_rank()
    rows = tlx.local_alloc((64, 16), tl.uint8, 1)
    tile = tlx.local_alloc((128, 32), tl.uint8, 1, tlx.storage_kind.tmem)
    done = tlx.alloc_barriers(1)
    at = tl.arange(0, 64)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tlx.local_store(rows[0], tl.load(source + rank * 1024 + at))
    tlx.fence("async_shared")
    tlx.cluster_barrier()
    tlx.tmem_copy(rows[0], tile[0])
    tlx.tcgen05_commit(done[0], two_ctas=True)
    tlx.barrier_wait(done[0], 0)
    wide = tl.arange(0, 128)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tl.store(target + rank * 4096 + wide, tlx.local_load(tile[0]))


def test_rows_repeated_for_each_warp():
    source = np.random.default_rng(3).integers(0, 256, (2, 2, 32, 16)).astype(np.uint8)
    target = np.zeros((2, 4, 32, 32), np.uint8)
    mimw.simulate(repeated, (2, ), source, target, target=TARGET, races=True, **PAIR)
    wanted = np.concatenate((source[:, 0], source[:, 1]), axis=2)[:, None]
    np.testing.assert_array_equal(target, np.broadcast_to(wanted, target.shape))
    text = Case(repeated, dict(source="*u8", target="*u8"), {}, PAIR).compiled(TARGET, by=to_ttgir).stage("ttgir")
    assert text.count("@leader tcgen05.cp.cta_group::2.warpx4.32x128b [") == 2
