"""Products of rows with the decay between them, e^(b_i - b_j) at j <= i: of scalar gates a factor of the score, of gates by column
a factor of each column.

Input: tiles of rows (C, K), b (C) or (C, K), the sum of the gate from the chunk's first row on. Output, in fp32:

    scores = rising_products(q, k, b, FORM)         (C, C), sum of q_id k_jd e^(b_id - b_jd) at j <= i, 0 above
    dq = for_rows(dP, k, b, FORM)                   (C, K), sum over j of dP_ij k_jd e^(b_id - b_jd)
    dk = for_columns(dP, q, b, FORM)                (C, K), sum over i of dP_ij q_id e^(b_id - b_jd)

A gate by column cannot be taken out of the sum as e^(b_i) and e^(-b_j), which overflow. Where a chunk decays by e^-120 at most,
both are taken relative to half of that and fit into fp32 and bf16 (form.NEAR). Else the tile is cut: rows of the second half with
columns of the first one relative to the row between them, where both factors are at most 1, and each half the same way, down to
single rows.
"""

import triton.language as tl

import mimw

from ..linear_attention.nouns import C
from .nouns import BY_HEAD, BY_KEY, LEVELS, NO_GATE, numbers_of, product, rows_of

MOST = tl.constexpr(120.0)      # e^60 times e^60 times products of operands are below fp32's 3e38


@mimw.jit
def lower():
    """True at j <= i: (C, C)."""
    at = tl.arange(0, C)
    return at[:, None] >= at[None, :]


@mimw.jit
def decay(b):
    """e^(b_i - b_j) at j <= i and 0 above, of a gate a head: (C, C)."""
    return tl.where(lower(), tl.exp(tl.minimum(b[:, None] - b[None, :], 0.0)), 0.0)


@mimw.jit
def sums_of(g, here, head, heads, begin, form):
    """b of a chunk, fp32: (C) for a gate a head, (C, K_TILE) for one a column, None without."""
    if form.GATE == NO_GATE:
        return None
    elif form.GATE == BY_HEAD:
        return tl.cumsum(numbers_of(g, here, head, heads, 0.0), 0)
    else:
        return tl.cumsum(rows_of(g, here, head, heads, form.K, begin, form.K_TILE).to(tl.float32), 0)


@mimw.jit
def rising(x, b, form):
    """x e^b in fp32, x a tile (C, K)."""
    if form.GATE == NO_GATE:
        return x.to(tl.float32)
    elif form.GATE == BY_HEAD:
        return x * tl.exp(b)[:, None]
    else:
        return x * tl.exp(b)


@mimw.jit
def falling(x, b, form):
    """x e^(b_C - b) in fp32, x a tile (C, K)."""
    if form.GATE == NO_GATE:
        return x.to(tl.float32)
    elif form.GATE == BY_HEAD:
        return x * tl.exp(tl.min(b, 0) - b)[:, None]
    else:
        return x * tl.exp(tl.min(b, 0)[None, :] - b)


@mimw.jit
def decay_behind(b, form):
    """e^(b_C): a number, or (K)."""
    return tl.exp(tl.min(b, 0))


@mimw.jit
def rounded(x, form):
    """An operand of products with a factor of its own."""
    return x.to(tl.bfloat16) if form.BF16 else x.to(tl.float32)


