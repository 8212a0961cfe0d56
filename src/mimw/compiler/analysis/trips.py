"""Trip counts of the loops of a launch: numbers, where a loop's bounds are arithmetic on arguments.

    for i in range(tl.cdiv(K, BK))          {K: 224}, BK = 64          4 rounds
    for tile in range(program_id(0), tiles, num_programs(0))           depends on the program and the grid
    for step in range(tlx.world_size(world))                           {world: 4}, as many as there are GPUs

Input: a program, the values of its parameters (of a table of ranks: how many GPUs there are), a grid and a program's place in it.
Output: the rounds of each loop that holds something asynchronous or synchronising, or None where memory or another loop decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...ir import Op, Program, Scalar, Value
from ...ir.flow import bounds, entering
from .constants import constant_of
from .flows import Flows
from .uses import Uses, uses_of

_SIZE = 1           # the entry of a table of a rank that says how many GPUs there are
_DEPTH = 200        # an expression that is deeper counts as unknown


@dataclass(frozen=True)
class Loop:
    """A loop of interest. `around` are the loops that it stands in, the outermost first; `parameters` are those that its bounds
    are computed from; `by_program` and `by_grid` say whether the program's number and the grid's extents are among these;
    `arrays` are the barriers that are used in it, and not in a loop inside it. `ahead` counts the rounds whose copies its task
    starts before any loop. `known` is false if something else decides how often it goes round."""

    op: Op
    around: tuple[Op, ...]
    parameters: frozenset[Value]
    by_program: bool
    by_grid: bool
    arrays: frozenset[Value]
    ahead: int
    known: bool


def loops_of(program: Program) -> tuple[Loop, ...]:
    """Every loop in which something waits, arrives, or starts an asynchronous operation, in program order; less those over tiles
    that a program takes over from others (`takes_over`)."""
    uses = uses_of(program)
    return tuple(_describe(op, uses) for op in uses.ops if "loop" in op.row.traits and any(map(_orchestrates, _inside(op)))
                 and not takes_over(op, uses))


def known_loops(program: Program) -> tuple[Loop, ...]:
    """The `for` loops, whatever they hold, whose rounds arguments, the grid and the program's number decide."""
    uses = uses_of(program)
    return tuple(loop for loop in (_describe(op, uses) for op in program.named("for")) if loop.known)


def takes_over(loop: Op, uses: Uses) -> bool:
    """True if a `while` loop runs over tiles that requests of launch control bring: its number of rounds differs from run to
    run."""
    return loop.name == "while" and any(op.name == "clc_query" and uses.loops(op)[-1] is loop for op in _inside(loop))


def rounds(program: Program, loop: Loop, values: Mapping[Value, int], grid: tuple[int, ...], index: tuple[int, ...],
           uses: Uses | None = None) -> int | None:
    """The rounds of the loop in the first round of the loops around it; None if they are not known. The number is negative
    for a loop that runs no round because its end lies that many rounds before its start: a loop over all tiles but the first,
    where there is no tile."""
    return Numbers(uses or uses_of(program), values, grid, index).rounds(loop)


def number(program: Program, value: Value, values: Mapping[Value, int], grid: tuple[int, ...]) -> int | None:
    """A number of the grid's first program; None if something else than arguments and the grid decides it."""
    return Numbers(uses_of(program), values, grid, (0, 0, 0)).of(value)


def _inside(op: Op) -> Iterator[Op]:
    return (inner for block in op.blocks for top in block.ops for inner in top.walk())


def _orchestrates(op: Op) -> bool:
    row = op.row
    return row.ours and not row.effects.isdisjoint(("sync", "async"))


def _describe(op: Op, uses: Uses) -> Loop:
    arrays = frozenset(root for inner in _inside(op) for value in inner.operands for root in _barrier_roots(value, uses)
                       if uses.loops(inner)[-1] is op)
    ahead = _ahead(op, arrays, uses)
    if op.name == "while":
        return Loop(op, uses.loops(op), frozenset(), False, False, arrays, ahead, False)
    found = _Sources(uses)
    known = all(found.follow(arg, 0) for arg in bounds(op))
    return Loop(op, uses.loops(op), frozenset(found.parameters), found.by_program, found.by_grid, arrays, ahead, known)


def _ahead(loop: Op, arrays: frozenset[Value], uses: Uses) -> int:
    """The rounds of copies that the kernel writes out before the loop: phases of the loop's barriers that are expected there,
    or groups of copies that are closed there, in the loop's task and outside of loops and conditions."""
    grouped = any(inner.name == "async_commit" for inner in _inside(loop))
    counts: dict[Value | None, int] = {}
    for op in uses.ops[:uses.position[loop]]:
        closes, expects = op.name == "async_commit" and grouped, op.row.barrier in ("expect", "announce")
        if not (closes or expects) or uses.task(op) is not uses.task(loop) or uses.loops(op) or uses.conditional(op):
            continue
        if closes:
            counts[None] = counts.get(None, 0) + 1
        if expects:
            for root in arrays.intersection(_barrier_roots(op.barrier, uses)):
                counts[root] = counts.get(root, 0) + 1
    return max(counts.values(), default=0)


