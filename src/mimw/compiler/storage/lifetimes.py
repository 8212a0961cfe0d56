"""Shared memory of one CTA: every buffer and barrier with its bytes, and from which op to which it is needed.

Input: a program. Output: a `SharedPlan` with an entry for each allocation in program order. For example, of a ring that TMA fills:

    shared_plan(program).entries    SharedEntry("tiles", "buffer", (128, 64), "bf16", 4, 16384, 65536, first=0, last=41, ..)
    shared_plan(program).peak       65568: what no planner can do without, alignment and padding not counted
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Op, Program, Site, Value
from ...target import SHARED
from ..analysis import Uses, uses_of
from ..analysis.memory_uses import memory_uses

BARRIER_BYTES = 8  # PTX ISA: an mbarrier object is 64 bits


@dataclass(frozen=True)
class SharedEntry:
    """One allocation. `first` and `last` are positions in `Program.walk()`, both needed; `pinned` allocations are needed for
    the whole kernel: barriers, memory that tasks or asynchronous copies and dots touch, and views that control flow hands on
    out of sight."""

    name: str
    kind: str  # "buffer", "barriers" or "storage", which arrays share
    shape: tuple[int, ...]
    element: str
    count: int
    tile_bytes: int
    bytes: int
    first: int
    last: int
    pinned: bool
    value: Value
    site: Site


@dataclass(frozen=True)
class SharedPlan:
    """All allocations in program order. `total` is their sum; `peak` the most bytes that are needed at once, the least for
    any planner (alignment comes on top); `at_peak` are the entries needed then."""

    entries: tuple[SharedEntry, ...]

    @property
    def total(self) -> int:
        return sum(entry.bytes for entry in self.entries)

    @property
    def peak(self) -> int:
        return sum(entry.bytes for entry in self.at_peak)

    @property
    def at_peak(self) -> tuple[SharedEntry, ...]:
        starts = sorted({entry.first for entry in self.entries})
        at = [tuple(entry for entry in self.entries if entry.first <= start <= entry.last) for start in starts]
        return max(at, key=lambda entries: sum(entry.bytes for entry in entries), default=())


def shared_plan(program: Program, uses: Uses | None = None, space: str = SHARED) -> SharedPlan:
    """The shared-memory allocations of a program, or those of another `space`; for tensor memory, which is counted in columns,
    see `tensor_columns`."""
    uses = uses or uses_of(program)
    entries, numbers = [], {"buffer": 0, "barriers": 0, "storage": 0}
    for op in uses.ops:
        kind = op.row.allocates
        if not kind or "place" in op.attrs or space != (SHARED if kind == "barriers" else op.result.type.space):
            continue
        entries.append(_entry(op, kind, f"{kind}{numbers[kind]}", uses))
        numbers[kind] += 1
    return SharedPlan(tuple(entries))


def stored_bytes(alloc: Op) -> int:
    """The bytes of one buffer as it lies: pairs of fp4 that are padded take twice theirs (PTX ISA, ".b4x16_p64")."""
    return alloc.result.type.tile_bytes * (2 if getattr(alloc.attrs.get("layout"), "fp4_padded", False) else 1)


def _goes_on(op: Op) -> bool:
    """True if the op may touch the memory after it is over, or another CTA may touch it."""
    row = op.row
    return "async" in row.effects or bool(row.copy and "dsa" not in row.traits or row.peers)


def _entry(op: Op, kind: str, fallback: str, uses: Uses) -> SharedEntry:
    root, type_ = op.result, op.result.type
    count = max(1, getattr(type_, "count", 1))
    tile = {"barriers": lambda: BARRIER_BYTES, "storage": lambda: op.attrs["bytes"],
            "buffer": lambda: stored_bytes(op)}[kind]()
    pieces = op.attrs.get("pieces", 1)      # that are one buffer of the author's
    if count % pieces == 0:
        count, tile = count // pieces, tile * pieces
    touching, handed_on = memory_uses(uses, root)
    pinned = kind == "barriers" or handed_on or uses.task(op) is not None or any(
        _goes_on(use) or uses.task(use) is not None for use in touching)
    first, last = uses.position[op], max([uses.position[op], *(_end(use, op, uses) for use in touching)])
    if pinned:
        first, last = 0, len(uses.ops) - 1
    return SharedEntry(root.name or fallback, kind, getattr(type_, "shape", ()), str(getattr(type_, "element", "")), count, tile,
                       count * tile, first, last, pinned, root, op.site)


def _end(use: Op, alloc: Op, uses: Uses) -> int:
    """The position where a use ends: the op itself, or the outermost loop around it (and not the allocation), whose next
    round uses the memory too."""
    around = set(uses.loops(alloc))
    outer = [loop for loop in uses.loops(use) if loop not in around]
    return uses.last[outer[0]] if outer else uses.position[use]
