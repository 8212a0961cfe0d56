"""The nouns of launches of cross entropy.

Input: what a host knows of a launch. Output: named tuples and structs of constants, which kernels are given. For example:

    problem, rule = Problem(8192, 50257, 50257, 50257), Rule(1.0, 0.1, 0.0, -100)
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw.tle as tle


class Problem(NamedTuple):
    """Rows of N numbers, and how far rows of x and of dx are apart."""

    ROWS: Any
    N: Any
    x_row: Any
    dx_row: Any


class GradientProblem(NamedTuple):
    """The length of rows, and how far rows of x, gradients of losses and rows of dx are apart."""

    N: Any
    x_row: Any
    dlosses_step: Any
    dx_row: Any


class Rule(NamedTuple):
    """The factor of gradients, None where there are gradients of losses; the share that is spread over all columns, the factor of
    lse^2, and the target of rows without a loss."""

    scale: Any
    smoothing: Any
    z: Any
    ignored: Any


@tle.struct
class DirectForm:
    """Constants: LOOPS blocks of ROWS_EACH rows by BLOCK columns for each of CLUSTER CTAs. SMOOTH: something is spread."""

    ROWS_EACH: tl.constexpr
    BLOCK: tl.constexpr
    LOOPS: tl.constexpr
    CLUSTER: tl.constexpr
    SMOOTH: tl.constexpr


@tle.struct
class RingForm:
    """Constants: CHUNKS of CHUNK numbers for each of CLUSTER CTAs, STAGES rows in shared memory, CONSUMERS that take them in turn.
    UNIT numbers of x are 16 bytes; EVEN parts are whole; EDGES are there if rows begin or end between such units."""

    UNIT: tl.constexpr
    CHUNK: tl.constexpr
    CHUNKS: tl.constexpr
    CLUSTER: tl.constexpr
    STAGES: tl.constexpr
    CONSUMERS: tl.constexpr
    SMOOTH: tl.constexpr
    EVEN: tl.constexpr
    EDGES: tl.constexpr
