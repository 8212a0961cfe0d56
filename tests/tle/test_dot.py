"""`tl.dot` of tiles behind pointers: the tensor core reads them in shared memory."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_ttgir


@mimw.jit
def product(x, w, y, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, TURNED: tl.constexpr, BY: tl.constexpr):
    """y = x w; w as (N, K) if TURNED. The tiles come by TMA, by pointers, or element by element."""
    a = tle.gpu.alloc([M, BK], tl.float16)
    b = tle.gpu.alloc([N, BK] if TURNED else [BK, N], tl.float16)
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for at in range(0, K, BK):
        if BY == "tma":
            tle.gpu.copy(x, a, [M, BK], [0, at])
            tle.gpu.copy(w, b, [N, BK] if TURNED else [BK, N], [0, at] if TURNED else [at, 0])
        else:
            rows = x + m[:, None] * K + at + k[None, :]
            columns = w + n[:, None] * K + at + k[None, :] if TURNED else w + (at + k)[:, None] * N + n[None, :]
            tle.gpu.copy(columns, b, [N, BK] if TURNED else [BK, N])
            if BY == "pointers":
                tle.gpu.copy(rows, a, [M, BK])
            else:
                to = (tl.broadcast_to(M - 1 - m[:, None], (M, BK)), tl.broadcast_to(k[None, :], (M, BK)))
                tl.store(tle.gpu.local_ptr(a, to), tl.load(rows))
        right = tl.load(tle.gpu.local_ptr(b))
        acc = tl.dot(tl.load(tle.gpu.local_ptr(a)), tl.trans(right) if TURNED else right, acc)
    tl.store(y + m[:, None] * N + n[None, :], acc)


@pytest.mark.long(everywhere=["128-32-32-False-pointers", "64-64-64-False-elements", "64-64-64-True-tma"])
@pytest.mark.parametrize("by", ["tma", "pointers", "elements"])
@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("m, n, bk", [(64, 64, 64), (128, 32, 32)])
def test_product(machine, m, n, bk, turned, by):
    random, k = np.random.default_rng(0), 256
    x, w = (random.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (n, k) if turned else (k, n)))
    y, describe = np.zeros((m, n), np.float32), mimw.TensorDescriptor.from_tensor
    sources = (describe(x, [m, bk]), describe(w, [n, bk] if turned else [bk, n])) if by == "tma" else (x, w)
    machine.launch(product, (1, ), *sources, y, k, m, n, bk, turned, by)
    exact = (x[::-1] if by == "elements" else x).astype(np.float32) @ (w.T if turned else w).astype(np.float32)
    assert (y == exact).all()


def compiled(target="sm_90a", by="tma", turned=False, m=64, n=64, bk=64, compiler=to_ttgir, **options):
    kind = "tensordesc<fp16[{},{}]>"
    signature = {"x": kind.format(m, bk), "w": kind.format(*((n, bk) if turned else (bk, n)))} if by == "tma" else {
        "x": "*fp16", "w": "*fp16"}
    return compiler(product, signature | {"y": "*fp32", "K": "i32"}, dict(M=m, N=n, BK=bk, TURNED=turned, BY=by), target,
                    options=options)


@pytest.mark.parametrize("turned", [True, False])
def test_no_tile_goes_through_registers(turned):
    ttgir = compiled(turned=turned).stages["ttgir"]
    assert ttgir.count("ttng.warp_group_dot ") == 1 and "ttg.local_load" not in ttgir and "ttg.local_store" not in ttgir


def test_picked_elements_are_fenced_before_the_tensor_core_reads_them():
    words = ("local_scatter", "fence_async_shared", "warp_group_dot ")
    lines = compiled(by="elements").stages["ttgir"].splitlines()
    found = [word.strip() for line in lines for word in words if word in line and not line.startswith("#loc")]
    assert found[found.index("local_scatter"):] == ["local_scatter", "fence_async_shared", "warp_group_dot"]


@pytest.mark.parametrize("options, shape", [(dict(num_warps=2), {}), ({}, dict(m=32)), ({}, dict(n=16, m=16))])
def test_what_wgmma_does_not_take_stays_a_dot(options, shape):
    assert "warp_group_dot" not in compiled(by="pointers", **shape, **options).stages["ttgir"]


@pytest.mark.parametrize("target", ["sm_80", "sm_100a", "gfx942", "gfx950"])
def test_other_targets(target):
    assert compiled(target, by="pointers", bk=32, compiler=compile_kernel, num_warps=8).stages


@mimw.jit
def chained(x, y, N: tl.constexpr, STORE: tl.constexpr):
    """Two products into one sum; with STORE, the second's operand is overwritten between the load and the product."""
    a, b = tle.gpu.alloc([N, N], tl.float16), tle.gpu.alloc([N, N], tl.float16)
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(tle.gpu.local_ptr(a), tl.load(x + at))
    tl.store(tle.gpu.local_ptr(b), tl.load(x + at) * 2)
    left = tl.load(tle.gpu.local_ptr(a))
    acc = tl.dot(left, tl.load(tle.gpu.local_ptr(b)))
    if STORE:
        tl.store(tle.gpu.local_ptr(a), tl.load(x + at) * 3)
    acc = tl.dot(left, tl.load(tle.gpu.local_ptr(b)), acc)
    tl.store(y + at, acc)


