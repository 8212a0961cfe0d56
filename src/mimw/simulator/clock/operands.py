"""Ways of operands to matrix cores that take them out of registers: through shared memory, or straight from other products.

Input: a program. Output: for each dot the `Source` of either operand, and of either's scales if it has some. For example:

    %a = local_load %tile; %b = load %p; dot %a %b      Source("shared", the local_load), Source("global")
    dot (fp_trunc (exp2 (dot ..))) %v                   Source("registers") of the first: Triton keeps it where it is

A tile that is loaded from global memory just before goes through shared memory, since a matrix instruction wants its elements in
other lanes; one from before the loop has done so once, which is not counted. A read of shared memory that only feeds products takes
its time with these (`clock.dots`): the reads of one product go on beside another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...ir import Block, Op, Program, Tensor, Value
from ...ir.dot_scales import scales_of

_RENAMES = ("free", "move", "convert")      # kinds of work after which a tile is still the tile that was read


@dataclass(frozen=True)
class Source:
    """`kind`: "shared", by the local_load `read`; "global", through scratch in shared memory; or "registers"."""

    kind: str
    read: Op | None = None


def operand_sources(program: Program) -> dict[Op, tuple[Source, ...]]:
    """The sources of A and of B of each dot of tiles, and of the scales of A and of B."""
    made = {result: (op, block) for block in _blocks(program) for op in block.ops for result in op.results}
    fed = {value: block for block in _blocks(program) for value in block.args}
    return {op: tuple(_source(value, block, made, fed) for value in (op.a, op.b, *scales_of(op)))
            for block in _blocks(program) for op in block.ops
            if "dot" in op.row.traits and isinstance(op.a.type, Tensor) and isinstance(op.b.type, Tensor)}


def taken_with_products(sources: Mapping[Op, tuple[Source, ...]], uses: Mapping[Value, list[Op]]) -> frozenset[Op]:
    """The reads of shared memory of which nobody takes anything but these dots."""
    reads = {source.read for pair in sources.values() for source in pair if source.read is not None}
    return frozenset(read for read in reads if _only_feeds(read.result, sources, uses))


def _only_feeds(value: Value, dots, uses) -> bool:
    return all(value is not op.acc if op in dots else op.row.cost in _RENAMES and len(op.results) == 1
               and not op.row.hands_over and _only_feeds(op.result, dots, uses) for op in uses[value])


def _blocks(program: Program) -> list[Block]:
    found, left = [], [program.body]
    while left:
        found.append(block := left.pop())
        left += [inner for op in block.ops for inner in op.blocks]
    return found


def _source(value: Value, block: Block, made, fed) -> Source:
    """`block` is that of the dot."""
    value = _renamed(value, made)
    if value in fed:
        return Source("global" if fed[value] is block else "registers")
    op, place = made[value]
    if place is not block:
        return Source("registers")
    if op.name == "local_load":
        return Source("shared", op)
    return Source("registers" if _comes_from_dot(op, made, set()) else "global")


def _renamed(value: Value, made) -> Value:
    while value in made:
        op = made[value][0]
        tiles = [one for one in op.operands if isinstance(one, Value) and isinstance(one.type, Tensor)]
        if op.row.cost not in _RENAMES or len(tiles) != 1 or op.blocks:
            break
        value = tiles[0]
    return value


def _comes_from_dot(op: Op, made, seen: set[Op]) -> bool:
    if "dot" in op.row.traits:
        return True
    seen.add(op)
    inner = (made[value][0] for value in op.operands if value in made)
    return any(_comes_from_dot(one, made, seen) for one in inner if one not in seen)
