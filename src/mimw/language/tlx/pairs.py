"""Pairs of CTAs: which of the two a CTA is, and products, commits and loads of a pair.

Input: checked arguments of a word with `two_ctas=True`. Output: ops of `ir/ops/pairs.py`, and the pair's ranks as numbers of the
kernel. For example:

    tlx.tcgen05_commit(done, two_ctas=True)      %even = rank % 2 == 0; tcgen05_commit_pair %done, [%leader, %odd], %even

The CTAs with ranks 2 i and 2 i + 1 of a cluster are a pair, of which the even one issues.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import triton.language.core as tl

__all__: list[str] = []


@dataclass(frozen=True)
class Pair:
    """The ranks of both CTAs of this CTA's pair, and whether this one is the even one."""

    leader: tl.tensor
    odd: tl.tensor
    is_even: tl.tensor

    def issues(self, predicate: Any, semantic) -> Any:
        """The predicate of an op that the even CTA issues, if `predicate`, a handle, holds there."""
        if predicate is None:
            return self.is_even.handle
        return semantic.and_(self.is_even, tl.tensor(predicate, tl.int1)).handle


def pair_of(semantic) -> Pair:
    """This CTA's pair."""
    rank = tl.tensor(semantic.builder.record("cluster_cta_rank").results[0], tl.int32)
    place = semantic.mod(rank, semantic.to_tensor(2))
    leader = semantic.sub(rank, place, sanitize_overflow=False)
    return Pair(leader, semantic.add(leader, semantic.to_tensor(1), sanitize_overflow=False),
                semantic.equal(place, semantic.to_tensor(0)))


def record_dot(name: str, operands: tuple, predicate, barriers, waits: bool, semantic) -> None:
    """A product of the pair, an op `name` with its operands but for the pair's, and a commit of both for each barrier."""
    pair = pair_of(semantic)
    issues = pair.issues(predicate, semantic)
    semantic.builder.record(name, *operands, issues, pair.odd.handle, pair.leader.handle, predicate,
                            **({"waits": True} if waits else {}))
    for barrier in barriers:
        semantic.builder.record("tcgen05_commit_pair", barrier, (pair.leader.handle, pair.odd.handle), issues)


def record_commit(barrier, semantic) -> None:
    """Record an arrival in both CTAs, for the time when the products that the even one has issued are done."""
    pair = pair_of(semantic)
    semantic.builder.record("tcgen05_commit_pair", barrier, (pair.leader.handle, pair.odd.handle), pair.issues(None, semantic))


def record_load(desc, offsets, barrier, buffer, targets: tuple, predicate, policy, semantic) -> None:
    """A TMA load into this CTA, or the `targets`, which completes its bytes on the barrier of the pair's even CTA."""
    name, to = ("tma_load_pair_multicast", (targets, )) if targets else ("tma_load_pair", ())
    semantic.builder.record(name, desc.handle, offsets, barrier, buffer, pair_of(semantic).leader.handle, *to, predicate, policy)
