"""Launches of kernels by others: where each kernel is, and a launch of it with sizes that models have.

Input: nothing. Output: `KERNELS`, by name. For example:

    KERNELS["liger-swiglu"].source, KERNELS["liger-swiglu"].launch()        where it is; (grid, arguments and options by name)

Where a kernel is autotuned, one configuration of its author's is given here. Tensors lie on the GPU, if there is one,
    else in torch
on the CPU, for predictions and proofs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import triton.language as tl

import mimw

from .others_sources import Source

Launch = tuple[Any, dict[str, Any]]
HALF, FP8 = torch.bfloat16, torch.float8_e4m3fn


@dataclass(frozen=True)
class Kernel:
    """A kernel and its launch."""

    source: Source
    launch: Callable[[], Launch]


KERNELS: dict[str, Kernel] = {}


def kernel(name: str, *source: str, **more: Any) -> Callable:
    """Register the decorated launch under a name; `source` and `more` are the fields of its `Source`."""
    def keep(launch: Callable[[], Launch]) -> Callable[[], Launch]:
        KERNELS[name] = Kernel(Source(*source, **more), launch)
        return launch
    return keep


def random(*shape: int, dtype: torch.dtype = HALF) -> torch.Tensor:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":     # a proof fills them itself
        return torch.empty(shape, dtype=dtype)
    return (torch.randn(shape, device=device) * 0.5).to(dtype)


def whole(numbers: list[int], dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(numbers, dtype=dtype, device="cuda" if torch.cuda.is_available() else "cpu")


def tiles(extent: int, tile: int) -> int:
    return -(-extent // tile)


# ---- products of matrices ----------------------------------------------------------------------------------------------------


@kernel("vllm-persistent-matmul", "vllm", "0.33.0", "vllm/model_executor/determinism/batch_invariant.py",
         "matmul_kernel_persistent")
def _persistent(m: int = 4096, n: int = 4096, k: int = 4096) -> Launch:
    a, b, c = random(m, k), random(k, n), random(m, n)
    return (132, ), dict(
        a_ptr=a, b_ptr=b, c_ptr=c, bias_ptr=None, M=m, N=n, K=k, stride_am=k, stride_ak=1, stride_bk=n, stride_bn=1, stride_cm=n,
        stride_cn=1, stride_bias=0, BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64, GROUP_SIZE_M=8, NUM_SMS=132,
        A_LARGE=False,
        B_LARGE=False, C_LARGE=False, HAS_BIAS=False, num_warps=8, num_stages=3)


@kernel("vllm-persistent-descriptors", "vllm", "0.33.0", "vllm/model_executor/determinism/batch_invariant.py",
         "matmul_kernel_descriptor_persistent")
def _persistent_descriptors(m: int = 4096, n: int = 4096, k: int = 4096) -> Launch:
    a, b, c = random(m, k), random(n, k), random(m, n)
    return (132, ), dict(a_ptr=a, b_ptr=b, c_ptr=c, bias_ptr=None, M=m, N=n, K=k, BLOCK_SIZE_M=128, BLOCK_SIZE_N=128,
                         BLOCK_SIZE_K=64, GROUP_SIZE_M=8, NUM_SMS=132, HAS_BIAS=False, num_warps=8, num_stages=3)


@kernel("flaggems-block-fp8", "flag-gems", "5.0.2", "flag_gems/runtime/backend/_nvidia/hopper/ops/w8a8_block_fp8_matmul.py",
         "w8a8_block_fp8_matmul_kernel_general")
def _block_fp8(m: int = 4096, n: int = 7168, k: int = 2048) -> Launch:
    a, b, c = random(m, k, dtype=FP8), random(n, k, dtype=FP8), random(m, n)
    a_scales, b_scales = random(m, k // 128, dtype=torch.float32), random(n // 128, k // 128, dtype=torch.float32)
    return (tiles(m, 64) * tiles(n, 128), ), dict(
        A=a, B=b, C=c, As=a_scales, Bs=b_scales, M=m, N=n, K=k, group_n=128, group_k=128, stride_am=k, stride_ak=1, stride_bk=1,
        stride_bn=k, stride_cm=n, stride_cn=1, stride_As_m=k // 128, stride_As_k=1, stride_Bs_k=1, stride_Bs_n=k // 128,
        BLOCK_M=64,
        BLOCK_N=128, BLOCK_K=128, GROUP_M=32, num_warps=4, num_stages=3)


@kernel("liger-swiglu", "liger-kernel", "0.8.5", "liger_kernel/ops/mlp.py", "_swiglu_kernel_forward")
def _swiglu(batch: int = 2, rows: int = 2048, width: int = 4096, hidden: int = 8192) -> Launch:
    describe = mimw.TensorDescriptor.from_tensor
    block, gate, up = random(batch, rows, width), random(hidden, width), random(hidden, width)
    out = [describe(random(batch, rows, hidden), [1, 128, 128]) for _ in range(3)]
    return (tiles(rows, 128) * tiles(hidden, 128), batch), dict(
        desc_input=describe(block, [1, 128, 64]), desc_Wg=describe(gate, [128, 64]), desc_Wu=describe(up, [128, 64]),
        desc_A=out[0],
        desc_G=out[1], desc_U=out[2], S=rows, dim=width, hidden_dim=hidden, bucket_M=rows, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64,
        GROUP_SIZE_M=8, gate_multiplier=1.0, num_warps=8, num_stages=3)


@kernel("liger-swiglu-backward", "liger-kernel", "0.8.5", "liger_kernel/ops/mlp.py", "_swiglu_kernel_backward_dI")
def _swiglu_backward(batch: int = 2, rows: int = 2048, width: int = 4096, hidden: int = 8192) -> Launch:
    describe = mimw.TensorDescriptor.from_tensor
    gate, up = (describe(random(hidden, width), [64, 128]) for _ in range(2))
    d_gate, d_up = (describe(random(batch, rows, hidden), [1, 128, 64]) for _ in range(2))
    return (tiles(rows, 128) * tiles(width, 128), batch), dict(
        desc_dG=d_gate, desc_Wg=gate, desc_dU=d_up, desc_Wu=up, desc_dI=describe(random(batch, rows, width), [1, 128, 128]),
        S=rows,
        dim=width, hidden_dim=hidden, bucket_M=rows, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, GROUP_SIZE_M=8, num_warps=8,
        num_stages=3)


@kernel("vllm-bmm", "vllm", "0.33.0", "vllm/model_executor/determinism/batch_invariant.py", "bmm_kernel")
def _bmm(batch: int = 16, m: int = 2048, n: int = 2048, k: int = 1024) -> Launch:
    a, b, c = random(batch, m, k), random(batch, k, n), random(batch, m, n)
    return (batch, tiles(m, 128) * tiles(n, 128)), dict(
        a_ptr=a, b_ptr=b, c_ptr=c, B=batch, M=m, N=n, K=k, stride_ab=m * k, stride_am=k, stride_ak=1, stride_bb=k * n,
        stride_bk=n,
        stride_bn=1, stride_cb=m * n, stride_cm=n, stride_cn=1, BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64,
        A_LARGE=False,
        B_LARGE=False, C_LARGE=False, num_warps=8, num_stages=3)


@kernel("vllm-scaled-mm", "vllm", "0.33.0", "vllm/model_executor/layers/quantization/compressed_tensors/triton_scaled_mm.py",
         "scaled_mm_kernel")
def _scaled_mm(m: int = 4096, n: int = 4096, k: int = 4096) -> Launch:
    a, b, c = random(m, k, dtype=FP8), random(n, k, dtype=FP8), random(m, n)
    return (tiles(m, 128) * tiles(n, 128), ), dict(
        a_ptr=a, b_ptr=b, scale_a_ptr=random(m, 1, dtype=torch.float32), scale_b_ptr=random(n, 1, dtype=torch.float32), c_ptr=c,
        bias_ptr=None, M=m, N=n, K=k, stride_am=k, stride_ak=1, stride_bk=1, stride_bn=k, stride_cm=n, stride_cn=1,
        ACCUMULATOR_DTYPE=tl.float32, BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=128, BLOCK_SIZE_SCALE_A=128,
        BLOCK_SIZE_SCALE_B=128, num_warps=8, num_stages=3)


@kernel("flaggems-mm", "flag-gems", "5.0.2", "flag_gems/runtime/backend/_nvidia/hopper/ops/mm.py", "mm_kernel_general",
         needs=("flag_gems.utils.triton_lang_extension", ))
def _mm(m: int = 4096, n: int = 4096, k: int = 4096) -> Launch:
    a, b, c = random(m, k), random(k, n), random(m, n)
    return (tiles(m, 128) * tiles(n, 128), ), dict(
        A=a, B=b, C=c, M=m, N=n, K=k, stride_am=k, stride_ak=1, stride_bk=n, stride_bn=1, stride_cm=n, stride_cn=1, BLOCK_M=128,
        BLOCK_N=128, BLOCK_K=64, GROUP_M=8, num_warps=8, num_stages=3)


@kernel("flaggems-addmm", "flag-gems", "5.0.2", "flag_gems/ops/addmm.py", "addmm_kernel",
         needs=("flag_gems.utils.triton_lang_extension", ))
def _addmm(m: int = 4096, n: int = 4096, k: int = 4096) -> Launch:
    a, b, c = random(m, k), random(k, n), random(m, n)
    return (tiles(m, 128), tiles(n, 128)), dict(
        a_ptr=a, b_ptr=b, i_ptr=random(m, n), c_ptr=c, alpha=1.5, beta=0.5, M=m, N=n, K=k, stride_am=k, stride_ak=1, stride_bk=n,
        stride_bn=1, stride_im=n, stride_in=1, stride_cm=n, stride_cn=1, BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64,
        num_warps=8, num_stages=3)


@kernel("triton-matmul", "triton-lang/triton", "02936a198800b2c0180cf63f2a69e776bcca6d7d",
         "python/tutorials/09-persistent-matmul.py",
         "matmul_kernel")
def _tutorial_matmul(m: int = 4096, n: int = 4096, k: int = 4096) -> Launch:
    a, b, c = (random(*shape, dtype=torch.float16) for shape in ((m, k), (k, n), (m, n)))
    return (tiles(m, 128) * tiles(n, 128), ), dict(
        a_ptr=a, b_ptr=b, c_ptr=c, M=m, N=n, K=k, stride_am=k, stride_ak=1, stride_bk=n, stride_bn=1, stride_cm=n, stride_cn=1,
        BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64, GROUP_SIZE_M=8, num_warps=8, num_stages=3)


# ---- experts -----------------------------------------------------------------------------------------------------------------


@kernel("vllm-fused-moe", "vllm", "0.33.0", "vllm/model_executor/layers/fused_moe/fused_moe.py", "fused_moe_kernel")
def _fused_moe(tokens: int = 4096, experts: int = 8, top: int = 2, n: int = 4096, k: int = 4096, block: int = 128) -> Launch:
    rows, each = tokens * top, tokens * top // experts
    a, b, c = random(tokens, k), random(experts, n, k), random(tokens, top, n)
    ids = whole([at // block * block // each for at in range(0, rows, block)])
    none = dict.fromkeys(("b_bias_ptr", "a_scale_ptr", "b_scale_ptr", "topk_weights_ptr"))
    steps = dict.fromkeys(("stride_asm", "stride_ask", "stride_bse", "stride_bsk", "stride_bsn", "stride_bbe", "stride_bbn"), 0)
    flags = dict.fromkeys(("naive_block_assignment", "MUL_ROUTED_WEIGHT", "use_fp8_w8a8", "use_int8_w8a8", "use_int8_w8a16",
                           "per_channel_quant", "HAS_BIAS", "SWAP_AB", "USE_TD"), False)
    return (tiles(rows, block) * tiles(n, 128), ), none | steps | flags | dict(
        a_ptr=a, b_ptr=b, c_ptr=c, sorted_token_ids_ptr=whole(list(range(rows))), expert_ids_ptr=ids,
        num_tokens_post_padded_ptr=whole([rows]), N=n, K=k, EM=rows, num_valid_tokens=rows, stride_am=k, stride_ak=1,
        stride_be=n * k,
        stride_bk=1, stride_bn=k, stride_cm=n, stride_cn=1, group_n=0, group_k=0, BLOCK_SIZE_M=block, BLOCK_SIZE_N=128,
        BLOCK_SIZE_K=64,
        GROUP_SIZE_M=8, SPLIT_K=1, top_k=top, compute_type=tl.bfloat16, num_warps=8, num_stages=3)


@kernel("unsloth-grouped-gemm", "unsloth", "2026.10.9", "unsloth/kernels/moe/grouped_gemm/kernels/forward.py",
         "_grouped_gemm_forward_kernel")
def _grouped(tokens: int = 4096, experts: int = 8, n: int = 4096, k: int = 2048) -> Launch:
    x, w, y = random(tokens, k), random(experts, n, k), random(tokens, n)
    return (132, ), dict(
        x_ptr=x, w_ptr=w, y_ptr=y, m_sizes_ptr=whole([tokens // experts] * experts),
        gather_indices_ptr=whole(list(range(tokens))),
        topk_weights_ptr=None, NUM_EXPERTS=experts, NUM_TOKENS=tokens, TOPK=1, N=n, K=k, NUM_SMS=132, BLOCK_SIZE_M=128,
        BLOCK_SIZE_N=128,
        BLOCK_SIZE_K=64, num_warps=8, num_stages=3)


# ---- attention ---------------------------------------------------------------------------------------------------------------


@kernel("vllm-prefill-attention", "vllm", "0.33.0", "vllm/v1/attention/ops/triton_prefill_attention.py", "_fwd_kernel")
def _prefill(batch: int = 4, heads: int = 32, length: int = 4096, dim: int = 128) -> Launch:
    q, k, v, o = (random(batch * length, heads, dim) for _ in range(4))
    starts, lengths = whole([length * at for at in range(batch)]), whole([length] * batch)
    step = heads * dim
    return (batch, heads, tiles(length, 128)), dict(
        Q=q, K=k, V=v, Sinks=None, sm_scale=dim ** -0.5, B_Start_Loc=starts, B_Seqlen=lengths, Out=o, stride_qbs=step,
        stride_qh=dim,
        stride_kbs=step, stride_kh=dim, stride_vbs=step, stride_vh=dim, stride_obs=step, stride_oh=dim, kv_group_num=1,
        BLOCK_M=128,
        BLOCK_DMODEL=dim, BLOCK_N=128, IS_CAUSAL=True, SLIDING_WINDOW_Q=0, SLIDING_WINDOW_K=0, SINKS_BIAS_KEY0=False,
        USE_SINKS=False,
        Lk=dim, num_warps=8, num_stages=1)


@kernel("triton-attention", "triton-lang/triton", "003da478d84f5bb0f51b3988cf0ea0bbe60282b7",
         "python/tutorials/06-fused-attention.py",
         "_attn_fwd_tma")
def _tutorial_attention(batch: int = 4, heads: int = 32, length: int = 4096, dim: int = 128) -> Launch:
    q, k, v, o = (random(batch * heads * length, dim, dtype=torch.float16) for _ in range(4))
    describe = mimw.TensorDescriptor.from_tensor
    return (tiles(length, 128), batch * heads), dict(
        sm_scale=dim ** -0.5, M=random(batch * heads * length, dtype=torch.float32), Z=batch, H=heads, desc_q=describe(q, [128,
        dim]),
        desc_k=describe(k, [128, dim]), desc_v=describe(v, [128, dim]), desc_o=describe(o, [128, dim]), N_CTX=length,
        HEAD_DIM=dim,
        BLOCK_M=128, BLOCK_N=128, FP8_OUTPUT=False, STAGE=1, num_warps=8, num_stages=2)


# ---- linear attention and state spaces ---------------------------------------------------------------------------------------


@kernel("fla-chunk-o", "fla-core", "0.6.0", "fla/ops/common/chunk_o.py", "chunk_fwd_kernel_o", needs=("fla.ops.utils.op", ))
def _chunk_o(batch: int = 2, length: int = 4096, heads: int = 16, dim: int = 256, chunk: int = 64) -> Launch:
    q, k, v, o = (random(batch, length, heads, dim) for _ in range(4))
    states = random(batch, length // chunk, heads, dim, dim)
    return (tiles(dim, 128) * tiles(length, chunk), batch * heads), dict(
        q=q, k=k, v=v, h=states, g=None, g_gamma=None, o=o, cu_seqlens=None, chunk_indices=None, scale=dim ** -0.5, T=length,
        H=heads,
        HV=heads, K=dim, V=dim, BT=chunk, BK=64, BV=128, STATE_V_FIRST=False, num_warps=4, num_stages=3)


@kernel("fla-attention", "fla-core", "0.6.0", "fla/ops/attn/parallel.py", "parallel_attn_fwd_kernel",
         needs=("fla.ops.utils.op", ))
def _fla_attention(batch: int = 4, length: int = 4096, heads: int = 16, dim: int = 128) -> Launch:
    q, k, v, o = (random(batch, length, heads, dim) for _ in range(4))
    return (tiles(length, 128), batch * heads), dict(
        q=q, k=k, v=v, o=o, g_cumsum=None, sink_bias=None, lse=random(batch, length, heads, dtype=torch.float32),
        cu_seqlens=None,
        chunk_indices=None, W=None, T=length, B=batch, H=heads, HQ=heads, G=1, K=dim,
        V=dim, BT=128, BS=64, BK=dim, BV=dim, scale=dim ** -0.5, num_warps=8, num_stages=3)


@kernel("fla-attention-backward", "fla-core", "0.6.0", "fla/ops/attn/parallel.py", "parallel_attn_bwd_kernel_dkv",
         needs=("fla.ops.utils.op", ))
def _fla_attention_backward(batch: int = 4, length: int = 4096, heads: int = 16, dim: int = 128) -> Launch:
    q, k, v, do, dk, dv = (random(batch, length, heads, dim) for _ in range(6))
    lse, delta = (random(batch, length, heads, dtype=torch.float32) for _ in range(2))
    none = dict.fromkeys(("g_cumsum", "dg_cumsum", "cu_seqlens", "chunk_indices", "W"))
    return (tiles(length, 128), batch * heads), none | dict(
        q=q, k=k, v=v, lse=lse, delta=delta, do=do, dk=dk, dv=dv, scale=dim ** -0.5, T=length, B=batch, H=heads, HQ=heads, G=1,
        K=dim,
        V=dim, BT=128, BS=64, BK=dim, BV=dim, num_warps=8, num_stages=2)


@kernel("fla-chunk-h", "fla-core", "0.6.0", "fla/ops/common/chunk_h.py", "chunk_fwd_kernel_h", needs=("fla.ops.utils.op", ))
def _chunk_h(batch: int = 2, length: int = 4096, heads: int = 16, dim: int = 128, chunk: int = 64) -> Launch:
    k, v = random(batch, length, heads, dim), random(batch, length, heads, dim)
    none = dict.fromkeys(("g", "g_gamma", "gk", "gv", "h0", "ht", "cu_seqlens", "split_offsets"))
    return (tiles(dim, 64) * tiles(dim, 128) * batch * heads, ), none | dict(
        k=k, v=v, h=random(batch, length // chunk, heads, dim, dim), T=length, H=heads, K=dim, V=dim, BT=chunk, BS=chunk,
        BK=64, BV=128,
        USE_G=False, USE_G_GAMMA=False, USE_GK=False, USE_GV=False, STATE_V_FIRST=False, num_warps=4, num_stages=3)


@kernel("fla-chunk-delta-h", "fla-core", "0.6.0", "fla/ops/common/chunk_delta_h.py",
         "chunk_gated_delta_rule_fwd_kernel_h_blockdim64",
         needs=("fla.ops.utils.op", ))
def _chunk_delta_h(batch: int = 2, length: int = 4096, heads: int = 16, dim: int = 128, chunk: int = 64) -> Launch:
    k, v, w, new = (random(batch, length, heads, dim) for _ in range(4))
    states = random(batch, length // chunk, heads, dim, dim)
    return (tiles(dim, 64) * batch * heads, ), dict(
        k=k, v=v, w=w, v_new=new, g=None, gk=None, h=states, h0=None, ht=None, cu_seqlens=None, chunk_offsets=None, T=length,
        H=heads,
        HV=heads, K=dim, V=dim, BT=chunk, BV=64, STATE_V_FIRST=False, num_warps=4, num_stages=2)


def _ssd(batch: int, length: int, heads: int, dim: int, state: int, chunk: int) -> dict[str, Any]:
    """The tensors of Mamba 2's state space duality, with their strides: one group of heads."""
    chunks = length // chunk
    tensors = dict(x=random(batch, length, heads, dim), out=random(batch, length, heads, dim), b=random(batch, length, 1,
    state),
                   states=random(batch, chunks, heads, dim, state), dt=random(batch, heads, chunks, chunk, dtype=torch.float32),
                   dA_cumsum=random(batch, heads, chunks, chunk, dtype=torch.float32), cb=random(batch, chunks, 1, chunk,
                   chunk))
    names = dict(x="batch seqlen head hdim", out="batch seqlen head hdim", b="batch seqlen head dstate",
                 states="batch chunk head hdim dstate", dt="batch head chunk csize", dA_cumsum="batch head chunk csize",
                 cb="batch chunk head csize_m csize_k")
    strides = {f"stride_{'dA_cs' if name == 'dA_cumsum' else name}_{axis}": step
               for name, axes in names.items() for axis, step in zip(axes.split(), tensors[name].stride())}
    numbers = dict(chunk_size=chunk, hdim=dim, dstate=state, batch=batch, seqlen=length, nheads_ngroups_ratio=heads,
                   seq_idx_ptr=None, stride_seq_idx_batch=0, stride_seq_idx_seqlen=0, HAS_SEQ_IDX=False)
    return {f"{name}_ptr": tensor for name, tensor in tensors.items()} | strides | numbers


