"""Attention in one kernel through tensor descriptors, autotuned with a hook, and its gradients through pointers.

Input: sizes on the command line (batch heads queries width). Output: checks against torch, and a table of TFLOPS:

    mimw run fused_attention.py 1 2 256 64
"""

import sys

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

DEVICE = triton.runtime.driver.active.get_active_torch_device()


def is_cuda():
    return triton.runtime.driver.active.get_current_target().backend == "cuda"


def supports_host_descriptor():
    return is_cuda() and torch.cuda.get_device_capability()[0] >= 9


def is_blackwell():
    return is_cuda() and torch.cuda.get_device_capability()[0] == 10


@triton.jit
def _attn_fwd_inner(acc, l_i, m_i, q, desc_k, desc_v, offset_y, dtype: tl.constexpr, start_m, qk_scale, BLOCK_M: tl.constexpr,
                    HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, STAGE: tl.constexpr, offs_m: tl.constexpr,
                    offs_n: tl.constexpr, N_CTX: tl.constexpr, warp_specialize: tl.constexpr):
    if STAGE == 1:
        lo, hi = 0, start_m * BLOCK_M
    elif STAGE == 2:
        lo, hi = start_m * BLOCK_M, (start_m + 1) * BLOCK_M
        lo = tl.multiple_of(lo, BLOCK_M)
    else:
        lo, hi = 0, N_CTX
    offset_k = offset_y + lo
    offset_v = offset_y + lo
    for start_n in tl.range(lo, hi, BLOCK_N, warp_specialize=warp_specialize):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        k = desc_k.load([offset_k, 0]).T
        qk = tl.dot(q, k)
        if STAGE == 2:
            mask = offs_m[:, None] >= (start_n + offs_n[None, :])
            qk = qk * qk_scale + tl.where(mask, 0, -1.0e6)
            m_ij = tl.maximum(m_i, tl.max(qk, 1))
            qk -= m_ij[:, None]
        else:
            m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
            qk = qk * qk_scale - m_ij[:, None]
        p = tl.math.exp2(qk)
        alpha = tl.math.exp2(m_i - m_ij)
        l_ij = tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = desc_v.load([offset_v, 0])
        acc = tl.dot(p.to(dtype), v, acc)
        l_i = l_i * alpha + l_ij
        m_i = m_ij
        offset_k += BLOCK_N
        offset_v += BLOCK_N
    return acc, l_i, m_i


def _host_descriptor_pre_hook(nargs):
    BLOCK_M = nargs["BLOCK_M"]
    BLOCK_N = nargs["BLOCK_N"]
    HEAD_DIM = nargs["HEAD_DIM"]
    if not isinstance(nargs["desc_q"], TensorDescriptor):
        return
    nargs["desc_q"].block_shape = [BLOCK_M, HEAD_DIM]
    nargs["desc_v"].block_shape = [BLOCK_N, HEAD_DIM]
    nargs["desc_k"].block_shape = [BLOCK_N, HEAD_DIM]
    nargs["desc_o"].block_shape = [BLOCK_M, HEAD_DIM]


configs = [
    triton.Config({"BLOCK_M": BM, "BLOCK_N": BN}, num_stages=s, num_warps=w, pre_hook=_host_descriptor_pre_hook)
    for BM in [64, 128] for BN in [32, 64, 128] for s in [2, 3, 4] for w in [4, 8]
]


def keep(conf):
    BLOCK_M = conf.kwargs["BLOCK_M"]
    BLOCK_N = conf.kwargs["BLOCK_N"]
    return not (is_cuda() and torch.cuda.get_device_capability()[0] == 9 and BLOCK_M * BLOCK_N < 128 * 128
                and conf.num_warps == 8)


def prune_invalid_configs(configs, named_args, **kwargs):
    N_CTX = kwargs["N_CTX"]
    return [conf for conf in configs if conf.kwargs.get("BLOCK_M", 0) <= N_CTX]


@triton.jit
def _maybe_make_tensor_desc(desc_or_ptr, shape, strides, block_shape):
    if isinstance(desc_or_ptr, tl.tensor_descriptor):
        return desc_or_ptr
    else:
        return tl.make_tensor_descriptor(desc_or_ptr, shape, strides, block_shape)


