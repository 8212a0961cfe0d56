"""Tiles that a loop computes from what it loads before a product takes them: what a task between loads and products may do.

Input: a plain program with loads by descriptor. Output: the ops that make such tiles. For example, of 4-bit weights:

    packed = w.load(..); y = tl.join(packed & 15, packed >> 4).reshape(BN, BK).to(tl.float16) * s[:, None]
    acc = tl.dot(x, y.T, acc)               the product `* s[:, None]` makes y, of which packed is the only load of a ring

Such a tile is computed of loads of rings, of loads by pointers of arrays that the kernel does not write, and of numbers, and only
products take it. No other task needs what was loaded: it is read once, by the task that transforms it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ...ir import Op, Program, Tensor, Value
from ..analysis.slices import Slice
from ..analysis.uses import Uses, uses_of
from ..analysis.written import accessed, parameters_behind, written


def source(uses: Uses, value: Value) -> Op | None:
    """The op behind a tile, which may be turned, or a view without its axes of one element: products take it as it lies."""
    op = uses.definition.get(value)
    while op is not None and (op.name == "trans" and tuple(op.order) == (1, 0) or op.name == "reshape" and _leaves_out_ones(op)):
        op = uses.definition.get(op.value)
    return op


def _leaves_out_ones(op: Op) -> bool:
    shape, whole = op.result.type.shape, op.value.type.shape
    return len(shape) < len(whole) and whole == (1, ) * (len(whole) - len(shape)) + shape


def may_transform(program: Program) -> bool:
    """True if a product of a loop takes a tile that is computed from what is loaded, and from no other product: before any step,
    when loads may be by pointers yet."""
    uses = uses_of(program)
    return any(_is_of_loads(uses, op) for op in _operands(program, uses))


def transformed(program: Program, loads: Collection[Op]) -> list[Op]:
    """The ops that make the tiles which a task may compute from `loads`, in program order."""
    uses, writes = uses_of(program), written(program)
    found = []
    for op in dict.fromkeys(_operands(program, uses)):
        if op not in loads and _slice(program, op, loads, writes) is not None:
            found.append(op)
    return confined(program, loads, found)


def confined(program: Program, loads: Collection[Op], made: list[Op]) -> list[Op]:
    """Those of the ops whose loads nothing else takes."""
    uses, writes = uses_of(program), written(program)
    while True:
        inside = {op: _slice(program, op, loads, writes).ops for op in made}
        every = set().union(*inside.values()) if inside else set()
        kept = [op for op in made if not any(_leaks(uses, load, every, made) for load in inside[op] if load in loads)]
        if len(kept) == len(made):
            return made
        made = kept


def raw_loads(program: Program, loads: Collection[Op], made: Collection[Op]) -> set[Op]:
    """The loads of rings from which these ops' tiles are computed."""
    writes = written(program)
    return {load for op in made for load in _slice(program, op, loads, writes).ops if load in loads}


def _operands(program: Program, uses: Uses) -> Iterator[Op]:
    """The ops behind the operands of products in loops, in the block of their product."""
    for dot in program.named("dot"):
        for value in (dot.a, dot.b):
            op = source(uses, value)
            if op is not None and uses.loops(dot) and uses.place[op].block is uses.place[dot].block and "pure" in op.row.effects \
                    and not op.blocks and isinstance(op.results[0].type, Tensor) and len(op.results) == 1:
                yield op


def _is_of_loads(uses: Uses, op: Op) -> bool:
    todo, seen, loads = [op], set(), 0
    while todo:
        one = todo.pop()
        if one in seen or uses.place[one].block is not uses.place[op].block:
            continue
        seen.add(one)
        if "dot" in one.row.traits or one.blocks:
            return False
        if one.row.loads or one.row.brings_tile:
            loads += 1
            continue
        todo += [made for value in one.operands if (made := uses.definition.get(value)) is not None]
    return loads > 0


def _slice(program: Program, op: Op, loads: Collection[Op], writes: set[str] | None) -> Slice | None:
    """The ops by which a task computes an op's tile; None if it may not: if it takes a product, or no load of its block."""
    def is_read_only(load: Op) -> bool:
        names = [parameters_behind(program, address) for address in accessed(load, "read")]
        return writes is not None and all(one is not None and not one & writes for one in names)

    uses, needs = uses_of(program), Slice(program, cut=loads, reads=is_read_only)
    needs.add(op)
    taken = [one for one in needs.ops if one in loads]
    block = uses.place[op].block
    if needs.bad is not None or not taken or any("dot" in one.row.traits for one in needs.ops):
        return None
    return needs if all(uses.place[one].block is block for one in taken) else None


def _leaks(uses: Uses, load: Op, inside: set[Op], made: Collection[Op]) -> bool:
    """True if anything takes what is loaded, or what is computed of it, besides the ops that make the tiles."""
    todo, seen = [load], set()
    while todo:
        for use in (use.op for result in todo.pop().results for use in uses.of(result)):
            if use in made or use in seen:
                continue
            if use not in inside or use.row.hands_on or "terminator" in use.row.traits:
                return True
            seen.add(use)
            todo.append(use)
    return False
