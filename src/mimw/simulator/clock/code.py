"""Blocks made ready for the machine with a clock: each op with what it takes, and without data that decide nothing.

Input: a block and the warps of its task. Output: `Code`, whose steps are (op, function, mode, cycles). For example:

    fadd %x %y      on tiles: "issue" for so many cycles; the sum itself only if `analysis.needed` names it
    yield %next     when the tile is there, the loop's next trip knows, and who uses the loop's result
"""

from __future__ import annotations

import inspect
from functools import partial

from ...compiler.analysis import constant_of, uses_of
from ...compiler.analysis.warp_stages import waits_for_own
from ...ir import Block, Op, Tensor
from ...ir.flow import handed_to
from ...ir.ops import is_pure
from ..machine.code import GENERATOR, PLAIN, SWITCHING, Code
from ..machine.interpreter import REGION
from ..machine.table import HANDLERS
from . import atomics, copies, dots, tensor_memory  # noqa: F401  they put their handlers into the table
from .engine_ops import engine_step
from .halves import HALVES, run_stages, step
from .pipelined import run_pipelined
from .table import BEFORE, TIMED, assumed_if, skip
from .tasks import may_be_under_way

_BY_CONSTANT = 4                # instructions of a division by one (benchmarks/notes/attention-backward.md)
_WORTH_A_SWITCH = 8.0           # cycles: shorter arithmetic does not let others go first


def prepare(machine, block: Block, num_warps: int) -> Code:
    """The steps of a block for a task of `num_warps` warps."""
    halves = block in machine.stages.blocks
    steps = [_step(machine, op, num_warps, HALVES if halves else 1) for op in block.ops]
    if halves:
        steps = [_noted(machine, num_warps, *one) for one in steps]
    return Code(steps, any(_gives_way(machine, op, mode, num_warps) for op, _, mode, _ in steps), block.ops)


def _gives_way(machine, op: Op, mode: int, num_warps: int) -> bool:
    """True if others may be scheduled at the op, or inside of it."""
    if mode != GENERATOR:
        return mode == SWITCHING
    return not op.blocks or op.name == REGION or any(machine.code(block, num_warps).switches for block in op.blocks)


def _step(machine, op: Op, num_warps: int, parts: int) -> tuple:
    op, run, mode, cycles = _own_step(machine, op, num_warps, parts)
    pairs = _pairs(machine, op)
    ends_trip = "terminator" in op.row.traits and machine.model.in_order(num_warps) and _is_loop(machine.around.get(op))
    if not pairs and not ends_trip:
        return op, run, mode, cycles

    def carrying(task, op):
        if ends_trip:
            task.behind = task.issued
        _carry(task, pairs)
        return run(task, op)

    return op, carrying, mode, cycles


def _pairs(machine, op: Op) -> list:
    """The tiles and floats that an op hands to a block of its own, or as a terminator, and what they are called there."""
    if not op.blocks and "terminator" not in op.row.traits:
        return []
    around = machine.around.get(op)
    return [(value, target) for index, value in enumerate(op.operands) if may_be_under_way(value)
            for target in handed_to(op, index, around)]


def _is_loop(op: Op | None) -> bool:
    return op is not None and "loop" in op.row.traits


def _noted(machine, num_warps: int, op: Op, run, mode: int, cycles: float) -> tuple:
    """A step of the first half of a task's waves, which notes it for the second half. Behind the last op of a stage they meet."""
    second, border = _second_step(machine, op, run, num_warps), op in machine.stages.borders
    if second is None and not border:
        def noting(task, op):
            task.halves.note(op, None, PLAIN, cycles)
            return run(task, op)

        return op, noting, mode, cycles

    def stepping(task, op):
        task.halves.note(op, second, mode, cycles)
        yield from step(task, op, run, mode)
        if border:
            yield from task.halves.border(op)

    return op, stepping, GENERATOR, cycles


def _second_step(machine, op: Op, run, num_warps: int):
    """An op as the second half does it: the time that it takes, and waits for copies of its own. None if it takes its cycles only:
    a number that the first half has computed, a branch that it has taken."""
    if op.name in TIMED or waits_for_own(op.row) or op.name == "async_commit":
        return run
    if is_pure(op.name):
        tiles = any(isinstance(value.type, Tensor) for value in (*op.operands, *op.results))
        return _arithmetic(machine, op, skip, num_warps, HALVES)[1] if tiles else None
    pairs = _pairs(machine, op)
    return (lambda task, op: _carry(task, pairs)) if pairs else None


