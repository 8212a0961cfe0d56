"""The gradient of the delta rule's beta in chunks with a beta that is next to nothing.

Input: what `gradients` has. Output: dbeta of such chunks, written over. N_i = beta_i E_i, E the rest that a key does not yet
predict, and dv_i = beta_i dR_i, so dbeta_i = dR_i E_i is dv_i N_i / beta_i^2, which `gradients` takes; here both are computed
without beta:

    E  = V - e^b K S - A N          dR = dN - A^T dv        A_ij = k_i k_j e^(b_i - b_j) at j < i
"""

import triton.language as tl

import mimw

from ..linear_attention.nouns import C
from .gates import falling, rising, rising_products, sums_of
from .nouns import chunk_of, numbers_of, product, rows_of, state_of, store_numbers

LEAST = tl.constexpr(1e-3)      # a beta that the quotient is taken with


@mimw.jit
def small_betas(given, work, results, table, problem, FORM: tl.constexpr):
    """Chunk program_id(0), head program_id(1) of HV."""
    head, heads, at = tl.program_id(1), problem.HV, tl.arange(0, C)
    here = chunk_of(table, tl.program_id(0))
    if tl.min(tl.abs(numbers_of(given.beta, here, head, heads, 1.0)), 0) < LEAST:
        b = sums_of(given.g, here, head, heads, 0, FORM)
        k = rows_of(given.k, here, head // FORM.GROUP, problem.H, FORM.K, 0, FORM.K_TILE)
        TYPE: tl.constexpr = k.dtype
        A = tl.where(at[:, None] > at[None, :], rising_products(k, k, b, FORM), 0.0).to(TYPE)
        up, down = rising(k, b, FORM).to(TYPE), falling(k, b, FORM).to(TYPE)
        q = rows_of(given.q, here, head // FORM.GROUP, problem.H, FORM.K, 0, FORM.K_TILE)
        P = (rising_products(q, k, b, FORM) * problem.scale).to(TYPE)
        found = tl.zeros((C, ), tl.float32)
        for value in range(0, FORM.V, FORM.BV):
            S = state_of(given.states, here, head, heads, value, 0, FORM).to(TYPE)
            behind = state_of(work.D, here, head, heads, value, 0, FORM).to(TYPE)
            rest = rows_of(given.v, here, head, heads, FORM.V, value, FORM.BV) - product(up, tl.trans(S), FORM)
            rest -= product(A, rows_of(given.N, here, head, heads, FORM.V, value, FORM.BV), FORM)
            do = rows_of(given.do, here, head, heads, FORM.V, value, FORM.BV)
            dN = product(tl.trans(P), do, FORM) + product(down, tl.trans(behind), FORM)
            dN -= product(tl.trans(A), rows_of(results.dv, here, head, heads, FORM.V, value, FORM.BV), FORM)
            found += tl.sum(dN * rest, 1)
        store_numbers(results.dbeta, found, here, head, heads)
