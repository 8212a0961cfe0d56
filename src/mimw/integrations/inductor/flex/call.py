"""A call of flex attention in a graph becomes one of `ops.attention`, where both compute the same.

Input: a graph as Dynamo records it, and the node of the call. Output: the same graph, and a line in the log for a call that stays.
For example:

    flex_attention(q, k, v, block_mask=causal)          ops.attention(q, k, v, causal=True), forward and backward
    flex_attention(q, k, v, score_mod=other)            ops.attention(q, k, v, score_mod=other), by hook.py
    flex_attention(q, k, v, score_mod=unknown)          stays; MIMW_LOG=1 says "by torch, as its score_mod computes with erf, ..."
"""

from __future__ import annotations

from dataclasses import astuple
from inspect import Signature, signature
from math import log
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from mimw import ops
from mimw.nn.fallback import TYPES
from mimw.ops.log import left_to_torch

from ..measured import is_quicker
from ..settings import Settings
from ..torch_versions import asserts_run, blocks_of, example_of, with_real_tensors
from .blocks import OF_KEYS, Blocks, agree, check, fits
from .constants import constants
from .hook import replace_by_mod
from .meaning import Meaning, meaning
from .reading import INDICES, read
from .theirs import theirs
from .values import Box, Buffer, PerHead, Score, Slopes, Unknown

_OPTIONS = {"BACKEND": "AUTO", "PRESCALE_QK": False, "ROWS_GUARANTEED_SAFE": False, "BLOCKS_ARE_CONTIGUOUS": False,
            "WRITE_DQ": True}
_OUTPUTS = ("OUTPUT_LOGSUMEXP", "OUTPUT_MAX")


def _of_flex(query, key, value, score_mod, block_mask, scale, kernel_options, score_mod_other_buffers=(),
             mask_mod_other_buffers=()) -> None:
    """The operator's parameters."""


_PARAMETERS: Signature = signature(_of_flex)


def replace_flex(graph: Graph, node: Node, settings: Settings) -> None:
    """Put ours in the place of the call, or log why not."""
    given = _PARAMETERS.bind(*node.args, **node.kwargs)
    given.apply_defaults()
    call = given.arguments
    tensors = tuple(one.meta.get("example_value") for one in (call["query"], call["key"], call["value"]))
    if not all(isinstance(one, Tensor) for one in tensors) or tensors[0].device.type not in settings.devices:
        return
    try:
        _replace(graph, node, call, tensors, settings)
    except Unknown as reason:
        left_to_torch("flex_attention", str(reason), tensors)


