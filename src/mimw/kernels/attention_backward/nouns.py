"""The nouns of attention's gradients: values that belong together have one name in all of their kernels.

Input: sizes and constants of a launch. Output: structs that roles and steps hand to each other. For example:

    problem = Problem(heads, seq_q, seq_k, zero, left, right)
    rules = Rules(scale, log2_scale, inner, alibi, alibi_step)
    form = Form(BM, BN, D, GROUP, CAUSAL, RAGGED, DQ, BANDS)
    compute(keys, values, ds, pipes, dk_desc, dv_desc, rules, problem, me, form)
"""

from typing import Any

import triton.language as tl

import mimw.tle as tle


@tle.struct
class Problem:
    """Sizes of a launch, or of one of the packed sequences: query heads, queries, keys; a query sees `left` keys before its own
    position and `right` behind it, None for all. `opaque_zero` is 0, which the compiler must not know (compute.py)."""

    heads: Any
    seq_q: Any
    seq_k: Any
    opaque_zero: Any
    left: Any
    right: Any


@tle.struct
class Rules:
    """Rules for scores: their scale, the same for exponents of 2, and what changes them, None for none: a soft cap's scale, and
    ALiBi's slopes with the step to the next batch's."""

    scale: Any
    log2_scale: Any
    inner: Any
    slopes: Any
    step: Any


@tle.struct
class HeadRules:
    """Rules for the scores of one head (scores.py)."""

    log2_scale: Any
    inner: Any
    slope: Any


@tle.struct
class Form:
    """Constants of a kernel: tiles of BM queries, BN keys and D columns, GROUP query heads to a head of keys; masks; how dQ is
    added; which program has which block (order.py), None where tiles come from a list."""

    BM: tl.constexpr
    BN: tl.constexpr
    D: tl.constexpr
    GROUP: tl.constexpr
    CAUSAL: tl.constexpr
    RAGGED: tl.constexpr
    DQ: tl.constexpr
    BANDS: tl.constexpr
