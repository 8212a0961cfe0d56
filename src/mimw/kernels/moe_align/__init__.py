"""Tokens of a mixture of experts sorted by expert, each expert's list padded to whole blocks ("align block size").

Input: the expert of each token, int32. Output: the tokens' numbers by expert, the expert of each block, the length in
use:

    align(topk_ids, num_experts, block_size)    (sorted_token_ids, expert_ids, num_tokens_post_pad) of a torch tensor
    outputs(3, 3, 2)                            (6, 3, 1): their sizes for 3 tokens, 3 experts and blocks of 2
    arguments(...)                              (kernel, grid, args, meta) to launch or simulate, numpy or torch
"""

from __future__ import annotations

from ..checks import of_rank, on_one_gpu, persistent, type_name
from .configs import Configuration, configuration
from .kernel import CLUSTER, GRID, cluster_form, grid_form

__all__ = ["Configuration", "align", "arguments", "configuration", "outputs"]

_MOST_EXPERTS = 1024


def outputs(numel: int, num_experts: int, block_size: int) -> tuple[int, int, int]:
    """Elements of sorted_token_ids, expert_ids and num_tokens_post_pad: enough for every way the tokens may fall."""
    length = numel + num_experts * (block_size - 1)
    return length, -(-length // block_size), 1


def arguments(topk_ids, sorted_token_ids, expert_ids, num_tokens_post_pad, counters, num_experts: int, block_size: int,
              sms: int, chosen: Configuration | None = None, places=None):
    """(kernel, grid, args, meta) of the one launch that fills the three outputs.

    args:      topk_ids             int32 or int64, contiguous, values in [0, num_experts); seen as one list of tokens
               sorted_token_ids     int32; becomes, expert after expert, the numbers of its tokens (in any order), filled up to
                                    whole blocks, and to its end, with the number of tokens
               expert_ids           int32; becomes the expert of each block, 0 behind the last
               num_tokens_post_pad  int32[1]; becomes the number of tokens with padding
               counters             int32[num_experts], scratch, with any contents; the grid form's
               sms                  how many SMs the grid form may fill
               chosen               by default the measured configuration of the nearest problem
               places               (opt) int32, of as many elements as topk_ids; becomes where in sorted_token_ids each token is
    errors:    ValueError where a size or type does not fit, with the numbers
    """
    numel = 1
    for extent in topk_ids.shape:
        numel *= int(extent)
    _check_numbers(num_experts, block_size)
    sms = persistent(sms, "sms")
    if numel + num_experts * block_size >= 1 << 31:
        raise ValueError(f"{numel} tokens and {num_experts} experts with blocks of {block_size} need positions beyond 32 bits")
    needed = dict(zip(("sorted_token_ids", "expert_ids", "num_tokens_post_pad"), outputs(numel, num_experts, block_size)))
    given = dict(topk_ids=topk_ids, sorted_token_ids=sorted_token_ids, expert_ids=expert_ids,
                 num_tokens_post_pad=num_tokens_post_pad, counters=counters)
    if places is not None:
        needed["places"], given["places"] = numel, places
    for name, array in given.items():
        if type_name(array) != "int32" and (name, type_name(array)) != ("topk_ids", "int64"):
            raise ValueError(f"{name} is {array.dtype}; all arrays are int32, and topk_ids may be int64")
        if not _contiguous(array):
            raise ValueError(f"{name} is not contiguous")
        if name in needed and tuple(array.shape) != (needed[name], ):
            raise ValueError(f"{name} has the shape {tuple(array.shape)}; {numel} tokens, {num_experts} experts and blocks of "
                             f"{block_size} need ({needed[name]},)")
    of_rank(1, counters=counters)
    if counters.shape[0] < num_experts:
        raise ValueError(f"counters has {counters.shape[0]} elements for {num_experts} experts")
    chosen = chosen or configuration(numel, num_experts)
    programs = chosen.programs(numel, sms)
    meta = dict(E=num_experts, BS=block_size, BLOCK=chosen.block, ONE_TILE=numel <= programs * chosen.block,
                num_warps=chosen.num_warps)
    outs, length = (sorted_token_ids, expert_ids, num_tokens_post_pad), needed["sorted_token_ids"]
    if chosen.form == "cluster":
        return cluster_form, (1, ), (topk_ids, *outs, numel, length, places), {**meta, "PULL": chosen.pull, "mesh": CLUSTER}
    return grid_form, (programs, ), (topk_ids, *outs, counters, numel, length, places), {**meta, "mesh": GRID}


def _check_numbers(num_experts, block_size) -> None:
    if not hasattr(num_experts, "__index__") or not 1 <= num_experts <= _MOST_EXPERTS:
        raise ValueError(f"num_experts is {num_experts}; the programs hold one number an expert, for 1 to {_MOST_EXPERTS} experts")
    if not hasattr(block_size, "__index__") or block_size < 1:
        raise ValueError(f"block_size is {block_size}; a block is a whole number of tokens, at least one")


def _contiguous(array) -> bool:
    return array.is_contiguous() if hasattr(array, "is_contiguous") else array.flags.c_contiguous


def align(topk_ids, num_experts: int, block_size: int, chosen: Configuration | None = None):
    """(sorted_token_ids, expert_ids, num_tokens_post_pad) on the GPU that holds `topk_ids`; as `arguments` has them."""
    import torch
    on_one_gpu("align", topk_ids=topk_ids)
    _check_numbers(num_experts, block_size)
    sizes = (*outputs(topk_ids.numel(), num_experts, block_size), num_experts)
    *filled, counters = (torch.empty(size, dtype=torch.int32, device=topk_ids.device) for size in sizes)
    sms = torch.cuda.get_device_properties(topk_ids.device).multi_processor_count
    kernel, grid, args, meta = arguments(topk_ids, *filled, counters, num_experts, block_size, sms, chosen)
    kernel[grid](*args, **meta)
    return tuple(filled)
