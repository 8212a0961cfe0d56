"""The standing guard: after Triton's passes, every effect stands where it stood before.

Input: the trees of effects of one kernel before and after (`triton_port.order.Effects.nodes`), and the numbers of the ops with a
fixed place. Output: None, or the first two recorded ops whose order changed. An example, 3 fixed and 5 an access:

    before   loop 1 { if 2 { op 3 }  op 5 }
    after    loop 1 { op 5  if 2 { op 3 } }        Changed(5, 3): op 5 stands elsewhere with respect to op 3

Passes may drop an access whose result is not used, repeat the body of a loop that they unroll, take a loop of one trip or an `if`
of a known condition apart, and join neighbouring `if`s. Every fixed op keeps its place among the fixed ops, in the same loops and
`if`s; every access stays between the fixed ops that it stood between. Loops and `if`s with no fixed op in them are no places: an
access may move in them, which is how Triton pipelines loops that are its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

Key = tuple[int, ...]                 # odd: the place of a fixed node in its block; even: the gap before it; one for each level
Path = tuple[tuple[int, int], ...]    # the structures around: (number, which of its blocks)


_APART = 10 ** 7  # more than any program has ops
_KINDS = ("op", "loop", "if", "tasks")
_IF = _KINDS.index("if")


@dataclass(frozen=True)
class Changed:
    """Recorded op `number` stands elsewhere with respect to op `beside` (None: it left its loop, `if` or task)."""

    number: int
    beside: int | None = None


@dataclass
class _Node:
    """A node of either tree; `fixed` if it is a fixed op, or a structure with one somewhere in it."""

    kind: str
    number: int
    blocks: list[list[_Node]]
    fixed: bool
    others: frozenset[int] = frozenset()

    def accesses(self) -> Iterator[_Node]:
        """The ops in it, itself if it is one."""
        if self.kind == "op":
            yield self
        for block in self.blocks:
            for node in block:
                yield from node.accesses()

    def structures(self) -> Iterator[int]:
        """The numbers of the structures with a place, itself if it is one."""
        if self.kind != "op" and self.fixed:
            yield self.number
        for block in self.blocks:
            for node in block:
                yield from node.structures()


def order_change(before: Sequence, after: Sequence, fixed: Collection[int]) -> Changed | None:
    """The first change of order between two trees of nodes (`kind`, `number`, `blocks`), or None."""
    was = _nodes(before, fixed, frozenset())
    now = _nodes(after, fixed, {number for node in was for number in node.structures()})
    alive = frozenset(_identity(node) for top in after for node in top.walk() if node.kind != "op")
    times = Counter(inner.number for node in now for inner in node.accesses())
    places: dict[int, list[_Spot]] = {}
    ifs = frozenset(_identity(node) for top in after for node in top.walk() if node.kind == "if")
    _place_all(was, (), (), False, alive, ifs, times, places)
    _place_joined(now, alive, places)
    change = next(_changes(now, (), places), None)
    return change and Changed(change.number % _APART, None if change.beside is None else change.beside % _APART)


def _identity(node) -> int:
    """A number for an op or a structure. Lowering may make an `if` on behalf of a loop, which then has the loop's number."""
    return node.number + _APART * _KINDS.index(node.kind)


def _nodes(nodes, fixed: Collection[int], held: Collection[int]) -> list[_Node]:
    """The tree with the nodes that have a place marked; a node that had one before, `held`, keeps it, though an unrolled `if`
    may be empty."""
    found = []
    for node in nodes:
        blocks = [_nodes(block, fixed, held) for block in node.blocks]
        place = node.number in fixed if node.kind == "op" else _identity(node) in held or any(
            inner.fixed for block in blocks for inner in block)
        if node.kind == "op" or place or any(blocks):  # an empty structure is none
            found.append(_Node(node.kind, _identity(node), blocks, place, node.others))
    return found


@dataclass(frozen=True)
class _Around:
    """One structure around a node: the structures that may stand for it now, and True if it may be gone.

    A loop may have been taken apart; an `if`, too, or be joined to another one, under the number of either (which may have become
    its neighbour only when the `if`s around them were joined); and the `if`s of an unrolled loop may be gone in some of its rounds.
    """

    numbers: frozenset[int]
    side: int
    optional: bool


@dataclass(frozen=True)
class _Spot:
    """The position of a node: the structures around it, outermost first, and its position at each level."""

    around: tuple[_Around, ...]
    key: Key


def _place_all(nodes: list[_Node], around: tuple[_Around, ...], key: Key, repeated: bool, alive, ifs, times: Counter,
               places) -> None:
    """Note the place of every node. `repeated`: in a loop that was unrolled; `ifs`: those of the later tree."""
    position = 0
    for node in nodes:
        place = (*key, 2 * position + node.fixed)
        position += node.fixed
        places.setdefault(node.number, []).append(_Spot(around, place))
        unrolled = node.kind == "loop" and (node.number not in alive or any(times[inner.number] > 1 for inner in node.accesses()))
        for side, block in enumerate(node.blocks):
            gone = node.number not in alive
            names = frozenset({node.number}) if not gone else ifs if node.kind == "if" else frozenset()
            optional = gone or not node.fixed or node.kind == "if" and repeated
            inside = (*around, _Around(names, side, optional))
            _place_all(block, inside, (*place, side), repeated or unrolled, alive, ifs, times, places)


