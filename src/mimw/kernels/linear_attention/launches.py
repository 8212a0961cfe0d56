"""The launches of chunked linear attention, forward, and of what its backward wants anew.

Input: arrays, numpy or torch, and their tables. Output: what to allocate, and launches in their order. For example:

    work = workspace(k, v, g, beta, made, empty)                        empty(shape, like=k) or empty(shape, "fp32")
    for kernel, grid, args, meta in forward(q, k, v, g, beta, made, work, o=o, initial=h0, final=ht): kernel[grid](*args, **meta)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mimw

from ..contract import Contract
from .join import COLUMNS, join
from .kernel import recurrence
from .nouns import ROWS, C, Form, Problem
from .prepare import prepare
from .tables import Tables

CHUNK, WIDTH = C.value, ROWS.value
WIDTHS = 64, 128
SHARED = 200 * 1024     # of shared memory, for slots of chunks
CONTRACT = Contract(
    "q?: =k (B, T, H, K) contiguous", "k: bf16|fp16 (B, T, H, K) contiguous", "v: =k (B, T, HV, V) contiguous",
    "g?: float (B, T, HV) contiguous", "beta?: float (B, T, HV) contiguous", "o?: =k (B, T, HV, V) contiguous",
    "new?: =k (B, T, HV, V) contiguous", "states?: =k (NT, HV, V, K) contiguous", "initial?: fp32 (N, HV, K, V) contiguous",
    "final?: fp32 (N, HV, K, V) contiguous", "HV % H == 0 -- the heads of v must be a multiple of those of q and k",
    f"K in {WIDTHS} and V in {(*WIDTHS, 256)} -- keys may have {WIDTHS[0]} or {WIDTHS[1]} columns, values also 256")


class Workspace(NamedTuple):
    """Arrays that launches hand on, None for those that a call does without (see __init__.py): of each chunk and head b, T and P;
    where sequences are cut into parts `sums`, `transitions` and the states before parts, `starts`."""

    b: Any
    T: Any
    P: Any
    sums: Any = None
    transitions: Any = None
    starts: Any = None


def workspace(k, v, g, beta, tables: Tables, empty: Callable[..., Any], scores: bool = True) -> Workspace:
    """The arrays of a call, made by empty(shape, type): of k's type where `type` is None, else of the named one, "fp32". P is left out
    unless `scores`, where there will be no `o`."""
    K, HV, V = k.shape[3], v.shape[2], v.shape[3]
    places, spans = (tables.chunks.shape[0], HV), tables.spans.shape[0]
    b = None if g is None else empty((*places, CHUNK), "fp32")
    T, P = (empty((*places, CHUNK, CHUNK), None) if there else None for there in (beta is not None, scores))
    if not tables.cut:
        return Workspace(b, T, P)
    transitions = None if beta is None else empty((spans, HV, K, K), "fp32")
    return Workspace(b, T, P, empty((spans, HV, K, V), "fp32"), transitions, empty((spans, HV, K, V), "fp32"))


def forward(q, k, v, g, beta, tables: Tables, work: Workspace, scale: float | None = None, *, o=None, new=None, states=None,
            initial=None, final=None, again: bool = False, exact: bool = False) -> list[tuple[Any, tuple[int, ...], tuple, dict]]:
    """[(kernel, grid, args, meta), ..], to launch in this order.

    args:      q, k     (B, T, H, K), bf16 or fp16, K 64 or 128, all contiguous; v (B, T, HV, V) of 64, 128 or 256
               g        (B, T, HV) of any float type: logarithms of gates, 0 or less; None without
               beta     (B, T, HV) of any float type; None without the delta rule
               tables   of `tables.tables`, where the arrays are; `work` by `workspace`
               scale    of o, by default K ** -0.5
               o        (B, T, HV, V), written; or, for the backward, `new` (B, T, HV, V): N, and `states` (NT, HV, V, K): S^T before
                        each chunk, both of k's type; one of the two forms a call
               initial  (N, HV, K, V) fp32, states before sequences, None for zeros; `final` is written, if there is one
               again    b, T, P and starts are in `work` from an earlier call of the same arguments: `prepare` and parts are left out
               exact    T from products as fp32 has them, else as tf32
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    of = CONTRACT.check(q=q, k=k, v=v, g=g, beta=beta, o=o, new=new, states=states, initial=initial, final=final)
    if (o is None) == (new is None) or (new is None) != (states is None) or (o is not None and q is None):
        raise ValueError("a call writes either o, of q, or new and states; give one of these")
    problem = Problem(of.T, of.H, of.HV, of.K**-0.5 if scale is None else float(scale))
    steps = []
    if not again:
        P = work.P if o is not None else None
        steps.append((prepare, (tables.chunks.shape[0], of.HV),
                      (q if P is not None else None, k, g, beta, work.b, work.T, P, tables.chunks, problem),
                      dict(K=of.K, PRECISION="ieee" if exact else "tf32", num_warps=4)))
        if tables.cut:
            steps += _parts(k, v, tables, work, problem, initial)
    if tables.cut:
        initial = work.starts
    steps.append(_recurrence(q, k, v, tables.spans, work, problem, o=o, new=new, states=states, initial=initial, final=final))
    return steps


def _parts(k, v, tables: Tables, work: Workspace, problem: Problem, initial) -> list[tuple]:
    """What gives the states before parts."""
    K, V, transitions = k.shape[3], v.shape[3], work.transitions
    steps = [_recurrence(None, k, v, tables.sums, work, problem, initial=initial, final=work.sums)]
    if transitions is not None and tables.transitions.shape[0]:
        steps.append(_recurrence(None, k, None, tables.transitions, work, problem, final=transitions))
    args = work.sums, transitions, work.b, initial, work.starts, tables.lists, tables.spans, problem
    return [*steps, (join, (tables.lists.shape[0], problem.HV, V // COLUMNS.value), args, dict(K=K, V=V, num_warps=4))]


def _recurrence(q, k, v, spans, work: Workspace, problem: Problem, *, o=None, new=None, states=None, initial=None, final=None) -> tuple:
    """One launch of the recurrence; without v that of transitions."""
    batch, rows, _, K = k.shape
    V = K if v is None else v.shape[3]
    consumers = min(V // WIDTH, 2)
    fields = CHUNK * (2 * (K if o is None else 2 * K) + 2 * consumers * WIDTH + 4 + 4 * CHUNK)
    form = Form(K, V, consumers, max(2, min(4, SHARED // fields)), work.T is not None, "none" if work.b is None else "head",
                o is not None, states is not None, v is None)
    describe = mimw.TensorDescriptor.from_tensor

    def flat(x, block):
        return None if x is None else describe(x.reshape(-1, x.shape[-1]), block)

    def of_heads(x, width):
        return None if x is None else describe(x.reshape(batch, rows, -1), [1, CHUNK, width])

    args = (of_heads(q if o is not None else None, K), of_heads(k, K), of_heads(v, WIDTH), flat(work.b, [1, CHUNK]),
            flat(work.T, [CHUNK, CHUNK]), flat(work.P if o is not None else None, [CHUNK, CHUNK]), of_heads(o, WIDTH),
            of_heads(new, WIDTH), flat(states, [WIDTH, K]), o, new, initial, final, spans, problem)
    return recurrence, (spans.shape[0], problem.HV, V // (WIDTH * consumers)), args, dict(FORM=form, num_warps=4)
