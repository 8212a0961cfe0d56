"""C = s A B + C0 W, with a row of scales and a product outside of the loop: what a tile takes once, beside what its trips take."""
import numpy as np
import triton.language as tl

import mimw


@mimw.jit
def tile_loads(a, b, w, v, scales, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, z = tl.program_id(0) * BM, tl.program_id(1) * BN, tl.program_id(2)
    rows, cols, ks = m + tl.arange(0, BM), n + tl.arange(0, BN), tl.arange(0, BK)
    scale = tl.load(scales + z * M + rows)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + (z * M + rows[:, None]) * K + k + ks[None, :])
        y = tl.load(b + (k + ks[:, None]) * N + cols[None, :])
        acc = tl.dot(x, y, acc)
    few = tl.arange(0, BK // 2)
    weights = tl.load(w + (z * M + rows[:, None]) * (BK // 2) + few[None, :])
    values = tl.load(v + few[:, None] * N + cols[None, :])
    acc = tl.dot(weights, values, acc * scale[:, None])
    tl.store(c + (z * M + rows[:, None]) * N + cols[None, :], acc.to(tl.float16))


def case(z=2, m=128, n=128, k=192, bm=64, bn=64, bk=64, seed=0):
    rng = np.random.default_rng(seed)
    a, b, w, v = (rng.standard_normal(s).astype(np.float16) for s in ((z, m, k), (k, n), (z, m, bk // 2), (bk // 2, n)))
    scales, c = rng.standard_normal((z, m)).astype(np.float32), np.zeros((z, m, n), np.float16)
    return tile_loads, (m // bm, n // bn, z), (a, b, w, v, scales, c, m, n, k), dict(BM=bm, BN=bn, BK=bk, num_warps=4), (
        c, lambda: scales[..., None] * (a.astype(np.float32) @ b.astype(np.float32)) + w.astype(np.float32) @ v.astype(np.float32))
