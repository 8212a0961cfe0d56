"""Resolution of pointers into shared memory to the buffer that they point into.

Input: a program, and what its control flow hands on. Output: a `Family` for every value that is such a pointer, or a
`KernelError`:

    p = local_ptr(tile, [rows, columns]); q = p + 64       one family: both point into `tile`
    tl.where(c, local_ptr(a), local_ptr(b))                refused: two buffers in one value

Pointers that flow together (arithmetic, shapes, `where`, loops, branches) must point into one buffer, for a buffer is
named in the program and only the offset is a number at run time. Pointers into several slots of one array point into
the array.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...errors import KernelError
from ...ir import Op, Pointer, Program, Site, Value
from ...ir.types import element_of
from .uses import Uses


@dataclass(eq=False)
class Family:
    """Pointers that flow together: into `buffer`, seen as an array of the logical `shape`. `above` says of each `local_ptr` how
    far its own buffer is inside: the steps of `buffer_index` ops, each with the elements that one step skips."""

    buffer: Value
    shape: tuple[int, ...]
    above: dict[Op, tuple[tuple[Value, int], ...]] = field(default_factory=dict)


def pointer_families(program: Program, uses: Uses, carries) -> dict[Value, Family]:
    """The family of every value that is a pointer into shared memory, or a tile of such pointers. `carries` are the (source,
    target) pairs of control flow. Raises `KernelError` where one value may point into different memory."""
    groups = _Groups()
    makers = [op for op in uses.ops if op.name == "local_ptr"]
    for op in makers:
        groups.add(op.result)
    count = -1
    while count != len(groups.parent):
        count = len(groups.parent)
        for op in uses.ops:
            _pass_on(op, groups)
        for source, target in carries:
            if source in groups.parent or target in groups.parent:
                groups.join(source, target)
    carried = {groups.find(target) for _, target in carries if target in groups.parent}
    families: dict[Value, Family] = {}
    for leader, members in groups.members().items():
        families.update(dict.fromkeys(members, _family([op for op in makers if op.result in members], leader in carried, uses)))
        _refuse_strangers(members, uses)
    return families


def _pass_on(op: Op, groups: _Groups) -> None:
    if not (op.row.elements_of or op.row.pointer_of) or not op.results or not isinstance(element_of(op.results[0].type), Pointer):
        return
    operands = [value for value in op.operands if isinstance(element_of(value.type), Pointer)]
    if any(value in groups.parent for value in operands):
        for value in (*operands, *op.results):
            groups.join(operands[0], value)


class _Groups:
    """Values joined into sets."""

    def __init__(self):
        self.parent: dict[Value, Value] = {}

    def add(self, value: Value) -> None:
        self.parent.setdefault(value, value)

    def find(self, value: Value) -> Value:
        while self.parent[value] is not value:
            value = self.parent[value]
        return value

    def join(self, one: Value, other: Value) -> None:
        self.add(one)
        self.add(other)
        self.parent[self.find(other)] = self.find(one)

    def members(self) -> dict[Value, set[Value]]:
        found: dict[Value, set[Value]] = {}
        for value in self.parent:
            found.setdefault(self.find(value), set()).add(value)
        return found


def _refuse_strangers(members: set[Value], uses: Uses) -> None:
    """Every pointer of a family comes from a `local_ptr`, or is handed on within it."""
    for value in members:
        op = uses.definition.get(value)
        if op is None and value not in uses.argument or op is not None and (op.row.loads or op.name == "int_to_ptr"):
            raise KernelError("a pointer into shared memory and one into global memory cannot be one value.",
                              op.site if op else uses.program.site, hint="load through each of them and choose between the values.")


def _family(makers: list[Op], carried: bool, uses: Uses) -> Family:
    buffers = {op.buffer for op in makers}
    if len(buffers) == 1 and not carried:
        first = makers[0]
        return Family(first.buffer, first.shape, dict.fromkeys(makers, ()))
    paths = {op: list(_upwards(op.buffer, op.shape, uses)) for op in makers}
    above = {op: path[-1] for op, path in paths.items()}
    roots = {(buffer, shape) for buffer, shape, _ in above.values()}
    if len(roots) > 1:
        names = " and ".join(sorted({buffer.name or str(buffer.type) for buffer, _ in roots}))
        raise KernelError(f"a pointer is chosen at run time between several buffers: {names}.", *_sites(makers),
                          hint="load through a pointer into each of them and choose between the values, or make them slots of one "
                          "buffer.")
    buffer, shape, _ = above[makers[0]]
    return Family(buffer, shape, {op: steps for op, (_, _, steps) in above.items()})


def _sites(makers: list[Op]) -> tuple[Site, ...]:
    return tuple({op.buffer: op.site for op in makers}.values())


def _upwards(buffer: Value, shape: tuple[int, ...], uses: Uses) -> Iterator[tuple[Value, tuple[int, ...], tuple]]:
    """The buffer, then each one that it is a slot of, with the logical shape and the steps to the first."""
    steps: tuple[tuple[Value, int], ...] = ()
    yield buffer, shape, steps
    while (op := uses.definition.get(buffer)) is not None and op.name == "buffer_index":
        size = 1
        for extent in shape:
            size *= extent
        buffer, index = op.buffer, op.index
        shape, steps = (buffer.type.count or buffer.type.shape[0], *shape), (*steps, (index, size))
        yield buffer, shape, steps
