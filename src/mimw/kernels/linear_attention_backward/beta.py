"""The gradient of the delta rule's beta in chunks with a beta that is next to nothing.

Input: what `gradients` has. Output: dbeta of such chunks, written over; few.py says how they are found:

    small_betas[(chunks / per, HV)](given, work, results, table, chunks, per, problem, FORM, NEAR)

N_i = beta_i E_i, E the rest that a key does not yet predict, and dv_i = beta_i dR_i, so dbeta_i = dR_i E_i is
dv_i N_i / beta_i^2, which `gradients` takes; here both are computed without beta:

    E  = V - e^b K S - A N          dR = dN - A^T dv        A_ij = k_i k_j e^(b_i - b_j) at j < i

Row i of T has the factor beta_i in all of its numbers, so N and dv are as near as others while types hold them: N and dv in fp16
down to 1e-3, bf16's and fp32's further, but T is made by products of fp16 (inverse.py), whose numbers are 2^-24 apart at least.
"""

import triton.language as tl

import mimw

from ..linear_attention.nouns import CHUNK_FIELDS, C
from .few import own_chunks, without
from .gates import falling, near, rising, rising_products, sums_of
from .nouns import chunk_of, product, rows_of, state_of, store_numbers

# A beta that the quotient is taken with: of N and dv in fp16, and in other types.
LEAST_FP16, LEAST = tl.constexpr(1e-3), tl.constexpr(2.0**-15)


@mimw.jit
def with_small_beta(beta, table, chunks, count, head, heads, BELOW: tl.constexpr):
    """Of numbers of chunks those with a small beta, `count` in the place of others."""
    there, row = chunks < count, tl.arange(0, C)[None, :]
    first = tl.load(table + chunks * CHUNK_FIELDS, mask=there, other=0)[:, None].to(tl.int64) + row
    end = tl.load(table + chunks * CHUNK_FIELDS + 1, mask=there, other=0)[:, None]
    least = tl.min(tl.abs(tl.load(beta + first * heads + head, mask=first < end, other=1.0).to(tl.float32)), 1)
    return tl.where(there & (least < BELOW), chunks, count)


@mimw.jit
def scores(q, k, b, problem, form):
    """A and P."""
    at = tl.arange(0, C)
    A = tl.where(at[:, None] > at[None, :], rising_products(k, k, b, form), 0.0)
    return A, rising_products(q, k, b, form) * problem.scale


@mimw.jit
def of_chunk(given, work, results, here, head, problem, form, NEAR: tl.constexpr):
    """dbeta of a chunk. NEAR is the form of chunks that gates.py's `near` is true of."""
    heads = problem.HV
    b = sums_of(given.g, here, head, heads, 0, form)
    k = rows_of(given.k, here, head // form.GROUP, problem.H, form.K, 0, form.K_TILE)
    q = rows_of(given.q, here, head // form.GROUP, problem.H, form.K, 0, form.K_TILE)
    TYPE: tl.constexpr = k.dtype
    if near(work.b, here, head, heads, NEAR):
        A, P = scores(q, k, b, problem, NEAR)
    else:
        A, P = scores(q, k, b, problem, form)
    A, P = A.to(TYPE), P.to(TYPE)
    up, down = rising(k, b, form).to(TYPE), falling(k, b, form).to(TYPE)
    found = tl.zeros((C, ), tl.float32)
    for value in range(0, form.V, form.BV):
        S = state_of(given.states, here, head, heads, value, 0, form).to(TYPE)
        behind = state_of(work.D, here, head, heads, value, 0, form).to(TYPE)
        rest = rows_of(given.v, here, head, heads, form.V, value, form.BV) - product(up, tl.trans(S), form)
        rest -= product(A, rows_of(given.N, here, head, heads, form.V, value, form.BV), form)
        do = rows_of(given.do, here, head, heads, form.V, value, form.BV)
        dN = product(tl.trans(P), do, form) + product(down, tl.trans(behind), form)
        dN -= product(tl.trans(A), rows_of(results.dv, here, head, heads, form.V, value, form.BV), form)
        found += tl.sum(dN * rest, 1)
    store_numbers(results.dbeta, found, here, head, heads)


@mimw.jit
def small_betas(given, work, results, table, count, per, problem, FORM: tl.constexpr, NEAR: tl.constexpr):
    """Those of `per` chunks, of `count`, that have one: program_id(0) of head program_id(1) of HV."""
    head = tl.program_id(1)
    BELOW: tl.constexpr = LEAST_FP16 if given.N.dtype.element_ty == tl.float16 else LEAST
    chunks = with_small_beta(given.beta, table, own_chunks(per, count), count, head, problem.HV, BELOW)
    while tl.min(chunks, 0) < count:
        slot = tl.min(chunks, 0)
        of_chunk(given, work, results, chunk_of(table, slot), head, problem, FORM, NEAR)
        chunks = without(chunks, slot, count)