@kernel("mamba-chunk-state", "mamba-ssm", "2.3.2.post1", "mamba_ssm/ops/triton/ssd_chunk_state.py", "_chunk_state_fwd_kernel",
         is_source=True)
def _chunk_state(batch: int = 4, length: int = 4096, heads: int = 64, dim: int = 64, state: int = 128,
    chunk: int = 256) -> Launch:
    given = _ssd(batch, length, heads, dim, state, chunk)
    left_out = [name for name in given if name.startswith(("out", "stride_out", "cb", "stride_cb"))]
    return (tiles(dim, 64) * tiles(state, 128), batch * length // chunk, heads), {
        name: value for name, value in given.items() if name not in left_out} | dict(
            BLOCK_SIZE_M=64, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64, num_warps=4, num_stages=4)


@kernel("mamba-chunk-scan", "mamba-ssm", "2.3.2.post1", "mamba_ssm/ops/triton/ssd_chunk_scan.py", "_chunk_scan_fwd_kernel",
         is_source=True)
def _chunk_scan(batch: int = 4, length: int = 4096, heads: int = 64, dim: int = 64, state: int = 128, chunk: int = 256) -> Launch:
    given = _ssd(batch, length, heads, dim, state, chunk)
    renamed = {name.replace("stride_b_", "stride_C_"): value for name, value in given.items()}
    renamed["C_ptr"], renamed["prev_states_ptr"] = renamed.pop("b_ptr"), renamed.pop("states_ptr")
    none = dict(z_ptr=None, out_x_ptr=None, D_ptr=None, stride_D_head=0, HAS_D=False, D_HAS_HDIM=True, HAS_Z=False,
    IS_CAUSAL=True)
    none |= {f"stride_z_{axis}": 0 for axis in ("batch", "seqlen", "head", "hdim")}
    return (tiles(chunk, 128) * tiles(dim, 64), batch * length // chunk, heads), renamed | none | dict(
        IS_TRITON_22=True, BLOCK_SIZE_M=128, BLOCK_SIZE_N=64, BLOCK_SIZE_K=64, BLOCK_SIZE_DSTATE=128, num_warps=4, num_stages=4)


