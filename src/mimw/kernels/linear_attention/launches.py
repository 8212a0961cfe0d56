"""The launches of chunked linear attention, forward, and of what its backward wants anew.

Input: arrays, numpy or torch, and their tables. Output: what to allocate, and launches in their order. For example:

    work = workspace(k, v, g, beta, made, empty)            empty(shape, None) is of k's type, empty(shape, "fp32") of that
    for kernel, grid, args, meta in forward(q, k, v, g, beta, made, work, o=o, initial=h0, final=ht): kernel[grid](*args, **meta)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mimw

from ..attention_varlen.maps import ending
from ..contract import Contract
from .by_key import prepare_by_key
from .by_key_tiles import COLUMNS as PARTS
from .gates import Raw, lines
from .join import COLUMNS, join
from .kernel import recurrence
from .nouns import ROWS, C, Form, Problem, by_memory, scored, wide
from .prepare import FACTORS, prepare
from .tables import Tables

CHUNK, WIDTH, PART = C.value, ROWS.value, PARTS.value
WIDTHS = 64, 128, 256
SHARED = 210 * 1024     # of shared memory, but for barriers, factors of queries and what copies of states between layouts take
CONTRACT = Contract(
    "q?: =k (B, T, H, K) contiguous", "k: bf16|fp16 (B, T, H, K) contiguous", "v: =k (B, T, HV, V) contiguous",
    "g?: float (B, T, HV) or (B, T, HV, K) contiguous", "beta?: float (B, T, HV) contiguous", "o?: =k (B, T, HV, V) contiguous",
    "new?: =k (B, T, HV, V) contiguous", "states?: =k (NT, HV, V, K) contiguous", "initial?: fp32 (N, HV, K, V) contiguous",
    "final?: fp32 (N, HV, K, V) contiguous", *lines("B, T", " contiguous"),
    "HV % H == 0 -- the heads of v must be a multiple of those of q and k",
    "results == 'newstates' or results == 'o' and of_q -- a call writes either o, of q, or new and states; give one of these",
    f"K in {WIDTHS} and V in {WIDTHS} -- keys and values may have {WIDTHS[0]}, {WIDTHS[1]} or {WIDTHS[2]} columns")


class Workspace(NamedTuple):
    """Arrays that launches hand on, None for those that a call does without (see __init__.py): of each chunk and head b and T, and
    with gates by key P, and rows of q and k with their gates; where sequences are cut `bounds` of chunks' transitions, `sums` and
    `transitions` of parts, and the states before parts, `starts`; where rows are divided by their norms, but with gates by key,
    `factors` of keys."""

    b: Any
    T: Any
    P: Any
    q: Any = None
    k: Any = None
    w: Any = None
    bounds: Any = None
    sums: Any = None
    transitions: Any = None
    starts: Any = None
    factors: Any = None

    @property
    def gate(self) -> str:
        """`Form.GATE` of these arrays."""
        return "none" if self.b is None else "head" if self.w is None else "key"


def workspace(k, v, g, beta, tables: Tables, empty: Callable[..., Any], scores: bool = True, l2norm: bool = False) -> Workspace:
    """The arrays of a call, made by empty(shape, type): of k's type where `type` is None, else of the named one, "fp32". P and q
    are left out unless there are `scores`, where there will be no `o`. `l2norm` as for `forward`."""
    K, HV, V = k.shape[3], v.shape[2], v.shape[3]
    places, spans, by_key = (tables.chunks.shape[0], HV), tables.spans.shape[0], g is not None and len(g.shape) == 4

    def made(there, *shape, kind=None):
        return empty(shape, kind) if there else None

    delta = beta is not None
    return Workspace(made(g is not None, *places, K if by_key else CHUNK, kind="fp32"), made(delta, *places, CHUNK, CHUNK),
                     made(by_key and scores, *places, CHUNK, CHUNK), made(by_key and scores, *places, CHUNK, K),
                     made(by_key and delta, *places, CHUNK, K), made(by_key, *places, CHUNK, K),
                     made(tables.cut and g is not None, *places, kind="fp32"),
                     made(tables.cut, spans, HV, K, V, kind="fp32"), made(tables.cut and delta, spans, HV, K, K, kind="fp32"),
                     made(tables.cut, spans, HV, K, V, kind="fp32"),
                     made(l2norm and not by_key, *places, FACTORS.value, CHUNK, kind="fp32"))


def forward(q, k, v, g, beta, tables: Tables, work: Workspace, scale: float | None = None, *, o=None, new=None, states=None,
            initial=None, final=None, again: bool = False, l2norm: bool = False, raw: Raw = Raw(),
            tensor_memory: bool = False) -> list[tuple[Any, tuple[int, ...], tuple, dict]]:
    """[(kernel, grid, args, meta), ..], to launch in this order.

    args:      q, k     (B, T, H, K), bf16 or fp16, K 64, 128 or 256, all contiguous; v (B, T, HV, V), V one of these
               g        (B, T, HV), or (B, T, HV, K) by key, of any float type: logarithms of gates, 0 or less; None without
               beta     (B, T, HV) of any float type; None without the delta rule
               tables   of `tables.tables`, where the arrays are; `work` by `workspace`
               scale    of o, by default K ** -0.5
               o        (B, T, HV, V), written; or, for the backward, `new` (B, T, HV, V): N, and `states` (NT, HV, V, K):
                        S^T before each chunk, both of k's type; one of the two forms a call
               initial  (N, HV, K, V) fp32, states before sequences, None for zeros; `final` is written, if there is one
               again    what `work` holds is there from an earlier call of the same arguments: only the recurrence is left
               l2norm   rows of q and k are divided by sqrt(their sum of squares + 1e-6) first, in fp32; `work` is made for it
               raw      what gates and betas are made of, if g and beta are not they; not with `again`
               tensor_memory    for chips that have some (blackwell.py), whose tensor cores add up nowhere else
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    results = "o" * (o is not None) + "new" * (new is not None) + "states" * (states is not None)
    of = CONTRACT.check(q=q, k=k, v=v, g=g, beta=beta, o=o, new=new, states=states, initial=initial, final=final, results=results,
                        of_q=q is not None, **raw._asdict())
    factors = l2norm and work.gate != "key"
    CONTRACT.demand((work.factors is not None) == factors, lambda:
                    f"the workspace has {'no ' * factors}factors of norms, and l2norm is {l2norm}; make both with the same l2norm")
    problem = Problem(of.H, of.HV, of.K**-0.5 if scale is None else float(scale))
    steps = []
    if not again and (g is not None or beta is not None or l2norm):
        steps.append(_prepare(None if work.P is None else q, k, g, beta, tables, work, problem, l2norm, raw))
    if not again and tables.cut:
        steps += _parts(k, v, tables, work, problem, initial, tensor_memory)
    steps.append(_recurrence(q, k, v, tables.spans, work, problem, tensor_memory, o=o, new=new, states=states,
                             initial=work.starts if tables.cut else initial, final=final))
    return steps


