"""The library's own operator for what a published kernel computes, on the same tensors: `hand` beside `plain` and `ours`.

Input: the arguments of a launch, by name (others_launches.py). Output: `HANDS`, by the kernel's name: a function that gives a call.
For example:

    call = HANDS["vllm-bmm"](given)         call() multiplies the launch's own a and b by `mimw.ops.matmul`

Kernels that compute what no operator of the library does, linear attention, state spaces, gates with three results, have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import mimw

from .others_tutorials import GROUPS

Given = dict[str, Any]
Call = Callable[[], Any]


def _product(a: str, b: str, turned: bool = False) -> Callable[[Given], Call]:
    """a b, or a b^T, of matrices or batches of them."""
    def hand(given: Given) -> Call:
        left, right = given[a], given[b].mT if turned else given[b]
        return lambda: mimw.ops.matmul(left, right)
    return hand


def _addmm(given: Given) -> Call:
    a, b, added = given["a_ptr"], given["b_ptr"], given["i_ptr"]
    return lambda: mimw.ops.addmm(added, a, b, beta=given["beta"], alpha=given["alpha"])


def _scaled(given: Given) -> Call:
    a, b = given["a_ptr"], given["b_ptr"].T
    scale_a, scale_b = given["scale_a_ptr"], given["scale_b_ptr"].T
    return lambda: mimw.ops.scaled_mm(a, b, scale_a, scale_b)


def _block_scaled(given: Given) -> Call:
    """The scales of A as the library's kernel reads them, column by column."""
    a, b = given["A"], given["B"].T
    scale_a, scale_b = given["As"].mT.contiguous().mT, given["Bs"].T
    return lambda: mimw.ops.scaled_mm(a, b, scale_a, scale_b)


def _moe(given: Given) -> Call:
    """Rows picked by torch, which is timed as well, and the grouped product of the experts' ranges of rows."""
    a, b, ids = given["a_ptr"], given["b_ptr"].mT, given["sorted_token_ids_ptr"].long() // given["top_k"]
    experts, block = given["expert_ids_ptr"], given["BLOCK_SIZE_M"]
    ends = (torch.bincount(experts, minlength=b.shape[0]).cumsum(0) * block).to(torch.int32)
    return lambda: mimw.ops.grouped_matmul(a.index_select(0, ids), b, ends)


def _grouped(a: str, b: str, ends: Callable[[Given], torch.Tensor]) -> Callable[[Given], Call]:
    def hand(given: Given) -> Call:
        left, right, last = given[a], given[b].mT, ends(given).to(torch.int32)
        return lambda: mimw.ops.grouped_matmul(left, right, last)
    return hand


def _groups(name: str) -> Callable[[Given], Call]:
    """The grouped product of the matrices whose addresses the launch has."""
    def hand(given: Given) -> Call:
        a, b, ends = GROUPS[name]
        return lambda: mimw.ops.grouped_matmul(a, b, ends)
    return hand


def _attention(length_first: bool, causal: bool, scale: str | None = None) -> Callable[[Given], Call]:
    """Attention of (batch, length, heads, dim), or of descriptors of (batch heads length, dim)."""
    def hand(given: Given) -> Call:
        if length_first:
            q, k, v = (given[name].transpose(1, 2) for name in "qkv")
        else:
            shape = given["Z"], given["H"], given["N_CTX"], given["HEAD_DIM"]
            q, k, v = (given[f"desc_{name}"].base.view(shape) for name in "qkv")
        return lambda: mimw.ops.attention(q, k, v, causal=causal, scale=given[scale] if scale else None)
    return hand


def _prefill(given: Given) -> Call:
    q, k, v, lengths = given["Q"], given["K"], given["V"], given["B_Seqlen"]
    ends = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to(torch.int32)
    most = int(lengths.max())
    return lambda: mimw.ops.attention_varlen(q, k, v, ends, ends, most, most, causal=True, scale=given["sm_scale"])


def _unified(given: Given) -> Call:
    """All queries of a sequence as its last ones, from the same cache in pages."""
    lengths, pages = given["seq_lens_ptr"], given["block_tables_ptr"]
    q = given["query_ptr"].view(len(lengths), -1, *given["query_ptr"].shape[1:])
    keys, values = given["key_cache_ptr"], given["value_cache_ptr"]
    return lambda: mimw.ops.attention_decode(q, keys, values, lengths, page_table=pages, scale=given["scale"])


HANDS: dict[str, Callable[[Given], Call]] = {
    **dict.fromkeys(("vllm-persistent-matmul", "vllm-bmm", "triton-matmul", "triton-03-matmul", "triton-09-persistent"),
                    _product("a_ptr", "b_ptr")),
    **dict.fromkeys(("vllm-persistent-descriptors", "triton-09-descriptors"), _product("a_ptr", "b_ptr", turned=True)),
    "flaggems-mm": _product("A", "B"),
    **dict.fromkeys(("inductor-mm", "inductor-persistent-tma", "inductor-bmm"), _product("arg_A", "arg_B")),
    "flaggems-addmm": _addmm,
    "vllm-scaled-mm": _scaled,
    "flaggems-block-fp8": _block_scaled,
    "vllm-fused-moe": _moe,
    "unsloth-grouped-gemm": _grouped("x_ptr", "w_ptr", lambda given: given["m_sizes_ptr"].cumsum(0)),
    "inductor-grouped-mm": _grouped("arg_a_ptr", "arg_b_ptr", lambda given: given["arg_offsets_ptr"]),
    **{name: _groups(name) for name in ("triton-08-grouped", "triton-08-grouped-tma")},
    "fla-attention": _attention(True, True, "scale"),
    "triton-attention": _attention(False, False, "sm_scale"),
    "vllm-prefill-attention": _prefill,
    "vllm-unified-attention": _unified,
}