@triton.autotune(configs=list(filter(keep, configs)), key=["N_CTX", "HEAD_DIM", "warp_specialize"],
                 prune_configs_by={"early_config_prune": prune_invalid_configs})
@triton.jit
def _attn_fwd(sm_scale, M, Z, H, desc_q, desc_k, desc_v, desc_o, N_CTX, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr,
              BLOCK_N: tl.constexpr, STAGE: tl.constexpr, warp_specialize: tl.constexpr):
    dtype = tl.float16
    tl.static_assert(BLOCK_N <= HEAD_DIM)
    start_m = tl.program_id(0)
    off_hz = tl.program_id(1)
    off_z = off_hz // H
    off_h = off_hz % H
    y_dim = Z * H * N_CTX
    desc_q = _maybe_make_tensor_desc(desc_q, shape=[y_dim, HEAD_DIM], strides=[HEAD_DIM, 1], block_shape=[BLOCK_M, HEAD_DIM])
    desc_v = _maybe_make_tensor_desc(desc_v, shape=[y_dim, HEAD_DIM], strides=[HEAD_DIM, 1], block_shape=[BLOCK_N, HEAD_DIM])
    desc_k = _maybe_make_tensor_desc(desc_k, shape=[y_dim, HEAD_DIM], strides=[HEAD_DIM, 1], block_shape=[BLOCK_N, HEAD_DIM])
    desc_o = _maybe_make_tensor_desc(desc_o, shape=[y_dim, HEAD_DIM], strides=[HEAD_DIM, 1], block_shape=[BLOCK_M, HEAD_DIM])
    offset_y = off_z * (N_CTX * H) + off_h * N_CTX
    qo_offset_y = offset_y + start_m * BLOCK_M
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    qk_scale = sm_scale
    qk_scale *= 1.44269504
    q = desc_q.load([qo_offset_y, 0])
    if STAGE & 1:
        acc, l_i, m_i = _attn_fwd_inner(acc, l_i, m_i, q, desc_k, desc_v, offset_y, dtype, start_m, qk_scale, BLOCK_M, HEAD_DIM,
                                        BLOCK_N, 4 - STAGE, offs_m, offs_n, N_CTX, warp_specialize)
    if STAGE & 2:
        acc, l_i, m_i = _attn_fwd_inner(acc, l_i, m_i, q, desc_k, desc_v, offset_y, dtype, start_m, qk_scale, BLOCK_M, HEAD_DIM,
                                        BLOCK_N, 2, offs_m, offs_n, N_CTX, warp_specialize)
    m_i += tl.math.log2(l_i)
    acc = acc / l_i[:, None]
    tl.store(M + off_hz * N_CTX + offs_m, m_i)
    desc_o.store([qo_offset_y, 0], acc.to(dtype))


@triton.jit
def _attn_bwd_preprocess(O, DO, Delta, N_CTX, BLOCK_M: tl.constexpr, HEAD_DIM: tl.constexpr):  # noqa: E741
    off_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    off_hz = tl.program_id(1)
    off_n = tl.arange(0, HEAD_DIM)
    at = off_hz * HEAD_DIM * N_CTX + off_m[:, None] * HEAD_DIM + off_n[None, :]
    delta = tl.sum(tl.load(O + at) * tl.load(DO + at).to(tl.float32), axis=1)
    tl.store(Delta + off_hz * N_CTX + off_m, delta)


