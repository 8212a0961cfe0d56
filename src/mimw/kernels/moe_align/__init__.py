"""Tokens of a mixture of experts sorted by expert, each expert's list padded to whole blocks ("align block size").

Input: the expert of each token, int32. Output: the tokens' numbers by expert, the expert of each block, the length in
use:

    outputs(3, 3, 2)                            (6, 3, 1): their sizes for 3 tokens, 3 experts and blocks of 2
    arguments(...)                              (kernel, grid, args, meta) to launch or simulate, numpy or torch
"""

from __future__ import annotations

from math import prod

from ..checks import counted
from ..contract import Contract
from .configs import Configuration, configuration
from .kernel import CLUSTER, GRID, Form, alone_form, cluster_form, grid_form

__all__ = ["CONTRACT", "Configuration", "arguments", "configuration", "outputs"]

_MOST_EXPERTS = 1024
LENGTH = "prod(ids) + num_experts * (block_size - 1)"
CONTRACT = Contract(
    "topk_ids: int (*ids) contiguous", f"sorted_token_ids: i32 ({LENGTH}) contiguous",
    f"expert_ids: i32 (cdiv({LENGTH}, block_size)) contiguous", "num_tokens_post_pad: i32 (1)", "counters: i32 (many) contiguous",
    "places?: i32 (prod(ids)) contiguous", f"whole(num_experts) and 1 <= num_experts <= {_MOST_EXPERTS} -- the programs hold one "
    f"number an expert, for 1 to {_MOST_EXPERTS} experts", "whole(block_size) and block_size >= 1 -- a block is a whole number of "
    "tokens, at least one", counted("sms"),
    "prod(ids) + num_experts * block_size < 2 ** 31 -- positions must fit into 32 bits",
    "many >= num_experts -- there must be a counter for each expert", empty="*")


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
    CONTRACT.check(topk_ids=topk_ids, sorted_token_ids=sorted_token_ids, expert_ids=expert_ids,
                   num_tokens_post_pad=num_tokens_post_pad, counters=counters, places=places, num_experts=num_experts,
                   block_size=block_size, sms=sms)
    numel, length = prod(topk_ids.shape), sorted_token_ids.shape[0]
    chosen = chosen or configuration(numel, num_experts)
    programs = chosen.programs(numel, sms)
    meta = dict(FORM=Form(num_experts, block_size, chosen.block, numel <= programs * chosen.block), num_warps=chosen.num_warps)
    outs = sorted_token_ids, expert_ids, num_tokens_post_pad
    if chosen.form == "cluster":
        return cluster_form, (1, ), (topk_ids, *outs, numel, length, places), {**meta, "PULL": chosen.pull, "mesh": CLUSTER}
    if chosen.form == "alone":
        return alone_form, (1, ), (topk_ids, *outs, numel, length, places), meta
    return grid_form, (programs, ), (topk_ids, *outs, counters, numel, length, places), {**meta, "mesh": GRID}