def _barrier_roots(value: Value, uses: Uses) -> Iterator[Value]:
    """The `alloc_barriers` result that a barrier is one of, where views lead to it."""
    while (op := uses.definition.get(value)) is not None and op.viewed is not None:
        value = op.viewed
    if op is not None and op.row.allocates == "barriers":
        yield value


def _entering(value: Value, uses: Uses):
    """The value of an argument of a `for` loop's block in the first round; None for other values."""
    place = uses.argument.get(value)
    if place is None or place.parent is None or place.parent.name != "for":
        return None
    return entering(place.parent, value)


class _Sources:
    """The sources from which scalars are computed."""

    def __init__(self, uses: Uses):
        self.uses, self.parameters, self.by_program, self.by_grid = uses, set(), False, False
        self.seen: dict[Value, bool] = {}

    def follow(self, value, depth: int) -> bool:
        """True if only parameters, the program and the grid determine `value`."""
        if not isinstance(value, Value):
            return True
        if value not in self.seen:
            self.seen[value] = True
            self.seen[value] = self._follow(value, depth + 1)
        return self.seen[value]

    def _follow(self, value: Value, depth: int) -> bool:
        op = self.uses.definition.get(value)
        if depth > _DEPTH:
            return False
        if op is None:
            entering = _entering(value, self.uses)
            if entering is not None:
                return self.follow(entering, depth)
            self.parameters.add(value)
            return value not in self.uses.argument
        if _table_of_size(op, self.uses) is not None:
            return True
        self.by_program |= op.name == "get_program_id"
        self.by_grid |= op.name == "get_num_programs"
        return _computes(op) and all([self.follow(arg, depth) for arg in op.operands])


def _table_of_size(op: Op, uses: Uses) -> Value | None:
    """The table of ranks of which an op loads how many GPUs there are (docs/DISTRIBUTED.md, "Ranks"); None for any other op."""
    place = uses.definition.get(op.pointer) if op.name == "load" else None
    if place is None or place.name != "addptr" or constant_of(uses, place.rhs) != _SIZE:
        return None
    return place.lhs if any("world" in user.row.places and user.world is place.lhs for user in uses.ops) else None


def _computes(op: Op) -> bool:
    return not op.blocks and ("number" in op.row.traits)


def axes_of_lengths(program: Program) -> set[int]:
    """The axes of the grid by whose numbers loops differ in length from program to program; a number that one of several tasks
    hands on in shared memory counts."""
    flows = program.kept(Flows)
    extents = [value for op in program.named("for") for value in bounds(op)]
    return {op.axis for op in program.named("get_program_id")
            if not (flows.reached({op.result}) | {op.result}).isdisjoint(extents)}


class Numbers:
    """Values of scalars in one program of a launch, in the first round of each loop, or in that whose counter is among `values`."""

    def __init__(self, uses: Uses, values: Mapping[Value, int], grid, index):
        self.uses, self.known = uses, dict(values)
        self.grid, self.index = (*grid, 1, 1)[:3], (*index, 0, 0)[:3]

    def rounds(self, loop: Loop) -> int | None:
        """The rounds of a loop; `rounds` says when they are known."""
        start, end, step = map(self.of, bounds(loop.op)) if loop.known else (None, None, None)
        return None if start is None or end is None or not step else -((start - end) // step)

    def of(self, value, depth: int = 0) -> int | None:
        """The value of a scalar; None if something else than arguments, the grid and the program's number decides it."""
        if not isinstance(value, Value):
            return int(value) if isinstance(value, int) else None
        if value not in self.known:
            self.known[value] = None if depth > _DEPTH or not isinstance(value.type, Scalar) else self._compute(value, depth + 1)
        return self.known[value]

    def _compute(self, value: Value, depth: int) -> int | None:
        op = self.uses.definition.get(value)
        if op is None:
            entering = _entering(value, self.uses)
            return None if entering is None else self.of(entering, depth)
        if op.name == "constant":
            return int(op.value) if isinstance(op.value, int) else None
        if op.name == "get_program_id":
            return self.index[op.axis]
        if op.name == "get_num_programs":
            return self.grid[op.axis]
        table = _table_of_size(op, self.uses)
        if table is not None:
            return self.known.get(table)
        if op.name == "int_cast" or op.row.elements_of == ("value", ):
            return self.of(op.value, depth)
        args = [self.of(arg, depth) for arg in op.operands]
        if None in args or not _computes(op):
            return None
        if op.name == "select":
            return args[1] if args[0] else args[2]
        if op.name == "minsi":
            return min(args)
        if op.name == "maxsi":
            return max(args)
        if op.row.traits & {"quotient", "remainder"} and (args[1] <= 0 or args[0] < 0):
            return None
        return op.row.folds(*args) if op.row.folds else None
