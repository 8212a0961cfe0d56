"""The gradient D of the state on Hopper, from the last chunk of a span to its first one: the forward's kernel in the other
direction.

Input: descriptors of q, k, do, b and T, with gates by key of P and rows with gates, the table of spans, D behind spans. Output:
dv, D behind each chunk, D before spans. For example:

    recurrence[(spans, HV, V / columns)](q_desc, k_desc, w_desc, do_desc, b_desc, T_desc, P_desc, dv_desc, D_desc, ...)

Tasks and pipes are those of `mimw.kernels.linear_attention`, with do in the place of v; every chunk comes to its place in turn,
the last one first.
"""

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

from ..consumers import consumer
from ..linear_attention.blackwell import one_of
from ..linear_attention.compute import Outside
from ..linear_attention.kernel import given_back, inputs_of, operand_places, reader, registers, scores_of, writer
from ..linear_attention.nouns import ROWS, C, scored, span_of
from ..linear_attention.roles import Descriptors, rows_at, score
from .compute import compute
from .forgotten import remembered


@mimw.jit
def load(inputs, descs, span, head, column, problem, form):
    """Chunk after chunk of a span, from the last one."""
    of_key = head // (problem.HV // problem.H)
    for turn in range(span.count):
        slot = inputs.acquire(turn)
        chunk = span.count - 1 - turn
        place = (span.chunk + chunk) * problem.HV + head
        if form.GATE == "key":
            tle.gpu.copy(descs.w, slot.w, [C, form.K], [place * C, 0])
            tle.gpu.copy(descs.q, slot.q, [C, form.K], [place * C, 0])
            tle.gpu.copy(descs.P, slot.P, [C, C], [place * C, 0])
            if form.DELTA:
                tle.gpu.copy(descs.k, slot.k, [C, form.K], [place * C, 0])
        else:
            tle.gpu.copy(descs.k, slot.k, [C, form.K], rows_at(span, chunk, of_key, 0))
            tle.gpu.copy(descs.q, slot.q, [C, form.K], rows_at(span, chunk, of_key, 0))
        if descs.b is not None:
            tle.gpu.copy(descs.b, slot.b, [1, slot.b.shape[1]], [place, 0])
        for me in tl.static_range(form.CONSUMERS):
            part = tlx.local_slice(slot.v, [me * C, 0], [C, ROWS])
            tle.gpu.copy(descs.v, part, [C, ROWS], rows_at(span, chunk, head, column + me * ROWS))
        if form.DELTA:
            tle.gpu.copy(descs.T, slot.T, [C, C], [place * C, 0])
        inputs.commit(turn)


@mimw.jit
def store(results, tensor, span, head, column, form):
    """dv of every consumer."""
    for turn in range(span.count):
        for me in tl.static_range(form.CONSUMERS):
            result = results[me].reader()
            slot = result.wait(turn).slot
            tlx.async_descriptor_store(tensor, slot.rows, rows_at(span, span.count - 1 - turn, head, column + me * ROWS))
            tlx.async_descriptor_store_wait(0)
            result.release(turn)


@mimw.jit
def store_states(behinds, states, span, head, column, problem, form):
    """D^T behind each chunk, of every consumer."""
    for turn in range(span.count):
        for me in tl.static_range(form.CONSUMERS):
            behind = behinds[me].reader()
            slot = behind.wait(turn).slot
            row = ((span.chunk + span.count - 1 - turn) * problem.HV + head) * form.V + column + me * ROWS
            tlx.async_descriptor_store(states, slot.rows, [row, 0])
            tlx.async_descriptor_store_wait(0)
            behind.release(turn)


@mimw.jit
def recurrence(q_desc, k_desc, w_desc, do_desc, b_desc, T_desc, P_desc, dv_desc, D_desc, behind, before, bounds, spans,
               problem, FORM: tl.constexpr):
    """One span, head and FORM.CONSUMERS * ROWS columns of values. `behind` and `before` are arrays of D behind and before spans;
    None stands for what FORM leaves out; with `bounds` only D before the span is wanted, and chunks that have no effect on it are
    left out (forgotten.py)."""
    TYPE: tl.constexpr = tlx.dtype_of(do_desc)
    REGISTERS: tl.constexpr = registers(FORM)
    head, column = tl.program_id(1), tl.program_id(2) * (FORM.CONSUMERS * ROWS)
    span = span_of(spans, tl.program_id(0))
    if bounds is not None:
        span = remembered(span, bounds, head, problem)
    descs = Descriptors(q_desc, k_desc, w_desc, do_desc, b_desc, T_desc, P_desc)

    inputs, scores = inputs_of(TYPE, FORM), scores_of(TYPE, FORM)
    results = given_back(FORM.STATES, C, ROWS, TYPE, "results", FORM)
    behinds = given_back(FORM.STATES, ROWS, FORM.K, TYPE, "behinds", FORM)
    operands = operand_places(TYPE, FORM)

    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=REGISTERS[0], replicate=FORM.CONSUMERS):  # consumer
            me: tl.constexpr = tlx.async_task_replica_id()
            outside = Outside(behind, before, head, column + me * ROWS)
            compute(inputs.reader(consumer(me)), reader(scores, me), writer(results, me), writer(behinds, me),
                    one_of(operands, me), outside, span, problem, me, FORM)
        if scored(FORM):
            with tlx.async_task(num_warps=4, num_regs=REGISTERS[1]):  # scores
                score(inputs.reader("score"), scores.writer(), None, span, FORM)
        with tlx.async_task(num_warps=1, num_regs=24):  # producer
            load(inputs.writer(), descs, span, head, column, problem, FORM)
        if FORM.STATES:
            with tlx.async_task(num_warps=1, num_regs=24):  # writer
                store(results, dv_desc, span, head, column, FORM)
            with tlx.async_task(num_warps=1, num_regs=24):  # writer of states
                store_states(behinds, D_desc, span, head, column, problem, FORM)
