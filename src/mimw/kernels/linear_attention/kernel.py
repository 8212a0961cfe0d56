"""The recurrence of linear attention: one warp loads chunks by TMA, warp groups carry the state, another warp stores; on Hopper,
and with FORM.TENSOR on Blackwell.

Input: descriptors of q, k, v, of b, T, P and factors of every chunk (prepare.py), the table of spans, states. Output: o, or for the
backward N and the state before each chunk; states behind spans. For example:

    recurrence[(spans, HV, V / columns)](q_desc, k_desc, w_desc, v_desc, b_desc, T_desc, P_desc, factors_desc, ...)

A program takes one span, a sequence or a part of one, of one head, and the columns of values of its consumers; each has 64 of
them, and never needs anything of the others. Pipes: `inputs`, load -> every consumer and `score`, a chunk at a time; `scores`,
score -> every consumer: P, unless gates by key have it among the inputs; `results` and `befores`, consumer -> store, one for each
consumer.
"""

from typing import Any

import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer, consumers
from .blackwell import alloc_scoring, alloc_sums, one_of, sums_of
from .blackwell import compute as compute_by_tensor_memory
from .compute import Outside, compute
from .forgotten import forgets, remembered
from .nouns import ROWS, C, by_memory, scored, span_of, wide
from .prepare import FACTORS
from .roles import Descriptors, load, score, store, store_states


@tle.struct
class Chunk:
    """Slots of a chunk: rows of q and k, and of w, those of v a consumer after the other, b, T, P and factors; None for
    what a form lacks."""

    q: Any
    k: Any
    w: Any
    v: Any
    b: Any
    T: Any
    P: Any
    factors: Any


@tle.struct
class Scores:
    """Slots of P, and, where queries are to be divided by their norms, of what Q S is multiplied by."""

    P: Any
    grown: Any


@triton.constexpr_function
def registers(form):
    """Of a thread of consumers, and of one of `score`: with the other warps, 24 each, what the file has."""
    if wide(form) or form.NORM and form.CONSUMERS == 1:
        return (240, 120)
    return (208, 72) if scored(form) else (240, 24)


@mimw.jit
def alloc(NEEDED: tl.constexpr, SLOTS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, TYPE: tl.constexpr):
    """Slots of tiles, or None where they are not needed."""
    if NEEDED:
        return tle.gpu.alloc([SLOTS, HEIGHT, WIDTH], TYPE)
    else:
        return None


@mimw.jit
def inputs_of(TYPE: tl.constexpr, form):
    """The pipe of chunks."""
    SLOTS: tl.constexpr = form.STAGES
    chunk = Chunk(alloc(form.OUT, SLOTS, C, form.K, TYPE), alloc(form.GATE != "key" or form.DELTA, SLOTS, C, form.K, TYPE),
                  alloc(form.GATE == "key", SLOTS, C, form.K, TYPE),
                  alloc(not form.TRANSITION, SLOTS, form.CONSUMERS * C, ROWS, TYPE),
                  alloc(form.GATE != "none" and not form.NORM, SLOTS, 1, form.K if form.GATE == "key" else C, tl.float32),
                  alloc(form.DELTA, SLOTS, C, C, TYPE), alloc(form.OUT and form.GATE == "key", SLOTS, C, C, TYPE),
                  alloc(form.NORM, SLOTS, FACTORS, C, tl.float32))
    if scored(form):
        return tle.pipe(chunk, capacity=SLOTS, readers=consumers(form.CONSUMERS, "score"), name="inputs")
    else:
        return tle.pipe(chunk, capacity=SLOTS, readers=consumers(form.CONSUMERS), name="inputs")


@mimw.jit
def scores_of(TYPE: tl.constexpr, form):
    """The pipe of scores, where there is one."""
    if scored(form):
        SLOTS: tl.constexpr = 1 if wide(form) else 2
        scores = Scores(tle.gpu.alloc([SLOTS, C, C], TYPE), alloc(form.NORM, SLOTS, 1, C, tl.float32))
        return tle.pipe(scores, capacity=SLOTS, readers=consumers(form.CONSUMERS), name="scores")
    else:
        return None


