"""`mimw.ops.moe_align`: the tokens of a mixture of experts sorted by expert, each expert's list padded to whole blocks.

Input: the expert of each token. Output: the tokens' numbers by expert, the expert of each block, the length in use:

    sorted_ids, experts, length = moe_align(topk_ids, 64, 16)
    torch.ops.mimw.moe_align(topk_ids, 64, 16)              the operator itself
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mimw.kernels import moe_align as library

from .contract import Contract, Extents
from .launching import Launch, programs
from .notes import another_chip, takes
from .operator import Operator
from .planned import Planned

Lists = tuple[Tensor, Tensor, Tensor]
MOST_EXPERTS = 1024
LENGTH = "prod(ids) + num_experts * (block_size - 1)"
CONTRACT = Contract(
    "moe_align", "topk_ids: int (*ids)", f"1 <= num_experts <= {MOST_EXPERTS} -- there are 1 to {MOST_EXPERTS} experts",
    "block_size >= 1 -- blocks have 1 token or more", f"-> sorted_token_ids: i32 ({LENGTH})",
    f"-> expert_ids: i32 (cdiv({LENGTH}, block_size))", "-> num_tokens_post_pad: i32 (1)")


def moe_align(topk_ids: Tensor, num_experts: int, block_size: int) -> Lists:
    """(sorted_token_ids, expert_ids, num_tokens_post_pad), all int32.

    args:      topk_ids     int32 or int64, any shape and strides, seen as one list of n tokens; values from 0 to num_experts - 1
               num_experts  1 to 1024
               block_size   tokens a block, 1 or more
    returns:   sorted_token_ids (n + num_experts * (block_size - 1)): expert after expert the numbers of its tokens, in any order,
               filled up to whole blocks, and to the end, with n; expert_ids: the expert of each block, 0 behind the last;
               num_tokens_post_pad (1): how many elements of the first are in use
    computed:  on sm_90 by `mimw.kernels.moe_align`, one launch; on other GPUs by torch's argsort, cumsum and searchsorted. Nothing
               waits for the GPU
    errors:    NotImplementedError for other types; RuntimeError for numbers that do not fit
    """
    return MOE_ALIGN(topk_ids, num_experts, block_size)


def _plan(of: Extents, topk_ids: Tensor, num_experts: int, block_size: int) -> Callable[[Tensor], Lists]:
    outs = of.empty(topk_ids)
    if not takes("moe_align", another_chip(topk_ids), topk_ids.numel() == 0 and "a tensor is empty"):
        return lambda ids: _by_torch(ids.reshape(-1).long(), num_experts, block_size, *of.empty(ids))
    counters = topk_ids.new_empty(num_experts, dtype=torch.int32)
    ids = topk_ids.reshape(-1).contiguous()
    kernel, grid, args, meta = library.arguments(ids, *outs, counters, num_experts, block_size, programs(topk_ids))
    launch = Launch(topk_ids, kernel, grid, args, meta)
    uses_counters, as_is = any(one is counters for one in args), ids.data_ptr() == topk_ids.data_ptr()

    def plan(ids: Tensor) -> Lists:
        outs = of.empty(ids)
        scratch = (torch.empty(num_experts, dtype=torch.int32, device=ids.device), ) if uses_counters else ()
        launch(ids if as_is else ids.reshape(-1).contiguous(), *outs, *scratch)
        return outs

    return plan


def _by_torch(ids: Tensor, num_experts: int, block_size: int, tokens: Tensor, experts: Tensor, length: Tensor) -> Lists:
    """The same by torch's operators."""
    counts = ids.new_zeros(num_experts).scatter_add_(0, ids, torch.ones_like(ids))
    ends = ((counts + block_size - 1) // block_size * block_size).cumsum(0)
    by_expert, order = torch.sort(ids, stable=True)
    before, starts = counts.cumsum(0) - counts, torch.cat([ends.new_zeros(1), ends[:-1]])
    place = starts[by_expert] + torch.arange(len(ids), device=ids.device) - before[by_expert]
    tokens.fill_(len(ids)).scatter_(0, place, order.to(torch.int32))
    first = torch.arange(len(experts), device=ids.device) * block_size
    found = torch.searchsorted(ends, first, right=True)
    experts.copy_(torch.where(first < ends[-1], found, 0))
    length.copy_(ends[-1:])
    return tokens, experts, length


MOE_ALIGN = Operator("moe_align(Tensor topk_ids, int num_experts, int block_size) -> (Tensor, Tensor, Tensor)", Planned(_plan),
                     CONTRACT)