def _carry(task, pairs: list) -> None:
    """Hand on the times at which tiles are there, with the tiles: into a block, to its next trip, or out of it."""
    engines = task.machine.engines
    if engines is not None:
        known = [(engines.arrival(task, value), engines.behind(task, value)) for value, _ in pairs]
        for (_, target), (time, behind) in zip(pairs, known):
            engines.make(task, target, time, behind)
    elif task.arrivals:
        times = {value: task.arrivals.pop(value) for value, _ in pairs if value in task.arrivals}
        task.arrivals.update({target: times[value] for value, target in pairs if value in times})


def _own_step(machine, op: Op, num_warps: int, parts: int) -> tuple:
    model = machine.model
    if machine.engines is not None and (step := engine_step(machine, op)) is not None:
        return step
    if op.name in TIMED:
        run = TIMED[op.name]
        mode = GENERATOR if inspect.isgeneratorfunction(run) else SWITCHING
        return op, run, mode, model[BEFORE[op.name]] if op.name in BEFORE else 0.0
    if op in machine.stages.loops:
        return op, run_stages, GENERATOR, 0.0
    if op in machine.pipelined.stages:
        return op, run_pipelined, GENERATOR, 0.0
    if op.name == "if":
        return op, assumed_if if op in machine.needed.unknown else HANDLERS["if"].run, GENERATOR, model["issue.scalar"]
    if op.row.hands_over:
        return op, HANDLERS[op.name].run, GENERATOR if HANDLERS[op.name].generator else PLAIN, 0.0
    if "observer" in op.row.traits:
        return op, skip, PLAIN, 0.0
    handler = HANDLERS[op.name]
    if is_pure(op.name):
        run = handler.run_of(op) if machine.needed.values.issuperset(op.results) else skip
        if op.row.ours and not any(isinstance(value.type, Tensor) for value in op.results):
            return op, run, PLAIN, 0.0
        if any(isinstance(value.type, Tensor) for value in (*op.operands, *op.results)):
            return _arithmetic(machine, op, run, num_warps, parts)
        if any(map(may_be_under_way, op.operands)):
            return op, partial(_of_floats, run), PLAIN, _scalar(machine, op)
        return op, run, PLAIN, _scalar(machine, op)
    mode = GENERATOR if handler.generator else SWITCHING if handler.switches(op) else PLAIN
    return op, handler.run, mode, model[BEFORE[op.name]] if op.name in BEFORE else 0.0


def _of_floats(run, task, op: Op) -> None:
    """An op on floats, which may be under way."""
    task.arrive(op)
    run(task, op)


def _scalar(machine, op: Op) -> float:
    """Cycles of an op on single numbers; a division by a constant is a multiplication, and shifts around it."""
    by_constant = op.row.cost == "division" and constant_of(uses_of(machine.program), op.operands[1]) is not None
    return _BY_CONSTANT * machine.model["issue.scalar"] if by_constant else machine.model.scalar(op)


def _arithmetic(machine, op: Op, run, num_warps: int, parts: int) -> tuple:
    """An op on tiles: the time of its units, and its value only if that is needed."""
    users = machine.uses[op.results[0]] if op.results else ()
    fused = op.name == "fmul" and len(users) == 1 and "fuses" in users[0].row.traits
    slowdown, cost = machine.model.slowdown(num_warps), machine.model.tile(op, fused, parts)
    ends_stretch = "combines" in op.row.traits     # what follows needs every element
    if op.name == "addptr" and users and all(_takes_offsets(user, op) for user in users):
        cost = {}
    elif op.results and op.results[0] in machine.addresses:
        cost = {unit: cycles / machine.vector for unit, cycles in cost.items()}

    def work(task, op):
        task.arrive(op)
        machine.work(task, cost, slowdown)
        if ends_stretch:
            task.floor = task.clock
        run(task, op)

    return op, work, SWITCHING if max(cost.values(), default=0.0) > _WORTH_A_SWITCH else PLAIN, 0.0


def _takes_offsets(user: Op, pointers: Op) -> bool:
    """True if the access goes by a base and offsets, beside which the pointers say no more than what these are."""
    return "base" in user.row.places and user.pointer is pointers.results[0]
