"""The nouns of attention forward: values that belong together have one name in all of its kernels.

Input: sizes and constants of a launch. Output: structs that roles and steps hand to each other. For example:

    problem = Problem(heads, seq_q, seq_k, left, right, batches, band)
    scores = Scores(scale, problem, Changes(inner, sinks, slopes, slopes_step))
    FORM = chosen.form(dim, group, causal, masked=1)        a launch's constants, made outside of the kernel: a LaunchForm
    compute(queries, results, Inputs(keys, values, me), order, lse, scores, FORM)
"""

from typing import Any

import triton.language as tl

import mimw.tle as tle


@tle.struct
class Sizes:
    """Sizes of a launch, or of one of the packed sequences: query heads, queries, keys; a query sees `left` keys before its own
    position and `right` behind it, None for all. Kernels forward and backward have these."""

    heads: Any
    seq_q: Any
    seq_k: Any
    left: Any
    right: Any


@tle.struct
class Tiling:
    """Constants of kernels forward and backward: tiles of BM queries and BN keys, GROUP query heads to a head of keys, the mask."""

    BM: tl.constexpr
    BN: tl.constexpr
    GROUP: tl.constexpr
    CAUSAL: tl.constexpr


@tle.struct
class Problem(Sizes):
    """Sizes of a launch forward, of so many `batches`. Tiles of `band` heads are numbered together."""

    batches: Any
    band: Any


@tle.struct
class Mod:
    """A score_mod of `mimw.score_mods`: a function of (score, batch, head, query, key, tables), and the tensors that it reads."""

    function: tl.constexpr
    tables: Any


@tle.struct
class Changes:
    """Changes of scores, None where a launch has none (softmax.py): a soft cap, sinks, ALiBi's slopes with the step to the next
    batch's, a score_mod."""

    inner: Any
    sinks: Any
    slopes: Any
    step: Any
    mod: Any = None


@tle.struct
class Scores:
    """Rules for scores: their scale, times log2(e), the sizes with their bounds, and what changes them."""

    scale: Any
    problem: Problem
    changes: Changes


@tle.struct
class Form(Tiling):
    """Constants of a kernel forward: its tiles, and how consumers work."""

    CONSUMERS: tl.constexpr
    MASKED: tl.constexpr
    PING_PONG: tl.constexpr
    AHEAD: tl.constexpr
    LATE: tl.constexpr


@tle.struct
class LaunchForm(Form):
    """Constants of a launch: also the columns of heads and of their rests (heads.py), of values too, slots, and warps that load."""

    D: tl.constexpr
    REST: tl.constexpr
    V_D: tl.constexpr
    V_REST: tl.constexpr
    Q_STAGES: tl.constexpr
    K_STAGES: tl.constexpr
    V_STAGES: tl.constexpr
    LOAD_WARPS: tl.constexpr = 1


@tle.struct
class Columns:
    """The first columns of heads, and the rest of those whose width is no power of two, else None: sums of both, or descriptors."""

    first: Any
    rest: Any


@tle.struct
class Operands:
    """Descriptors of Q, K, V and O, each as `Columns`."""

    q: Any
    k: Any
    v: Any
    o: Any


@tle.struct
class Inputs:
    """Ends of the pipes of keys and values, of consumer number `me`."""

    keys: Any
    values: Any
    me: tl.constexpr


@tle.struct
class Tile:
    """Place of an output tile, and the `count` blocks of keys that its queries look at, the first `plain` of which need no mask."""

    batch: Any
    head: Any
    query: Any
    count: Any
    plain: Any


@tle.struct
class Blocks:
    """Blocks of keys that the queries from `query` on look at: `count` from key `low` on, the first `plain` of which no right bound
    cuts, nor a left bound those from number `inside` on. `slope` is ALiBi's for their head, `place` what a score_mod is told of
    it: (batch, head)."""

    query: Any
    low: Any
    count: Any
    plain: Any
    inside: Any
    slope: Any
    place: Any = None


@tle.struct
class Softmax:
    """Rows of a tile after some blocks: probabilities of the last one, highest scores and sums of probabilities so far."""

    p: Any
    highest: Any
    total: Any


@tle.struct
class State:
    """Rows of a tile between two steps: the softmax, and the sum of p V over the blocks before its last one."""

    softmax: Softmax
    acc: Any
