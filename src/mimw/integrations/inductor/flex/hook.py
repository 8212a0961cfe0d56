"""A call of flex attention whose mods say no options becomes `ops.attention` with a score_mod, the mask_mod in it.

Input: a graph, the node of the call, both mods, and the reason why they are no options. Output: the same graph, and a line in the
log. For example:

    flex_attention(q, k, v, lambda s, b, h, i, j: s + bias[h, i - j + n])       attention_mod with "s + f0[h, q - k + 512]"
    ... block_mask=documents_and_causal                                         causal, and "where(i0[q] == i0[k], s, -inf)"

Of a mask_mod that joins conditions by and, those that are a window become `causal` and `window`, whose blocks cost nothing; what is
left hides single keys, and all blocks are computed. As of windows, the block mask's lists are compared with the mask_mod.
"""

from __future__ import annotations

from dataclasses import astuple, replace
from math import log
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from mimw import ops, score_mods
from mimw.ops.log import LOGGER, shown

from ..measured import is_quicker
from ..settings import Settings
from ..torch_versions import asserts_run, example_of, with_real_tensors
from .blocks import MESSAGE, Blocks, agree_with, blocks_of_mask, fits
from .constants import constants
from .meaning import Near, window_of
from .theirs import theirs_of
from .values import Box, Unknown


