"""The online softmax of blocks of scores, in base 2: scores times `scale`, which includes log2(e), are exponents of 2.

Input: a block of scores, and the highest score and the sum of each row so far. Output: the block's probabilities, the
new highest scores and sums, and the factor by which earlier results shrink. For example, for a row with the scores 1 3
and scale 1:

    softmax(scores, 2.0, 1.0, 1.0, False)       p = 2^-2 2^0, highest 3, total 1 * 2^-1 + 1.25 = 1.75, shrink 2^-1

Each of the `Changes` of scores (nouns.py) is None where a launch has none of it, and then no code:

    inner           soft cap: cap tanh(s / cap) in place of s; scores times `inner` are s / cap, and `scale` is cap log2(e)
    sinks           pointer to a logit for each head, which joins the denominators of its rows
    slopes, step    ALiBi: pointer to a slope for each head, subtracted times the distance of query and key; those of the next
                    batch are `step` further
    mod             a score_mod: a function's result in place of s, of s itself, which is a score times `inner`; `scale` is log2(e).
                    It may be -inf for all keys of a row
"""

import triton.language as tl

import mimw

LOG2_E, LN2 = tl.constexpr(1.4426950408889634), tl.constexpr(0.6931471805599453)
FLOAT, FLOAT_BITS = tl.constexpr(12582912.0), tl.constexpr(0x4B400000)      # 1.5 * 2^23


@mimw.jit
def masked(scores, query, key, problem, CAUSAL: tl.constexpr):
    """The scores of queries from `query` and keys from `key` on, -inf where a query may not look."""
    left, right = problem.left, problem.right
    keys = key + tl.arange(0, scores.shape[1])[None, :]
    if left is None and right is None:
        if CAUSAL:
            queries = query + tl.arange(0, scores.shape[0])[:, None]
            return tl.where(keys <= queries + (problem.seq_k - problem.seq_q), scores, float("-inf"))
        return tl.where(keys < problem.seq_k, scores, float("-inf"))
    else:
        last = query + tl.arange(0, scores.shape[0]) + (problem.seq_k - problem.seq_q)
        first = last
        if left is not None:
            first -= left
        if right is not None:
            last = tl.minimum(last + right, problem.seq_k - 1)
        elif not CAUSAL:
            last = tl.full(last.shape, problem.seq_k - 1, tl.int32)
        # One `where` a bound: of both bounds together the compiler makes a tile in a layout of its own, and moves it.
        scores = tl.where(keys <= last[:, None], scores, float("-inf"))
        if left is not None:
            scores = tl.where(keys >= first[:, None], scores, float("-inf"))
        return scores


@mimw.jit
def slope_at(batch, head, rules):
    """ALiBi's slope of a head, in units of the scores; None without one."""
    changes = rules.changes
    if changes.slopes is None:
        return None
    else:
        return tl.load(changes.slopes + batch * changes.step + head) * (LOG2_E / rules.scale)


@mimw.jit
def changed(scores, query, key, blocks, rules):
    """The scores of queries from `query` and keys from `key` on with the soft cap and ALiBi's bias, or as a score_mod says."""
    inner, mod, problem, slope = rules.changes.inner, rules.changes.mod, rules.problem, blocks.slope
    if mod is not None:
        batch, head = blocks.place
        queries, keys = query + tl.arange(0, scores.shape[0])[:, None], key + tl.arange(0, scores.shape[1])[None, :]
        return mod.function(scores * inner, batch, head, queries, keys, mod.tables, True)
    if inner is not None:
        scores = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [scores * inner], tl.float32, True, 1)
    if slope is not None:
        # An integer of up to 22 bits added to the bits of 1.5 * 2^23 is a float of that sum: a conversion would take as long as an
        # exponent, and columns kept as floats 32 registers.
        rows = query - key + (problem.seq_k - problem.seq_q) + FLOAT_BITS + tl.arange(0, scores.shape[0])
        distance = (rows[:, None] - tl.arange(0, scores.shape[1])[None, :]).to(tl.float32, bitcast=True) - FLOAT
        scores -= slope * tl.abs(distance)
    return scores


@mimw.jit
def sink_of(head, rules):
    """A head's sink, to base 2; None without sinks. Asked for when a tile begins: half a microsecond that nobody waits for then."""
    if rules.changes.sinks is None:
        return None
    else:
        return tl.load(rules.changes.sinks + head) * LOG2_E


@mimw.jit
def ended(state, sink, rules):
    """(logarithm of the denominators, what results are to be multiplied with) of finished rows of a head with that sink."""
    highest, total, scale = state.highest, state.total, rules.scale
    if sink is None:
        return (highest * scale + tl.log2(total)) * LN2, 1 / divisor(total, rules)
    else:
        base = tl.maximum(highest * scale, sink)    # a sink may be far above all scores: exp2 of the difference would overflow
        if rules.changes.mod is not None:
            base = tl.where(base == float("-inf"), 0.0, base)
        shrink = tl.exp2(highest * scale - base)
        total = total * shrink + tl.exp2(sink - base)
        return (base + tl.log2(total)) * LN2, shrink / divisor(total, rules)


@mimw.jit
def divisor(total, rules):
    """The sums of rows; with a score_mod 1 for a row that sees nothing, whose results are 0."""
    if rules.changes.mod is None:
        return total
    else:
        return tl.where(total == 0.0, 1.0, total)


@mimw.jit
def softmax(scores, highest, total, scale, MASKED: tl.constexpr):
    """One block more: (probabilities, highest score, sum of probabilities, by what earlier results shrink)."""
    new = tl.maximum(highest, tl.max(scores, 1))
    base = new * scale
    if MASKED:
        base = tl.where(new == float("-inf"), 0.0, base)  # a row that sees nothing yet
    shrink = tl.exp2(highest * scale - base)
    p = tl.exp2(scores * scale - base[:, None])
    return p, new, total * shrink + tl.sum(p, 1), shrink


@mimw.jit
def first_softmax(scores, query, key, rules, CAUSAL: tl.constexpr, MASKED: tl.constexpr):
    """(probabilities, highest score, sum of probabilities) of a tile's first block, which is the one that may need a mask."""
    if MASKED:
        scores = masked(scores, query, key, rules.problem, CAUSAL)
    ROWS: tl.constexpr = scores.shape[0]
    highest, total = tl.full((ROWS, ), float("-inf"), tl.float32), tl.zeros((ROWS, ), tl.float32)
    p, highest, total, _ = softmax(scores, highest, total, rules.scale, MASKED or rules.changes.mod is not None)
    return p, highest, total
