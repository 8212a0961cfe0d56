"""From scores to probabilities, and by what gradients of probabilities become gradients of scores; the same for both kernels.

Input: a block of products of queries and keys, either way round, and the keys and positions of its rows and columns. Output: P, 0
where a query may not look, and P times the derivative of the soft cap. For example, of one product s without soft cap and slope:

    weights(s, lse, keys, positions, HeadRules(log2_scale, None, None), problem, True, form)    exp2(log2_scale s - lse) twice, or 0

Of the head's `HeadRules` the last two are None where a launch has none of it, and then there is no code for it:

    log2_scale      of scores, times log2(e); with a soft cap that cap times log2(e)
    inner           soft cap: a score is cap tanh(s inner), and its derivative 1 - tanh(s inner)^2
    slope           ALiBi: this times the distance of query and key is subtracted from exponents
    mod, place      a score_mod: a function of s inner, of `place`, a batch and a head, and of both indices, which gives what stands
                    for s and its derivative; log2_scale is log2(e)
"""

import triton.language as tl

import mimw

from .nouns import HeadRules

LOG2_E = tl.constexpr(1.4426950408889634)
FLOAT, FLOAT_BITS = tl.constexpr(12582912.0), tl.constexpr(0x4B400000)      # 1.5 * 2^23: attention/softmax.py says what for


@mimw.jit
def rules_of(rules, batch, head):
    """The rules for a head, with ALiBi's slope for exponents of 2, or None."""
    if rules.mod is not None:
        return HeadRules(rules.log2_scale, rules.inner, None, rules.mod, (batch, head))
    elif rules.slopes is None:
        return HeadRules(rules.log2_scale, rules.inner, None)
    else:
        return HeadRules(rules.log2_scale, rules.inner, tl.load(rules.slopes + batch * rules.step + head) * LOG2_E)


@mimw.jit
def weights(scores, lse, keys, positions, rules, problem, MASKED: tl.constexpr, form):
    """(P, P times the derivative of the soft cap or score_mod) of a tile; keys and positions are those of its rows and columns, to
    be broadcast.

    With MASKED a query may not see all keys, with RAGGED there are keys beyond the end.
    """
    inner, slope, left, right = rules.inner, rules.slope, problem.left, problem.right
    if rules.mod is not None:
        batch, head = rules.place
        queries = positions - (problem.seq_k - problem.seq_q)
        scores, derivative = rules.mod.function(scores * inner, batch, head, queries, keys, rules.mod.tables, True)
    elif inner is not None:
        scores = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [scores * inner], tl.float32, True, 1)
    exponents = scores * rules.log2_scale - lse
    if slope is not None:
        exponents -= slope * tl.abs((positions + FLOAT_BITS - keys).to(tl.float32, bitcast=True) - FLOAT)
    p = tl.exp2(exponents)
    if form.RAGGED:
        p = tl.where(keys < problem.seq_k, p, 0.0)
    if MASKED:
        # One `where` a bound: of both bounds together the compiler makes a tile in a layout of its own, and moves it.
        if form.CAUSAL:
            p = tl.where(positions >= keys, p, 0.0)     # the other way round the deterministic form spills 328 bytes
        elif right is not None:
            p = tl.where(positions + right >= keys, p, 0.0)
        if left is not None:
            p = tl.where(positions - left <= keys, p, 0.0)
    if rules.mod is not None:
        return p, tl.where(p == 0.0, 0.0, p * derivative)       # where a mask hides a key, the derivative may be anything
    elif inner is None:
        return p, p
    else:
        return p, p * (1 - scores * scores)