@mimw.jit
def middle_of(b, size, form):
    """For each row that of b right before the second half of its block of `size` rows: (C, K)."""
    at = tl.arange(0, C)
    return tl.gather(b, tl.broadcast_to((at // size * size + size // 2 - 1)[:, None], [C, form.K_TILE]), 0)


@mimw.jit
def second(size):
    """True for rows of the second half of a block of `size`: (C)."""
    return tl.arange(0, C) % size >= size // 2


@mimw.jit
def crossing(size):
    """True where a row of the second half meets one of the first half of its block: (C, C)."""
    at = tl.arange(0, C)
    same = (at // size)[:, None] == (at // size)[None, :]
    return same & second(size)[:, None] & (second(size) == 0)[None, :]


@mimw.jit
def factors(b, size, form):
    """(of rows of second halves, of those of first halves), each at most 1, and 0 for the others."""
    middle, later = middle_of(b, size, form), second(size)[:, None]
    falls = tl.exp(tl.where(later, b - middle, middle - b))
    return tl.where(later, falls, 0.0), tl.where(later, 0.0, falls)


@mimw.jit
def halfway(b):
    """b relative to half of the chunk's decay, which `near` chunks have."""
    return b - 0.5 * tl.min(b, 0)[None, :]


@mimw.jit
def near(last, here, head, heads, form):
    """True for a chunk that needs no cuts, by its b_C of every column, in `last`; always where gates are not by column."""
    if form.GATE == BY_KEY:
        at = last + (here.slot.to(tl.int64) * heads + head) * form.K
        least = 0.0
        for begin in range(0, form.K, form.K_TILE):
            columns = begin + tl.arange(0, form.K_TILE)
            least = tl.minimum(least, tl.min(tl.load(at + columns, mask=columns < form.K, other=0.0), 0))
        return least >= -MOST
    else:
        return True


@mimw.jit
def far_of(last, chunks, count, head, heads, form):
    """Of numbers of chunks those that `near` is not true of, `count` in the place of others."""
    there = chunks < count
    at = last + ((chunks.to(tl.int64) * heads + head) * form.K)[:, None]
    least = tl.zeros(chunks.shape, tl.float32)
    for begin in range(0, form.K, form.K_TILE):
        columns = (begin + tl.arange(0, form.K_TILE))[None, :]
        least = tl.minimum(least, tl.min(tl.load(at + columns, mask=there[:, None] & (columns < form.K), other=0.0), 1))
    return tl.where(there & ((least >= -MOST) == 0), chunks, count)


@mimw.jit
def diagonal(x):
    """The diagonal of a tile: (C)."""
    at = tl.arange(0, C)
    return tl.sum(tl.where(at[:, None] == at[None, :], x, 0.0), 1)


@mimw.jit
def rising_products(x, y, b, form):
    """(C, C) of tiles (C, K): the sum over columns d of x_id y_jd e^(b_id - b_jd) at j <= i, 0 above."""
    if form.GATE == NO_GATE:
        return tl.where(lower(), product(x, tl.trans(y), form), 0.0)
    elif form.GATE == BY_HEAD:
        return product(x, tl.trans(y), form) * decay(b)
    else:
        if form.NEAR:
            middle = halfway(b)
            found = product(rounded(x * tl.exp(middle), form), tl.trans(rounded(y * tl.exp(-middle), form)), form)
            found = tl.where(lower(), found, 0.0)
        else:
            at = tl.arange(0, C)
            own = tl.sum(x.to(tl.float32) * y.to(tl.float32), 1)
            found = tl.where(at[:, None] == at[None, :], own[:, None], 0.0)
            for level in range(LEVELS):
                rows, columns = factors(b, 2 << level, form)
                part = product(rounded(x * rows, form), tl.trans(rounded(y * columns, form)), form)
                found = tl.where(crossing(2 << level), part, found)
        return found


@mimw.jit
def for_rows(scores, y, b, form):
    """(C, K) of scores (C, C), 0 above the diagonal, and a tile (C, K): the sum over j of scores_ij y_jd e^(b_id - b_jd)."""
    if form.GATE == NO_GATE:
        return product(scores.to(y.dtype), y, form)
    elif form.GATE == BY_HEAD:
        return product((scores * decay(b)).to(y.dtype), y, form)
    else:
        if form.NEAR:
            middle = halfway(b)
            found = product(rounded(scores, form), rounded(y * tl.exp(-middle), form), form) * tl.exp(middle)
        else:
            found = diagonal(scores)[:, None] * y.to(tl.float32)
            for level in range(LEVELS):
                rows, columns = factors(b, 2 << level, form)
                part = tl.where(crossing(2 << level), scores, 0.0)
                found += rows * product(rounded(part, form), rounded(y * columns, form), form)
        return found


@mimw.jit
def for_columns(scores, x, b, form):
    """(C, K) of scores (C, C), 0 above the diagonal, and a tile (C, K): the sum over i of scores_ij x_id e^(b_id - b_jd)."""
    if form.GATE == NO_GATE:
        return product(tl.trans(scores.to(x.dtype)), x, form)
    elif form.GATE == BY_HEAD:
        return product(tl.trans((scores * decay(b)).to(x.dtype)), x, form)
    else:
        if form.NEAR:
            middle = halfway(b)
            found = product(tl.trans(rounded(scores, form)), rounded(x * tl.exp(middle), form), form) * tl.exp(-middle)
        else:
            found = diagonal(scores)[:, None] * x.to(tl.float32)
            for level in range(LEVELS):
                rows, columns = factors(b, 2 << level, form)
                part = tl.where(crossing(2 << level), scores, 0.0)
                found += columns * product(tl.trans(rounded(part, form)), rounded(x * rows, form), form)
        return found
