"""Accesses of each task to each array of barriers: the facts behind arrival counts, byte counts and the barrier graph.

Input: a program. Output: a `BarrierArray` for each `alloc_barriers`, with a `BarrierAccess` for each op on its barriers:

    barrier_arrive %free.2 1       BarrierAccess("arrive", op, task "mma", index=2, count=1)
    tma_load .. %full.0 ..         BarrierAccess("complete", op, task "load", index=0, bytes=16384)

The checks rely on these facts, so an array whose accesses are not all known is marked `escapes`. Reports, which also name
possible accesses, read `barrier_ops`. Both resolve barrier values by `barrier_refs`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Buffer, Descriptor, Op, Program, Task, Tensor, Value
from ...target import NVIDIA_WARP
from .barrier_refs import BarrierRef, barrier_refs
from .pipe_words import PipeSide, pipe_side
from .uses import Uses, uses_of


@dataclass(frozen=True)
class BarrierAccess:
    """One op on a barrier of an array.

    `kind`: `wait`; `arrive` (`count` arrivals); `expect` (one arrival, and `bytes` more to wait for); `announce` (`bytes` more,
    without an arrival); `complete` (a copy brings `bytes`); `init` and `invalidate`. `index` says which barrier: a number, a value,
    or None where it is unknown. `bytes` is None where it is unknown. `peers` are the ranks of the CTAs in which the barrier lies,
    None where it is the own CTA. `times` is how many CTAs bring the `count` and the `bytes` together (`analysis.peers`).
    """

    kind: str
    op: Op
    task: Task | None
    index: Value | int | None
    predicate: Value | None = None
    count: int = 0
    bytes: int | None = 0
    peers: tuple[Value | int, ...] | None = None
    times: int = 1


@dataclass(frozen=True)
class BarrierArray:
    """One `alloc_barriers`, as all CTAs see it, or as those with the `ranks` do. `escapes` is true if the analysis loses a barrier,
    in a loop for instance: then not all of its arrivals are known, and a check must not conclude anything. So it is of a
    `barrier_memory`, whose barriers begin and end; its `arrive_count` is that of its `barrier_init`s, 0 if these differ."""

    root: Value
    op: Op
    name: str
    count: int
    arrive_count: int
    accesses: tuple[BarrierAccess, ...]
    escapes: bool
    ranks: tuple[int, ...] = ()

    def __str__(self) -> str:
        ctas = f" of CTA{'s' * (len(self.ranks) > 1)} {', '.join(map(str, self.ranks))} of each cluster" if self.ranks else ""
        return f"'{self.name}'{ctas}"

    @property
    def pipe(self) -> PipeSide | None:
        """The role of the barriers in the pipe that made them; None if the author allocated them."""
        return pipe_side(self.op)

    def of_kind(self, *kinds: str) -> tuple[BarrierAccess, ...]:
        """The accesses of these kinds, in program order."""
        return tuple(access for access in self.accesses if access.kind in kinds)


def barrier_arrays(program: Program, uses: Uses | None = None) -> tuple[BarrierArray, ...]:
    """Every array of barriers of the program, in program order."""
    uses = uses or uses_of(program)
    allocs = [op for op in uses.ops if op.row.allocates == "barriers"]
    values: dict[Value, list[tuple[Value, BarrierRef]]] = {op.result: [] for op in allocs}
    for value, ref in barrier_refs(uses.program).items():
        if ref.root in values:
            values[ref.root].append((value, ref))
    return tuple(_array(op, number, uses, values[op.result]) for number, op in enumerate(allocs))


def _array(op: Op, number: int, uses: Uses, values: list[tuple[Value, BarrierRef]]) -> BarrierArray:
    """`values` are all that stand for barriers of the array."""
    root = op.result
    accesses: list[BarrierAccess] = []
    escapes = any(ref.deep for _, ref in values)
    for value, ref in values:
        if ref.carried:
            continue        # where it was handed on, it has escaped
        index = 0 if value is root and root.type.count <= 1 else ref.index
        for use in uses.of(value):
            row = use.op.row
            if row.barrier and row.barrier != "meet":
                accesses.append(_access(use.op, index, uses))
            elif row.view != "slot" and not row.mentions:
                escapes = True
    accesses.sort(key=lambda access: uses.position[access.op])
    inits = {access.op.count for access in accesses if access.kind == "init"}
    begins_later = "arrive_count" not in op.row.places
    arrivals = (inits.pop() if len(inits) == 1 else 0) if begins_later else op.arrive_count
    return BarrierArray(root, op, root.name or f"barriers{number}", root.type.count, arrivals, tuple(accesses),
                        escapes or begins_later)


def _access(op: Op, index, uses: Uses) -> BarrierAccess:
    row, task = op.row, uses.task(op)
    count, size = 0, 0
    if row.barrier == "arrive":
        warps = task.num_warps if task is not None else uses.program.num_warps
        count = op.count * (NVIDIA_WARP * warps if op.barrier.type.per_thread else 1)
    elif row.barrier == "commit":
        count = 1
    elif row.barrier in ("expect", "announce"):
        count, size = int(row.barrier == "expect"), op.bytes
    elif row.barrier == "complete":
        size = _brought(getattr(op, row.brings))
    peers = getattr(op, row.peers) if row.peers else None
    return BarrierAccess(row.barrier, op, task, index, op.predicate if "predicate" in row.places else None, count, size,
                  peers if peers is None or isinstance(peers, tuple) else (peers, ))


def _brought(what) -> int | None:
    """The bytes that a copy of `what` completes; None if they are computed at run time."""
    if not isinstance(what, Value):
        return what
    if isinstance(what.type, Descriptor):
        return what.type.block_bytes
    if isinstance(what.type, Buffer):
        return what.type.bytes
    return what.type.numel * what.type.element.bytes if isinstance(what.type, Tensor) else None
