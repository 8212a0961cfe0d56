"""Attention forward for a sequence that is cut over several GPUs (context parallel), for Hopper: bf16 and fp16, head dims 64
and 128, grouped queries, full or causal; under a causal mask balanced: every rank has the same work.

Input: q, k and v of this rank's part of the sequence, (batch, heads, length, dim). Output: o = softmax(scale q k^T) v over the
keys of all ranks, and the logarithms of the softmax's denominators, of this rank's queries. For example:

    world = mimw.World(4)                               four simulated GPUs
    work = Workspace.of(world, batch, kv_heads, length, dim, dtype)
    arguments(q, k, v, o, lse, counter, work, rank, programs)    (grid, args, meta) of rank `rank`
    simulated(world, launches)                          the same of all ranks, for `mimw.simulate` of `kernel`

Which positions a rank's part has: `positions(rank, ranks, length, parts)`. With two parts rank r holds chunk r and chunk 2 N -
1 - r of 2 N chunks of the sequence, with one part chunk r of N.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import e, log2, prod
from typing import Any

import numpy as np

import mimw

from ..attention.changes import HEADS, SCALE, scale_of
from ..attention.configs import Configuration, configuration, heads_in_band
from ..checks import PROGRAMS
from ..contract import Contract
from ..contract.memory import strides
from .gather import PIECES, piece_shift
from .kernel import ring_attention as kernel
from .places import extras

__all__ = ["CONTRACT", "FITS", "PIECES", "PUTTERS", "Configuration", "Workspace", "arguments", "configuration", "halves", "kernel",
           "positions", "simulated"]

HEAD_DIMS = 64, 128
PUTTERS = 8     # programs that put: they fill the links of an H200 (357 GB/s each way, benchmarks/notes/transport.md)
ALIGNED = 128   # a chunk's rows are a multiple of it
FITS = (        # lines of contracts
    "q: bf16|fp16 (batch, heads, length, dim) tma-all", "k: =q (batch, kv_heads, length, dim) tma-all",
    "v: =q (batch, kv_heads, length, dim) tma-all", HEADS,
    f"dim in {HEAD_DIMS} -- the head dim may be {' or '.join(map(str, HEAD_DIMS))}",
    f"length % ({ALIGNED} * parts) == 0 -- each part of a rank's rows must be a multiple of {ALIGNED}: pad the whole sequence to a "
    f"multiple of {ALIGNED} times the parts of all ranks")
CONTRACT = Contract(*FITS, "o: =q (batch, heads, length, dim) tma-all", "lse: fp32 (batch, heads, length)",
                    "counter: i32 (numbers)", SCALE, PROGRAMS)


@dataclass(frozen=True)
class Workspace:
    """Arrays that the ranks share, and what a rank keeps from call to call.

    whole    symmetric, 1-D, of the tensors' type: room for keys, then values, of all ranks
    flags    symmetric int64, zeros before the first call: PIECES for each rank
    state    two int64 of each rank, zeros before the first call of all
    world    the table of the ranks
    """

    whole: Any
    flags: Any
    state: Any
    world: Any
    size: int

    @staticmethod
    def elements(batch: int, kv_heads: int, length: int, dim: int, size: int) -> int:
        """The numbers that `whole` holds, for parts of `length` rows at each of `size` ranks."""
        return 2 * batch * kv_heads * length * dim * size

    @classmethod
    def of(cls, world: mimw.World, batch: int, kv_heads: int, length: int, dim: int, dtype) -> Workspace:
        """The workspace of simulated GPUs."""
        size = len(world)
        return cls(world.symmetric(cls.elements(batch, kv_heads, length, dim, size), dtype, "whole"),
                   world.symmetric(size * PIECES.value, "int64", "flags"), world.each(lambda rank: np.zeros(2, np.int64), "state"),
                   world, size)

    def at(self, rank: int) -> Workspace:
        """The workspace of one rank, of a workspace of simulated GPUs."""
        return Workspace(self.whole[rank], self.flags[rank], self.state[rank], self.world[rank], self.size)


def positions(rank: int, size: int, length: int, parts: int) -> np.ndarray:
    """The rows of the whole sequence that rank `rank` of `size` holds, (length) int64: its chunks one behind the other."""
    rows = length // parts
    chunks = [rank] if parts == 1 else [rank, 2 * size - 1 - rank]
    return np.concatenate([np.arange(chunk * rows, (chunk + 1) * rows) for chunk in chunks])


def arguments(q, k, v, o, lse, counter, work: Workspace, rank: int, programs: int, causal: bool = False, balanced: bool = True,
              scale: float | None = None, chosen: Configuration | None = None,
              putters: int = PUTTERS) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) of one rank's launch; all ranks launch with the same shapes, and launches of a rank follow each other.

    args:      q         (batch, heads, length, dim) of bf16 or fp16, dim 64 or 128, contiguous along dim; the other strides are
                         multiples of 16 bytes
               k, v      (batch, kv_heads, length, dim); kv_heads divides heads, head h reads kv head h * kv_heads // heads
               o         like q
               lse       (batch, heads, length) fp32, contiguous
               counter   one int32, 0 before and after a launch, for one launch at a time
               work      this rank's Workspace, or a larger one; for one launch at a time
               rank      this rank, 0 to work.size - 1
               programs  how many persistent programs: one per SM, never more than output tiles; the same at all ranks
               causal    a query sees the keys up to its own position in the whole sequence (`positions`)
               balanced  under a causal mask: length is two chunks of `positions` with two parts, and all ranks have the same
                         work. If not, or without a mask, it is one chunk
               scale     of the scores, more than 0; by default 1 / sqrt(dim)
               chosen    by default the measured configuration of ../attention, or if its blocks do not divide a chunk, that of a
                         causal mask
               putters   how many programs put keys and values into other ranks' memory
    errors:    ValueError where a shape, a stride or a type is not what the kernel takes, with the numbers
    """
    parts = 2 if causal and balanced else 1
    of = CONTRACT.check(q=q, k=k, v=v, o=o, lse=lse, counter=counter, parts=parts, scale=scale, programs=programs)
    batch, heads, length, dim, kv_heads, rows = of.batch, of.heads, of.length, of.dim, of.kv_heads, of.length // parts
    scale = scale_of(scale, dim)
    chosen = chosen or configuration(dim, causal or not _divides(configuration(dim, causal), rows, parts))
    if not _divides(chosen, rows, parts):
        raise ValueError(f"a chunk of {rows} rows is no multiple of {chosen.bm} queries or {chosen.bn} keys: choose others")
    whole_k, whole_v = halves(work, batch, kv_heads, length, dim)
    band = heads_in_band(batch * heads, heads // kv_heads, length * work.size, dim, causal)
    tiles = -(-length // chosen.bm) * batch * heads
    programs = min(programs, tiles)
    masked = 0 if not causal else 1 if chosen.bn % chosen.bm == 0 else 2
    blocks = rows // chosen.bn
    describe = mimw.TensorDescriptor.from_tensor
    of_query, of_keys = [1, 1, chosen.bm // chosen.consumers, dim], [1, 1, chosen.bn, dim]
    first, second = extras(rank, work.size, parts, blocks, causal)
    args = (describe(q, of_query), describe(k, of_keys), describe(v, of_keys), describe(o, of_query), describe(whole_k, of_keys),
            describe(whole_v, of_keys), k, v, whole_k, whole_v, work.flags, work.state, lse, counter, work.world, scale * log2(e),
            batch, heads, length, length + first * chosen.bn, band, blocks, first, second, piece_shift(batch * kv_heads),
            *strides(k)[:3], *strides(v)[:3])
    meta = dict(PARTS=parts, PUTTERS=0 if work.size == 1 else min(putters, programs),
                FORM=chosen.form(dim, heads // kv_heads, causal, masked), num_warps=4)
    return (programs, ), args, meta


def halves(work: Workspace, batch: int, kv_heads: int, length: int, dim: int) -> tuple:
    """(keys, values) of all ranks, (batch, heads, rows of the whole sequence, dim), in a workspace's memory."""
    shape = batch, kv_heads, length * work.size, dim
    size = prod(shape)
    if work.whole.shape[0] < 2 * size:
        raise ValueError(f"the workspace has room for {work.whole.shape[0]} numbers; keys and values are {2 * size}")
    return tuple(work.whole[at * size:(at + 1) * size].reshape(shape) for at in range(2))


def simulated(launches: list[tuple[tuple, tuple, dict]], world: mimw.World) -> tuple[tuple, tuple, dict]:
    """One launch of all ranks for `mimw.simulate` and `mimw.check`, of the (grid, args, meta) of each."""
    grid, _, meta = launches[0]
    args = []
    for values in zip(*(one[1] for one in launches)):
        differ = hasattr(values[0], "shape") or len(set(values)) > 1
        args.append(world if values[0] is world[0] else world.each(values) if differ else values[0])
    return grid, tuple(args), meta


def _divides(chosen: Configuration, rows: int, parts: int) -> bool:
    """True if a chunk of so many rows is whole blocks of keys and, of two parts, whole tiles of queries."""
    return rows % chosen.bn == 0 and (parts == 1 or rows % chosen.bm == 0)
