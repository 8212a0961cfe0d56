"""The nouns of 2-simplicial attention on Hopper, forward and of the queries' gradient.

Input: what a host knows of a launch, and what roles make of it. Output: named tuples that kernels are given, and structs that roles
and steps hand to each other. For example:

    problem = Problem(0.125, 1, 64, 10, 1000, 512, 32)      one batch of 64 heads, 10 queries on 1000 keys, windows of 512 and 32
    task = tile_at(tile, problem, form)                     a `Task`, in a kernel (schedule.py)
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw.tle as tle


@tle.struct
class Form:
    """Constants: BH heads of a query, BN keys at a time of D numbers, GROUP heads of queries to one of keys; STAGES blocks of keys,
    and as many of values, in shared memory, CHUNK of which are held for all second keys."""

    BH: tl.constexpr
    BN: tl.constexpr
    D: tl.constexpr
    GROUP: tl.constexpr
    STAGES: tl.constexpr
    CHUNK: tl.constexpr


class Problem(NamedTuple):
    """The scale of logits, forward times log2(e), sizes, and how many keys and second keys a query sees: its own and those before
    it."""

    scale: Any
    batches: Any
    heads: Any
    seq_q: Any
    seq_k: Any
    window: Any
    window2: Any


class Steps(NamedTuple):
    """Strides of second keys, or of their values, whose numbers lie side by side."""

    batch: Any
    head: Any
    row: Any


class StepsOfSeconds(NamedTuple):
    """Those of second keys and of their values."""

    k2: Steps
    v2: Steps


@tle.struct
class Task:
    """BH heads of one query from `head` on: its position, its first key and blocks of keys, its first second key and how many of
    these."""

    batch: Any
    head: Any
    query: Any
    position: Any
    low: Any
    blocks: Any
    low2: Any
    count2: Any


@tle.struct
class Operands:
    """Descriptors of Q, K and V, and of dO, None forward."""

    q: Any
    do: Any
    k: Any
    v: Any


@tle.struct
class Inputs:
    """A role's ends of the pipes of queries, keys and values."""

    queries: Any
    keys: Any
    values: Any


@tle.struct
class SecondArrays:
    """Second keys and their values in memory."""

    keys: Any
    values: Any
    steps: Any


@tle.struct
class Rows:
    """Rows of numbers side by side, from `base` on, `step` apart."""

    base: Any
    step: Any


@tle.struct
class Seconds:
    """A task's second keys and values, how many of them a consumer has, and its rounds: each comes once for every chunk of keys."""

    keys: Rows
    values: Rows
    mine: Any
    rounds: Any


@tle.struct
class Round:
    """One second key on one chunk: whether the key is the last one on its chunk, the chunk's second block, its end, the second key
    and its weight."""

    last: Any
    second: Any
    end: Any
    at: Any
    weight: Any


@tle.struct
class State:
    """One second key so far: the last block's probabilities, the highest logits of all second keys, the sums of this one's
    probabilities, by how much earlier results have to shrink since it began, and the sum of p V over its blocks."""

    p: Any
    highest: Any
    total: Any
    shrunk: Any
    acc: Any


@tle.struct
class Sums:
    """O before it is divided, and the denominators, of all second keys so far."""

    out: Any
    denominators: Any


@tle.struct
class Results:
    """The end of a task: the pipe from consumer 1 to consumer 0, a tile for the result, its descriptor, and lse."""

    halves: Any
    tile: Any
    desc: Any
    lse: Any
