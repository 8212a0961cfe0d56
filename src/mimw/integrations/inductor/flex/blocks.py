"""The blocks of a BlockMask, compared with those that its mask_mod gives.

Input: tensors of a block mask, and bounds of q_idx - kv_idx. Output: whether torch's kernel would compute the mask_mod's keys with
these blocks, all of them and once. For example:

    agree(blocks, near, box)                        True: a tensor () of bool on the device of the blocks
    check((*blocks,), (*near,), (1, 8, 512, 512))   the same as an assertion of the device, which costs the host no wait

Torch's kernels compute the blocks that are listed, and ask the mask_mod in those that are not full. A mask made by
`create_block_mask` agrees; one made by hand may list fewer blocks, and then the kernel computes fewer keys than the mask_mod has.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .meaning import Near
from .values import Box

# Without quotes: inductor writes it into C++ as it is.
MESSAGE = ("mimw.integrations.inductor: a BlockMask lists other blocks than its mask_mod gives, and the one of the call that was "
           "compiled did not; take flex out of what enable() allows for block masks made by hand")


class Blocks(NamedTuple):
    """Numbers and lists of blocks of keys for each block of queries, those that the mask_mod cuts and full ones; the same of blocks
    of queries for each block of keys, which gradients read; None is no such list. queries and keys are those of a block."""

    kv_num_blocks: Tensor | None
    kv_indices: Tensor | None
    full_kv_num_blocks: Tensor | None
    full_kv_indices: Tensor | None
    q_num_blocks: Tensor | None
    q_indices: Tensor | None
    full_q_num_blocks: Tensor | None
    full_q_indices: Tensor | None
    queries: int
    keys: int


OF_KEYS = "q_num_blocks", "q_indices", "full_q_num_blocks", "full_q_indices"


@torch.fx.has_side_effect
def check(blocks: tuple, near: tuple, box: tuple) -> None:
    """Let the device stop with `MESSAGE` where blocks do not agree; all as plain tuples. On the CPU that is a RuntimeError. On a
    GPU inductor fuses it, as Triton's device_assert, which `torch_versions.asserts_run` asks for."""
    torch._assert_async(agree(Blocks(*blocks), Near(*near), Box(*box)), MESSAGE)


def agree(blocks: Blocks, near: Near, box: Box) -> Tensor:
    """True if each block that has a visible key is listed once, and none is listed as full that is not."""
    return agree_with(blocks, *expected(blocks, near, box))


def agree_with(blocks: Blocks, some: Tensor, full: Tensor) -> Tensor:
    """The same of blocks with a key that is seen, and those of which all are: (..., blocks of queries, blocks of keys) of bool."""
    by_queries = _agree(blocks.kv_num_blocks, blocks.kv_indices, blocks.full_kv_num_blocks, blocks.full_kv_indices, some, full)
    if blocks.q_num_blocks is None:
        return by_queries
    return by_queries & _agree(blocks.q_num_blocks, blocks.q_indices, blocks.full_q_num_blocks, blocks.full_q_indices,
                               some.mT, full.mT)


def expected(blocks: Blocks, near: Near, box: Box) -> tuple[Tensor, Tensor]:
    """Blocks with a key that is seen, and those of which all are: (blocks of queries, blocks of keys) of bool. A block that reaches
    over the last query or key is not full, as in torch's."""
    device = blocks.kv_num_blocks.device
    queries, keys = (torch.arange(0, extent, size, device=device) for extent, size in
                     ((box.queries, blocks.queries), (box.keys, blocks.keys)))
    last_query, last_key = (queries + blocks.queries - 1)[:, None], (keys + blocks.keys - 1)[None, :]
    farthest = last_query.clamp(max=box.queries - 1) - keys[None, :]        # q_idx - kv_idx lies in between, each number is there
    nearest = queries[:, None] - last_key.clamp(max=box.keys - 1)
    some, full = torch.ones_like(farthest, dtype=torch.bool), (last_query < box.queries) & (last_key < box.keys)
    if near.least is not None:
        some, full = some & (farthest >= near.least), full & (nearest >= near.least)
    if near.most is not None:
        some, full = some & (nearest <= near.most), full & (farthest <= near.most)
    return some, full


def blocks_of_mask(mask: Tensor, blocks: Blocks, box: Box) -> tuple[Tensor, Tensor]:
    """The same two of a mask for each query and key, bool that broadcasts to (batch, heads, queries, keys)."""
    rows, columns = -(-box.queries // blocks.queries), -(-box.keys // blocks.keys)
    mask = mask.expand(torch.broadcast_shapes(mask.shape, (1, 1, box.queries, box.keys)))
    over = 0, columns * blocks.keys - box.keys, 0, rows * blocks.queries - box.queries
    whole = torch.nn.functional.pad(mask, over, value=False)
    tiles = whole.unflatten(3, (columns, blocks.keys)).unflatten(2, (rows, blocks.queries))
    return tiles.any(5).any(3), tiles.all(5).all(3)


def fits(blocks: Blocks, box: Box) -> bool:
    """True if there is a row of blocks for each block of queries, and of keys."""
    rows, columns = -(-box.queries // blocks.queries), -(-box.keys // blocks.keys)
    pairs = ((blocks.kv_num_blocks, blocks.kv_indices, rows), (blocks.full_kv_num_blocks, blocks.full_kv_indices, rows),
             (blocks.q_num_blocks, blocks.q_indices, columns), (blocks.full_q_num_blocks, blocks.full_q_indices, columns))
    return all(number is None or number.shape[-1] == here and lists.shape[:-1] == number.shape for number, lists, here in pairs)


def _agree(number: Tensor, lists: Tensor, full_number: Tensor | None, full_lists: Tensor | None, some: Tensor,
           full: Tensor) -> Tensor:
    cut, right = _counted(number, lists, some.shape[-1])
    whole = torch.zeros_like(cut)
    if full_number is not None:
        whole, also = _counted(full_number, full_lists, some.shape[-1])
        right = right & also
    once = (cut + whole == 1) | (cut + whole == 0) & ~some
    return right & (once & ((whole == 0) | full)).all()


def _counted(number: Tensor, lists: Tensor, blocks: int) -> tuple[Tensor, Tensor]:
    """The number of times that each block is listed, and True if all listed numbers are those of blocks."""
    listed = torch.arange(lists.shape[-1], device=lists.device) < number[..., None]
    there = (lists >= 0) & (lists < blocks)
    into = torch.where(listed & there, lists, blocks).long()
    counts = torch.zeros((*lists.shape[:-1], blocks + 1), dtype=torch.int32, device=lists.device)
    counts = counts.scatter_add(-1, into, torch.ones_like(into, dtype=torch.int32))[..., :blocks]
    return counts, (there | ~listed).all() & (number <= lists.shape[-1]).all()


__all__ = ["Blocks", "MESSAGE", "OF_KEYS", "agree", "agree_with", "blocks_of_mask", "check", "expected", "fits"]
