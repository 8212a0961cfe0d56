"""The gradients of attention for every stride, head dim and GPU, of batches or packed sequences: plain Triton, two kernels.

Input: pointers of q, k, v and of the gradient `do` of o; `lse` and `delta`, for each query the logarithm of its denominator and the
sum of o do; and nouns of a launch (`plain_attention.nouns`). Output: the gradients. For example:

    queries, keys = launches(q, k, v, do, lse, delta, dq, dk, dv)
    for kernel, grid, args, meta in (queries, keys):
        kernel[grid](*args, **meta)

With P = softmax(scale Q K^T): dV = P^T dO, dS = P (dO V^T - delta), dQ = scale dS K, dK = scale dS^T Q, and with a soft cap dS
times 1 - tanh^2. A program of `query_gradients` owns queries of a head and walks over keys; one of `key_gradients` owns keys and
walks over the queries of all heads that read them. Nothing is added by several programs: the bits are the same in every run.
"""

import triton.language as tl

import mimw

from ..plain_attention.nouns import behind, inside, matrix_of, place_of, sequence, tile
from ..plain_attention.scores import LOG2_E, keys_seen, sloped, within
from .nouns import Numbers, Place, Rows


@mimw.jit
def place(batch, problem, packed):
    """The place of a batch, or of a packed sequence."""
    if packed is None:
        return Place(batch, 0, 0, problem.seq_q, problem.seq_k)
    else:
        start, seq_q = sequence(packed.queries, batch)
        key_start, seq_k = sequence(packed.keys, batch)
        return Place(batch, start, key_start, seq_q, seq_k)


@mimw.jit
def rows_of(inputs, numbers, steps, here, head, rows, form):
    """Queries of a head from memory."""
    q = behind(matrix_of(inputs.q, steps.q, here.batch, head, here.seq_q, form.D), here.start)
    queries = tile(q, rows, tl.arange(0, form.D_TILE))
    do = behind(matrix_of(inputs.do, steps.do, here.batch, head, here.seq_q, form.DV), here.start)
    gradient = tile(do, rows, tl.arange(0, form.DV_TILE))
    at = here.batch * numbers.steps.batch + head * numbers.steps.head + here.start + rows
    lse = tl.load(numbers.lse + at, mask=rows < here.seq_q, other=0.0)
    return Rows(rows, queries, gradient, lse, tl.load(numbers.delta + at, mask=rows < here.seq_q, other=0.0))


@mimw.jit
def keys_of(array, steps, here, head, keys, columns, WIDTH, group=1):
    """Rows of K or V of a head of theirs, or of that of `group` heads that `head` is one of."""
    return tile(behind(matrix_of(array, steps, here.batch, head, here.seq_k, WIDTH, group), here.key_start), keys, columns)


@mimw.jit
def slope_of(rules, batch, head):
    """ALiBi's slope of a head, None without."""
    if rules.slopes is None:
        return None
    else:
        return tl.load(rules.slopes + batch * rules.slopes_step + head)


@mimw.jit
def probabilities(scores, rows, keys, here, rules, slope, form):
    """(P, tanh of a capped score, else the score) for scaled products of queries and keys."""
    tanh = scores
    if rules.softcap is not None:
        tanh = 1 - 2 / (1 + tl.exp2(scores * (2 * LOG2_E / rules.softcap)))
        scores = rules.softcap * tanh
    position = rows.at + (here.seq_k - here.seq_q)
    if slope is not None:
        scores = sloped(scores, slope, position, keys)
    seen = within((rows.at < here.seq_q)[:, None] & (keys < here.seq_k)[None, :], position, keys, rules)
    if form.CAUSAL:
        seen = seen & (keys[None, :] <= position[:, None])
    return tl.where(seen, tl.exp2((scores - rows.lse[:, None]) * LOG2_E), 0.0), tanh


@mimw.jit
def of_scores(p, tanh, products, delta, softcap):
    """dS, of P and dO V^T."""
    found = p * (products - delta[:, None])
    if softcap is not None:
        found *= 1 - tanh * tanh
    return found


