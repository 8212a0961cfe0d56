"""The nouns of attention's gradients in plain Triton: arrays of a launch with their steps, and what programs make of them.

Input: arguments of a launch. Output: named tuples that kernels are given, and structs that their steps hand to each other. For
example:

    inputs, steps = Inputs(q, k, v, do), StepsForQueries(of_q, of_k, of_v, of_do, of_dq)
    here = Place(batch, 0, 0, 1000, 1000)       in a kernel: a batch of 1000 queries and keys
"""

from typing import Any, NamedTuple

import mimw.tle as tle

from ..plain_attention.nouns import Steps


class Inputs(NamedTuple):
    """Arrays that both kernels read."""

    q: Any
    k: Any
    v: Any
    do: Any


class RowSteps(NamedTuple):
    """Strides of lse and delta; queries lie side by side."""

    batch: Any
    head: Any


class StepsForQueries(NamedTuple):
    """Those of the inputs and of dq."""

    q: Steps
    k: Steps
    v: Steps
    do: Steps
    dq: Steps


class StepsForKeys(NamedTuple):
    """Those of the inputs, and of dk and dv."""

    q: Steps
    k: Steps
    v: Steps
    do: Steps
    dk: Steps
    dv: Steps


@tle.struct
class Place:
    """One of all batches, or one packed sequence: its first query and key, and how many of both."""

    batch: Any
    start: Any
    key_start: Any
    seq_q: Any
    seq_k: Any


@tle.struct
class Numbers:
    """lse and delta, with the steps of both."""

    lse: Any
    delta: Any
    steps: Any


@tle.struct
class Rows:
    """A block of queries: which they are, their tiles of q and do, lse and delta."""

    at: Any
    queries: Any
    gradient: Any
    lse: Any
    delta: Any
