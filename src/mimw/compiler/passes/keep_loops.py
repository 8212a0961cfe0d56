"""Loops that Triton must not pipeline are marked so that its pipeliner leaves them alone.

Input: a program. Output: the same program, `tt.num_stages` = 0 on each `for` loop that holds an op with a fixed place. An example:

    for i in range(n):                # holds a barrier_wait: marked, each iteration runs after the one before it
        tlx.barrier_wait(full[i % 2], (i // 2) & 1)
        acc = tl.dot(tl.load(a + i * 64 + at), tl.load(b + at), acc)

Triton's pipeliner starts loads of later iterations early, moves an `if` that feeds none of these loads to the end of the loop
body, and leaves tensor-core products under way while the next iteration begins. Each is right for what Triton knows, and wrong
for shared memory that is filled under the `if`, for a barrier that hands a slot on, for a barrier of CTAs, for assembly. With
no stages at all (one stage still leaves products under way) Triton's three passes, assign_latencies, schedule_loops and
pipeline, skip the loop. Loops without such ops go on being pipelined.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import Block, Op, Program
from ..analysis.order import STAGES, loop_plans


def keep_loops(program: Program) -> Program:
    """The program with its loops marked."""
    kept = {plan.loop for plan in loop_plans(program) if not plan.may_pipeline}
    return replace(program, body=_marked(program.body, kept)) if kept else program


def _marked(block: Block, kept: set[Op]) -> Block:
    return block.with_ops(_op(op, kept) for op in block.ops)


def _op(op: Op, kept: set[Op]) -> Op:
    inside = op.with_blocks(lambda block: _marked(block, kept))
    return inside.with_attrs(**{STAGES: 0}) if op in kept else inside
