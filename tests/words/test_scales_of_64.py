"""Products whose K has fewer scales than a column of tensor memory holds: heads of 64, tables (128, 4) of which two are read."""

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel

from .test_tensor_memory_scaled import packed

E4M3 = ml_dtypes.float8_e4m3fn


@mimw.jit
def scores(q, k, sq, sk, c, K: tl.constexpr, COLUMNS: tl.constexpr, PLACE: tl.constexpr, SHAPE: tl.constexpr,
           PAIRS: tl.constexpr):
    """c = q @ k.T of (128, K) and (128, K) fp8; in pairs each CTA has its rows of q and its half of k's."""
    ROWS: tl.constexpr = 64 if PAIRS else 128
    m, n, across = tl.arange(0, 128)[:, None], tl.arange(0, ROWS)[:, None], tl.arange(0, K)[None, :]
    first = tl.program_id(0)
    left, right = tlx.local_alloc((128, K), tl.float8e4nv, 1), tlx.local_alloc((ROWS, K), tl.float8e4nv, 1)
    acc = tlx.local_alloc((128, 128), tl.float32, 1, tlx.storage_kind.tmem)
    tlx.local_store(left[0], tl.load(q + (first * 128 + m) * K + across))
    tlx.local_store(right[0], tl.load(k + (first * ROWS + n) * K + across))
    row = tl.arange(0, 128)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    COUNT: tl.constexpr = 128 * COLUMNS
    if PLACE == "stored":
        a = tlx.local_alloc((128, COLUMNS), tl.uint8, 1, tlx.storage_kind.tmem)
        b = tlx.local_alloc((128, COLUMNS), tl.uint8, 1, tlx.storage_kind.tmem)
        tlx.local_store(a[0], tl.load(sq + first * COUNT + row))
        tlx.local_store(b[0], tl.load(sk + row))
    else:
        a_packed, b_packed = tlx.local_alloc(SHAPE, tl.uint8, 1), tlx.local_alloc(SHAPE, tl.uint8, 1)
        tlx.local_store(a_packed[0], tl.load(sq + first * COUNT + tl.arange(0, COUNT)).reshape(SHAPE))
        tlx.local_store(b_packed[0], tl.load(sk + tl.arange(0, COUNT)).reshape(SHAPE))
        if PLACE == "copied":
            a = tlx.local_alloc((128, COLUMNS), tl.uint8, 1, tlx.storage_kind.tmem)
            b = tlx.local_alloc((128, COLUMNS), tl.uint8, 1, tlx.storage_kind.tmem)
            tlx.tmem_copy(a_packed[0], a[0])
            tlx.tmem_copy(b_packed[0], b[0])
        else:
            a, b = a_packed, b_packed
    if PAIRS:
        tlx.fence("async_shared")
        tlx.cluster_barrier()
    tlx.async_dot_scaled(left[0], tlx.local_trans(right[0]), acc[0], a[0], "e4m3", b[0], "e4m3", use_acc=False, two_ctas=PAIRS)
    tl.store(c + (first * 128 + m) * 128 + tl.arange(0, 128)[None, :], tlx.local_load(acc[0]))


def launch_of(k, place, form, pairs):
    """Columns that fill up a table hold 255, which is no number: a product that reads one is NaN."""
    random, ctas = np.random.default_rng(7), 2 if pairs else 1
    columns, used = -(-k // 128) * 4, k // 32
    left, right = (random.integers(-3, 4, (rows, k)).astype(E4M3) for rows in (128 * ctas, 128))
    tables = [np.full((rows, columns), 255, np.uint8) for rows in (128 * ctas, 128)]
    for table in tables:
        table[:, :used] = random.integers(125, 130, (len(table), used))
    wide = [(tile.astype(np.float32) * np.repeat(2.0**(table[:, :used].astype(np.float32) - 127), 32, axis=1))
            for tile, table in zip((left, right), tables)]
    given = tables if place == "stored" else [np.stack([packed(half, form) for half in np.split(table, len(table) // 128)])
                                              for table in tables]
    shape = None if place == "stored" else given[0].shape[1:]
    meta = dict(K=k, COLUMNS=columns, PLACE=place, SHAPE=shape, PAIRS=pairs)
    return [left, right, *given, np.zeros((128 * ctas, 128), np.float32)], meta, wide[0] @ wide[1].T


CASES = [(64, "stored", 4, False), (64, "copied", 4, False), (64, "smem", "2 x 256", False), (64, "smem", 4, True),
         (64, "stored", 4, True), (32, "copied", 5, False)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_fills_up_a_column_is_not_read(case):
    args, meta, wanted = launch_of(*case)
    options = {"ctas_per_cga": (2, 1, 1)} if case[-1] else {}
    mimw.simulate(scores, (2 if case[-1] else 1, ), *args, target="sm_100a", **meta, **options)
    np.testing.assert_array_equal(args[-1], wanted)


@pytest.mark.long(but=["*smem*"], everywhere=True)
@pytest.mark.parametrize("case", [CASES[0], CASES[2], CASES[3]], ids=str)
def test_products_compile(case, sass_has):
    _, meta, _ = launch_of(*case)
    signature = {"q": "*fp8e4nv", "k": "*fp8e4nv", "sq": "*u8", "sk": "*u8", "c": "*fp32"}
    found = compile_kernel(scores, signature, meta, "sm_100a", {"ctas_per_cga": (2, 1, 1)} if case[-1] else {})
    group = 2 if case[-1] else 1
    products = [line for line in found.ptx.splitlines() if f"tcgen05.mma.cta_group::{group}.kind::mxf8f6f4.block_scale" in line]
    assert len(products) == case[0] // 32
    sass_has(found, "UTCQMMA")


@mimw.jit
def too_wide(p):
    x, w = tlx.local_alloc((128, 64), tl.float8e4nv, 1), tlx.local_alloc((64, 64), tl.float8e4nv, 1)
    sums = tlx.local_alloc((128, 64), tl.float32, 1, tlx.storage_kind.tmem)
    table = tlx.local_alloc((128, 8), tl.uint8, 1, tlx.storage_kind.tmem)
    tlx.async_dot_scaled(x[0], tlx.local_trans(w[0]), sums[0], table[0], "e4m3", table[0], "e4m3")


def test_more_than_a_column_is_refused():
    with pytest.raises(Exception, match=r"A_scale in tensor memory must have the shape \[128, 2\] or \[128, 4\], got \[128, 8\]"):
        mimw.simulate(too_wide, (1, ), np.zeros(4, np.float32), target="sm_100a")
