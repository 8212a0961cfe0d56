"""Walks blocks: each op in order, through its handler.

Input: a block and the task that runs it. Output: changes of the task's environment and clock; a generator yields wherever the
scheduler may let others go first. For example:

    task.steps = run_block(task, block); next(task.steps)
    yield from run_code(task, task.code(block))                 inside of an op with regions

A block in which others may be scheduled is walked by a generator. Any other block, a plain loop of arithmetic for instance, is
walked by plain calls, which is several times as fast. Which kind a block is, is found once (`prepare`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from weakref import WeakKeyDictionary

from ...errors import MimwError, SimulatorMisuse
from ...ir import Block, Op, print_op
from ..costs.abstract import cost
from .code import GENERATOR, PLAIN, SWITCHING, Code
from .poison import PoisonMet
from .spreading import spread
from .table import HANDLERS

REGION = "warp_specialize"  # waits for its tasks, whatever they hold


_READY: WeakKeyDictionary[Block, dict[tuple, tuple[list, bool]]] = WeakKeyDictionary()    # the same in every run of a program


def prepare(block: Block, num_warps: int, done: Container[Op] = ()) -> Code:
    """Look up handlers and costs of a block's ops, less those that are `done`. `num_warps` is what its task runs on."""
    ready = _READY.setdefault(block, {})
    left = tuple([op for op in block.ops if op not in done and "terminator" not in op.row.traits])
    found = ready.get((num_warps, left))
    if found is None:
        found = ready[num_warps, left] = _prepared(block, left, num_warps)
    return Code(*found, block.ops)


def _prepared(block: Block, left: tuple[Op, ...], num_warps: int) -> tuple[list, bool]:
    steps, switches = [], False
    for op in left:
        handler = HANDLERS.get(op.name)
        if handler is None:
            raise SimulatorMisuse(f"the simulator does not know what {op.name!r} means", op.site)
        switching = handler.switches(op)
        inside = any(_switches(inner) for inner in op.walk() if inner is not op)
        blocking = handler.generator and (inside or not op.blocks)
        switches |= switching or blocking
        mode = GENERATOR if handler.generator else SWITCHING if switching else PLAIN
        steps.append((op, handler.run_of(op), mode, cost(op, num_warps)))
    return steps, switches or any(op.name == REGION for op in block.ops)


def _switches(op: Op) -> bool:
    handler = HANDLERS.get(op.name)
    return handler is not None and ((handler.generator and not op.blocks) or op.name == REGION or handler.switches(op))


def run_block(task, block: Block) -> Iterator:
    """Run a block of `task`; yields wherever the scheduler may step in. Nothing runs before the first step is asked for."""
    return _stepping(task, task.code(block))


def run_code(task, code: Code) -> Iterable:
    """Run a block made ready; yields as `run_block`. It begins at once, and each generator between a task and its op costs in
    every step: for ops with regions."""
    if code.switches:
        return _stepping(task, code)
    run_straight(task, code)
    return ()


def _stepping(task, code: Code) -> Iterator:
    code.runs += 1
    for op, run, mode, cycles in code.steps:
        task.clock += cycles
        try:
            if mode == PLAIN:
                run(task, op)
            elif mode == GENERATOR:
                yield from run(task, op)
            else:
                yield None
                run(task, op)
        except PoisonMet:
            spread(task, op, run)
        except MimwError:
            raise
        except Exception as error:
            raise _located(error, task, op)


def run_straight(task, code: Code) -> None:
    """Run a block in which nobody else can be scheduled."""
    code.runs += 1
    for op, run, mode, cycles in code.steps:
        task.clock += cycles
        try:
            if mode == GENERATOR:
                for _ in run(task, op):
                    raise AssertionError(f"{op.name} gave way inside a block that was found not to")
            else:
                run(task, op)
        except PoisonMet:
            spread(task, op, run)
        except MimwError:
            raise
        except Exception as error:
            raise _located(error, task, op)


def _located(error: Exception, task, op: Op) -> Exception:
    """The same error, knowing which op of which task it came from."""
    if not getattr(error, "__notes__", None):
        error.add_note(f"while simulating `{print_op(op)}` at {op.site}, {task.where}")
    return error
