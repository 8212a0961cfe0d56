"""The gradient D of the state, from the last chunk of a sequence to its first one, and with it the gradient of v.

Input: q, k, do, P, T of each chunk, and nouns.Work. Output: D behind each chunk, dv, and the gradient of the initial state. For a
chunk, all with values as rows, so that a product's sums are the left operand of the next one as they lie in registers:

    dN^T = scale dO^T P + e^(b_C - b) (D^T K^T)
    dv^T = dN^T T                                               dN^T itself without the delta rule
    D^T  = e^(b_C) D^T + scale (e^b dO)^T Q - (e^b dv)^T K      D behind the chunk before; the last only with the delta rule
"""

from typing import Any

import triton.language as tl

import mimw
import mimw.tle as tle

from .nouns import BY_HEAD, BY_KEY, SPAN_FIELDS, C, Chunk, product, rows_of, square_of, state_at, store_rows


@tle.struct
class Tiles:
    """Rows of a chunk as products take them, (C, K), and the factors that are not yet in them: `rises` of outputs, `grows` of keys,
    `falls` to the chunk's end, each (C) or a number, and `decays`, that of the state over the chunk, (1, K) or a number."""

    q: Any
    up: Any
    down: Any
    rises: Any
    grows: Any
    falls: Any
    decays: Any


@mimw.jit
def tiles_of(given, work, here, head, problem, form):
    """Those of one chunk."""
    heads = problem.heads * form.GROUP
    place = here.slot.to(tl.int64) * heads + head
    if form.GATE == BY_KEY:
        columns = tl.arange(0, form.K_TILE)
        decays = tl.exp(tl.load(work.b + place * form.K + columns, mask=columns < form.K, other=0.0))[None, :]
        q = rows_of(work.q_up, here, head, heads, form.K, 0, form.K_TILE)
        down = rows_of(work.k_down, here, head, heads, form.K, 0, form.K_TILE)
        up = rows_of(work.k_up, here, head, heads, form.K, 0, form.K_TILE) if form.DELTA else down
        return Tiles(q, up, down, 1.0, 1.0, 1.0, decays)
    else:
        q = rows_of(given.q, here, head // form.GROUP, problem.heads, form.K, 0, form.K_TILE)
        k = rows_of(given.k, here, head // form.GROUP, problem.heads, form.K, 0, form.K_TILE)
        if form.GATE == BY_HEAD:
            b, last = tl.load(work.b + place * C + tl.arange(0, C)), tl.load(work.b + place * C + C - 1)
            grows = tl.exp(b)
            return Tiles(q, k, k, (grows * problem.scale)[None, :], grows[None, :], tl.exp(last - b)[None, :], tl.exp(last))
        else:
            return Tiles(q, k, k, problem.scale, 1.0, 1.0, 1.0)


@mimw.jit
def state_gradients(given, work, dv, dfinal, dinitial, spans, problem, FORM: tl.constexpr):
    """Values from program_id(1) * BV on, of head program_id(0) % HV of span program_id(0) // HV."""
    heads = problem.heads * FORM.GROUP
    head, value = tl.program_id(0) % heads, tl.program_id(1) * FORM.BV
    at = spans + tl.program_id(0) // heads * SPAN_FIELDS
    start, first, end = tl.load(at).to(tl.int64) * problem.T, tl.load(at + 1), tl.load(at + 2)
    slot, chunks, before, behind = tl.load(at + 3), tl.load(at + 4), tl.load(at + 5), tl.load(at + 6)
    values, columns = value + tl.arange(0, FORM.BV)[:, None], tl.arange(0, FORM.K_TILE)[None, :]
    inside, turned = (values < FORM.V) & (columns < FORM.K), head * (FORM.K * FORM.V) + columns * FORM.V + values
    size = heads.to(tl.int64) * (FORM.K * FORM.V)
    D = tl.zeros((FORM.BV, FORM.K_TILE), tl.float32)
    if dfinal is not None:
        D = tl.load(dfinal + behind * size + turned, mask=inside & (behind >= 0), other=0.0).to(tl.float32)
    for back in range(chunks):
        chunk = chunks - 1 - back
        here = Chunk(start + first + chunk * C, min(C, end - first - chunk * C), slot + chunk)
        tiles = tiles_of(given, work, here, head, problem, FORM)
        do = tl.trans(rows_of(given.do, here, head, heads, FORM.V, value, FORM.BV))
        TYPE: tl.constexpr = do.dtype
        to, there = state_at(work.D, here.slot, head, heads, value, 0, FORM)
        tl.store(to, D.to(work.D.dtype.element_ty), mask=there)
        dN = product(D.to(TYPE), tl.trans(tiles.down), FORM) * tiles.falls
        dN += product(do, square_of(given.P, here, head, heads), FORM) * problem.scale
        D = product((do * tiles.rises).to(TYPE), tiles.q, FORM, D * tiles.decays)
        if FORM.DELTA:
            dN = product(dN.to(TYPE), square_of(given.T, here, head, heads), FORM)
            D = product((dN * -tiles.grows).to(TYPE), tiles.up, FORM, D)
        store_rows(dv, tl.trans(dN), here, head, heads, FORM.V, value, FORM.BV)
    if dinitial is not None:
        tl.store(dinitial + before * size + turned, D, mask=inside & (before >= 0))
