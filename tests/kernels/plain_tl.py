"""Plain `tl` kernels that stock Triton and our path both compile; with `OURS` a fence sends a kernel down ours.

Shapes: rows of n columns, `stride` elements apart, B or (R, B) elements at a time; bf16 where nothing else is said. Each kernel is
right: what is compared is the code.
"""

import triton.language as tl

import mimw
import mimw.tlx as tlx


@mimw.jit
def softmax(x, y, n, stride, B: tl.constexpr, OURS: tl.constexpr):
    if OURS:
        tlx.fence("gpu")
    row = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + row * stride + c, mask=c < n, other=-float("inf")).to(tl.float32)
    v = v - tl.max(v, 0)
    e = tl.exp(v)
    tl.store(y + row * stride + c, (e / tl.sum(e, 0)).to(tl.bfloat16), mask=c < n)


@mimw.jit
def layernorm(x, w, b, y, n, stride, B: tl.constexpr, OURS: tl.constexpr):
    if OURS:
        tlx.fence("gpu")
    row = tl.program_id(0)
    mean = tl.zeros((B,), tl.float32)
    for o in range(0, n, B):
        c = o + tl.arange(0, B)
        mean += tl.load(x + row * stride + c, mask=c < n, other=0.).to(tl.float32)
    mu = tl.sum(mean, 0) / n
    var = tl.zeros((B,), tl.float32)
    for o in range(0, n, B):
        c = o + tl.arange(0, B)
        d = tl.where(c < n, tl.load(x + row * stride + c, mask=c < n, other=0.).to(tl.float32) - mu, 0.)
        var += d * d
    rs = 1 / tl.sqrt(tl.sum(var, 0) / n + 1e-5)
    for o in range(0, n, B):
        c = o + tl.arange(0, B)
        v = tl.load(x + row * stride + c, mask=c < n, other=0.).to(tl.float32)
        scaled = (v - mu) * rs * tl.load(w + c, mask=c < n) + tl.load(b + c, mask=c < n)
        tl.store(y + row * stride + c, scaled.to(tl.bfloat16), mask=c < n)


