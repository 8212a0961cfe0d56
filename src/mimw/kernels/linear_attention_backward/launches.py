"""The launches of linear attention's gradients.

Input: arrays, numpy or torch, and their tables. Output: what to allocate, and launches in their order. For example:

    back = tables(made)                                         made: those of the forward
    work = workspace(given, back, empty, of_forward)            empty(shape, None) of q's type, empty(shape, "fp32") of fp32
    for kernel, grid, args, meta in launches(given, work, results, back, of_forward, dfinal, dinitial): kernel[grid](*args, **meta)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mimw

from ..attention_varlen.maps import ending
from ..linear_attention import nouns as forward
from ..linear_attention.join import COLUMNS
from ..linear_attention.launches import Workspace, fitting
from ..powers import tile
from .beta import small_betas
from .by_key import Maps as KeyMaps
from .by_key import gradients_by_key
from .by_roles import Maps, gradients_by_roles
from .few import per_program
from .gradients import far_gradients, gradients
from .join import join
from .kernel import recurrence
from .nouns import BY_HEAD, BY_KEY, NO_GATE, Form, Given, Results, Work
from .sums import sum_heads
from .tables import Tables

CHUNK, WIDTH = forward.C.value, forward.ROWS.value
PROGRAMS = 128      # that run side by side, where nobody says


def form_of(given: Given, exact: bool = False) -> Form:
    """The constants of gradients of chunks."""
    (H, K), (HV, V), g = given.q.shape[2:], given.v.shape[2:], given.g
    gate = NO_GATE if g is None else BY_HEAD if len(g.shape) == 3 else BY_KEY
    bf16 = "bfloat16" in str(given.q.dtype)
    return Form(K, V, min(128, tile(K)), min(64, tile(V)), gate.value, given.beta is not None, HV // H, bf16, exact)


def workspace(given: Given, tables: Tables, empty: Callable[..., Any], of_forward: Workspace) -> Work:
    """The arrays of a call, made by empty(shape, type): of q's type where `type` is None, else of the named one, "fp32"."""
    (batch, rows, H, K), (HV, V), spans = given.q.shape, given.v.shape[2:], tables.spans.shape[0]
    of_heads = [empty((batch, rows, HV, K), "fp32") if H < HV else None for _ in "qk"]
    parts = [empty((spans, HV, K, V), "fp32") if tables.cut else None for _ in ("sums", "ends")]
    return Work(empty((tables.chunks.shape[0], HV, V, K), None), *of_heads, *parts, of_forward.b)


def launches(given: Given, work: Work, results: Results, tables: Tables, of_forward: Workspace, dfinal=None, dinitial=None,
             scale: float | None = None, programs: int = 0) -> list[tuple[Any, tuple[int, ...], tuple, dict]]:
    """[(kernel, grid, args, meta), ..], which fill `results` and `dinitial`, to launch in this order.

    args:      given, work, results     see nouns.py; what a call lacks is None. dg and dbeta are of any float type
               tables   of `tables.tables`, where the arrays are
               of_forward   the forward's workspace, filled: b and T, with gates by key P, q, k and w, where cut the transitions
               dfinal, dinitial    (sequences, HV, K, V), fp32, or None
               programs     that run side by side, one an SM, of gradients by roles (by_roles.py); 0 for plain kernels only
    """
    H, K = given.q.shape[2:]
    problem = forward.Problem(H, given.v.shape[2], float(K**-0.5 if scale is None else scale))
    steps, behind = [], dfinal
    if tables.cut:
        steps = _parts(given, work, tables, of_forward, problem, dfinal)
        behind = work.ends
    steps.append(_recurrence(given, work, results.dv, tables.spans, of_forward, problem, behind, dinitial))
    return steps + of_chunks(given, work, results, tables.chunks, problem, programs=programs)


