"""What each task has and does: warps, registers, buffers, barriers, copies and dots, for the resource table."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import Op, Program
from ..target import Target
from .barriers import barrier_arrays
from .registers import regions, register_plan
from .shared import buffer_uses
from .uses import Uses

_COPIES = ("async_load", "tma_load", "tma_fetch", "tma_store", "bulk_load", "bulk_store", "descriptor_load", "descriptor_store")
_DOTS = ("async_dot", "dot", "dot_scaled")


@dataclass(frozen=True)
class TaskResources:
    """One task. `role` says in a word what its ops make it: mma (dots), load (starts copies in), store (copies out),
    idle (no ops), else compute. `copies` and `dots` count ops in the text of the kernel, not at run time."""

    name: str
    role: str
    num_warps: int
    requested: int | None
    registers: int
    buffers: tuple[str, ...]
    waits: tuple[str, ...]
    arrives: tuple[str, ...]
    copies: int
    dots: int


def task_resources(program: Program, target: Target) -> tuple[TaskResources, ...]:
    """The tasks of the program in the order of `register_plan`."""
    uses = Uses(program)
    bodies = [[op for inner in block.ops for op in inner.walk()] for region in regions(program) for block in region.blocks]
    rows = register_plan(program, target)
    if not bodies:
        bodies = [uses.ops]
    buffers = _buffers(uses)
    arrays = barrier_arrays(program, uses)
    found = []
    for row, body in zip(rows, bodies, strict=True):
        inside = set(body)
        waits = tuple(array.name for array in arrays if any(one.op in inside for one in array.of_kind("wait")))
        arrives = tuple(array.name for array in arrays
                        if any(one.op in inside for one in array.of_kind("arrive", "expect", "complete")))
        found.append(TaskResources(row.name, _role(body), row.num_warps, row.requested, row.granted,
                                   tuple(name for name, ops in buffers if not inside.isdisjoint(ops)), waits, arrives,
                                   sum(op.name in _COPIES for op in body), sum(op.name in _DOTS for op in body)))
    return tuple(found)


def _buffers(uses: Uses) -> list[tuple[str, tuple[Op, ...]]]:
    allocs = [op for op in uses.ops if op.name == "local_alloc"]
    return [(op.result.name or f"buffer{number}", buffer_uses(uses, op.result)[0]) for number, op in enumerate(allocs)]


def _role(body: list[Op]) -> str:
    names = {op.name for op in body}
    if not names.isdisjoint(_DOTS):
        return "mma"
    if not names.isdisjoint(("tma_load", "async_load", "bulk_load")):
        return "load"
    if not names:
        return "idle"
    return "store" if not names.isdisjoint(("tma_store", "bulk_store", "descriptor_store")) else "compute"