def _place_joined(nodes: list[_Node], alive, places) -> None:
    """An `if` that had no place, and has one now, took in another one with a fixed op: it stands for any of those that are gone."""
    gone = [place for number, found in places.items() if number // _APART == _IF and number not in alive
            for place in found if place.key[-1] % 2]
    for node in nodes:
        if node.kind == "if" and node.fixed and gone and not any(place.key[-1] % 2 for place in places.get(node.number, ())):
            places[node.number] = gone
        for block in node.blocks:
            _place_joined(block, alive, places)


def _fits(around: tuple[_Around, ...], path: Path) -> bool:
    """True if a node with these structures around it may stand in the block at `path` now."""
    if not around:
        return not path
    first, rest = around[0], around[1:]
    return (bool(path) and path[0][0] in first.numbers and path[0][1] == first.side and _fits(rest, path[1:])
            or first.optional and _fits(rest, path))


def _key(numbers: tuple[int, ...], path: Path, places, after: Key | None) -> Key | None:
    """The position of a node in the block at `path`: of several, the first one behind `after`. None: it was elsewhere."""
    found = [place.key for number in numbers for place in places.get(number, ()) if _fits(place.around, path)]
    behind = [key for key in found if after is None or key > after]
    return min(behind, default=min(found, default=None))


def _changes(nodes: list[_Node], path: Path, places, ahead: Key | None = None, beyond: Key | None = None) -> Iterator[Changed]:
    """Every node of one block of the later tree that is out of place. `ahead` and `beyond`: where the fixed nodes stood that stand
    before and behind the block."""
    last: tuple[Key, int] | None = None   # of the fixed node before
    inner: list[tuple[_Node, Key]] = []   # the fixed nodes
    rounds, seen = 1, Counter()            # a body that was repeated begins anew; as often as any of its nodes comes
    began: Changed | None = None          # where the first new round begins, if any does
    accesses: list[tuple[int, Key]] = []  # since the fixed node before
    for node in _regrouped(nodes, path, places):
        if not node.fixed:
            for access in node.accesses():
                key = _key((access.number, *access.others), path, places, last[0] if last else ahead)
                if key is None or ahead is not None and key < ahead:
                    yield Changed(access.number, last[1] if last else None)
                    return
                accesses.append((access.number, key))
            continue
        key = _key((node.number, ), path, places, last[0] if last else ahead)
        rest = last is not None and key == last[0] and node.kind == "loop"  # of the same loop, unrolled
        begins_anew = key is not None and last is not None and key <= last[0] and not rest
        rounds += begins_anew
        seen[key] += not rest
        if key is None or ahead is not None and key < ahead:
            yield Changed(node.number, last[1] if last else None)
            return
        if begins_anew:
            began = began or Changed(node.number, last[1])
        for number, place in accesses:
            behind, before = last is None or place >= last[0], place <= key  # equal: an `if` that held nothing fixed
            if not (behind or before if begins_anew else behind and before):
                yield Changed(number, node.number if behind else last[1])
                return
        accesses, last = [], (key, node.number)
        if beyond is not None and key > beyond:
            yield Changed(node.number)
            return
        inner.append((node, key))
    if rounds > max(seen.values(), default=1):
        yield began
        return
    for number, place in accesses:
        if last is not None and place < last[0]:
            yield Changed(number, last[1])
            return
        if beyond is not None and place > beyond:
            yield Changed(number)
            return
    for index, (node, key) in enumerate(inner):
        before = inner[index - 1][1] if index else ahead
        behind = inner[index + 1][1] if index + 1 < len(inner) else beyond
        if behind is not None and behind <= key:
            behind = None  # a new round begins
        if before is not None and before >= key:
            before = None
        for side, block in enumerate(node.blocks):
            yield from _changes(block, (*path, (node.number, side)), places, before, behind)


def _regrouped(nodes: list[_Node], path: Path, places) -> list[_Node]:
    """The nodes of a block, where the remainder of an unrolled loop, its body behind the loop, is a loop again."""
    made: list[_Node] = []
    loop, rest = None, None  # the last loop that stands here, and what is left over of it
    for node in nodes:
        inner = [node] if node.fixed else list(node.accesses())
        if loop is not None and inner and all(_is_of(one, path, places, loop, rest is not None) for one in inner):
            if rest is None:
                rest = _Node("loop", loop.number, [[]], True)
                made.append(rest)
            rest.blocks[0].append(node)
            continue
        if node.fixed:
            loop, rest = node if node.kind == "loop" else None, None
        made.append(node)
    return made


def _is_of(node: _Node, path: Path, places, loop: _Node, among: bool) -> bool:
    """True if a node's place is in the loop, not here; a read that lost its number may be there, and stands `among` such nodes."""
    numbers = (node.number, *node.others)
    elsewhere = _key(numbers, path, places, None) is None or among and node.others
    return bool(elsewhere) and _key(numbers, (*path, (loop.number, 0)), places, None) is not None