def of_chunks(given: Given, work: Work, results: Results, table, problem: forward.Problem, exact: bool = False,
              programs: int = 0) -> list[tuple]:
    """The launches behind the recurrence. exact: products of fp32 as fp32 has them, else as tf32. programs: those that
    run side by side; 0 if that is not known, and for plain kernels only."""
    form, count = form_of(given, exact), table.shape[0]
    several, per = form.GROUP.value > 1, per_program(count, problem.HV, programs or PROGRAMS)
    written = results._replace(dq=work.dq, dk=work.dk) if several else results
    given_all, few = (given, work, written, table), (-(-count // per), problem.HV)
    whole = form.replace(K_TILE=tile(form.K.value))
    meta = dict(FORM=whole, num_warps=8, num_stages=1)
    if programs and by_roles(form, given):
        steps = [_by_roles(form, given, work, written, table, problem, programs)]
    elif form.GATE.value != BY_KEY.value:
        steps = [(gradients, (count, problem.HV), (*given_all, problem), meta | dict(FORM=form))]
    else:       # 64 columns of keys at a time, for want of registers
        form = form.replace(K_TILE=min(64, form.K_TILE.value))
        steps = [_by_key(form.replace(NEAR=True), given, work, written, table, problem) if programs and by_key(form, given) else
                 (gradients, (count, problem.HV), (*given_all, problem), meta | dict(FORM=form.replace(NEAR=True))),
                 (far_gradients, few, (*given_all, count, per, problem), meta | dict(FORM=form))]
    if given.beta is not None:
        steps.append((small_betas, few, (*given_all, count, per, problem), meta | dict(NEAR=whole.replace(NEAR=True))))
    if several:
        steps += [(sum_heads, (count, problem.H), (one, of, table, problem), meta)
                  for one, of in ((work.dq, results.dq), (work.dk, results.dk))]
    return steps


def by_roles(form: Form, given: Given) -> bool:
    """True for what warps with roles take (by_roles.py)."""
    return form.K.value in (64, 128) and form.V.value % 64 == 0 and form.GATE.value != BY_KEY.value and given.q.dtype.itemsize == 2


def by_key(form: Form, given: Given) -> bool:
    """True for what gradients by key take (by_key.py): tiles of values fit into shared memory, and two are there to be reused."""
    if form.GATE.value != BY_KEY.value or given.g.dtype.itemsize > 4:
        return False
    return bool(form.BF16.value) and form.K.value % 64 == 0 and form.V.value in (128, 256)


def _of_heads(x, columns: int):
    """The descriptor of so many columns of rows of heads, which end with their sequence; None of None."""
    return None if x is None else ending(x.reshape(-1, *x.shape[2:]), CHUNK, columns)


def _flat(x, *block: int):
    """The descriptor of blocks of an array as rows of its last axis; None of None."""
    return None if x is None else mimw.TensorDescriptor.from_tensor(x.reshape(-1, x.shape[-1]), list(block))


def _by_key(form: Form, given: Given, work: Work, written: Results, table, problem: forward.Problem) -> tuple:
    """The launch of gradients by key."""
    V, dv = form.V.value, written.dv if form.DELTA.value else None
    keys, results = (given.q, given.k), (written.dq, written.dk, written.dg)
    maps = KeyMaps(*(_of_heads(x, CHUNK) for x in keys), *(_of_heads(x, V) for x in (given.do, given.N, dv)),
                   *(_flat(x, V, CHUNK) for x in (given.states, work.D)), *(_of_heads(x, CHUNK) for x in results))
    grid = table.shape[0] * problem.HV * form.K.value // form.K_TILE.value,
    return gradients_by_key, grid, (maps, given.g, given.beta, work.b, written.dbeta, table, problem), dict(FORM=form, num_warps=4)


def _by_roles(form: Form, given: Given, work: Work, written: Results, table, problem: forward.Problem, programs: int) -> tuple:
    """The launch by roles."""
    form, K, dv = form.replace(BV=64), form.K.value, written.dv if form.DELTA.value else None
    maps = Maps(_of_heads(given.q, K), _of_heads(given.k, K), *(_of_heads(x, 64) for x in (given.do, given.N, dv)),
                _flat(given.states, 64, K), _flat(work.D, 64, K), _flat(work.b, 1, CHUNK), _of_heads(written.dq, K),
                _of_heads(written.dk, K))
    count = table.shape[0] * problem.HV
    args = maps, given.beta, written, table, count, problem
    return gradients_by_roles, (min(programs, count), ), args, dict(FORM=form, num_warps=8)


def _parts(given: Given, work: Work, tables: Tables, of_forward: Workspace, problem: forward.Problem, dfinal) -> list[tuple]:
    """The launches that give D behind parts."""
    K, V = given.q.shape[3], given.v.shape[3]
    args = work.sums, of_forward.transitions, of_forward.b, dfinal, work.ends, tables.lists, tables.spans, problem
    meta = dict(GATE=of_forward.gate, K=K, V=V, num_warps=min(K // 16, 8))
    return [_recurrence(given, work, None, tables.sums, of_forward, problem, dfinal, work.sums, of_forward.bounds),
            (join, (tables.lists.shape[0], problem.HV, V // COLUMNS.value), args, meta)]


def _recurrence(given: Given, work: Work, dv, spans, of_forward: Workspace, problem: forward.Problem, behind, before,
                bounds=None) -> tuple:
    """One launch of the recurrence; without dv only D before spans is written."""
    K, V, gate = given.q.shape[3], given.v.shape[3], of_forward.gate
    form = fitting(forward.Form(K, V, 2, 2, given.beta is not None, gate, True, dv is not None))

    if gate == "key":
        keys = *(_flat(x, CHUNK, K) for x in (of_forward.q, of_forward.k, of_forward.w)), _of_heads(given.do, WIDTH)
    else:
        keys = _of_heads(given.q, K), _of_heads(given.k, K), None, _of_heads(given.do, WIDTH)
    args = (*keys, _flat(of_forward.b, 1, K if gate == "key" else CHUNK), _flat(of_forward.T, CHUNK, CHUNK),
            _flat(of_forward.P if gate == "key" else None, CHUNK, CHUNK), _of_heads(dv, WIDTH),
            _flat(None if dv is None else work.D, WIDTH, K), behind, before, bounds, spans, problem)
    return recurrence, (spans.shape[0], problem.HV, V // (WIDTH * int(form.CONSUMERS))), args, dict(FORM=form, num_warps=4)


__all__ = ["form_of", "launches", "of_chunks", "workspace"]
