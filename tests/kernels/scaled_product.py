"""One block-scaled product on Blackwell over two blocks of K, with scales from wherever the author keeps them.

Input: X (128, 2 K) and W (N, 2 K) in fp8 or packed fp4 as descriptors, their scales packed (`SX`, `SW` are the shapes of a
block's). Output: C (128, N) = X W^T in fp32. Shapes: K a multiple of 128, N 64 to 256. A mistake to plant: `FORM="commit"`
without its wait reads the sum early. For example:

    mimw.simulate(product, (1, ), x, w, sx, sw, c, N=128, K=128, FX="e4m3", ..., target="sm_100a")
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def product(x_desc, w_desc, sx, sw, c, N: tl.constexpr, K: tl.constexpr, FX: tl.constexpr, FW: tl.constexpr, PLACE: tl.constexpr,
            SX: tl.constexpr, SW: tl.constexpr, BLOCK: tl.constexpr, FORM: tl.constexpr):
    """c = x @ w.T of two blocks of K, scales in shared memory ("smem"), copied by hand ("copied") or stored ("stored")."""
    X: tl.constexpr = K // 2 if FX == "e2m1" else K
    W: tl.constexpr = K // 2 if FW == "e2m1" else K
    x = tlx.local_alloc((128, X), tlx.dtype_of(x_desc), 1)
    w = tlx.local_alloc((N, W), tlx.dtype_of(w_desc), 1)
    acc = tlx.local_alloc((128, N), tl.float32, 1, tlx.storage_kind.tmem)
    full, done = tlx.alloc_barriers(1), tlx.alloc_barriers(2)
    ROWS: tl.constexpr = N if PLACE == "stored" else max(N, 128)
    if PLACE != "stored":
        left, right = tlx.local_alloc(SX, tl.uint8, 1), tlx.local_alloc(SW, tl.uint8, 1)
    if PLACE != "smem":
        left_table = tlx.local_alloc((128, K // BLOCK), tl.uint8, 1, tlx.storage_kind.tmem)
        right_table = tlx.local_alloc((ROWS, K // BLOCK), tl.uint8, 1, tlx.storage_kind.tmem)
    COUNT: tl.constexpr = 128 * (K // BLOCK)
    OTHER: tl.constexpr = ROWS * (K // BLOCK)
    for k in tl.static_range(2):
        tlx.barrier_expect_bytes(full[0], 128 * X + N * W)
        tlx.async_descriptor_load(x_desc, x[0], [0, k * X], full[0])
        tlx.async_descriptor_load(w_desc, w[0], [0, k * W], full[0])
        tlx.barrier_wait(full[0], k)
        if PLACE == "stored":
            columns = tl.arange(0, K // BLOCK)[None, :]
            tlx.local_store(left_table[0], tl.load(sx + k * COUNT + tl.arange(0, 128)[:, None] * (K // BLOCK) + columns))
            tlx.local_store(right_table[0], tl.load(sw + k * OTHER + tl.arange(0, N)[:, None] * (K // BLOCK) + columns))
        else:
            tlx.local_store(left[0], tl.load(sx + k * COUNT + tl.arange(0, COUNT)).reshape(SX))
            tlx.local_store(right[0], tl.load(sw + k * OTHER + tl.arange(0, OTHER)).reshape(SW))
        if PLACE == "smem":
            a_scale, b_scale = left[0], right[0]
        else:
            a_scale, b_scale = left_table[0], right_table[0]
        if PLACE == "copied":
            tlx.tmem_copy(left[0], left_table[0])
            tlx.tmem_copy(right[0], right_table[0])
        if FORM == "sync":
            tlx.async_dot_scaled(x[0], tlx.local_trans(w[0]), acc[0], a_scale, FX, b_scale, FW, use_acc=k > 0)
        elif FORM == "commit":
            tlx.async_dot_scaled(x[0], tlx.local_trans(w[0]), acc[0], a_scale, FX, b_scale, FW, use_acc=k > 0, force_async=True)
            tlx.tcgen05_commit(done[0])
            tlx.barrier_wait(done[0], k)
        else:
            tlx.async_dot_scaled(x[0], tlx.local_trans(w[0]), acc[0], a_scale, FX, b_scale, FW, use_acc=k > 0,
                                 mBarriers=[done[0], done[1]])
            tlx.barrier_wait(done[0], k)
            tlx.barrier_wait(done[1], k)
    PART: tl.constexpr = min(N, 64)
    for part in tl.static_range(N // PART):
        at = tl.arange(0, 128)[:, None] * N + part * PART + tl.arange(0, PART)[None, :]
        tl.store(c + at, tlx.local_load(tlx.subslice(acc[0], part * PART, PART)))
