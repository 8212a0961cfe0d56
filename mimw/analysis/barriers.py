"""What each task does with each array of barriers: the facts behind arrival counts, byte counts and the barrier graph."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import OPS, Op, Program, Task, Value
from .pipe_words import PipeSide, pipe_side
from .uses import Uses

_KINDS = {"barrier_wait": "wait", "barrier_arrive": "arrive", "barrier_expect": "expect", "tma_load": "complete",
          "bulk_load": "complete"}
WARP = 32  # threads; barriers on which each of them arrives exist on NVIDIA only


@dataclass(frozen=True)
class Access:
    """One op on a barrier of an array.

    `kind`: `wait`; `arrive` (`count` arrivals); `expect` (one arrival, and `bytes` more to wait for); `complete` (a
    copy brings `bytes`). `index` says which barrier: a number, a value, or None where it is unknown. `bytes` is None
    where it is unknown.
    """

    kind: str
    op: Op
    task: Task | None
    index: Value | int | None
    predicate: Value | None = None
    count: int = 0
    bytes: int | None = 0


@dataclass(frozen=True)
class BarrierArray:
    """One `alloc_barriers`. `escapes` is true if something else than the four known ops holds one of its barriers: then
    what arrives there is not all known, and nobody may draw conclusions."""

    root: Value
    op: Op
    name: str
    count: int
    arrive_count: int
    accesses: tuple[Access, ...]
    escapes: bool

    @property
    def pipe(self) -> PipeSide | None:
        """What the barriers are to the pipe that made them; None if the author allocated them."""
        return pipe_side(self.op)

    def of_kind(self, *kinds: str) -> tuple[Access, ...]:
        """The accesses of these kinds, in program order."""
        return tuple(access for access in self.accesses if access.kind in kinds)


def barrier_arrays(program: Program, uses: Uses | None = None) -> tuple[BarrierArray, ...]:
    """Every array of barriers of the program, in program order."""
    uses = uses or Uses(program)
    allocs = [op for op in uses.ops if op.name == "alloc_barriers"]
    return tuple(_array(op, number, uses) for number, op in enumerate(allocs))


def _array(op: Op, number: int, uses: Uses) -> BarrierArray:
    root = op.result
    accesses: list[Access] = []
    escapes = False
    whole = 0 if root.type.count <= 1 else None
    pending: list[tuple[Value, Value | int | None]] = [(root, whole)]
    while pending:
        value, index = pending.pop()
        for use in uses.of(value):
            if use.op.name == "barrier_index":
                pending.append((use.op.result, use.op.args[1]))
                escapes |= value is not root
            elif use.op.name in _KINDS:
                accesses.append(_access(use.op, index, uses))
            else:
                escapes = True
    accesses.sort(key=lambda access: uses.position[access.op])
    return BarrierArray(root, op, root.name or f"barriers{number}", root.type.count, op.args[1], tuple(accesses), escapes)


def _access(op: Op, index, uses: Uses) -> Access:
    kind, task = _KINDS[op.name], uses.task(op)
    arg = dict(zip(OPS[op.name].params, op.args)).get
    if kind == "wait":
        return Access(kind, op, task, index, arg("predicate"))
    if kind == "arrive":
        warps = task.num_warps if task is not None else uses.program.num_warps
        threads = WARP * warps if arg("barrier").type.per_thread else 1
        return Access(kind, op, task, index, arg("predicate"), count=arg("count") * threads)
    if kind == "expect":
        size = arg("bytes")
        return Access(kind, op, task, index, arg("predicate"), count=1, bytes=size if isinstance(size, int) else None)
    if op.name == "bulk_load":
        return Access(kind, op, task, index, bytes=arg("bytes") if isinstance(arg("bytes"), int) else None)
    # An attribute would say that the copy does more than bring its block to this CTA.
    known = not any(op.attrs.values())
    return Access(kind, op, task, index, arg("predicate"), bytes=arg("descriptor").type.block_bytes if known else None)