@mimw.jit(do_not_specialize=["row_steps"])      # lengths: one binary for all
def query_gradients(inputs, dq, lse, delta, rules, packed, row_steps, problem, steps, FORM: tl.constexpr):
    """dQ of queries from program_id(0) * BM on, of head program_id(1) of all batches' heads."""
    TF32: tl.constexpr = not FORM.EXACT
    batch, head = (tl.program_id(1) // problem.heads).to(tl.int64), (tl.program_id(1) % problem.heads).to(tl.int64)
    here = place(batch, problem, packed)
    first = tl.program_id(0) * FORM.BM
    queries, columns, of_values = first + tl.arange(0, FORM.BM), tl.arange(0, FORM.D_TILE), tl.arange(0, FORM.DV_TILE)
    rows = rows_of(inputs, Numbers(lse, delta, row_steps), steps, here, head, queries, FORM)
    slope = slope_of(rules, batch, head)
    begin, end = keys_seen(first, here.seq_q, here.seq_k, rules, FORM)
    end = tl.where(first < here.seq_q, end, 0)
    acc = tl.zeros((FORM.BM, FORM.D_TILE), tl.float32)
    for key in range(begin, end, FORM.BN):
        keys = key + tl.arange(0, FORM.BN)
        block = keys_of(inputs.k, steps.k, here, head, keys, columns, FORM.D, problem.group)
        values = keys_of(inputs.v, steps.v, here, head, keys, of_values, FORM.DV, problem.group)
        scores = tl.dot(rows.queries, tl.trans(block), allow_tf32=TF32) * problem.scale
        p, tanh = probabilities(scores, rows, keys, here, rules, slope, FORM)
        products = tl.dot(rows.gradient, tl.trans(values), allow_tf32=TF32)
        ds = of_scores(p, tanh, products, rows.delta, rules.softcap)
        acc = tl.dot(ds.to(block.dtype), block, acc, allow_tf32=TF32)
    result = matrix_of(dq, steps.dq, batch, head, here.seq_q, FORM.D)
    at = place_of(result, (here.start + rows.at).to(tl.int64)[:, None], columns)
    tl.store(at, (acc * problem.scale).to(dq.dtype.element_ty), mask=inside(result, rows.at, columns))


@mimw.jit
def queries_seeing(key, here, rules, form):
    """(first, end) of the queries that see one of the keys from `key` on, in whole blocks."""
    begin, end = 0, here.seq_q
    before = key - (here.seq_k - here.seq_q)    # the first query whose position is that of the first key
    if form.CAUSAL:
        begin = max(0, before) // form.BM * form.BM
    if rules.right is not None:
        begin = max(0, before - rules.right) // form.BM * form.BM
    if rules.left is not None:
        end = min(here.seq_q, before + form.BN + rules.left)
    return begin, tl.where(key < here.seq_k, end, 0)


@mimw.jit(do_not_specialize=["row_steps"])      # lengths: one binary for all
def key_gradients(inputs, dk, dv, lse, delta, rules, packed, row_steps, problem, steps, FORM: tl.constexpr):
    """dK and dV of keys from program_id(0) * BN on, of kv head program_id(1) of all batches' heads."""
    TF32: tl.constexpr = not FORM.EXACT
    group = problem.group
    kv_heads = problem.heads // group
    batch, shared = (tl.program_id(1) // kv_heads).to(tl.int64), (tl.program_id(1) % kv_heads).to(tl.int64)
    here = place(batch, problem, packed)
    key = tl.program_id(0) * FORM.BN
    keys, columns, of_values = key + tl.arange(0, FORM.BN), tl.arange(0, FORM.D_TILE), tl.arange(0, FORM.DV_TILE)
    block = keys_of(inputs.k, steps.k, here, shared, keys, columns, FORM.D)
    values = keys_of(inputs.v, steps.v, here, shared, keys, of_values, FORM.DV)
    numbers = Numbers(lse, delta, row_steps)
    begin, end = queries_seeing(key, here, rules, FORM)
    of_keys, of_the_values = tl.zeros((FORM.BN, FORM.D_TILE), tl.float32), tl.zeros((FORM.BN, FORM.DV_TILE), tl.float32)
    for head in range(shared * group, shared * group + group):
        slope = slope_of(rules, batch, head)
        for first in range(begin, end, FORM.BM):
            rows = rows_of(inputs, numbers, steps, here, head, first + tl.arange(0, FORM.BM), FORM)
            scores = tl.dot(rows.queries, tl.trans(block), allow_tf32=TF32) * problem.scale
            p, tanh = probabilities(scores, rows, keys, here, rules, slope, FORM)
            of_the_values = tl.dot(tl.trans(p.to(rows.gradient.dtype)), rows.gradient, of_the_values, allow_tf32=TF32)
            products = tl.dot(rows.gradient, tl.trans(values), allow_tf32=TF32)
            ds = of_scores(p, tanh, products, rows.delta, rules.softcap)
            of_keys = tl.dot(tl.trans(ds.to(rows.queries.dtype)), rows.queries, of_keys, allow_tf32=TF32)
    there, places = (keys < here.seq_k)[:, None], (here.key_start + keys).to(tl.int64)[:, None]
    at = place_of(matrix_of(dk, steps.dk, batch, shared, here.seq_k, FORM.D), places, columns)
    tl.store(at, (of_keys * problem.scale).to(dk.dtype.element_ty), mask=there & (columns < FORM.D)[None, :])
    at = place_of(matrix_of(dv, steps.dv, batch, shared, here.seq_k, FORM.DV), places, of_values)
    tl.store(at, of_the_values.to(dv.dtype.element_ty), mask=there & (of_values < FORM.DV)[None, :])
