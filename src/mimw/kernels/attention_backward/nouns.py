"""The nouns of attention's gradients: values that belong together have one name in all of their kernels.

Input: sizes and constants of a launch. Output: structs that roles and steps hand to each other. For example:

    problem, rules = of_launch(measures, changes)           a Problem and Rules, of the numbers that a kernel is given
    form = Form(BM, BN, GROUP, CAUSAL, D, RAGGED, DQ, BANDS)
    FORM = KeysForm(form, 64, 2, 2)                         a launch's constants, made outside of the kernel
    compute(memory, Pipes(queries, slopes, shares), dk_desc, dv_desc, rules, problem, me, form)
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw
import mimw.tle as tle

from ..attention.nouns import Mod, Sizes, Tiling


@tle.struct
class Problem(Sizes):
    """Sizes of a launch, or of one of the packed sequences. `opaque_zero` is 0, which the compiler must not know (compute.py)."""

    opaque_zero: Any


@tle.struct
class Rules:
    """Rules for scores: their scale, the same for exponents of 2, and what changes them, None for none: a soft cap's scale,
    ALiBi's slopes with the step to the next batch's, and a score_mod with its derivative, whose `inner` is the scale."""

    scale: Any
    log2_scale: Any
    inner: Any
    slopes: Any
    step: Any
    mod: Any = None


@tle.struct
class HeadRules:
    """Rules for the scores of one head (scores.py); `place` is its (batch, head), for a score_mod."""

    log2_scale: Any
    inner: Any
    slope: Any
    mod: Any = None
    place: Any = None


@tle.struct
class Form(Tiling):
    """Constants of a kernel: its tiles, of D columns; RAGGED if there are keys beyond the end; how dQ is added; which program has
    which block (order.py), None where tiles come from a list."""

    D: tl.constexpr
    RAGGED: tl.constexpr
    DQ: tl.constexpr
    BANDS: tl.constexpr


@tle.struct
class KeysForm:
    """Constants of a launch whose programs own keys: also the columns of tiles of values, and slots for queries and for dO."""

    form: Form
    DV: tl.constexpr
    Q_STAGES: tl.constexpr
    DO_STAGES: tl.constexpr


@tle.struct
class QueriesForm:
    """Constants of a launch whose programs own queries: also the columns of tiles of values, and slots for keys and for values."""

    form: Form
    DV: tl.constexpr
    K_STAGES: tl.constexpr
    V_STAGES: tl.constexpr


class Measures(NamedTuple):
    """Numbers of a launch: the scale of scores, that times log2(e), or with a soft cap that cap times log2(e), and sizes: `padded`
    rows of numbers for a head's queries, None where a descriptor says how many, and `zero` and the bounds of a `Problem`."""

    scale: Any
    log2_scale: Any
    heads: Any
    seq_q: Any
    seq_k: Any
    padded: Any
    zero: Any
    left: Any
    right: Any


class Changes(NamedTuple):
    """Changes of the scores of a launch, None without: a soft cap's scale (scores.py), ALiBi's slopes with the step from one
    batch's to the next one's, and what a score_mod reads."""

    inner: Any
    slopes: Any
    step: Any
    tables: Any = None


@tle.struct
class RowsForm:
    """Constants of the launches before and after the products: BM queries of heads of D columns, in tiles of COLUMNS, the columns
    of a share of dQ, 0 where no sums are made, and those of values and of their tiles."""

    D: tl.constexpr
    COLUMNS: tl.constexpr
    BM: tl.constexpr
    SHARE_COLUMNS: tl.constexpr
    DV: tl.constexpr
    DV_COLUMNS: tl.constexpr


class Steps(NamedTuple):
    """Strides of an array whose columns lie together."""

    batch: Any
    head: Any
    row: Any


class Numbers(NamedTuple):
    """Lengths in arrays with a number for each query: heads of a batch, queries of a head, and room for so many."""

    heads: Any
    seq_q: Any
    padded: Any


@tle.struct
class Operands:
    """Descriptors of Q, K, V and dO, and of the log-sum-exps and deltas of each query, None where they are no descriptors."""

    q: Any
    k: Any
    v: Any
    do: Any
    lse: Any
    delta: Any


@tle.struct
class Tiles:
    """Tiles in shared memory, and barriers that say when each is full."""

    rows: Any
    full: Any


@tle.struct
class Pipes:
    """A consumer's ends of the pipes of queries, with their log-sum-exps, of slopes (dO), with their deltas, and of its shares of
    dQ, None where dQ is not made."""

    queries: Any
    slopes: Any
    shares: Any


@tle.struct
class Memory:
    """What a program that owns keys has in shared memory: its keys and values, pipes of queries and slopes (dO) with a number for
    each row, dS^T and pipes of shares of dQ, None and none where dQ is not made."""

    keys: Tiles
    values: Tiles
    queries: Any
    slopes: Any
    ds: Any
    shares: Any


@tle.struct
class Streams:
    """Tiles of queries and slopes (dO), which are loaded once, and ends of the pipes of keys and values."""

    queries: Any
    slopes: Any
    keys: Any
    values: Any


@mimw.jit
def of_launch(measures, changes, MOD: tl.constexpr = None):
    """(Problem, Rules) of a launch's Measures and Changes, and of a score_mod's function of (value, derivative)."""
    mod = None if MOD is None else Mod(MOD, changes.tables)
    return (Problem(measures.heads, measures.seq_q, measures.seq_k, measures.left, measures.right, measures.zero),
            Rules(measures.scale, measures.log2_scale, changes.inner, changes.slopes, changes.step, mod))
