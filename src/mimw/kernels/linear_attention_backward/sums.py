"""The sum over the heads of v that read one head of q and k.

Input: rows (B, T, HV, K). Output: rows (B, T, H, K). For example:

    sum_heads[(chunks, H)](of_heads, dq, table, problem, FORM)
"""

import triton.language as tl

import mimw

from ..linear_attention.nouns import C
from .nouns import chunk_of, rows_of, store_rows


@mimw.jit
def sum_heads(of_heads, result, table, problem, FORM: tl.constexpr):
    """Chunk program_id(0), head program_id(1) of H."""
    head, here = tl.program_id(1), chunk_of(table, tl.program_id(0))
    total = tl.zeros((C, FORM.K_TILE), tl.float32)
    for number in range(head * FORM.GROUP, head * FORM.GROUP + FORM.GROUP):
        total += rows_of(of_heads, here, number, problem.HV, FORM.K, 0, FORM.K_TILE)
    store_rows(result, total, here, head, problem.H, FORM.K, 0, FORM.K_TILE)