def _replace(graph: Graph, node: Node, call: dict[str, Any], tensors: tuple[Tensor, Tensor, Tensor], settings: Settings) -> None:
    q, k, v = tensors
    _check_call(node, call, tensors)
    box = Box(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    parts = blocks_of(call["block_mask"])
    if parts is None:
        raise Unknown(f"torch {torch.__version__} has another form of block masks than 2.13")
    blocks = Blocks(*(parts[name] for name in Blocks._fields[:-2]), parts["block_queries"], parts["block_keys"])
    result = node.meta["example_value"][0]
    if not result.requires_grad:
        blocks = blocks._replace(**dict.fromkeys(OF_KEYS))      # read by gradients alone
    try:
        score = _read("score_mod", graph, call["score_mod"], (Score(), *INDICES), call["score_mod_other_buffers"], box)
        mask = _read("mask_mod", graph, parts["mask_mod"], INDICES, call["mask_mod_other_buffers"], box)
        means = meaning(score, mask, box)
    except Unknown as reason:
        replace_by_mod(graph, node, call | {"mask_mod": parts["mask_mod"]}, blocks, box, settings, str(reason))
        return
    checked = _check_blocks(node, blocks, means, box)
    slopes = means.slopes
    buffer = call["score_mod_other_buffers"][slopes.buffer] if isinstance(slopes, Slopes) else None
    factor = slopes.factor if isinstance(slopes, Slopes) else slopes
    factor = tuple(factor.values.tolist()) if isinstance(factor, PerHead) else factor
    options = dict(factor=factor, scale=call["scale"] * means.scale, softcap=means.softcap, keys=(means.first, means.end),
                   window=means.window, strides=tuple(result.stride()))

    def ours(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, None if buffer is None else torch.ones(box.heads, device=q.device), **options)[0]

    name = f"flex {means} {box} {call['scale']}"
    if not settings.force and not is_quicker(name, ours, theirs(means, box, call["scale"]), (q, k, v), result.requires_grad):
        raise Unknown("torch's was quicker when both were timed")
    with graph.inserting_before(node):
        if not checked:
            graph.call_function(check, (tuple(blocks), tuple(means.near), astuple(box)))
        new = graph.call_function(attend, (call["query"], call["key"], call["value"], buffer), options)
    new.meta.update(node.meta)
    node.replace_all_uses_with(new)
    graph.erase_node(node)


def attend(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor | None, *, factor: float | tuple[float, ...] | None, scale: float,
           softcap: float | None, keys: tuple[int, int], window: tuple[int | None, int | None],
           strides: tuple[int, ...]) -> tuple[Tensor, Tensor, None]:
    """(o, lse in powers of 2, None) as flex attention's operator gives them.

    args:      q, k, v   (batch, heads, seq_q, dim), (batch, kv_heads, seq_k, dim) and (batch, kv_heads, seq_k, value_dim)
               slopes    fp32 (heads), or None for slopes that `factor` alone says
               factor    of the slopes, or a number or numbers of the heads; None for no slopes
               keys      (first, end): the others are seen by no query
               strides   of o, in memory
               scale, softcap, window   as `ops.attention` has them
    """
    if slopes is not None and factor == 1:
        slopes = slopes.detach()
    elif factor is not None:
        factor = torch.tensor(factor, dtype=torch.float32, device=q.device).expand(q.shape[1])
        slopes = factor if slopes is None else slopes.detach() * factor
    first, end = keys
    if first or end != k.shape[2]:
        k, v = k[:, :, first:end], v[:, :, first:end]
    left, right = window
    o, lse = ops.attention(q, k, v, causal=right == 0, scale=scale, window=(left, None if right == 0 else right), softcap=softcap,
                           alibi_slopes=slopes, return_lse=True)
    if o.stride() != strides:
        o = o.new_empty_strided(o.shape, strides).copy_(o)
    return o, lse / log(2), None


def _check_call(node: Node, call: dict[str, Any], tensors: tuple[Tensor, Tensor, Tensor]) -> None:
    q, k, v = tensors
    if not all(isinstance(extent, int) for one in tensors for extent in (*one.shape, *one.stride())):
        raise Unknown("an extent is symbolic, and how queries and keys are aligned depends on lengths")
    if not isinstance(call["scale"], (int, float)):
        raise Unknown("its scale is no number while it is compiled")
    result = node.meta.get("example_value")
    if not isinstance(result, (tuple, list)) or not {q.dtype, k.dtype, v.dtype, next(iter(result)).dtype} <= {q.dtype} & TYPES:
        raise Unknown("the types are not all bf16, all fp16 or all fp32, or autocast changes them")
    if 0 in (*q.shape, *k.shape, *v.shape) or len(k.shape) != 4:
        raise Unknown("a tensor is empty")
    if any(call["kernel_options"].get(name) != value for name, value in _OPTIONS.items()) \
            or set(call["kernel_options"]) - set(_OPTIONS) - set(_OUTPUTS):
        raise Unknown("kernel_options are given, which are for torch's kernel")
    if call["kernel_options"].get("OUTPUT_MAX", False):
        raise Unknown("the highest scores are wanted, which ops.attention does not give")


def _read(what: str, graph: Graph, module: Node, given: tuple, buffers: tuple, box: Box) -> Any:
    """The value of a mod; Unknown says whose reason it is."""
    read_here = tuple(Buffer(number, _example(one)) for number, one in enumerate(buffers))
    try:
        with with_real_tensors():
            return read(graph.owning_module.get_submodule(module.target).graph, (*given, *read_here), box)
    except Unknown as reason:
        raise Unknown(f"of its {what}: {reason}") from reason


def _example(one: Any) -> Any:
    return one.meta.get("example_value") if isinstance(one, Node) else one


def _check_blocks(node: Node, blocks: Blocks, means: Meaning, box: Box) -> bool:
    """True if the blocks are known to be those of the mask_mod for all calls; False if those of this call are. Else Unknown."""
    parts = [one for one in blocks if isinstance(one, Node)]
    real = constants(parts, node)
    fixed = real is not None
    if real is None:
        real = [example_of(one) if one.op == "placeholder" else None for one in parts]
    if not fixed and not asserts_run(node.meta["example_value"][0].device):
        raise Unknown("its block mask may change, and torch._inductor.config.assert_indirect_indexing is off, so that no assertion "
                      "would say so")
    if any(one is None for one in real):
        raise Unknown("its block mask is computed from inputs of the graph, so that its blocks are not known while it is compiled")
    found = dict(zip(parts, real))
    now = Blocks(*(found.get(one, one) if isinstance(one, Node) else one for one in blocks))
    with with_real_tensors():
        if not fits(now, box) or not bool(agree(now, means.near, box)):
            raise Unknown("its block mask lists other blocks than its mask_mod gives, and torch's kernel computes those it lists")
    return fixed


__all__ = ["attend", "replace_flex"]
