"""The gradient of the delta rule's beta in a chunk.

Input: what `gradients` has of a chunk and head. Output: dbeta, stored. N_i = beta_i E_i, E the rest that a key does not yet predict,
and dv_i = beta_i dR_i, so dbeta_i = dR_i E_i is dv_i N_i / beta_i^2. Where a beta is next to nothing both are computed without it:

    E  = V - e^b K S - A N          dR = dN - A^T dv        A_ij = k_i k_j e^(b_i - b_j) at j < i
"""

import triton.language as tl

import mimw

from .gates import falling, rising, rising_products
from .nouns import C, numbers_of, product, rows_of, square_of, state_of

LEAST = tl.constexpr(1e-3)      # a beta that the quotient is taken with


@mimw.jit
def without_quotient(given, D, results, here, one, problem, form):
    """dR E, the sum over values, by their definitions: (C)."""
    heads, k, at = problem.heads * form.GROUP, one.k, tl.arange(0, C)
    TYPE: tl.constexpr = k.dtype
    A = tl.where(at[:, None] > at[None, :], rising_products(k, k, one.b, form), 0.0).to(TYPE)
    up, down = rising(k, one.b, form).to(TYPE), falling(k, one.b, form).to(TYPE)
    P = square_of(given.P, here, one.number, heads)
    found = tl.zeros((C, ), tl.float32)
    for value in range(0, form.V, form.BV):
        S = state_of(given.states, here, one.number, heads, value, form).to(TYPE)
        behind = state_of(D, here, one.number, heads, value, form).to(TYPE)
        N = rows_of(given.N, here, one.number, heads, form.V, value, form.BV)
        dv = rows_of(results.dv, here, one.number, heads, form.V, value, form.BV)
        do = rows_of(given.do, here, one.number, heads, form.V, value, form.BV)
        rest = rows_of(given.v, here, one.number, heads, form.V, value, form.BV) - product(up, tl.trans(S), form)
        rest -= product(A, N, form)
        dN = product(tl.trans(P), do, form) * problem.scale + product(down, tl.trans(behind), form)
        found += tl.sum((dN - product(tl.trans(A), dv, form)) * rest, 1)
    return found


@mimw.jit
def gradient_of_beta(given, D, results, here, one, problem, form):
    """Store dbeta of a chunk and head of v."""
    heads, rows = problem.heads * form.GROUP, tl.arange(0, C)
    beta = numbers_of(given.beta, here, one.number, heads, 1.0)
    if tl.min(tl.abs(beta), 0) < LEAST:
        found = without_quotient(given, D, results, here, one, problem, form)
    else:
        found = tl.zeros((C, ), tl.float32)
        for value in range(0, form.V, form.BV):
            N = rows_of(given.N, here, one.number, heads, form.V, value, form.BV).to(tl.float32)
            found += tl.sum(N * rows_of(results.dv, here, one.number, heads, form.V, value, form.BV).to(tl.float32), 1)
        found /= beta * beta
    at = results.dbeta + (here.first + rows) * heads + one.number
    tl.store(at, found.to(results.dbeta.dtype.element_ty), mask=rows < here.rows)
