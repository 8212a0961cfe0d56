"""The standing guard: after Triton's passes, every effect stands where it stood before.

Input: the trees of effects of one kernel before and after (`triton_port.order.Effects.nodes`), and the numbers of the ops with a
fixed place. Output: None, or the first two recorded ops whose order changed. An example, 3 fixed and 5 an access:

    before   loop 1 { if 2 { op 3 }  op 5 }
    after    loop 1 { op 5  if 2 { op 3 } }        Changed(5, 3): op 5 stands elsewhere with respect to op 3

Passes may drop an access that nobody uses, repeat the body of a loop that they unroll, take a loop of one trip or an `if` of a
known condition apart, and join neighbouring `if`s. Every fixed op keeps its place among the fixed ops, in the same loops and
`if`s; every access stays between the fixed ops that it stood between. Loops and `if`s with no fixed op in them are no places: an
access may move in them, which is how Triton pipelines loops that are its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

Key = tuple[int, ...]                 # odd: the place of a fixed node in its block; even: the gap before it; one for each level
Path = tuple[tuple[int, int], ...]    # the structures around: (number, which of its blocks)


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
    held = {number for node in was for number in node.structures()}
    now = _nodes(after, fixed, held)
    kept = {number for node in now for number in node.structures()}
    change = _compared(was, now, kept)
    if change is not None and (joined := _joined(was, kept)) is not None:
        return change if _compared(joined, now, kept) is not None else None
    return change


def _nodes(nodes, fixed: Collection[int], held: Collection[int]) -> list[_Node]:
    """The tree with what has a place marked; what had one before, `held`, still has one, though an unrolled `if` may be empty."""
    found = []
    for node in nodes:
        blocks = [_nodes(block, fixed, held) for block in node.blocks]
        place = node.number in fixed if node.kind == "op" else node.number in held or any(
            inner.fixed for block in blocks for inner in block)
        found.append(_Node(node.kind, node.number, blocks, place, node.others))
    return found


def _joined(nodes: list[_Node], kept: Collection[int]) -> list[_Node] | None:
    """The tree with neighbouring `if`s made one, under the number that a pass left to them; None if there are none."""
    rows: list[list[_Node]] = []
    changed = False
    for node in nodes:
        blocks = [_joined(block, kept) for block in node.blocks]
        changed |= any(block is not None for block in blocks)
        copy = _Node(node.kind, node.number, [new or old for new, old in zip(blocks, node.blocks)], node.fixed, node.others)
        if rows and node.kind == "if" == rows[-1][0].kind:
            rows[-1].append(copy)
        else:
            rows.append([copy])
    made = []
    for row in rows:
        gone = [node for node in row if node.fixed and node.number not in kept]
        left = [node for node in row if node.number in kept]
        if not gone or not left:
            made += row
            continue
        changed = True
        sides = max(len(node.blocks) for node in row)
        blocks = [[inner for node in row for inner in (node.blocks[side] if side < len(node.blocks) else [])] for side in range(sides)]
        made.append(_Node("if", left[0].number, blocks, True))
    return made if changed else None


def _compared(before: list[_Node], after: list[_Node], kept: Collection[int]) -> Changed | None:
    places: dict[int, list[tuple[Path, Key]]] = {}
    _place_all(before, kept, (), (), places)
    times = Counter(inner.number for node in after for inner in node.accesses())
    loose = frozenset(_loose(before, kept, times, False))
    return next(_changes(after, (), _Places(places, loose)), None)


@dataclass(frozen=True)
class _Places:
    """Where each number stood before. `loose` are the `if`s of unrolled loops: with a known condition in some rounds only."""

    of: dict[int, list[tuple[Path, Key]]]
    loose: frozenset[int]

    def key(self, numbers: tuple[int, ...], path: Path, last) -> Key | None:
        """The position of a node in the block at `path`: of several, the first behind the node before. None: it was elsewhere."""
        found = [key for number in numbers for where, key in self.of.get(number, ()) if where[:len(path)] == path
                 and all(inner in self.loose for inner, _ in where[len(path):])]
        behind = [key for key in found if last is None or key > last[0]]
        return min(behind, default=min(found, default=None))


def _loose(nodes: list[_Node], kept, times: Counter, repeated: bool) -> Iterator[int]:
    for node in nodes:
        if node.kind == "if" and repeated:
            yield node.number
        unrolled = node.kind == "loop" and (node.number not in kept or any(times[inner.number] > 1 for inner in node.accesses()))
        for block in node.blocks:
            yield from _loose(block, kept, times, repeated or unrolled)


def _place_all(nodes: list[_Node], kept, path: Path, key: Key, places: dict[int, list[tuple[Path, Key]]]) -> None:
    """Note the place of every node; what a vanished structure held has the path of what is around that structure."""
    position = 0
    for node in nodes:
        if not node.fixed:
            for inner in node.accesses():
                places.setdefault(inner.number, []).append((path, (*key, 2 * position)))
            continue
        here = (*key, 2 * position + 1)
        places.setdefault(node.number, []).append((path, here))
        for index, block in enumerate(node.blocks):
            inside = (*path, (node.number, index)) if node.number in kept else path
            _place_all(block, kept, inside, (*here, index), places)
        position += 1


def _changes(nodes: list[_Node], path: Path, places) -> Iterator[Changed]:
    """Every node of one block of the later tree that is out of place."""
    last: tuple[Key, int] | None = None   # of the fixed node before
    rounds, met = 1, Counter()            # a body that was repeated begins anew; as often as any of its nodes comes
    began: Changed | None = None          # where the first new round begins, if any does
    accesses: list[tuple[int, Key]] = []  # since the fixed node before
    for node in _regrouped(nodes, path, places):
        if not node.fixed:
            for inner in node.accesses():
                key = places.key((inner.number, *inner.others), path, last)
                if key is None:
                    yield Changed(inner.number, last[1] if last else None)
                    return
                accesses.append((inner.number, key))
            continue
        key = places.key((node.number, ), path, last)
        turned = key is not None and last is not None and key <= last[0]
        rounds += turned
        met[key] += 1
        if key is None:
            yield Changed(node.number, last[1] if last else None)
            return
        if turned:
            began = began or Changed(node.number, last[1])
        for number, place in accesses:
            behind, before = last is None or place > last[0], place < key
            if not (behind or before if turned else behind and before):
                yield Changed(number, node.number if behind else last[1])
                return
        accesses, last = [], (key, node.number)
        for index, block in enumerate(node.blocks):
            yield from _changes(block, (*path, (node.number, index)), places)
    if rounds > max(met.values(), default=1):
        yield began
        return
    for number, place in accesses:
        if last is not None and place < last[0]:
            yield Changed(number, last[1])
            return


def _regrouped(nodes: list[_Node], path: Path, places: _Places) -> list[_Node]:
    """The nodes of a block, where what is left over of an unrolled loop, its body behind the loop, is a loop again."""
    made: list[_Node] = []
    loop, rest = None, None  # the last loop that stands here, and what is left over of it
    for node in nodes:
        inner = [node] if node.fixed else list(node.accesses())
        if loop is not None and inner and all(_is_of(one, path, places, loop) for one in inner):
            if rest is None:
                rest = _Node("loop", loop.number, [[]], True)
                made.append(rest)
            rest.blocks[0].append(node)
            continue
        if node.fixed:
            loop, rest = node if node.kind == "loop" else None, None
        made.append(node)
    return made


def _is_of(node: _Node, path: Path, places: _Places, loop: _Node) -> bool:
    """True if a node's place is in the loop, not here."""
    numbers = (node.number, *node.others)
    return places.key(numbers, path, None) is None and places.key(numbers, (*path, (loop.number, 0)), None) is not None
