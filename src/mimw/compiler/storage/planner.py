"""Places of buffer arrays that share storage: each array's place in its storage, and each storage's size.

Input: a program whose `local_alloc` ops name a storage or another buffer to reuse, with its `alias_overlap` ops, and the alignment
that each array wants. Output: a `StoragePlan` for each storage, or an `AliasError` with the author's lines. For example:

    qk = local_alloc(.., 2, reuse=spec); p = local_alloc(.., 4, reuse=spec)        two arrays that overlay
    plan_storages(program, {})      StoragePlan(alias_storage, (qk, p), {qk: Place(0, ..), p: Place(0, ..)}, total=32768, ..)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ...errors import AliasError
from ...ir import Op, Place, Program, Storage, Value
from ...ir.tensor_memory import COLUMN_BYTES, columns_of, lying
from ..analysis import constant_of, uses_of
from .aliases import SMEM_ALIGNMENT, AliasPlan, Group, Leaf, place_group, place_peers
from .lifetimes import stored_bytes
from .maps import alias_map


@dataclass(frozen=True)
class StoragePlan:
    """One storage: the `alias_storage` op, its arrays in program order with their places, its size and its alignment. `made_for` is
    the array before which the op has to be put, None if the author made the storage."""

    op: Op
    members: tuple[Op, ...]
    places: Mapping[Value, Place]
    total: int
    alignment: int
    made_for: Op | None = None


def plan_storages(program: Program, alignments: Mapping[Value, int]) -> tuple[StoragePlan, ...]:
    """A plan for each storage of the program, and for each array with memory of its own that other arrays reuse."""
    return _Planner(program).plans(alignments)


def storage_lines(members: Iterable[Op], places: Mapping[Value, Place], total: int) -> str:
    """The map of one storage, indented for a message."""
    members = tuple(members)
    unit = "columns" if any(alloc.result.type.space == "tmem" for alloc in members) else "bytes"
    text = alias_map(((alloc.result.name or f"line {alloc.site.line}", places[alloc.result]) for alloc in members), total, unit)
    return "\n".join("    " + line for line in text.splitlines())


def tile_size(type_, program: Program, doubled: bool = False) -> int:
    """The size of one buffer: bytes of shared memory, columns of tensor memory; `doubled` as `ir.tensor_memory.lying` has it."""
    return columns_of(lying(type_, program.in_pairs, doubled)) if type_.space == "tmem" else type_.tile_bytes


class _Planner:
    """Finds the storage of each array, then the places in each storage."""

    def __init__(self, program: Program):
        self.program, self.uses = program, uses_of(program)
        self.made: dict[Op, Op] = {}                       # alloc that others reuse -> the alias_storage put before it
        self.members: dict[Value, list[Op]] = {}           # storage -> its arrays, in program order
        self.storage: dict[Op, Value] = {}
        self.offset: dict[Op, int] = {}
        self.storages = {op.result: op for op in self.uses.ops if op.row.allocates == "storage"}
        self.allocs = [op for op in self.uses.ops if op.row.allocates == "buffer"]
        for alloc in self.allocs:
            if alloc.reuse is not None:
                self.join(alloc)

    def join(self, alloc: Op) -> None:
        """Find the storage that an array is in, and where in it the buffer starts that it names."""
        storage, self.offset[alloc] = self.find(alloc, alloc.reuse)
        self.add(alloc, storage)

    def add(self, alloc: Op, storage: Value) -> None:
        if alloc not in self.storage:
            self.storage[alloc] = storage
            self.members.setdefault(storage, []).append(alloc)

    def find(self, alloc: Op, value: Value) -> tuple[Value, int]:
        if isinstance(value.type, Storage):
            return value, 0
        op = self.uses.definition[value]
        if op is not None and op.row.allocates == "buffer":
            return self.root(op)
        if op is not None and op.name == "buffer_index" and op.buffer.type.count:
            index = constant_of(self.uses, op.index)
            if index is not None:
                storage, offset = self.find(alloc, op.buffer)
                made = self.uses.definition[op.buffer]
                doubled = made is not None and "doubled" in made.attrs
                return storage, offset + index * tile_size(value.type, self.program, doubled)
        raise AliasError("local_alloc: `reuse` is a buffer whose address is not known before launch.", alloc.site,
                         self.uses.site(value), hint="reuse the array that local_alloc returned, or a storage_alias_spec; "
                         "local_reinterpret sees the bytes of any one buffer as another type or shape.")

    def root(self, alloc: Op) -> tuple[Value, int]:
        """The storage of an array that another one reuses; an array with memory of its own gets one made for it."""
        if alloc.reuse is not None:
            return self.storage[alloc], self.offset[alloc]
        if alloc not in self.made:
            storage = Value(Storage(alloc.result.type.space), alloc.result.name)
            self.made[alloc] = Op("alias_storage", (alloc.result.type.space, None), (storage, ), site=alloc.site)
            self.storages[storage], self.offset[alloc] = self.made[alloc], 0
            self.add(alloc, storage)
        return self.storage[alloc], 0

    def plans(self, alignments: Mapping[Value, int]) -> tuple[StoragePlan, ...]:
        overlaps, found = self.overlaps(), []
        made_for = {op: alloc for alloc, op in self.made.items()}
        for storage, op in self.storages.items():
            members = self.members.get(storage, [])
            leaves = {alloc.result: _leaf(alloc, alignments, self.program) for alloc in members}
            plan = self.plan(storage, members, leaves, overlaps.get(storage))
            _check_limit(op, members, plan, overlaps.get(storage))
            alignment = max((leaf.alignment for leaf in leaves.values()), default=SMEM_ALIGNMENT)
            found.append(StoragePlan(op, tuple(members), plan.places, plan.total, alignment, made_for.get(op)))
        return tuple(found)

    def overlaps(self) -> dict[Value, Op]:
        found: dict[Value, Op] = {}
        for op in self.uses.ops:
            if op.name == "alias_overlap":
                if op.storage in found:
                    raise AliasError("storage_alias_spec already has a set_buffer_overlap defined.", op.site,
                                     found[op.storage].site, hint="describe all buffers of the spec in one reuse_group.")
                found[op.storage] = op
        return found

    def plan(self, storage: Value, members: list[Op], leaves: dict[Value, Leaf], overlap: Op | None) -> AliasPlan:
        if overlap is None:
            peers = place_peers(list(leaves.values()))
            places = {alloc.result: replace(peers.places[alloc.result], offset=self.offset[alloc]) for alloc in members}
            total = max((place.end for place in places.values()), default=0)
            return AliasPlan(total, 1, total, places)
        buffers = overlap.buffers
        if len(set(buffers)) < len(buffers):
            raise AliasError("reuse_group tree contains duplicate elements: each buffer has one place.", overlap.site)
        for buffer in buffers:
            if buffer not in leaves:
                raise AliasError(f"all buffers of a reuse_group must reference the same storage_alias_spec, but '{buffer.name}' "
                                 f"is not an array allocated with reuse='{storage.name}'.", overlap.site, self.uses.site(buffer),
                                 hint=f"allocate it with reuse={storage.name}, and put whole arrays into the group.")
        inside = place_group(_group(overlap.attrs["tree"], [leaves[buffer] for buffer in buffers]))
        others = place_peers([leaf for key, leaf in leaves.items() if key not in inside.places])
        return AliasPlan(inside.stride, inside.slots, max(inside.total, others.total), {**inside.places, **others.places})


def _leaf(alloc: Op, alignments: Mapping[Value, int], program: Program) -> Leaf:
    type_ = alloc.result.type
    alignment = max(SMEM_ALIGNMENT, type_.element.bytes, alignments.get(alloc.result, 0))
    if type_.space == "tmem":
        size = tile_size(type_, program, "doubled" in alloc.attrs)
        return Leaf(alloc.result, size, max(1, type_.count), size)
    return Leaf(alloc.result, stored_bytes(alloc), max(1, type_.count), alignment)


def _group(tree, leaves: list[Leaf]) -> Group | Leaf:
    if isinstance(tree, int):
        return leaves[tree]
    kind, size, children = tree
    return Group(kind, tuple(_group(child, leaves) for child in children), size)


def _check_limit(op: Op, members: list[Op], plan: AliasPlan, overlap: Op | None) -> None:
    limit, unit = op.result.type.limit, _unit(members)
    total = plan.total * unit
    if limit is None or total <= limit:
        return
    apart = ""
    if overlap is not None and overlap.attrs["tree"][0] == "distinct":
        apart = f" (not enough space for distinct allocations: need {total} bytes, have {limit} bytes)"
    lines = storage_lines(members, plan.places, plan.total)
    raise AliasError(f"storage_alias_spec buffer_size_bytes {limit} is too small for its buffers: it requires at least "
                     f"{total} bytes{apart}.\n{lines}", op.site, *(alloc.site for alloc in members[:1]),
                     hint=f"raise buffer_size_bytes to {total}, leave it out, or let more buffers overlay.")


def _unit(members: list[Op]) -> int:
    """The bytes that `Place` and totals count in: of tensor memory, a column of as many lanes as the arrays have rows."""
    if not members or members[0].result.type.space != "tmem":
        return 1
    return COLUMN_BYTES * max(alloc.result.type.shape[0] for alloc in members)