def _of_heads(x, width: int):
    """Chunks of a head that end with their sequence, `width` columns at a time."""
    return None if x is None else ending(x.reshape(-1, *x.shape[2:]), CHUNK, width)


def _prepare(q, k, g, beta, tables: Tables, work: Workspace, problem: Problem, l2norm: bool, raw: Raw) -> tuple:
    """The launch that makes b and T, and with gates by key P and rows with gates, of q only with one. By its registers five
    programs have place on an SM; with gates by key three, by shared memory, and registers are as many as three may have."""
    K, grid = k.shape[3], (tables.chunks.shape[0] * problem.HV, )
    if work.gate == "key":
        of_q = (None, None) if q is None else (work.P, work.q)
        maps = (_of_heads(x, PART) for x in (q, k, g))
        args = *maps, beta, raw.parameters, work.b, work.T, *of_q, work.k, work.w, work.bounds, tables.chunks, problem
        return prepare_by_key, grid, args, dict(K=K, NORM=l2norm, MAKING=raw.making, num_warps=4, maxnreg=168)
    keys = None if beta is None and work.factors is None else _of_heads(k, K // 2)
    args = keys, g, beta, raw.parameters, work.b, work.factors, work.T, work.bounds, tables.chunks, problem
    return prepare, grid, args, dict(K=K, MAKING=raw.making, num_warps=4, maxnreg=96)


def _parts(k, v, tables: Tables, work: Workspace, problem: Problem, initial, tensor_memory: bool) -> list[tuple]:
    """The launches for the states before parts."""
    K, V, transitions = k.shape[3], v.shape[3], work.transitions
    steps = [_recurrence(None, k, v, tables.sums, work, problem, tensor_memory, initial=initial, final=work.sums,
                         bounds=work.bounds)]
    if transitions is not None and tables.transitions.shape[0]:
        steps.append(_recurrence(None, k, None, tables.transitions, work, problem, tensor_memory, final=transitions,
                                 bounds=work.bounds))
    args = work.sums, transitions, work.b, work.bounds, initial, work.starts, tables.lists, tables.spans, problem
    meta = dict(GATE=work.gate, K=K, V=V, num_warps=min(K // 16, 8))
    return [*steps, (join, (tables.lists.shape[0], problem.HV, V // COLUMNS.value), args, meta)]


def _recurrence(q, k, v, spans, work: Workspace, problem: Problem, tensor_memory: bool, *, o=None, new=None, states=None,
                initial=None, final=None, bounds=None) -> tuple:
    """One launch of the recurrence; without v that of transitions."""
    K = k.shape[3]
    V, gate = K if v is None else v.shape[3], work.gate
    form = fitting(Form(K, V, 2, 2, work.T is not None, gate, o is not None, states is not None, v is None, tensor_memory,
                        work.factors is not None))
    describe = mimw.TensorDescriptor.from_tensor

    def flat(x, *block):
        return None if x is None else describe(x.reshape(-1, x.shape[-1]), list(block))

    if gate == "key":
        keys = *(flat(x, CHUNK, K) for x in (work.q if o is not None else None, work.k, work.w)),
    else:
        keys = _of_heads(q if o is not None else None, K), _of_heads(k, K), None
    sums, scores = None if form.NORM else work.b, None if o is None else work.P
    args = (*keys, _of_heads(v, WIDTH), flat(sums, 1, K if gate == "key" else CHUNK), flat(work.T, CHUNK, CHUNK),
            flat(scores, CHUNK, CHUNK), flat(work.factors, FACTORS.value, CHUNK), _of_heads(o, WIDTH), _of_heads(new, WIDTH),
            flat(states, WIDTH, K), initial, final, bounds, spans, problem)
    grid = spans.shape[0], problem.HV, V // (WIDTH * int(form.CONSUMERS))
    return recurrence, grid, args, dict(FORM=form, num_warps=4)


def fitting(form: Form) -> Form:
    """The form with as many slots of chunks as there is shared memory for, four at most; and with two consumers, unless values have
    columns for one, or registers, tensor memory or the shared memory for two slots are not there."""
    two = form.replace(CONSUMERS=2)
    if form.V < 2 * WIDTH or form.K > 128 and (form.OUT or form.TENSOR or slots(two) < 2):
        two = form.replace(CONSUMERS=1)
    return two.replace(STAGES=min(4, slots(two)))


def slots(form: Form) -> int:
    """Of chunks: how many there is shared memory for."""
    return (SHARED - bytes_of_results(form) - bytes_of_operands(form)) // slot_bytes(form)


def slot_bytes(form: Form) -> int:
    """Shared memory of one chunk's inputs."""
    rows = bool(form.OUT) + 1 + (form.GATE == "key" and bool(form.DELTA))
    squares = bool(form.DELTA) + (form.GATE == "key" and bool(form.OUT))
    values = 0 if form.TRANSITION else int(form.CONSUMERS) * WIDTH
    return 2 * CHUNK * (rows * int(form.K) + values + squares * CHUNK) + 1024


def bytes_of_results(form: Form) -> int:
    """Shared memory of scores, outputs or new values, and states before chunks."""
    scores = (1 if wide(form) else 2) * CHUNK * CHUNK if scored(form) else 0
    each = CHUNK * WIDTH * bool(form.OUT or form.STATES) + WIDTH * int(form.K) * bool(form.STATES)
    return 2 * (scores + int(form.CONSUMERS) * each)


def bytes_of_operands(form: Form) -> int:
    """Shared memory of left operands, where they do not come from registers."""
    states = form.DELTA or form.OUT if form.TENSOR else by_memory(form)
    others = 1 + bool(form.GATE == "head") if form.TENSOR else 0
    return 2 * int(form.CONSUMERS) * WIDTH * (int(form.K) * bool(states) + CHUNK * others)
