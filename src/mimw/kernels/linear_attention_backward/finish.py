"""The role of gradients by roles that stores: dq and dk by TMA, and dg and dbeta, which are made of sums of rows.

Input: the pipe `results` of by_roles.py. Output: rows of arrays, none behind their sequence:

    finish(results.reader(), stored, given.beta, written, table, count, problem, FORM)

With b of a row before it and behind it, dg_t is the sum of db from t on, of k end before t (a row's own end knows no decay), and of
what belongs to the chunk's last row. One warp does so beside the next place.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..attention_varlen.maps import place as place_of
from ..linear_attention.nouns import CHUNK_FIELDS
from .nouns import BY_HEAD, chunk_of, numbers_of, store_numbers


@mimw.jit
def numbers(parts):
    """A slot's numbers of rows, of which it has the parts: (C)."""
    return tl.sum(tlx.local_load(parts), 1)


@mimw.jit
def finish(results, dq, dk, beta, written, table, count, problem, form):
    """Place after place; `dq` and `dk` are descriptors."""
    turn = 0
    for place in range(tl.program_id(0), count, tl.num_programs(0)):
        head, chunk = place % problem.HV, place // problem.HV
        here = chunk_of(table, chunk)
        first, end = tl.load(table + chunk * CHUNK_FIELDS), tl.load(table + chunk * CHUNK_FIELDS + 1)
        tlx.async_descriptor_store(dq, results.wait(2 * turn).slot.rows, place_of(first, end - first, head, 0))
        tlx.async_descriptor_store_wait(0)
        results.release(2 * turn)
        slot = results.wait(2 * turn + 1).slot
        tlx.async_descriptor_store(dk, slot.rows, place_of(first, end - first, head, 0))
        if form.GATE == BY_HEAD:
            db, ends = tl.cumsum(numbers(slot.db), 0, reverse=True), tle.cumsum(numbers(slot.ends))[0]
            store_numbers(written.dg, db + ends, here, head, problem.HV)
        if form.DELTA:
            weight = numbers_of(beta, here, head, problem.HV, 1.0)
            store_numbers(written.dbeta, numbers(slot.rest) / (weight * weight), here, head, problem.HV)
        tlx.async_descriptor_store_wait(0)
        results.release(2 * turn + 1)
        turn += 1