@mimw.jit
def reader(pipe, me: tl.constexpr):
    """The end of consumer `me`, if there is such a pipe."""
    if pipe is None:
        return None
    else:
        return pipe.reader(consumer(me))


@mimw.jit
def given_back(NEEDED: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, TYPE: tl.constexpr, name: tl.constexpr, form):
    """A pipe of results for each consumer, or None where they are not needed."""
    if NEEDED:
        pipes = ()
        for _ in tl.static_range(form.CONSUMERS):
            pipes = pipes + (tle.pipe(capacity=1, rows=tle.gpu.alloc([1, HEIGHT, WIDTH], TYPE), name=name), )
        return pipes
    else:
        return None


@mimw.jit
def operand_places(TYPE: tl.constexpr, form):
    """Shared memory for the state of each consumer as a left operand, if it is one neither in registers nor among the results."""
    if by_memory(form):
        return tlx.local_alloc((ROWS, form.K), TYPE, form.CONSUMERS)
    else:
        return None


@mimw.jit
def writer(pipes, me: tl.constexpr):
    """The end of consumer `me`, if there are such pipes."""
    if pipes is None:
        return None
    else:
        return pipes[me].writer()


@mimw.jit
def effective(span, bounds, head, problem, form):
    """The span without chunks that leave nothing in the state behind it; without any for a transition that is 0."""
    if bounds is None:
        return span
    elif form.TRANSITION:
        return span.replace(count=tl.where(forgets(span, bounds, head, problem), 0, span.count))
    else:
        return remembered(span, bounds, head, problem)


@mimw.jit
def recurrence(q_desc, k_desc, w_desc, v_desc, b_desc, T_desc, P_desc, factors_desc, o_desc, new_desc, states_desc, initial, final,
               bounds, spans, problem, FORM: tl.constexpr):
    """One span, head and FORM.CONSUMERS * ROWS columns of values. None stands for what FORM leaves out; with `bounds` only the
    state behind the span is wanted, and chunks that leave nothing in it are left out (forgotten.py)."""
    TYPE: tl.constexpr = tlx.dtype_of(w_desc if FORM.GATE == "key" else k_desc)
    head, column = tl.program_id(1), tl.program_id(2) * (FORM.CONSUMERS * ROWS)
    span = effective(span_of(spans, tl.program_id(0)), bounds, head, problem, FORM)
    descs = Descriptors(q_desc, k_desc, w_desc, v_desc, b_desc, T_desc, P_desc, factors_desc)

    REGISTERS: tl.constexpr = registers(FORM)

    inputs, scores = inputs_of(TYPE, FORM), scores_of(TYPE, FORM)
    results = given_back(FORM.OUT or FORM.STATES, C, ROWS, TYPE, "results", FORM)
    befores = given_back(FORM.STATES, ROWS, FORM.K, TYPE, "befores", FORM)
    operands, sums, scoring = operand_places(TYPE, FORM), None, None
    if FORM.TENSOR:
        sums = alloc_sums(TYPE, FORM)
        if scored(FORM):
            scoring = alloc_scoring()

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=REGISTERS[0], replicate=FORM.CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            outside = Outside(initial, final, head, column + me * ROWS)
            mine = inputs.reader(consumer(me)), reader(scores, me), writer(results, me), writer(befores, me)
            if FORM.TENSOR:
                compute_by_tensor_memory(*mine, sums_of(me, sums), outside, span, problem, me, FORM)
            else:
                compute(*mine, one_of(operands, me), outside, span, problem, me, FORM)
        if scored(FORM):
            with tlx.async_task(num_warps=4, num_regs=REGISTERS[1]):  # scores
                score(inputs.reader("score"), scores.writer(), scoring, span, FORM)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(inputs.writer(), descs, span, head, column, problem, FORM)
        if FORM.OUT or FORM.STATES:
            with tlx.async_task(num_warps=1, num_regs=24):  # writer
                store(results, o_desc if FORM.OUT else new_desc, span, head, column, FORM)
        if FORM.STATES:
            with tlx.async_task(num_warps=1, num_regs=24):  # writer of states
                store_states(befores, states_desc, span, head, column, problem, FORM)