def replace_by_mod(graph: Graph, node: Node, call: dict[str, Any], blocks: Blocks, box: Box, settings: Settings,
                   reason: str) -> None:
    """Put ours in the place of the call, or raise Unknown with the reason why not, behind the one why it is no options."""
    q, k, v = (one.meta["example_value"] for one in (call["query"], call["key"], call["value"]))
    buffers = *call["score_mod_other_buffers"], *call["mask_mod_other_buffers"]
    try:
        score, mask, read = _recorded(graph, call, buffers)
        keys, window, text = _with_window(score, mask, box)
        tables = tuple(buffers[number] for number in read)
        with with_real_tensors():
            score_mods.text_for_kernels(text, [_example(one) for one in tables], score_mods.Box(*astuple(replace(box, keys=keys))))
    except score_mods.ScoreModError as error:
        raise Unknown(f"{reason}; nor is it a score_mod of ops.attention: {str(error).splitlines()[0]}") from error
    result = node.meta["example_value"][0]
    if any(isinstance(one, Tensor) and one.requires_grad for one in map(_example, tables)):
        raise Unknown(f"{reason}; nor a score_mod of ops.attention: a tensor that it reads requires a gradient, which is not given")
    mask_text = score_mods.shown(mask)
    real, checked = _check_blocks(node, blocks, mask, tables, box)
    options = dict(text=text, scale=call["scale"], keys=keys, window=window, strides=tuple(result.stride()))
    if not settings.force:
        with with_real_tensors():
            given = tuple(_random(_example(one)) if found is None else found for one, found in zip(tables, real))

        def ours(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return attend_by_mod(q, k, v, given, **options)[0]

        by_torch = theirs_of(score, mask, given, box, call["scale"])
        name = f"flex {score_mods.shown(score)} {mask_text} {window} {box} {call['scale']}"
        if not is_quicker(name, ours, by_torch, (q, k, v), result.requires_grad):
            raise Unknown(f"{reason}; and as a score_mod of ops.attention it was slower when both were timed")
    with graph.inserting_before(node):
        if not checked:
            graph.call_function(check_mask, (tuple(blocks), mask_text, tables, astuple(box)))
        new = graph.call_function(attend_by_mod, (call["query"], call["key"], call["value"], tables), options)
    new.meta.update(node.meta)
    node.replace_all_uses_with(new)
    graph.erase_node(node)
    LOGGER.info("flex_attention(%s): by ops.attention with the score_mod %s, as %s", shown((q, k, v)), text, reason)


def attend_by_mod(q: Tensor, k: Tensor, v: Tensor, tables: tuple[Tensor, ...], *, text: str, scale: float, keys: int,
                  window: tuple[int | None, int | None], strides: tuple[int, ...]) -> tuple[Tensor, Tensor, None]:
    """(o, lse in powers of 2, None) as flex attention's operator gives them.

    args:      q, k, v   as call.py's `attend` takes them
               tables    what the score_mod's text reads
               keys      how many of them count: the others are seen by no query
               strides   of o, in memory
               text, scale, window   as `ops.attention` has them
    """
    if keys != k.shape[2]:
        k, v = k[:, :, :keys], v[:, :, :keys]
    left, right = window
    mod = score_mods.ScoreMod(text, tuple(one.detach() for one in tables))
    o, lse = ops.attention(q, k, v, causal=right == 0, scale=scale, window=(left, None if right == 0 else right), score_mod=mod,
                           return_lse=True)
    if o.stride() != strides:
        o = o.new_empty_strided(o.shape, strides).copy_(o)
    return o, lse / log(2), None


@torch.fx.has_side_effect
def check_mask(blocks: tuple, mask: str, tables: tuple[Tensor, ...], box: tuple) -> None:
    """Let the device stop where the lists of blocks are not those of a mask_mod, as blocks.py's `check` does of windows."""
    torch._assert_async(_agree(Blocks(*blocks), mask, tables, Box(*box)), MESSAGE)


def _agree(blocks: Blocks, mask: str, tables: tuple[Tensor, ...], box: Box) -> Tensor:
    device = blocks.kv_num_blocks.device
    indices = [torch.arange(size, device=device).view([-1 if dim == at else 1 for dim in range(4)])
               for at, size in enumerate(astuple(box))]
    return agree_with(blocks, *blocks_of_mask(score_mods.mask_by_torch(mask, indices, tables), blocks, box))


def _recorded(graph: Graph, call: dict[str, Any], buffers: tuple) -> tuple[Any, Any, list[int]]:
    """(score, mask, numbers of the buffers that these read, as tables) of both mods."""
    score_mod, mask_mod = (graph.owning_module.get_submodule(call[name].target) for name in ("score_mod", "mask_mod"))
    of_score = len(call["score_mod_other_buffers"])

    def both(score: Tensor, *given: Tensor) -> tuple[Tensor, Tensor]:
        indices, more = given[:4], given[4:]
        return _only(score_mod(score, *indices, *more[:of_score])), _only(mask_mod(*indices, *more[of_score:]))

    examples = [_example(one) for one in buffers]
    if not all(isinstance(one, Tensor) and all(isinstance(size, int) for size in one.shape) for one in examples):
        raise score_mods.ScoreModError("it captures something that is no tensor of fixed extents")
    with with_real_tensors():
        roots, read = score_mods.traced(both, "cpu", [torch.empty(one.shape, dtype=one.dtype, device="meta") for one in examples])
    score, mask = roots
    return score, mask, read


def _only(result: Any) -> Tensor:
    return next(iter(result)) if isinstance(result, (tuple, list)) else result


def _with_window(score: Any, mask: Any, box: Box) -> tuple[int, tuple[int | None, int | None], str]:
    """(how many keys count, the window, the text of the score with what the window does not say of the mask)."""
    least, most, rest = score_mods.split(mask, score_mods.Box(*astuple(box)))
    try:
        first, end, window = window_of(Near(least, most), box)
    except Unknown:
        first = None
    if first != 0:          # keys are counted from the first one, and each query's window holds a key
        end, window, rest = box.keys, (None, None), mask
    return end, window, score_mods.shown(score_mods.hidden(score, rest))


def _random(like: Tensor) -> Tensor:
    made = torch.zeros(like.shape, dtype=like.dtype, device=like.device)
    return made.normal_() if like.is_floating_point() else made


def _check_blocks(node: Node, blocks: Blocks, mask: Any, tables: tuple, box: Box) -> tuple[list, bool]:
    """(the tables' real values, those not known None; True if the blocks are known to be the mask_mod's for all calls). Unknown
    where they are not those of this call."""
    parts = [one for one in blocks if isinstance(one, Node)]
    real, of_mask = constants(parts, node), score_mods.tables_of(mask)
    fixed = real is not None and not of_mask
    if real is None:
        real = [example_of(one) if one.op == "placeholder" else None for one in parts]
    read = [example_of(one) if one.op == "placeholder" else (constants([one], node) or [None])[0] for one in tables]
    if not fixed and not asserts_run(node.meta["example_value"][0].device):
        raise Unknown("its block mask may change, and torch._inductor.config.assert_indirect_indexing is off, so that no assertion "
                      "would say so")
    if any(one is None for one in (*real, *(read[number] for number in of_mask))):
        raise Unknown("its block mask is computed from inputs of the graph, so that its blocks are not known while it is compiled")
    found = dict(zip(parts, real))
    now = Blocks(*(found.get(one, one) if isinstance(one, Node) else one for one in blocks))
    with with_real_tensors():
        if not fits(now, box) or not bool(_agree(now, score_mods.shown(mask), tuple(read), box)):
            raise Unknown("its block mask lists other blocks than its mask_mod gives, and torch's kernel computes those it lists")
    return read, fixed


def _example(one: Any) -> Any:
    return one.meta.get("example_value") if isinstance(one, Node) else one


__all__ = ["attend_by_mod", "check_mask", "replace_by_mod"]
