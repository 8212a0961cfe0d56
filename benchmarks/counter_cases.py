"""The rows of docs/performance.md whose launches counters.py profiles: those that miss their goal, and some that meet it.

Input: nothing. Output: CASES, in the order of their importance. For example:

    CASES["gemm-fp16-GH3"].measure()        the row of that benchmark, ours and baselines handed to its `alternate`
    CASES["gemm-fp16-GH3"].sides            ("mimw", "cuBLAS"): which of them are profiled

Of several baselines whose names begin with a side, as the cuts of stock Triton in a mixture of experts, the fastest counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from . import (
    attention,
    attention_backward,
    attention_decode,
    attention_varlen,
    batched_gemm,
    block_scaled_gemm,
    cross_entropy,
    gemm,
    gemm_epilogue,
    grouped_gemm,
    linear_attention_backward,
    linear_attention_forward,
    mla_decode,
    models,
    moe,
    norm,
    skinny_gemm,
    sparse_mla,
    topk,
    topk_selector,
)
from .gpu import torch


@dataclass(frozen=True)
class Case:
    """A row of a benchmark, and whose launches are profiled."""

    measure: Callable[[], Any]
    sides: tuple[str, ...]


def product(name: str, dtype: str) -> Case:
    return Case(partial(gemm.measure, name, gemm.SHAPES[name], dtype), ("mimw", "cuBLAS"))


def epilogue(kind: str, shape: tuple[int, int, int], *sides: str) -> Case:
    return Case(lambda: gemm_epilogue.measure(kind, shape, None, 0.0), ("mimw", *sides))


def attended(seq: int, causal: bool = False, backward: bool = False, dim: int = 128, heads: int = 48) -> Case:
    """Batch 4."""
    shape = dict(batch=4, heads=heads, kv_heads=heads, seq=seq, dim=dim)
    if backward:
        return Case(lambda: attention_backward.measure(shape, "bf16", torch.bfloat16, causal), ("mimw", "cuDNN", "FlashAttention"))
    return Case(lambda: attention.measure(shape, "bf16", causal), ("mimw", "cuDNN"))


def decoded(batch: int, length: int) -> Case:
    shape = dict(batch=batch, length=length, heads=64, kv_heads=8, dim=128, queries=1, page=0, ragged=0)
    return Case(lambda: attention_decode.measure(shape), ("mimw", "cuDNN", "copy"))


def normalised(kind: str, name: str, backward: bool) -> Case:
    return Case(lambda: norm.measure(kind, name, compiled=False, backward=backward), ("mimw", "copy"))


def of_model(name: str) -> Case:
    return Case(partial(models.measure, name, 0.0), ("mimw", "torch"))


def linear(name: str, *sides: str, backward: bool = False) -> Case:
    """Launches of a case of linear attention."""
    if backward:
        return Case(lambda: linear_attention_backward.measure(name, 0.0)[0], sides)
    return Case(lambda: linear_attention_forward.measure(name, 0.0, False), sides)


def latents(name: str, kind: str = "bf16") -> Case:
    """MLA decoding, batch 128."""
    return Case(lambda: mla_decode.measure(name, kind=kind, alone=True), ("mimw", ))


SQUARE = (8192, 8192, 8192)

CASES = {
    "epilogue-bias-gelu": epilogue("bias-gelu", (8192, 8192, 2048), "plain"),
    "epilogue-residual": epilogue("residual", SQUARE, "plain"),
    "epilogue-fp8-row": epilogue("fp8-row", SQUARE, "plain", "torch"),
    "epilogue-fp8-row-fast": epilogue("fp8-row-fast", (8192, 8192, 2048), "torch"),
    "rows-1x8192": Case(partial(skinny_gemm.measure, "1x8192"), ("mimw", "cuBLAS")),
    "rows-256x8192": Case(partial(skinny_gemm.measure, "256x8192"), ("mimw", "cuBLAS")),
    "attention-4096": attended(4096),
    "backward-4096": attended(4096, backward=True),
    "packed-equal": Case(lambda: attention_varlen.measure("equal", 48, 48, 128, "bf16", False), ("mimw", "cuDNN, dense")),
    "decode-8x8192": decoded(8, 8192),
    "norm-LN6": normalised("layer_norm", "LN6", False),
    "norm-backward-LN4": normalised("layer_norm", "LN4", True),
    "selector-64x262144": Case(partial(topk_selector.measure, (64, 262144, 2048)), ("mimw", )),
    "sparse-mla-8192": Case(partial(sparse_mla.measure, 8192), ("pipe", "shared")),
    "experts-mixtral-512": Case(partial(moe.measure, "mixtral-512"), ("mimw", "triton")),
    "experts-deepseek-4096": Case(partial(moe.measure, "deepseek-4096"), ("mimw", "triton")),
    "models-latents": of_model("deepseek-v3 latents prefill bf16"),
    "models-expert": of_model("gpt-oss down prefill bf16"),
    "models-decode": of_model("llama3-70b qkv decode bf16"),
    "models-decode-fp8": of_model("llama3-70b qkv decode fp8"),
    # second rows of the same tables, and those that meet their goal
    "backward-4096-64": attended(4096, backward=True, dim=64),
    "backward-4096-192": attended(4096, backward=True, dim=192, heads=16),
    "attention-16384": attended(16384),
    "decode-1x8192": decoded(1, 8192),
    "backward-16384": attended(16384, backward=True),
    "norm-backward-LN7": normalised("layer_norm", "LN7", True),
    "sparse-mla-131072": Case(partial(sparse_mla.measure, 131072), ("pipe", )),
    "selector-64x4096": Case(partial(topk_selector.measure, (64, 4096, 128)), ("mimw", )),
    "blocks-4096x7168x16384": Case(partial(block_scaled_gemm.measure, "4096x7168x16384"), ("mimw", "fp8", "torch")),
    "blocks-4096x2112x7168": Case(partial(block_scaled_gemm.measure, "4096x2112x7168"), ("mimw", "torch")),
    "gemm-fp8-GH7": product("GH7", "fp8"),
    "gemm-fp16-GH3": product("GH3", "fp16"),
    "batches-192x4096x128": Case(partial(batched_gemm.measure, "192x4096x128"), ("mimw", "torch")),
    "groups-64x256": Case(partial(grouped_gemm.measure, "64x256"), ("mimw", "torch")),
    "gemm-tf32-GH7": product("GH7", "tf32"),
    "gemm-fp8-GH4": product("GH4", "fp8"),
    "experts-deepseek-16": Case(partial(moe.measure, "deepseek-16"), ("mimw", "triton")),
    "attention-causal-4096": attended(4096, causal=True),
    "cross-entropy": Case(partial(cross_entropy.measure, "fused", "8192x128256", compiled=False), ("mimw", "copy")),
    "linear-gradients-8x8192": linear("gdn-8x8192", "backward", backward=True),
    "linear-gradients-65536": linear("gdn-16", "backward", backward=True),
    "linear-kda-65536": linear("kda-16", "mimw"),
    "linear-256": linear("gdn-256", "mimw"),
    "latents-128x1x4096": latents("128x1x4096"),
    "latents-128x1x8192": latents("128x1x8192"),
    "latents-16x1x8192": latents("16x1x8192"),
    "latents-packed-128x1x8192": latents("128x1x8192", "packed"),
    "latents-packed-16x1x8192": latents("16x1x8192", "packed"),
    "topk-64x131072": Case(partial(topk.measure, ("fp32", 64, 131072, 2048)), ("mimw", )),
}
