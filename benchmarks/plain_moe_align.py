"""Tokens sorted by expert in stock Triton: four launches, since programs of one launch cannot wait for each other."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def count(ids_ptr, sorted_ptr, experts_ptr, table_ptr, numel, length, blocks, E: tl.constexpr, BINS: tl.constexpr,
          CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    """Row p + 1 of the (E + 1, E) table: the histogram of chunk p. And program p's share of sentinels and zeros."""
    p, lane = tl.program_id(0), tl.arange(0, BLOCK)
    for first in range(p * BLOCK, length, E * BLOCK):
        tl.store(sorted_ptr + first + lane, numel, mask=first + lane < length)
    for first in range(p * BLOCK, blocks, E * BLOCK):
        tl.store(experts_ptr + first + lane, 0, mask=first + lane < blocks)
    at = p * CHUNK + tl.arange(0, CHUNK)
    counts = tl.histogram(tl.load(ids_ptr + at, mask=at < numel, other=0), BINS, mask=at < numel)
    expert = tl.arange(0, BINS)
    tl.store(table_ptr + (p + 1) * E + expert, counts, mask=expert < E)


@triton.jit
def add_columns(table_ptr, E: tl.constexpr, BINS: tl.constexpr):
    """Column e becomes its running sum, so that row p has what the chunks before p hold of each expert."""
    at = table_ptr + (1 + tl.arange(0, BINS)) * E + tl.program_id(0)
    inside = tl.arange(0, BINS) < E
    tl.store(at, tl.cumsum(tl.load(at, mask=inside, other=0), 0), mask=inside)


@triton.jit
def start(table_ptr, starts_ptr, total_ptr, E: tl.constexpr, BINS: tl.constexpr, BS: tl.constexpr):
    """starts[e] and starts[E], the total."""
    expert = tl.arange(0, BINS)
    counts = tl.load(table_ptr + E * E + expert, mask=expert < E, other=0)
    upto = tl.cumsum(tl.cdiv(counts, BS) * BS, 0)
    tl.store(starts_ptr + 1 + expert, upto, mask=expert < E)
    tl.store(total_ptr, tl.sum(tl.cdiv(counts, BS) * BS, 0))


@triton.jit
def write(ids_ptr, sorted_ptr, experts_ptr, table_ptr, starts_ptr, numel, E: tl.constexpr, BS: tl.constexpr, CHUNK: tl.constexpr,
          BLOCK: tl.constexpr):
    """Expert p's blocks, and the tokens of chunk p."""
    p, lane = tl.program_id(0), tl.arange(0, BLOCK)
    end = tl.load(starts_ptr + p + 1) // BS
    for first in range(tl.load(starts_ptr + p) // BS, end, BLOCK):
        tl.store(experts_ptr + first + lane, p, mask=first + lane < end)
    at = p * CHUNK + tl.arange(0, CHUNK)
    ids = tl.load(ids_ptr + at, mask=at < numel, other=0)
    rank = tl.atomic_add(table_ptr + p * E + ids, 1, mask=at < numel)
    tl.store(sorted_ptr + tl.load(starts_ptr + ids) + rank, at, mask=at < numel)


def launcher(ids, sorted_ids, expert_ids, total, experts: int, block_size: int):
    """A call without arguments that fills the three outputs, with scratch of its own that it zeroes."""
    import torch

    numel, length = ids.numel(), sorted_ids.numel()
    bins = triton.next_power_of_2(experts)
    chunk = triton.next_power_of_2(triton.cdiv(numel, experts))
    scratch = torch.empty((experts + 2) * experts + 1, dtype=torch.int32, device=ids.device)
    table, starts = scratch[:(experts + 1) * experts], scratch[(experts + 1) * experts:]

    def run():
        scratch.zero_()
        count[(experts, )](ids, sorted_ids, expert_ids, table, numel, length, expert_ids.numel(), experts, bins, chunk, 256)
        add_columns[(experts, )](table, experts, bins)
        start[(1, )](table, starts, total, experts, bins, block_size)
        write[(experts, )](ids, sorted_ids, expert_ids, table, starts, numel, experts, block_size, chunk, 256)

    return run