@kernel("sglang-chunk-bmm", "sglang", "0.5.23", "sglang/kernels/ops/mamba/triton_ops/ssd_bmm.py", "_bmm_chunk_fwd_kernel")
def _chunk_bmm(batch: int = 4, length: int = 4096, state: int = 128, chunk: int = 256) -> Launch:
    chunks = length // chunk
    c, b, out = random(batch, length, 1, state), random(batch, length, 1, state), random(batch, chunks, 1, chunk, chunk)
    steps = {f"stride_{name}_{axis}": step for name in "ab"
             for axis, step in zip(("batch", "seqlen", "head"), (length * state, state, state))}
    return (tiles(chunk, 128) ** 2, batch, chunks), steps | dict(
        a_ptr=c, b_ptr=b, out_ptr=out, seq_idx_ptr=None, seqlen=length, chunk_size=chunk, K=state, ngroups=1, stride_ak=1,
        stride_bk=1,
        stride_out_batch=chunks * chunk * chunk, stride_out_chunk=chunk * chunk, stride_out_head=chunk * chunk, stride_outm=chunk,
        stride_outn=1, stride_seq_idx_batch=0, stride_seq_idx_seqlen=0, IS_CAUSAL=False, dot_dtype=tl.bfloat16, HAS_SEQ_IDX=False,
        BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64, num_warps=8, num_stages=3)
