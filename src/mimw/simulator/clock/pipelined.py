"""Loops that Triton pipelines: loads of later trips are on their way while a product is under way.

Input: a program, and `num_stages`. Output: `Pipelined`, and what a load of such a loop does. For example, of three stages:

    for k in range(trips):          the loads of trips 0, 1 and 2 are asked for at the start, that of trip k + 2 in trip k, when
        a = tl.load(..)             the product of trip k - 1 no longer reads its slot
        acc = tl.dot(a, b, acc)     is under way while trip k + 1 begins; waited for where something else wants it

So Triton's passes do it (assign_latencies, schedule_loops, pipeline): loads that feed products in the same loop, by cp.async or TMA
into a ring of `num_stages` slots; and in a loop that says its own number of stages, all loads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ...compiler.analysis.order import STAGES, loop_plans, may_pipeline
from ...ir import Op, Program, Tensor
from ...ir.flow import bounds
from ..machine.table import HANDLERS

_ROWS, _WARPS = 64, 4       # of a product by warpgroups, at least (PTX ISA, wgmma.mma_async)


@dataclass(frozen=True)
class Pipelined:
    """`stages` of each such loop, `loads` that run ahead, each with its loop, and the `products` under way beside the next trip."""

    stages: Mapping[Op, int] = field(default_factory=dict)
    loads: Mapping[Op, Op] = field(default_factory=dict)
    products: frozenset[Op] = frozenset()


@dataclass
class Ahead:
    """The tiles of one load that have been asked for: how many are left to ask, and when those that were are there."""

    left: int
    there: deque = field(default_factory=deque)


def find_pipelined(program: Program, num_stages: int) -> Pipelined:
    stages, loads, products = {}, {}, set()
    for loop in _loops(program):
        count = int(loop.attrs.get(STAGES) or num_stages)
        dots = [op for op in loop.blocks[0].ops if "dot" in op.row.traits and not op.row.ours]
        found = _loads(loop, dots)
        if count > 1 and found:
            stages[loop] = count
            loads |= dict.fromkeys(found, loop)
            products.update(dots)
    return Pipelined(stages, loads, frozenset(products))


def by_warpgroups(op: Op, num_warps: int) -> bool:
    """True if Hopper's warpgroups do the product together; else each warp does its own, by mma.sync."""
    return op.results[0].type.shape[-2] % _ROWS == 0 and num_warps % _WARPS == 0


def run_pipelined(task, op: Op) -> Iterator:
    """The loop, which knows how many tiles its loads have to ask for."""
    start, end, step = (int(task.env[bound]) for bound in bounds(op))
    for load, loop in task.machine.pipelined.loads.items():
        if loop is op:
            task.ahead[load] = Ahead(len(range(start, end, step)) if step > 0 else 0)
    yield from HANDLERS["for"].run(task, op)


def there(task, op: Op, ask: Callable[[float], float]) -> float:
    """The time at which this trip's tile of a load is there; `ask(at)` asks for one more, and says when that will be."""
    ahead, stages = task.ahead[op], task.machine.pipelined.stages[task.machine.pipelined.loads[op]]
    first = not ahead.there
    for _ in range(min(ahead.left, stages if first else 1)):
        ahead.there.append(ask(task.clock if first else max(task.clock, task.product_end)))
        ahead.left -= 1
    return ahead.there.popleft()


def _loops(program: Program) -> list[Op]:
    """Of a kernel with words of ours those that Triton may touch (`analysis.order`), of another one all."""
    if not program.orchestrates():
        return list(program.named("for"))
    return [plan.loop for plan in loop_plans(program) if plan.may_pipeline] if may_pipeline(program) else []


def _loads(loop: Op, dots: list[Op]) -> list[Op]:
    block = loop.blocks[0]
    of_tiles = [op for op in block.ops if (op.row.loads or op.row.brings_tile) and op.results
                and isinstance(op.results[0].type, Tensor)]
    if STAGES in loop.attrs:
        return of_tiles
    made = {result: op for op in block.ops for result in op.results}
    feeding, todo = set(), [value for dot in dots for value in (dot.a, dot.b)]
    while todo:
        op = made.get(todo.pop())
        if op is not None and op not in feeding:
            feeding.add(op)
            todo += op.operands
    return [op for op in of_tiles if op in feeding]
