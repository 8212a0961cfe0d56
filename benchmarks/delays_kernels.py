"""Attention's backward as two ordinary kernels, of which the products that only add may be done a trip later, by hand.

Input: descriptors of (heads T, D) in fp16, and `lse` and `delta` in fp32. Output: the gradients. For example:

    dkdv[(T // BN, heads)](q, k, v, do, dk, dv, lse, delta, scale, T, BM=64, BN=128, D=64, DV=1, DK=0)
    DV=1            dv of a trip is added beside the next trip's first products; its operand is loaded once more

`lse` is base 2, `scale` times log2 e; dk and dq are without the scale. In the first trip a late product adds zeros.
"""

import triton
import triton.language as tl


@triton.jit
def dkdv(q_desc, k_desc, v_desc, do_desc, dk_desc, dv_desc, lse, delta, scale, T, BM: tl.constexpr, BN: tl.constexpr,
         D: tl.constexpr, DV: tl.constexpr, DK: tl.constexpr):
    base = tl.program_id(1) * T
    row = base + tl.program_id(0) * BN
    k = k_desc.load([row, 0])
    v = v_desc.load([row, 0])
    dk = tl.zeros((BN, D), tl.float32)
    dv = tl.zeros((BN, D), tl.float32)
    cols = tl.arange(0, BM)
    if DV:
        p_before = tl.zeros((BN, BM), tl.float16)
    if DK:
        ds_before = tl.zeros((BN, BM), tl.float16)
    for i in range(0, T, BM):
        q = q_desc.load([base + i, 0])
        do = do_desc.load([base + i, 0])
        m = tl.load(lse + base + i + cols)
        d = tl.load(delta + base + i + cols)
        s = tl.dot(k, tl.trans(q))
        dp = tl.dot(v, tl.trans(do))
        if DV:
            dv = tl.dot(p_before, do_desc.load([base + tl.maximum(i - BM, 0), 0]), dv)
        if DK:
            dk = tl.dot(ds_before, q_desc.load([base + tl.maximum(i - BM, 0), 0]), dk)
        p = tl.exp2(s * scale - m[None, :])
        if DV:
            p_before = p.to(tl.float16)
        else:
            dv = tl.dot(p.to(tl.float16), do, dv)
        ds = (p * (dp - d[None, :])).to(tl.float16)
        if DK:
            ds_before = ds
        else:
            dk = tl.dot(ds, q, dk)
    if DV:
        dv = tl.dot(p_before, do_desc.load([base + T - BM, 0]), dv)
    if DK:
        dk = tl.dot(ds_before, q_desc.load([base + T - BM, 0]), dk)
    dv_desc.store([row, 0], dv.to(tl.float16))
    dk_desc.store([row, 0], dk.to(tl.float16))


@triton.jit
def dq(q_desc, k_desc, v_desc, do_desc, dq_desc, lse, delta, scale, T, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
       DQ: tl.constexpr):
    base = tl.program_id(1) * T
    row = base + tl.program_id(0) * BM
    q = q_desc.load([row, 0])
    do = do_desc.load([row, 0])
    rows = tl.arange(0, BM)
    m = tl.load(lse + row + rows)
    d = tl.load(delta + row + rows)
    acc = tl.zeros((BM, D), tl.float32)
    if DQ:
        ds_before = tl.zeros((BM, BN), tl.float16)
    for i in range(0, T, BN):
        k = k_desc.load([base + i, 0])
        v = v_desc.load([base + i, 0])
        s = tl.dot(q, tl.trans(k))
        dp = tl.dot(do, tl.trans(v))
        if DQ:
            acc = tl.dot(ds_before, k_desc.load([base + tl.maximum(i - BN, 0), 0]), acc)
        p = tl.exp2(s * scale - m[:, None])
        ds = (p * (dp - d[:, None])).to(tl.float16)
        if DQ:
            ds_before = ds
        else:
            acc = tl.dot(ds, k, acc)
    if DQ:
        acc = tl.dot(ds_before, k_desc.load([base + T - BN, 0]), acc)
    dq_desc.store([row, 0], acc.to(tl.float16))
