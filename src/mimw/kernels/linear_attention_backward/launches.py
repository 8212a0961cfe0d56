"""The launches of linear attention's gradients.

Input: arrays, numpy or torch. Output: what to allocate, and launches in their order. For example:

    work = workspace(given, empty)                              empty(shape, None) of q's type, empty(shape, "fp32") of fp32
    for kernel, grid, args, meta in launches(given, work, results, spans, dfinal, dinitial): kernel[grid](*args, **meta)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..powers import tile
from .beta import small_betas
from .gradients import gradients
from .nouns import BY_HEAD, BY_KEY, NO_GATE, C, Form, Given, Problem, Results, Work
from .prepare import prepare
from .states import state_gradients
from .sums import sum_heads


def form_of(given: Given, exact: bool = False) -> Form:
    """The constants of a call."""
    (H, K), (HV, V), g = given.q.shape[2:], given.v.shape[2:], given.g
    gate = NO_GATE if g is None else BY_HEAD if len(g.shape) == 3 else BY_KEY
    return Form(K, V, tile(K), min(64, tile(V)), gate.value, given.beta is not None, HV // H, "bfloat16" in str(given.q.dtype), exact)


def _of_gradients(form: Form) -> list[Form]:
    """The constants of each launch of `gradients`. With a gate by column, columns are independent: half as many take half the
    registers; and chunks that need no cuts are a launch of their own, since the other one's code is long."""
    if form.GATE.value != BY_KEY.value:
        return [form]
    return [form.replace(K_TILE=min(64, form.K_TILE.value), NEAR=near) for near in (True, False)]


def workspace(given: Given, empty: Callable[..., Any], b=None) -> Work:
    """The arrays that launches hand on. `b`: that of the forward, with a gate a head."""
    form, (batch, rows), chunks = form_of(given), given.q.shape[:2], given.table.shape[0]
    HV, K, V = given.v.shape[2], form.K.value, form.V.value
    D, of_heads = empty((chunks, HV, V, K), None), (None, None)
    if form.GROUP.value > 1:
        of_heads = tuple(empty((batch, rows, HV, K), "fp32") for _ in "qk")
    if form.GATE.value == BY_KEY.value:
        scaled = [empty((batch, rows, HV, K), None) for _ in range(3 if form.DELTA.value else 2)]
        return Work(D, *of_heads, empty((chunks, HV, K), "fp32"), *scaled, *[None] * (3 - len(scaled)))
    return Work(D, *of_heads, b, None, None, None)


def launches(given: Given, work: Work, results: Results, spans, dfinal=None, dinitial=None, scale: float | None = None,
             exact: bool = False) -> list[tuple]:
    """The launches that fill `results`, `dinitial` and `work`; each a (kernel, grid, args, meta).

    args:      given, work, results     see nouns.py; what a form lacks is None. dg and dbeta are of any float type
               spans      (sequences, 8) int32, the table of whole sequences
               dfinal, dinitial    (sequences, HV, K, V), fp32, or None
               exact      products of fp32 as fp32 has them; else as tf32
    """
    form, HV, chunks = form_of(given, exact), given.v.shape[2], given.table.shape[0]
    problem = Problem(float(form.K.value**-0.5 if scale is None else scale), *given.q.shape[1:3])
    meta = dict(FORM=form, num_warps=8, num_stages=1)
    each = (chunks, HV)
    steps = [(prepare, each, (given, work, problem), meta)] if form.GATE.value == BY_KEY.value else []
    steps.append((state_gradients, (spans.shape[0] * HV, -(-given.v.shape[3] // form.BV.value)),
                  (given, work, results.dv, dfinal, dinitial, spans, problem), meta))
    written = results if form.GROUP.value == 1 else results._replace(dq=work.dq, dk=work.dk)
    steps += [(gradients, (*each, -(-form.K.value // one.K_TILE.value)), (given, work, written, problem), meta | dict(FORM=one))
              for one in _of_gradients(form)]
    if given.beta is not None:
        steps.append((small_betas, each, (given, work, written, problem), meta))
    if form.GROUP.value > 1:
        steps += [(sum_heads, (chunks, problem.heads), (one, of, given.table, problem), meta)
                  for one, of in ((work.dq, results.dq), (work.dk, results.dk))]
    return steps


__all__ = ["form_of", "launches", "workspace"]
