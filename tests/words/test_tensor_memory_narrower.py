"""A buffer of tensor memory seen as narrower elements: the first of its columns, as a tile and as an operand."""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx

from .test_tensor_memory import BF16, E5M2, compiled, ptx_of, refused, simulated, values


@mimw.jit
def there_and_back(wide, narrow, back, rest, M: tl.constexpr, N: tl.constexpr, CUT: tl.constexpr):
    """fp32 first; then narrower elements over the first of its columns; the last columns are still fp32."""
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    half = tl.arange(0, N // 2)[None, :]
    buffer = tlx.local_alloc((M, N), tl.float32, 1, tlx.storage_kind.tmem)
    tlx.local_store(buffer[0], tl.load(wide + m * N + n))
    if CUT:
        seen = tlx.local_reinterpret(tlx.subslice(buffer[0], 0, N // 2), tlx.dtype_of(narrow))
        tlx.local_store(seen, tl.load(narrow + m * (N // 2) + half))
        tl.store(back + m * (N // 2) + half, tlx.local_load(seen))
    else:
        seen = tlx.local_reinterpret(buffer[0], tlx.dtype_of(narrow))
        tlx.local_store(seen, tl.load(narrow + m * N + n))
        tl.store(back + m * N + n, tlx.local_load(seen))
    tl.store(rest + m * (N // 2) + half, tlx.local_load(tlx.subslice(buffer[0], N // 2, N // 2)))


@pytest.mark.long(but=["float8_e5m2-False-64", "bfloat16-True-128", "float16-False-64"], everywhere=True)
@pytest.mark.parametrize("rows", [128, 64])
@pytest.mark.parametrize("dtype, cut", [(np.float16, False), (BF16, True), (E5M2, False)])
def test_narrower_elements_take_the_first_columns(dtype, rows, cut):
    wide, columns = values((rows, 32), np.float32), 16 if cut else 32
    narrow = values((rows, columns), dtype, 1)
    back, rest = np.zeros_like(narrow), np.zeros((rows, 16), np.float32)
    simulated(there_and_back, wide, narrow, back, rest, rows, 32, cut)
    np.testing.assert_array_equal(back.view(np.uint8), narrow.view(np.uint8))
    np.testing.assert_array_equal(rest, wide[:, 16:])
    ptx = ptx_of(there_and_back, (wide, narrow, back, rest), M=rows, N=32, CUT=cut)
    assert len(re.findall(r"tcgen05\.alloc", ptx)) == 1 and len(re.findall(r"tcgen05\.st\.", ptx)) == 2


@mimw.jit
def two_products(a, b, v, c, M: tl.constexpr, N: tl.constexpr):
    """(a @ b) as fp16, where it lies, @ v."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, 64)
    left, right = tlx.local_alloc((M, 64), tl.float16, 1), tlx.local_alloc((64, N), tl.float16, 1)
    more = tlx.local_alloc((N, 64), tl.float16, 1)
    scores = tlx.local_alloc((M, N), tl.float32, 1, tlx.storage_kind.tmem)
    out = tlx.local_alloc((M, 64), tl.float32, 1, tlx.storage_kind.tmem)
    tlx.local_store(left[0], tl.load(a + m[:, None] * 64 + k[None, :]))
    tlx.local_store(right[0], tl.load(b + k[:, None] * N + n[None, :]))
    tlx.local_store(more[0], tl.load(v + n[:, None] * 64 + k[None, :]))
    tlx.async_dot(left[0], right[0], scores[0], use_acc=False)
    p = tlx.local_reinterpret(scores[0], tl.float16)
    tlx.local_store(p, tlx.local_load(scores[0]).to(tl.float16))
    tlx.async_dot(p, more[0], out[0], use_acc=False)
    tl.store(c + m[:, None] * 64 + k[None, :], tlx.local_load(out[0]))


@pytest.mark.parametrize("rows", [128, 64])
def test_as_an_operand(rows, sass_has):
    a, b, v = values((rows, 64), np.float16), values((64, 32), np.float16, 1), values((32, 64), np.float16, 2)
    c = np.zeros((rows, 64), np.float32)
    simulated(two_products, a, b, v, c, rows, 32)
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)) @ v.astype(np.float32))
    found = compiled(two_products, (a, b, v, c), M=rows, N=32)
    products = re.findall(r"tcgen05\.mma\.cta_group::1\.kind::f16 \[\s*%r\d+ \+ \d+ \], (\S+)", found.stage("ptx"))
    assert {one.startswith("[") for one in products} == {True, False}      # the second one reads A in tensor memory
    sass_has(found, "UTCHMMA")


@mimw.jit
def in_pairs(wide, narrow, back):
    """64 rows a CTA, whose halves lie in lanes of their own."""
    at = tl.program_id(0) * 64 * 32 + tl.arange(0, 64)[:, None] * 32 + tl.arange(0, 32)[None, :]
    a, b = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((64, 16), tl.float16, 1)
    buffer = tlx.local_alloc((64, 32), tl.float32, 1, tlx.storage_kind.tmem)
    tlx.local_store(a[0], tl.zeros((64, 64), tl.float16))
    tlx.local_store(b[0], tl.zeros((64, 16), tl.float16))
    tlx.cluster_barrier()
    tlx.async_dot(a[0], b[0], buffer[0], use_acc=False, two_ctas=True)
    tlx.local_store(buffer[0], tl.load(wide + at))
    seen = tlx.local_reinterpret(buffer[0], tl.float16)
    tlx.local_store(seen, tl.load(narrow + at))
    tl.store(back + at, tlx.local_load(seen))


def test_in_pairs_of_ctas():
    wide, narrow = values((128, 32), np.float32), values((128, 32), np.float16, 1)
    back = np.zeros_like(narrow)
    mimw.simulate(in_pairs, (2, ), wide, narrow, back, target="sm_100a", ctas_per_cga=(2, 1, 1))
    np.testing.assert_array_equal(back, narrow)
    assert "tcgen05.st" in mimw.compile(in_pairs, (2, ), wide, narrow, back, target="sm_100a", ctas_per_cga=(2, 1, 1)).ptx


@mimw.jit
def wider(p):
    x = tlx.local_alloc((128, 64), tl.float16, 1, tlx.storage_kind.tmem)
    tlx.local_reinterpret(x[0], tl.float32)


@mimw.jit
def an_array(p):
    x = tlx.local_alloc((128, 64), tl.float32, 2, tlx.storage_kind.tmem)
    tlx.local_reinterpret(x, tl.float16)


@mimw.jit
def a_table(p):
    x = tlx.local_alloc((128, 64), tl.float32, 1, tlx.storage_kind.tmem)
    tlx.local_reinterpret(x[0], tl.uint8)


@pytest.mark.parametrize("kernel, words", [(wider, "tensor memory keeps its columns"), (an_array, "would lie apart"),
                                           (a_table, "a table of scales")], ids=lambda one: getattr(one, "__name__", ""))
def test_refused(kernel, words):
    assert words in refused(kernel)