@triton.jit
def _attn_bwd(Q, K, V, DO, DQ, DK, DV, M, D, sm_scale, N_CTX, CAUSAL: tl.constexpr, BLOCK: tl.constexpr, HEAD_DIM: tl.constexpr):
    LN2: tl.constexpr = 0.6931471824645996
    shift = tl.program_id(1).to(tl.int64) * N_CTX * HEAD_DIM
    M += tl.program_id(1) * N_CTX
    D += tl.program_id(1) * N_CTX
    mine = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    width = tl.arange(0, HEAD_DIM)
    own = shift + mine[:, None] * HEAD_DIM + width[None, :]
    k = tl.load(K + own)
    v = tl.load(V + own)
    dk = tl.zeros([BLOCK, HEAD_DIM], dtype=tl.float32)
    dv = tl.zeros([BLOCK, HEAD_DIM], dtype=tl.float32)
    for start in range(0, N_CTX, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        there = shift + rows[:, None] * HEAD_DIM + width[None, :]
        q = tl.load(Q + there)
        do = tl.load(DO + there)
        p = tl.math.exp2(tl.dot(k, tl.trans(q)) - tl.load(M + rows)[None, :])
        if CAUSAL:
            p = tl.where(rows[None, :] >= mine[:, None], p, 0.0)
        dv += tl.dot(p.to(tl.float16), do)
        ds = p * (tl.dot(v, tl.trans(do)).to(tl.float32) - tl.load(D + rows)[None, :])
        dk += tl.dot(ds.to(tl.float16), q)
    tl.store(DV + own, dv.to(tl.float16))
    tl.store(DK + own, (dk * sm_scale).to(tl.float16))
    q = tl.load(Q + own)
    do = tl.load(DO + own)
    m = tl.load(M + mine)[:, None]
    delta = tl.load(D + mine)[:, None]
    dq = tl.zeros([BLOCK, HEAD_DIM], dtype=tl.float32)
    for start in range(0, N_CTX, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        there = shift + rows[:, None] * HEAD_DIM + width[None, :]
        k = tl.load(K + there)
        v = tl.load(V + there)
        p = tl.math.exp2(tl.dot(q, tl.trans(k)) - m)
        if CAUSAL:
            p = tl.where(mine[:, None] >= rows[None, :], p, 0.0)
        ds = p * (tl.dot(do, tl.trans(v)).to(tl.float32) - delta)
        dq += tl.dot(ds.to(tl.float16), k)
    tl.store(DQ + own, (dq * LN2).to(tl.float16))


class _attention(torch.autograd.Function):

    @staticmethod
    def forward(ctx, q, k, v, causal, sm_scale, warp_specialize=True):
        HEAD_DIM_Q, HEAD_DIM_K = q.shape[-1], k.shape[-1]
        assert HEAD_DIM_Q == HEAD_DIM_K and HEAD_DIM_K in {16, 32, 64, 128, 256}
        o = torch.empty_like(q)
        stage = 3 if causal else 1
        M = torch.empty((q.shape[0], q.shape[1], q.shape[2]), device=q.device, dtype=torch.float32)
        if supports_host_descriptor():
            y_dim = q.shape[0] * q.shape[1] * q.shape[2]
            dummy_block = [1, 1]
            desc_q, desc_k, desc_v, desc_o = (TensorDescriptor(one, shape=[y_dim, HEAD_DIM_K], strides=[HEAD_DIM_K, 1],
                                                               block_shape=dummy_block) for one in (q, k, v, o))
        else:
            desc_q, desc_k, desc_v, desc_o = q, k, v, o

        def alloc_fn(size: int, align: int, _):
            return torch.empty(size, dtype=torch.int8, device="cuda")

        triton.set_allocator(alloc_fn)

        def grid(META):
            return (triton.cdiv(q.shape[2], META["BLOCK_M"]), q.shape[0] * q.shape[1], 1)

        ctx.grid = grid
        extra_kern_args = {"maxnreg": 168} if is_blackwell() and warp_specialize and HEAD_DIM_K == 128 else {}
        _attn_fwd[grid](sm_scale, M, q.shape[0], q.shape[1], desc_q, desc_k, desc_v, desc_o, N_CTX=q.shape[2], HEAD_DIM=HEAD_DIM_K,
                        STAGE=stage, warp_specialize=warp_specialize, **extra_kern_args)
        ctx.save_for_backward(q, k, v, o, M)
        ctx.sm_scale, ctx.HEAD_DIM, ctx.causal = sm_scale, HEAD_DIM_K, causal
        return o

    @staticmethod
    def backward(ctx, do):
        q, k, v, o, M = ctx.saved_tensors
        assert do.is_contiguous()
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        BATCH, N_HEAD, N_CTX = q.shape[:3]
        BLOCK = 64
        RCP_LN2 = 1.4426950408889634
        scaled = k * (ctx.sm_scale * RCP_LN2)
        delta = torch.empty_like(M)
        _attn_bwd_preprocess[(N_CTX // BLOCK, BATCH * N_HEAD)](o, do, delta, N_CTX, BLOCK_M=BLOCK, HEAD_DIM=ctx.HEAD_DIM)
        _attn_bwd[(N_CTX // BLOCK, BATCH * N_HEAD)](q, scaled, v, do, dq, dk, dv, M, delta, ctx.sm_scale, N_CTX, CAUSAL=ctx.causal,
                                                   BLOCK=BLOCK, HEAD_DIM=ctx.HEAD_DIM, num_warps=4, num_stages=2)
        return dq, dk, dv, None, None, None


attention = _attention.apply


def test_op(Z, H, N_CTX, HEAD_DIM, causal, warp_specialize, dtype=torch.float16):
    torch.manual_seed(20)
    q, k, v = (torch.empty((Z, H, N_CTX, HEAD_DIM), dtype=dtype, device=DEVICE).normal_(mean=0.0, std=0.5).requires_grad_()
               for _ in range(3))
    sm_scale = 0.5
    M = torch.tril(torch.ones((N_CTX, N_CTX), device=DEVICE))
    p = torch.matmul(q, k.transpose(2, 3)) * sm_scale
    if causal:
        p[:, :, M == 0] = float("-inf")
    p = torch.softmax(p.float(), dim=-1).to(dtype)
    ref_out = torch.matmul(p, v).half()
    dout = torch.randn_like(q)
    ref_out.backward(dout)
    ref_dv, v.grad = v.grad.clone(), None
    ref_dk, k.grad = k.grad.clone(), None
    ref_dq, q.grad = q.grad.clone(), None
    tri_out = attention(q, k, v, causal, sm_scale, warp_specialize).half()
    torch.testing.assert_close(tri_out, ref_out, atol=1e-2, rtol=0)
    tri_out.backward(dout)
    torch.testing.assert_close(v.grad, ref_dv, atol=1e-2, rtol=0)
    torch.testing.assert_close(k.grad, ref_dk, atol=1e-2, rtol=0)
    torch.testing.assert_close(q.grad, ref_dq, atol=1e-2, rtol=0)


try:
    from flash_attn.flash_attn_interface import flash_attn_qkvpacked_func as flash_attn_func
    HAS_FLASH = True
except ImportError:
    HAS_FLASH = False

BATCH, N_HEADS = 4, 32
benchmarks = [
    triton.testing.Benchmark(x_names=["N_CTX"], x_vals=[2**i for i in range(10, 15)], line_arg="provider",
                             line_vals=["triton-fp16"] + (["flash"] if HAS_FLASH else []),
                             line_names=["Triton [FP16]"] + (["Flash-2"] if HAS_FLASH else []),
                             styles=[("red", "-"), ("blue", "-"), ("green", "-")], ylabel="TFLOPS",
                             plot_name=f"fused-attention-batch{BATCH}-head{N_HEADS}-d{HEAD_DIM}-{mode}-causal={causal}",
                             args={"H": N_HEADS, "BATCH": BATCH, "HEAD_DIM": HEAD_DIM, "mode": mode, "causal": causal})
    for HEAD_DIM in [64, 128] for mode in ["fwd", "bwd"] for causal in [True, False] if mode == "fwd" or causal
]


@triton.testing.perf_report(benchmarks)
def bench_flash_attention(BATCH, H, N_CTX, HEAD_DIM, causal, mode, provider, device=DEVICE):
    assert mode in ["fwd", "bwd"]
    dtype = torch.float16
    q, k, v = (torch.randn((BATCH, H, N_CTX, HEAD_DIM), dtype=dtype, device=device, requires_grad=True) for _ in range(3))
    if "triton" in provider:
        fn = lambda: attention(q, k, v, causal, 1.3, False)  # noqa: E731
    else:
        fn = lambda: flash_attn_func(torch.stack([q, k, v], 2), causal=causal)  # noqa: E731
    if mode == "bwd":
        o = fn()
        do = torch.randn_like(o)
        fn = lambda: o.backward(do, retain_graph=True)  # noqa: E731
    ms = triton.testing.do_bench(fn)
    total_flops = 2 * 2.0 * BATCH * H * N_CTX * N_CTX * HEAD_DIM
    if causal:
        total_flops *= 0.5
    if mode == "bwd":
        total_flops *= 2.5
    return total_flops * 1e-12 / (ms * 1e-3)


sizes = [int(size) for size in sys.argv[1:5]] or [1, 2, 1024, 64]
for causal in (False, True):
    test_op(*sizes, causal=causal, warp_specialize=is_blackwell())
print("attention and its gradients match torch")
bench_flash_attention.run(save_path=".", print_data=True)
