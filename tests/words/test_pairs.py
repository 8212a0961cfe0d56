"""Products of pairs of CTAs, each CTA a program of its own: against numpy in the simulator, and compiled for sm_100a.

No chip with tensor memory was at hand: what is asserted of the compiled kernels is their PTX and SASS.
"""

import re

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_assembly
from tests.kernels import pair_multicast_gemm
from tests.kernels.pair_gemm import launch, pair_gemm
from tests.lowering.harness import Case

BF16, E5M2, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn
NAMES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float8_e5m2": "fp8e5", "float8_e4m3fn": "fp8e4nv", "int8": "i8",
         "int32": "i32"}
TARGET, PAIR = "sm_100a", {"ctas_per_cga": (2, 1, 1)}


def compiled(kernel, signature, options=PAIR, by=compile_kernel, **meta):
    return Case(kernel, signature, meta, options).compiled(TARGET, by=by)


# ---- the GEMM ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [
    dict(), dict(GUARD=False), dict(m=512, n=128, k=96, bk=32, stages=3), dict(m=512, n=32, bn=32, cluster=(4, 1, 1)),
    dict(dtype=BF16, bk=32), dict(dtype=E4M3, bk=32), dict(dtype=E5M2, bk=64, stages=1), dict(dtype=np.float32),
    dict(m=128, bm=64),
], ids=str)
def test_a_gemm(shape):
    (kernel, grid, args, meta), wanted = launch(**shape)
    mimw.simulate(kernel, grid, *args, races=True, **meta)
    np.testing.assert_array_equal(args[2], wanted)


def test_nothing_is_found():
    """200 seeds: benchmarks/results/blackwell.jsonl."""
    (kernel, grid, args, meta), _ = launch(m=256, n=32, k=48, bn=32)
    report = mimw.check(kernel, grid, *args, seeds=12, **meta)
    assert not report.findings, report


def test_a_prediction_ends():
    """The machine with a clock arrives in both CTAs, and completes the bytes of both."""
    (kernel, grid, args, meta), _ = launch(m=256, n=128, bn=128, k=256, bk=64)
    assert mimw.predict(kernel, grid, *args, **meta).cycles > 0


def compiled_gemm(guard=True, ending=True, element="fp16", bm=128, bn=128, bk=64, **meta):
    names = dict(a_desc=f"tensordesc<{element}[{bm}, {bk}]>", b_desc=f"tensordesc<{element}[{bn // 2}, {bk}]>", c_ptr="*fp32",
                 N="i32", K="i32")
    return compiled(pair_gemm, names, BM=bm, BN=bn, BK=bk, STAGES=2, GUARD=guard, ENDING_SYNC=ending, **meta)


@pytest.mark.long(but=["guarded"], everywhere=True)
@pytest.mark.parametrize("guard", [True, False], ids=["guarded", "by both"])
def test_the_gemm_compiles(guard, sass_has):
    found = compiled_gemm(guard)
    ptx = found.stage("ptx")
    assert "tcgen05.alloc.cta_group::2" in ptx and "tcgen05.dealloc.cta_group::2" in ptx
    assert ptx.count("@leader tcgen05.mma.cta_group::2.kind::f16") == 4, "one for 32 bytes of K"
    assert "@leader tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64" in ptx
    assert len(re.findall(r"@on cp\.async\.bulk\.tensor\.2d\.cta_group::2\.shared::cluster\.global\.tile", ptx)) == 2
    assert "cta_group::1" not in ptx
    sass_has(found, "UTCHMMA.2CTA", "UTMALDG.2D.2CTA", "UTCBAR.2CTA.MULTICAST", "UTCATOMSWS.2CTA")
    assert "fence.proxy.async" not in ptx[ptx.index("tcgen05.mma") - 2000:ptx.index("tcgen05.mma")], "TMA wrote the operands"


@pytest.mark.parametrize("ending", [True, False], ids=["ending sync", "none"])
def test_what_stands_before_the_end(ending):
    """The cluster meets, or the CTA's threads alone do, between the last load of tensor memory and its release."""
    ptx = compiled_gemm(ending=ending, by=to_assembly).stage("ptx")
    last = ptx[ptx.index("tcgen05.wait::ld"):]
    last = last[:last.index("tcgen05.dealloc")]
    assert ("barrier.cluster.wait" in last) == ending and re.search(r"bar(rier)?\.(cluster\.wait|sync)", last)


@pytest.mark.parametrize("handed", [False, True], ids=["its own", "handed on"])
def test_two_pairs_that_share_b(handed):
    (kernel, grid, args, meta), wanted = pair_multicast_gemm.launch(HANDED=handed)
    mimw.simulate(kernel, grid, *args, races=True, **meta)
    np.testing.assert_array_equal(args[2], wanted)


