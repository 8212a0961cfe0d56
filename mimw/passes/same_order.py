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


@dataclass(frozen=True)
class _Place:
    """Where a node stands: the structures around it, and its position at each level. If one of the `if`s around it is gone, the
    `joined` ones are its neighbours, one of which it may have become a part of."""

    path: Path
    key: Key
    joined: frozenset[int] = frozenset()


def order_change(before: Sequence, after: Sequence, fixed: Collection[int]) -> Changed | None:
    """The first change of order between two trees of nodes (`kind`, `number`, `blocks`), or None."""
    kept = {node.number for top in after for node in top.walk() if node.kind != "op" and _holds(node, fixed)}
    renamed = dict(_renamed(before, fixed, kept))
    places: dict[int, list[_Place]] = {}
    _place_all(before, fixed, kept | set(renamed.values()), (), (), frozenset(), places)
    return next(_changes(after, fixed, (), places, renamed), None)


def _holds(node, fixed: Collection[int]) -> bool:
    return any(inner.kind == "op" and inner.number in fixed for inner in node.walk())


def _renamed(nodes, fixed, kept) -> Iterator[tuple[int, int]]:
    """(number now, number before) of each `if` that a neighbour without fixed ops was joined to, and that has its number now."""
    rows, row = [], []
    for node in nodes:
        if node.kind == "if":
            row.append(node)
        else:
            rows, row = [*rows, row], []
        for block in node.blocks:
            yield from _renamed(block, fixed, kept)
    for row in [*rows, row]:
        gone = [node.number for node in row if _holds(node, fixed) and node.number not in kept]
        yield from ((node.number, gone[0]) for node in row if gone and node.number in kept and not _holds(node, fixed))


def _place_all(nodes, fixed, kept, path: Path, key: Key, joined: frozenset[int], places: dict[int, list[_Place]]) -> None:
    """Note the place of every node; what a vanished structure held has the path of what is around that structure."""
    position = 0
    for row, node in enumerate(nodes):
        if not _holds(node, fixed):
            around = joined or (_neighbours(nodes, row) if node.kind == "if" else frozenset())
            for inner in node.walk():
                if inner.kind == "op":
                    places.setdefault(inner.number, []).append(_Place(path, (*key, 2 * position), around))
            continue
        here = (*key, 2 * position + 1)
        places.setdefault(node.number, []).append(_Place(path, here, joined))
        stays = node.number in kept
        for index, block in enumerate(node.blocks):
            inside = (*path, (node.number, index)) if stays else path
            around = frozenset() if stays else joined or _neighbours(nodes, row)
            _place_all(block, fixed, kept, inside, (*here, index), around, places)
        position += 1


def _neighbours(nodes: list, position: int) -> frozenset[int]:
    """The `if`s that stand in a row with the one at `position`."""
    first, last = position, position
    while first >= 0 and nodes[first].kind == "if":
        first -= 1
    while last < len(nodes) and nodes[last].kind == "if":
        last += 1
    return frozenset(node.number for node in nodes[first + 1:last])


def _changes(nodes, fixed, path: Path, places, renamed) -> Iterator[Changed]:
    """Every node of one block of the later tree that is out of place."""
    last: tuple[Key, int] | None = None   # of the fixed node before
    rounds, met = 1, Counter()            # a body that was repeated begins anew; as often as any of its nodes comes
    accesses: list[tuple[int, Key]] = []  # since the fixed node before
    for node in nodes:
        if not _holds(node, fixed):
            for inner in (inner for inner in node.walk() if inner.kind == "op"):
                key = _key((inner.number, *inner.others), path, places, last)
                if key is None:
                    yield Changed(inner.number, last[1] if last else None)
                    return
                accesses.append((inner.number, key))
            continue
        number = renamed.get(node.number, node.number)
        key = _key((number, ), path, places, last)
        turned = key is not None and last is not None and key <= last[0]
        rounds += turned
        met[key] += 1
        if key is None or rounds > max(met.values()):
            yield Changed(node.number, last[1] if last else None)
            return
        for access, place in accesses:
            behind, before = last is None or place > last[0], place < key
            if not (behind or before if turned else behind and before):
                yield Changed(access, node.number if behind else last[1])
                return
        accesses, last = [], (key, node.number)
        for index, block in enumerate(node.blocks):
            yield from _changes(block, fixed, (*path, (number, index)), places, renamed)
    for number, place in accesses:
        if last is not None and place < last[0]:
            yield Changed(number, last[1])
            return


def _key(numbers: tuple[int, ...], path: Path, places, last) -> Key | None:
    """The position of a node in the block at `path`: of several, the first one behind the node before. None: it was elsewhere."""
    found = [place.key for number in numbers for place in places.get(number, ())
             if place.path == path or path and path[-1][0] in place.joined and place.path == path[:-1]]
    behind = [key for key in found if last is None or key > last[0]]
    return min(behind, default=min(found, default=None))
