"""Gives every buffer array that shares storage its place in it, and the storage its size.

Before: `local_alloc` names a storage or another buffer to reuse, and `alias_overlap` says who overlays whom. After: each of
these arrays has a `place`, each storage its `bytes` and `alignment`, and the `alias_overlap` ops are gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType

from ..analysis import Remark, constant_of, uses_of
from ..constraints import wanted_alignments
from ..errors import AliasError
from ..ir import Block, Op, Place, Program, Storage, Value
from ..storage import AliasPlan, Group, Leaf, alias_map, place_group, place_peers
from ..storage.aliases import SMEM_ALIGNMENT
from ..target import Target


def check_aliases(program: Program, target: Target) -> Iterable[Remark]:
    """A remark on every storage that no buffer uses."""
    uses = uses_of(program)
    for op in uses.ops:
        if op.name == "alias_storage" and not any(use.op.row.allocates == "buffer" for use in uses.of(op.result)):
            yield Remark(f"storage_alias_spec '{op.result.name}' is used by no local_alloc; it takes no memory.", op.site)


def place_aliases(program: Program) -> Program:
    """The program with all places known; the same object if nothing is shared.

    Raises `AliasError` for a spec with two overlaps, for a group whose leaves are no arrays of the spec or are named twice, for
    a spec that is larger than its `buffer_size_bytes`, and for `reuse=` of a buffer that is not known before launch.
    """
    if not any(op.name == "alias_storage" or op.row.allocates == "buffer" and op.reuse for op in program.walk()):
        return program
    return _Placer(program).rewritten()


class _Placer:

    def __init__(self, program: Program):
        self.program, self.uses = program, uses_of(program)
        self.made: dict[Op, Op] = {}                       # alloc that others reuse -> the alias_storage put before it
        self.members: dict[Value, list[Op]] = {}           # storage -> its arrays, in program order
        self.storage: dict[Op, Value] = {}
        self.offset: dict[Op, int] = {}
        self.storages = {op.result: op for op in self.uses.ops if op.name == "alias_storage"}
        self.allocs = [op for op in self.uses.ops if op.name == "local_alloc"]
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
        if op is not None and op.name == "local_alloc":
            return self.root(op)
        if op is not None and op.name == "buffer_index" and op.buffer.type.count:
            index = constant_of(self.uses, op.index)
            if index is not None:
                storage, offset = self.find(alloc, op.buffer)
                return storage, offset + index * value.type.tile_bytes
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

    def rewritten(self) -> Program:
        alignments = wanted_alignments(self.program)
        overlaps = self.overlaps()
        new: dict[Op, list[Op]] = {op: [] for op in self.uses.ops if op.name == "alias_overlap"}
        for storage, op in self.storages.items():
            members = self.members.get(storage, [])
            leaves = {alloc.result: _leaf(alloc, alignments) for alloc in members}
            plan = self.plan(storage, members, leaves, overlaps.get(storage))
            _check_limit(op, members, plan, overlaps.get(storage))
            alignment = max((leaf.alignment for leaf in leaves.values()), default=SMEM_ALIGNMENT)
            sized = replace(op, attrs=MappingProxyType({"bytes": plan.total, "alignment": alignment}))
            if op in self.uses.position:
                new[op] = [sized] if members else []
            for alloc in members:
                placed = alloc.with_operands(reuse=storage).with_attrs(place=plan.places[alloc.result])
                new[alloc] = [sized, placed] if self.made.get(alloc) is op else [placed]
        return replace(self.program, body=_replaced(self.program.body, new))

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


def _leaf(alloc: Op, alignments: dict[Value, int]) -> Leaf:
    type_ = alloc.result.type
    alignment = max(SMEM_ALIGNMENT, type_.element.bytes, alignments.get(alloc.result, 0))
    return Leaf(alloc.result, type_.tile_bytes, max(1, type_.count), alignment)


def _group(tree, leaves: list[Leaf]) -> Group | Leaf:
    if isinstance(tree, int):
        return leaves[tree]
    kind, size, children = tree
    return Group(kind, tuple(_group(child, leaves) for child in children), size)


def _check_limit(op: Op, members: list[Op], plan: AliasPlan, overlap: Op | None) -> None:
    limit = op.result.type.limit
    if limit is None or plan.total <= limit:
        return
    apart = ""
    if overlap is not None and overlap.attrs["tree"][0] == "distinct":
        apart = f" (not enough space for distinct allocations: need {plan.total} bytes, have {limit} bytes)"
    lines = storage_lines(members, plan.places, plan.total)
    raise AliasError(f"storage_alias_spec buffer_size_bytes {limit} is too small for its buffers: it requires at least "
                     f"{plan.total} bytes{apart}.\n{lines}", op.site, *(alloc.site for alloc in members[:1]),
                     hint=f"raise buffer_size_bytes to {plan.total}, leave it out, or let more buffers overlay.")


def storage_lines(members: Iterable[Op], places: dict[Value, Place], total: int) -> str:
    """The map of one storage, indented for a message."""
    text = alias_map(((alloc.result.name or f"line {alloc.site.line}", places[alloc.result]) for alloc in members), total)
    return "\n".join("    " + line for line in text.splitlines())


def _replaced(block: Block, new: dict[Op, list[Op]]) -> Block:
    ops = []
    for op in block.ops:
        ops += new.get(op, [op.with_blocks(lambda inner: _replaced(inner, new))])
    return block if len(ops) == len(block.ops) and all(a is b for a, b in zip(ops, block.ops)) else replace(block, ops=tuple(ops))