@pytest.mark.parametrize("store", [False, True])
def test_a_tile_is_what_was_loaded(machine, store):
    x = np.random.default_rng(1).integers(-4, 5, (64, 64)).astype(np.float16)
    y = np.zeros((64, 64), np.float32)
    machine.launch(chained, (1, ), x, y, 64, store)
    exact = x.astype(np.float32)
    assert (y == exact @ exact * 4).all()


@pytest.mark.parametrize("store, waits", [(False, 1), (True, 2)])
def test_products_in_a_row_are_waited_for_once(store, waits):
    ir = to_ttgir(chained, {"x": "*fp16", "y": "*fp32"}, dict(N=64, STORE=store)).stages["ir"]
    assert ir.count("= async_dot %") == 2 and ir.count("= async_dot_wait") == waits


@mimw.jit
def by_parts(x, w, y, K: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """Both operands whole in shared memory, multiplied in slices along K that a loop counts out."""
    a, b = tle.gpu.alloc([N, K], tl.float16), tle.gpu.alloc([K, N], tl.float16)
    m, k = tl.arange(0, N), tl.arange(0, K)
    tle.gpu.copy(x + m[:, None] * K + k[None, :], a, [N, K])
    tle.gpu.copy(w + k[:, None] * N + m[None, :], b, [K, N])
    acc = tl.zeros((N, N), tl.float32)
    part = tl.arange(0, BK)
    for at in range(0, K, BK):
        left = tle.gpu.local_ptr(a, (tl.broadcast_to(m[:, None], (N, BK)), tl.broadcast_to(at + part[None, :], (N, BK))))
        right = tle.gpu.local_ptr(b, (tl.broadcast_to(at + part[:, None], (BK, N)), tl.broadcast_to(m[None, :], (BK, N))))
        acc = tl.dot(tl.load(left), tl.load(right), acc)
    tl.store(y + m[:, None] * N + m[None, :], acc)


def test_slices_that_a_loop_counts_out(machine):
    random = np.random.default_rng(2)
    x, w = random.integers(-4, 5, (64, 256)).astype(np.float16), random.integers(-4, 5, (256, 64)).astype(np.float16)
    y = np.zeros((64, 64), np.float32)
    machine.launch(by_parts, (1, ), x, w, y, 256, 64, 64)
    assert (y == x.astype(np.float32) @ w.astype(np.float32)).all()


def test_these_slices_are_operands_too():
    ttgir = to_ttgir(by_parts, {"x": "*fp16", "w": "*fp16", "y": "*fp32"}, dict(K=256, N=64, BK=64)).stages["ttgir"]
    assert ttgir.count("ttng.warp_group_dot ") == 1 and "ttg.local_load" not in ttgir and "ttg.local_gather" not in ttgir


@mimw.jit
def twice(tiles, out, left, N: tl.constexpr, CHUNKS: tl.constexpr, BETWEEN: tl.constexpr):
    """out = (left k^T) k for each chunk k, read from shared memory once; BETWEEN the products stands a wait, or more."""
    for chunk in range(CHUNKS):
        slot = tiles.wait(chunk).slot
        k = tl.load(tle.gpu.local_ptr(slot.k))
        scores = tl.dot(tl.load(tle.gpu.local_ptr(left)), tl.trans(k))
        if BETWEEN == "release":
            tiles.release(chunk)
        room = out.acquire(chunk)
        if BETWEEN == "write":
            tl.store(tle.gpu.local_ptr(slot.k), tl.full((N, N), 1, tl.float16))
        if BETWEEN == "other write":
            tl.store(tle.gpu.local_ptr(room.o), tl.full((N, N), 1, tl.float16))
        product = tl.dot(scores.to(tl.float16), k)
        if BETWEEN != "release":
            tiles.release(chunk)
        tl.store(tle.gpu.local_ptr(room.o), product.to(tl.float16))
        out.commit(chunk)


@mimw.jit
def fetch(tiles, x, N: tl.constexpr, CHUNKS: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    for chunk in range(CHUNKS):
        slot = tiles.acquire(chunk)
        tl.store(tle.gpu.local_ptr(slot.k), tl.load(x + chunk * N * N + at))
        tiles.commit(chunk)


@mimw.jit
def drain(out, y, N: tl.constexpr, CHUNKS: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    for chunk in range(CHUNKS):
        tl.store(y + chunk * N * N + at, tl.load(tle.gpu.local_ptr(out.wait(chunk).slot.o)))
        out.release(chunk)


@mimw.jit
def used_twice(x, q, y, N: tl.constexpr, CHUNKS: tl.constexpr, BETWEEN: tl.constexpr):
    tiles = tle.pipe(capacity=2, k=tle.gpu.alloc([2, N, N], tl.float16))
    out = tle.pipe(capacity=1, o=tle.gpu.alloc([1, N, N], tl.float16))
    left = tle.gpu.alloc([N, N], tl.float16)
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(tle.gpu.local_ptr(left), tl.load(q + at))
    tle.gpu.warp_specialize([(twice, (tiles.reader(), out.writer(), left, N, CHUNKS, BETWEEN)),
                             (fetch, (tiles.writer(), x, N, CHUNKS)), (drain, (out.reader(), y, N, CHUNKS))], [4, 4], [64, 64])


# The buffers are 4 tiles of 8 KB. A third kind of operand would be a copy of a tile: of what was there, if it may have changed.
@pytest.mark.parametrize("between, copies", [("wait", 0), ("other write", 0), ("write", 1), ("release", 1)])
def test_one_buffer_serves_a_plain_and_a_transposed_product(between, copies):
    found = to_ttgir(used_twice, dict.fromkeys("xqy", "*fp16"), dict(N=64, CHUNKS=3, BETWEEN=between))
    ttgir = found.stages["ttgir"]
    assert ttgir.count("warp_group_dot ") == 2
    assert len([line for line in ttgir.splitlines() if "ttg.local_alloc %" in line]) == copies
    assert 8192 * copies <= found.metadata.shared - 4 * 8192 < 8192 * (copies + 1)


@pytest.mark.parametrize("between", ["wait", "other write", "write", "release"])
def test_a_tile_used_twice_is_what_was_loaded(machine, between):
    random = np.random.default_rng(5)
    x, q = random.integers(-1, 2, (3, 64, 64)).astype(np.float16), random.integers(-1, 2, (64, 64)).astype(np.float16)
    y = np.zeros_like(x)
    machine.launch(used_twice, (1, ), x, q, y, 64, 3, between)
    exact = [q.astype(np.float32) @ k.T.astype(np.float32) @ k.astype(np.float32) for k in x]
    assert (y == np.array(exact).astype(np.float16)).all()


@pytest.mark.parametrize("between", ["wait", "release"])
def test_a_tile_used_twice_races_with_nobody(between):
    x, q = np.ones((3, 64, 64), np.float16), np.ones((64, 64), np.float16)
    assert mimw.check(used_twice, (1, ), x, q, np.zeros_like(x), 64, 3, between, seeds=3).ok