@mimw.jit
def matmul(x, y, z, M, N, K, sx, sy, sz, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, OURS: tl.constexpr):
    if OURS:
        tlx.fence("gpu")
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    p = x + m[:, None] * sx + k[None, :]
    q = y + k[:, None] * sy + n[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for o in range(0, K, BK):
        a = tl.load(p, mask=k[None, :] < K - o, other=0.)
        b = tl.load(q, mask=k[:, None] < K - o, other=0.)
        acc = tl.dot(a, b, acc)
        p += BK
        q += BK * sy
    tl.store(z + m[:, None] * sz + n[None, :], acc.to(tl.bfloat16), mask=(m[:, None] < M) & (n[None, :] < N))


@mimw.jit
def matmul_by_sums(x, y, z, M, N, K, sx, sy, sz, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, OURS: tl.constexpr):
    if OURS:
        tlx.fence("gpu")
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    p = x + m[:, None] * sx + k[None, :]
    q = y + n[:, None] * sy + k[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for o in range(0, tl.cdiv(K, BK)):
        a = tl.load(p, mask=k[None, :] < K - o * BK, other=0.)
        b = tl.load(q, mask=k[None, :] < K - o * BK, other=0.)
        acc += tl.dot(a, b.T)
        p += BK
        q += BK
    tl.store(z + m[:, None] * sz + n[None, :], acc.to(tl.bfloat16), mask=(m[:, None] < M) & (n[None, :] < N))


@mimw.jit
def attention(x, y, z, o, N, s, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, OURS: tl.constexpr):
    if OURS:
        tlx.fence("gpu")
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    q = tl.load(x + m[:, None] * s + d[None, :])
    mi = tl.full((BM,), -float("inf"), tl.float32)
    li = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for j in range(0, N, BN):
        n = j + tl.arange(0, BN)
        k = tl.load(y + n[None, :] * s + d[:, None])
        qk = tl.dot(q, k)
        mn = tl.maximum(mi, tl.max(qk, 1))
        p = tl.exp2(qk - mn[:, None])
        al = tl.exp2(mi - mn)
        li = li * al + tl.sum(p, 1)
        acc = acc * al[:, None]
        v = tl.load(z + n[:, None] * s + d[None, :])
        acc = tl.dot(p.to(tl.bfloat16), v, acc)
        mi = mn
    tl.store(o + m[:, None] * s + d[None, :], (acc / li[:, None]).to(tl.bfloat16))


@mimw.jit
def transpose(x, y, sx, sy, B: tl.constexpr, OURS: tl.constexpr):
    if OURS:
        tlx.fence("gpu")
    r = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    tl.store(y + c[:, None] * sy + r[None, :], tl.trans(tl.load(x + r[:, None] * sx + c[None, :])))


@mimw.jit
def tiles3d(x, y, B: tl.constexpr, OURS: tl.constexpr):
    if OURS:
        tlx.fence("gpu")
    i = tl.arange(0, 8)[:, None, None]
    j = tl.arange(0, 16)[None, :, None]
    k = tl.arange(0, B)[None, None, :]
    at = (i * 16 + j) * B + k
    v = tl.load(x + at).to(tl.float32)
    tl.store(y + tl.arange(0, 8)[:, None] * B + tl.arange(0, B)[None, :], tl.sum(v, 1).to(tl.bfloat16))
    tl.store(y + 8 * B + tl.arange(0, 16)[:, None] * B + tl.arange(0, B)[None, :], tl.max(v, 0).to(tl.bfloat16))
    tl.store(y + 24 * B + tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 16)[None, :], tl.min(v, 2).to(tl.bfloat16))


@mimw.jit
def scan(x, y, n, B: tl.constexpr, OURS: tl.constexpr):
    if OURS:
        tlx.fence("gpu")
    c = tl.arange(0, B)
    tl.store(y + c, tl.cumsum(tl.load(x + c).to(tl.float32), 0).to(tl.bfloat16))


@mimw.jit
def argmax(x, y, n, R: tl.constexpr, B: tl.constexpr, OURS: tl.constexpr):
    if OURS:
        tlx.fence("gpu")
    c = tl.arange(0, B)
    r = tl.arange(0, R)
    tl.store(y + r, tl.argmax(tl.load(x + r[:, None] * B + c[None, :]).to(tl.float32), 1).to(tl.bfloat16))


@mimw.jit
def sort(x, y, n, R: tl.constexpr, B: tl.constexpr, OURS: tl.constexpr):
    if OURS:
        tlx.fence("gpu")
    c = tl.arange(0, B)
    r = tl.arange(0, R)
    tl.store(y + r[:, None] * B + c[None, :], tl.sort(tl.load(x + r[:, None] * B + c[None, :])))


@mimw.jit
def split_and_join(x, y, n, R: tl.constexpr, B: tl.constexpr, OURS: tl.constexpr):
    if OURS:
        tlx.fence("gpu")
    c = tl.arange(0, B)
    r = tl.arange(0, R)
    a, b = tl.split(tl.load(x + r[:, None] * B + c[None, :]).reshape(R, B//2, 2))
    tl.store(y + r[:, None] * B + c[None, :], tl.join(a - b, a + b).reshape(R, B))


@mimw.jit
def gather(x, y, n, R: tl.constexpr, B: tl.constexpr, OURS: tl.constexpr):
    if OURS:
        tlx.fence("gpu")
    c = tl.arange(0, B)
    r = tl.arange(0, R)
    at = r[:, None] * B + c[None, :]
    tl.store(y + at, tl.gather(tl.load(x + at), (at * 7) % B, 1))


@mimw.jit
def histogram(x, y, n, B: tl.constexpr, OURS: tl.constexpr):
    if OURS:
        tlx.fence("gpu")
    c = tl.arange(0, B)
    tl.store(y + tl.arange(0, 64), tl.histogram(tl.load(x + c).to(tl.int32), 64).to(tl.bfloat16))


@mimw.jit
def unrolled(x, y, n, B: tl.constexpr, OURS: tl.constexpr):
    if OURS:
        tlx.fence("gpu")
    c = tl.arange(0, B)
    acc = tl.zeros((B,), tl.float32)
    for o in tl.range(0, n, loop_unroll_factor=4):
        acc += tl.load(x + o * B + c)
    tl.store(y + c, acc.to(tl.bfloat16))


@mimw.jit
def persistent(x, y, n, s, B: tl.constexpr, OURS: tl.constexpr):
    if OURS:
        tlx.fence("gpu")
    i = tl.program_id(0)
    while i < n:
        c = i * B + tl.arange(0, B)
        v = tl.load(x + c)
        if i > 3:
            v = tl.where(v > 0, v, 0)
            tl.store(y + c, v)
        else:
            tl.store(y + c + n, v)
        i += tl.num_programs(0)


@mimw.jit
def grouped(x, y, n, s, R: tl.constexpr, B: tl.constexpr, OURS: tl.constexpr):
    if OURS:
        tlx.fence("gpu")
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.arange(0, B)
    v = tl.load(x + r[:, None] * s + c[None, :]).to(tl.float32)
    g = tl.reshape(v, (R, B // 64, 64))
    a = tl.max(tl.abs(g), 2)
    q = (g / a[:, :, None]).reshape(R, B)
    tl.store(y + r[:, None] * s + c[None, :], q.to(tl.bfloat16))


@mimw.jit
def colsum(x, y, n, s, R: tl.constexpr, B: tl.constexpr, OURS: tl.constexpr):
    if OURS:
        tlx.fence("gpu")
    c = tl.program_id(0) * B + tl.arange(0, B)
    acc = tl.zeros((R, B), tl.float32)
    for o in range(0, n, R):
        r = o + tl.arange(0, R)
        acc += tl.load(x + r[:, None] * s + c[None, :], mask=(r[:, None] < n) & (c[None, :] < s), other=0.)
    tl.store(y + c, tl.sum(acc, 0).to(tl.bfloat16), mask=c < s)


@mimw.jit
def atomics(x, y, n, B: tl.constexpr, OURS: tl.constexpr):
    if OURS:
        tlx.fence("gpu")
    c = tl.arange(0, B)
    tl.atomic_add(y + c % 64, tl.load(x + c), mask=c < n)


@mimw.jit
def total(x, y, n, s, R: tl.constexpr, B: tl.constexpr, OURS: tl.constexpr):
    if OURS:
        tlx.fence("gpu")
    r = tl.arange(0, R)
    c = tl.arange(0, B)
    v = tl.load(x + r[:, None] * s + c[None, :]).to(tl.float32)
    tl.store(y, tl.sum(v).to(tl.bfloat16))
    tl.store(y + 1, tl.max(v).to(tl.bfloat16))


@mimw.jit
def gemv(x, y, z, n, s, R: tl.constexpr, B: tl.constexpr, OURS: tl.constexpr):
    if OURS:
        tlx.fence("gpu")
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.arange(0, B)
    acc = tl.zeros((R, B), tl.float32)
    for o in range(0, n, B):
        acc += tl.load(x + r[:, None] * s + o + c[None, :]).to(tl.float32) * tl.load(y + o + c).to(tl.float32)[None, :]
    tl.store(z + r, tl.sum(acc, 1).to(tl.bfloat16))


@mimw.jit
def cat(x, y, n, B: tl.constexpr, OURS: tl.constexpr):
    if OURS:
        tlx.fence("gpu")
    c = tl.arange(0, B)
    tl.store(y + tl.arange(0, 2 * B), tl.cat(tl.load(x + c), tl.load(x + B + c)))