@pytest.mark.long(but=["handed on"], everywhere=True)
@pytest.mark.parametrize("handed", [False, True], ids=["its own", "handed on"])
def test_two_pairs_that_share_b_compile(handed):
    names = dict(a_desc="tensordesc<fp16[64, 64]>", b_desc="tensordesc<fp16[16, 64]>", c_ptr="*fp32", K="i32")
    meta = dict(BM=64, N=32, BK=64, STAGES=2, HANDED=handed)
    by = to_assembly if handed else compile_kernel
    made = Case(pair_multicast_gemm.pair_multicast_gemm, names, meta, {"ctas_per_cga": (4, 1, 1)}).compiled(TARGET, by=by)
    form = r"@on (cp\.async\.bulk\.tensor\.2d\.cta_group::2\S*) \[to\], \[map, \{c1, c0\}\], \[bar\](.*);"
    loads = set(re.findall(form, made.stage("ptx")))
    plain = "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    assert loads == {(plain, ""), (plain + ".multicast::cluster.L2::cache_hint", ", mask, hint")}
    assert handed or "UTMALDG.2D.MULTICAST.2CTA" in made.stage("sass")


# ---- types, orders, and where A lies ----------------------------------------------------------------------------------


@mimw.jit
def product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, A: tl.constexpr, B: tl.constexpr, ACC: tl.constexpr,
            SYNC: tl.constexpr = False):
    """c = a @ b of one pair, plus c before it if ACC; a (2 M, K), b (K, N). Operands come from registers. A: "rows", "columns" (a
    transposed view) or "tmem"; B: "rows" or "columns"."""
    rank = tlx.cluster_cta_rank()
    m, n, k = rank * M + tl.arange(0, M), rank * (N // 2) + tl.arange(0, N // 2), tl.arange(0, K)
    acc = tlx.local_alloc((M, N), tlx.dtype_of(c), 1, tlx.storage_kind.tmem)
    if A == "columns":
        left_tile = tlx.local_alloc((K, M), tlx.dtype_of(a), 1)
        tlx.local_store(left_tile[0], tl.load(a + m[None, :] * K + k[:, None]))
        left = tlx.local_trans(left_tile[0])
    elif A == "rows":
        left_tile = tlx.local_alloc((M, K), tlx.dtype_of(a), 1)
        tlx.local_store(left_tile[0], tl.load(a + m[:, None] * K + k[None, :]))
        left = left_tile[0]
    else:
        left_tile = tlx.local_alloc((M, K), tlx.dtype_of(a), 1, tlx.storage_kind.tmem)
        tlx.local_store(left_tile[0], tl.load(a + m[:, None] * K + k[None, :]))
        left = left_tile[0]
    if B == "columns":
        right_tile = tlx.local_alloc((N // 2, K), tlx.dtype_of(b), 1)
        tlx.local_store(right_tile[0], tl.load(b + k[None, :] * N + n[:, None]))
        right = tlx.local_trans(right_tile[0])
    else:
        right_tile = tlx.local_alloc((K, N // 2), tlx.dtype_of(b), 1)
        tlx.local_store(right_tile[0], tl.load(b + k[:, None] * N + n[None, :]))
        right = right_tile[0]
    at = m[:, None] * N + tl.arange(0, N)[None, :]
    if ACC:
        tlx.local_store(acc[0], tl.load(c + at))
    done = tlx.alloc_barriers(1)
    tlx.fence("async_shared")
    tlx.cluster_barrier()
    if SYNC:
        for _ in range(SYNC):
            tlx.async_dot(left, right, acc[0], use_acc=ACC, two_ctas=True)
            tlx.cluster_barrier()
    else:
        tlx.async_dot(left, right, acc[0], use_acc=ACC, mBarriers=[done[0]], two_ctas=True)
        tlx.barrier_wait(done[0], 0)
    tl.store(c + at, tlx.local_load(acc[0]))


CASES = [
    (128, 128, 64, np.float16, np.float32, "rows", "columns"), (128, 64, 32, BF16, np.float32, "columns", "rows"),
    (128, 256, 128, BF16, np.float32, "rows", "rows"), (128, 32, 128, E5M2, np.float32, "rows", "columns"),
    (128, 64, 64, E4M3, np.float32, "columns", "rows"), (128, 64, 32, np.float32, np.float32, "rows", "columns"),
    (128, 64, 64, np.int8, np.int32, "rows", "columns"), (128, 64, 64, BF16, np.float32, "tmem", "rows"),
    (64, 128, 64, np.float16, np.float32, "rows", "columns"), (64, 64, 32, BF16, np.float32, "columns", "rows"),
    (64, 64, 64, np.float16, np.float32, "tmem", "rows"), (64, 128, 128, E5M2, np.float32, "tmem", "columns"),
    (64, 64, 64, np.int8, np.int32, "tmem", "columns"),
]
KINDS = {"float16": "f16", "bfloat16": "f16", "float32": "tf32", "float8_e5m2": "f8f6f4", "float8_e4m3fn": "f8f6f4", "int8": "i8"}
MMA_OF = {"f16": "UTCHMMA.2CTA", "tf32": "UTCHMMA.2CTA", "f8f6f4": "UTCQMMA.2CTA", "i8": "UTCIMMA.2CTA"}


def operands(m, n, k, dtype, c_dtype):
    random = np.random.default_rng(1)
    shapes = ((2 * m, k), dtype), ((k, n), dtype), ((2 * m, n), c_dtype)
    return tuple(random.integers(-3, 4, shape).astype(kind) for shape, kind in shapes)


@pytest.mark.parametrize("acc", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_products(case, acc):
    m, n, k, dtype, c_dtype, a_view, b_view = case
    a, b, c = operands(m, n, k, dtype, c_dtype)
    wanted = a.astype(np.float32) @ b.astype(np.float32) + (c.astype(np.float32) if acc else 0)
    mimw.simulate(product, (2, ), a, b, c, m, n, k, a_view, b_view, acc, target=TARGET, races=True, **PAIR)
    np.testing.assert_array_equal(c.astype(np.float32), wanted)


@pytest.mark.long(but=["(128, 128, 64, *", "(64, *", "(128, 64, 64, *"], everywhere=True)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_products_compile(case, sass_has):
    """With four warps or, where that takes LLVM a second and more, with eight."""
    m, n, k, dtype, c_dtype, a_view, b_view = case
    element = NAMES[np.dtype(dtype).name]
    warps = 4 if n * k <= 64 * 32 else 8
    found = compiled(product, dict(a=f"*{element}", b=f"*{element}", c=f"*{NAMES[np.dtype(c_dtype).name]}"),
                     PAIR | {"num_warps": warps}, M=m, N=n, K=k, A=a_view, B=b_view, ACC=False)
    kind = KINDS[np.dtype(dtype).name]
    assert found.stage("ptx").count(f"tcgen05.mma.cta_group::2.kind::{kind}") == k * np.dtype(dtype).itemsize // 32
    sass_has(found, MMA_OF[kind])


@pytest.mark.parametrize("times", [1, 3])
def test_a_product_that_its_word_waits_for(times):
    a, b, c = operands(128, 64, 32, np.float16, np.float32)
    wanted = times * (a.astype(np.float32) @ b.astype(np.float32)) + c
    args = a, b, c, 128, 64, 32, "rows", "columns", True, times
    mimw.simulate(product, (2, ), *args, target=TARGET, races=True, **PAIR)
    np.testing.assert_array_equal(c, wanted)
    assert mimw.check(product, (2, ), *args, target=TARGET, seeds=10, **PAIR).ok


def test_the_wait_of_a_product_compiles():
    ptx = compiled(product, dict(a="*fp16", b="*fp16", c="*fp32"), by=to_assembly, M=128, N=64, K=32, A="rows", B="columns",
                   ACC=False, SYNC=2).stage("ptx")
    before, behind = ptx[:ptx.rindex("tcgen05.mma")], ptx[ptx.rindex("tcgen05.mma"):]
    assert behind.index("multicast::cluster") < behind.index("mbarrier.try_wait")
    phase, own, other = (before.rindex(part) for part in ("mbarrier.test_wait.parity", "mbarrier.arrive.shared::cta", "mapa"))
    assert phase < own < other, "both CTAs have called the word before the even one issues"


@mimw.jit
def one_after_the_other(a, b, c, TIMES: tl.constexpr, GUARD: tl.constexpr):
    """Products of one pair with nothing between them: a (128, 32), b (32, 64); c += TIMES a @ b. With GUARD the odd CTA calls none,
    and waits for the cluster."""
    rank = tlx.cluster_cta_rank()
    m, n, k = rank * 64 + tl.arange(0, 64), rank * 32 + tl.arange(0, 32), tl.arange(0, 32)
    left, right = tlx.local_alloc((64, 32), tl.float16, 1), tlx.local_alloc((32, 32), tl.float16, 1)
    acc = tlx.local_alloc((64, 64), tl.float32, 1, tlx.storage_kind.tmem)
    tlx.local_store(left[0], tl.load(a + m[:, None] * 32 + k[None, :]))
    tlx.local_store(right[0], tl.load(b + k[:, None] * 64 + n[None, :]))
    at = m[:, None] * 64 + tl.arange(0, 64)[None, :]
    tlx.local_store(acc[0], tl.load(c + at))
    tlx.fence("async_shared")
    tlx.cluster_barrier()
    for _ in range(TIMES):
        if GUARD:
            if rank % 2 == 0:
                tlx.async_dot(left[0], right[0], acc[0], two_ctas=True)
        else:
            tlx.async_dot(left[0], right[0], acc[0], two_ctas=True)
    if GUARD:
        tlx.cluster_barrier()
    tl.store(c + at, tlx.local_load(acc[0]))


@pytest.mark.parametrize("guard", [False, True])
def test_no_product_begins_before_both_ctas_have_called_the_last(guard):
    """A second commit would take the place of the odd CTA's arrival, which might then wait for ever; where only the even CTA calls,
    nobody waits for the odd one."""
    a, b, c = operands(64, 64, 32, np.float16, np.float32)
    wanted = 4 * (a.astype(np.float32) @ b.astype(np.float32)) + c
    for seed in range(5):
        result = c.copy()
        mimw.simulate(one_after_the_other, (2, ), a, b, result, 4, guard, target=TARGET, seed=seed, races=not guard, **PAIR)
        np.testing.assert_array_equal(result, wanted)
    if not guard:
        assert mimw.check(one_after_the_other, (2, ), a, b, c, 8, guard, target=TARGET, seeds=100, **PAIR).ok


# ---- what is refused --------------------------------------------------------------------------------------------------


@mimw.jit
def mixed(p):
    a, b = tlx.local_alloc((128, 64), tl.float16, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    acc, other = (tlx.local_alloc((128, 128), tl.float32, 1, tlx.storage_kind.tmem),
                  tlx.local_alloc((128, 64), tl.float32, 1, tlx.storage_kind.tmem))
    tlx.async_dot(a[0], b[0], acc[0], two_ctas=True, force_async=True)
    tlx.async_dot(a[0], b[0], other[0], force_async=True)


@mimw.jit
def beside_a_dot(p):
    a, b = tlx.local_alloc((128, 64), tl.float16, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    acc = tlx.local_alloc((128, 128), tl.float32, 1, tlx.storage_kind.tmem)
    tlx.async_dot(a[0], b[0], acc[0], two_ctas=True, force_async=True)
    tile = tl.load(p + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]).to(tl.float16)
    tl.store(p + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], tl.dot(tile, tile))


@mimw.jit
def narrow(p):
    a, b = tlx.local_alloc((128, 64), tl.float16, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    acc = tlx.local_alloc((128, 64), tl.float32, 1, tlx.storage_kind.tmem)
    tlx.async_dot(a[0], b[0], acc[0], two_ctas=True, force_async=True)


@mimw.jit
def unswizzled(p):
    a, b = tlx.local_alloc((128, 64), tl.float16, 1), tlx.local_alloc((64, 8), tl.float16, 1)
    acc = tlx.local_alloc((128, 16), tl.float32, 1, tlx.storage_kind.tmem)
    tlx.async_dot(a[0], b[0], acc[0], two_ctas=True, force_async=True)


def refused(kernel, cluster=(2, 1, 1)):
    with pytest.raises(Exception) as found:
        mimw.simulate(kernel, (6, ), np.zeros((64, 64), np.float32), target=TARGET, ctas_per_cga=cluster)
    return str(found.value)


@pytest.mark.parametrize("kernel, words", [
    (mixed, "Expecting all dot ops to be 2cta together or 1cta together"),
    (beside_a_dot, "Expecting all dot ops to be 2cta together or 1cta together"),
    (narrow, r"`acc` must have the shape [128, 128]"), (unswizzled, "32 bytes and more of B"),
], ids=lambda one: getattr(one, "__name__", ""))
def test_refused(kernel, words):
    assert words in refused(kernel)


@pytest.mark.parametrize("cluster", [None, (3, 1, 1)])
def test_clusters_without_pairs(cluster):
    assert "is in no pair" in refused(product_of_pair, cluster)


@mimw.jit
def product_of_pair(p):
    a, b = tlx.local_alloc((128, 64), tl.float16, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    acc = tlx.local_alloc((128, 128), tl.float32, 1, tlx.storage_kind.tmem)
    tlx.async_dot(a[0], b[0], acc[0], two_ctas=True, force_async=True)


@pytest.mark.parametrize("columns", [64, 128])
def test_64_rows_a_cta_lie_in_128_lanes(columns):
    """The accumulator takes half as many columns, and comes back by the wide load, without a word between threads."""
    ptx = compiled(product, dict(a="*fp16", b="*fp16", c="*fp32"), by=to_assembly, M=64, N=columns, K=32, A="rows", B="columns",
                   ACC=True).stage("ptx")
    assert re.search(r"tcgen05\.alloc\S+ \[%r\d+\], (\d+);", ptx)[1] == str(columns // 2)
    loads = ptx[ptx.rindex("tcgen05.mma"):]
    assert f"tcgen05.ld.sync.aligned.32x32b.x{columns // 2}.b32" in loads and "shfl" not in loads
