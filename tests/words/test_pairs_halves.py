"""Buffers of 64 rows in kernels of pairs of CTAs, whose rows have their halves in lanes 64 apart: some of their columns, and
columns that they share with buffers of 128 rows. Against numpy in the simulator, and by the PTX for sm_100a.
"""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import KernelError, NotYet
from tests.compiling import to_assembly

TARGET, PAIR = "sm_100a", {"ctas_per_cga": (2, 1, 1)}


@mimw.jit
def parts(x, y, N: tl.constexpr, PART: tl.constexpr):
    """x (64, N), stored by parts and loaded whole, then loaded by parts."""
    acc = tlx.local_alloc((64, N), tlx.dtype_of(x), 2, tlx.storage_kind.tmem)
    done = tlx.alloc_barriers(1)
    rank, rows = tlx.cluster_cta_rank(), tl.arange(0, 64)[:, None]
    for part in tl.static_range(N // PART):
        at = rows * N + part * PART + tl.arange(0, PART)[None, :]
        tlx.local_store(tlx.subslice(acc[1], part * PART, PART), tl.load(x + at))
    tl.store(y + rank * 64 * N + rows * N + tl.arange(0, N)[None, :], tlx.local_load(acc[1]))
    right = tlx.subslice(acc[1], N // 2, N // 2)
    for part in tl.static_range(N // PART):
        at = rows * N + part * PART + tl.arange(0, PART)[None, :]
        if part * PART < N // 2:
            found = tlx.local_load(tlx.subslice(acc[1], part * PART, PART))
        else:
            found = tlx.local_load(tlx.subslice(right, part * PART - N // 2, PART))
        tl.store(y + (2 + rank) * 64 * N + at, found)
    tlx.tcgen05_commit(done[0], two_ctas=True)
    tlx.barrier_wait(done[0], 0)


@pytest.mark.parametrize("dtype, n, part", [(np.float32, 64, 32), (np.float32, 32, 8), (np.float16, 64, 16), (np.float32, 8, 1)])
def test_some_columns(dtype, n, part):
    x = np.arange(64 * n).reshape(64, n).astype(dtype)
    y = np.zeros((4, 64, n), dtype)
    mimw.simulate(parts, (2, ), x, y, n, part, target=TARGET, races=True, **PAIR)
    np.testing.assert_array_equal(y, np.broadcast_to(x, y.shape))


def test_some_columns_compile():
    """Stores by the warps of one half; loads of both halves, one of which is handed to all warps."""
    ptx = to_assembly(parts, dict(x="*fp32", y="*fp32"), dict(N=32, PART=8), TARGET, PAIR).stage("ptx")
    assert len(re.findall(r"@%p\d+ tcgen05\.st\.sync\.aligned\.32x32b\.x8\.b32", ptx)) == 4
    assert len(set(re.findall(r"@(%p\d+) tcgen05\.st", ptx))) == 2, "warps 0 and 1, or 2 and 3"
    assert len(re.findall(r"tcgen05\.ld\.sync\.aligned\.32x32b\.x8\.b32", ptx)) == 4
    assert len(re.findall(r"tcgen05\.ld\.sync\.aligned\.32x32b\.x16\.b32", ptx)) == 1


@mimw.jit
def shared(x, y, N: tl.constexpr, WHICH: tl.constexpr):
    """What a buffer of 128 rows holds, seen as one of 64 rows and twice the columns ("down"), or the other way round ("up")."""
    tall = tlx.local_alloc((128, N), tl.float32, 1, tlx.storage_kind.tmem)
    wide = tlx.local_alloc((64, 2 * N), tl.float32, 1, tlx.storage_kind.tmem, reuse=tall)
    done = tlx.alloc_barriers(1)
    high = tl.arange(0, 128)[:, None] * N + tl.arange(0, N)[None, :]
    low = tl.arange(0, 64)[:, None] * 2 * N + tl.arange(0, 2 * N)[None, :]
    if WHICH == "down":
        tlx.local_store(tall[0], tl.load(x + high))
        tl.store(y + low, tlx.local_load(wide[0]))
    elif WHICH == "up":
        tlx.local_store(wide[0], tl.load(x + low))
        tl.store(y + high, tlx.local_load(tall[0]))
    else:
        tlx.local_store(tlx.subslice(wide[0], N, N), tl.load(x + tl.arange(0, 64)[:, None] * N + tl.arange(0, N)[None, :]))
        tl.store(y + high, tlx.local_load(tall[0]))
    tlx.tcgen05_commit(done[0], two_ctas=True)
    tlx.barrier_wait(done[0], 0)


@pytest.mark.parametrize("which", ["down", "up"])
def test_columns_of_64_and_of_128_rows(which):
    x, y = np.arange(128 * 32, dtype=np.float32), np.zeros(128 * 32, np.float32)
    mimw.simulate(shared, (2, ), x, y, 32, which, target=TARGET, races=False, **PAIR)
    tall, wide = (x, y) if which == "down" else (y, x)
    halves = tall.reshape(2, 64, 32)        # row r of 64 is in lanes r and 64 + r
    np.testing.assert_array_equal(wide.reshape(64, 64), np.concatenate(tuple(halves), axis=1))


def test_one_half_is_half_the_lanes():
    with pytest.raises(Exception, match=r"'tall'\[0\], element \(0, 0\), which nobody has written"):
        mimw.simulate(shared, (2, ), np.zeros(4096, np.float32), np.zeros(4096, np.float32), 32, "half", target=TARGET, **PAIR)


@mimw.jit
def refusal(p, CASE: tl.constexpr):
    acc = tlx.local_alloc((64, 64), tl.float32, 1, tlx.storage_kind.tmem)
    a, b = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((64, 16), tl.float16, 1)
    done = tlx.alloc_barriers(1)
    if CASE == "middle":
        part = tlx.subslice(acc[0], 16, 32)
    else:
        part = tlx.subslice(acc[0], 32, 32)
    if CASE == "product":
        tlx.async_dot(a[0], b[0], part, use_acc=False, two_ctas=True, force_async=True)
    if CASE == "handed on":
        for i in range(tl.program_id(0)):
            tl.store(p + i, tl.sum(tl.sum(tlx.local_load(part), 1), 0))
            part = tlx.subslice(acc[0], 0, 32)
    tlx.tcgen05_commit(done[0], two_ctas=True)


@pytest.mark.parametrize("case, kind, text", [
    ("middle", KernelError, "columns 16 to 47 of 64 rows of 64"), ("product", KernelError, "adds up into both halves of 64 rows"),
    ("handed on", NotYet, "that an `if` or a loop passes on"),
])
def test_refusals(case, kind, text):
    with pytest.raises(kind, match=text):
        mimw.simulate(refusal, (2, ), np.zeros(4, np.float32), case, target=TARGET, **PAIR)
