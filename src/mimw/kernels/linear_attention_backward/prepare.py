"""Keys and queries with the decay of a gate by column, which the recurrence of the state's gradient takes from memory.

Input: q, k, g. Output: b_C, q_up, k_up and k_down (nouns.Work), of all chunks in parallel.
"""

import triton.language as tl

import mimw

from .gates import falling, rising, sums_of
from .nouns import chunk_of, rows_of, store_rows


@mimw.jit
def prepare(given, work, problem, FORM: tl.constexpr):
    """Chunk program_id(0), head program_id(1) of HV."""
    head, heads = tl.program_id(1), problem.heads * FORM.GROUP
    here = chunk_of(given.table, tl.program_id(0), problem)
    columns = tl.arange(0, FORM.K_TILE)
    b = sums_of(given.g, here, head, heads, 0, FORM)
    q = rows_of(given.q, here, head // FORM.GROUP, problem.heads, FORM.K, 0, FORM.K_TILE)
    k = rows_of(given.k, here, head // FORM.GROUP, problem.heads, FORM.K, 0, FORM.K_TILE)
    tl.store(work.b + (here.slot.to(tl.int64) * heads + head) * FORM.K + columns, tl.min(b, 0), mask=columns < FORM.K)
    store_rows(work.q_up, rising(q, b, FORM) * problem.scale, here, head, heads, FORM.K, 0, FORM.K_TILE)
    store_rows(work.k_down, falling(k, b, FORM), here, head, heads, FORM.K, 0, FORM.K_TILE)
    if FORM.DELTA:
        store_rows(work.k_up, rising(k, b, FORM), here, head, heads, FORM.K, 0, FORM.K_TILE)
