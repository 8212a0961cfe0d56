"""Blocks of a program: words, loops and branches, drawn by the weights of a family.

block(make, depth=2)        # fills make.nodes; every tile that nobody used is stored at its end
"""

from __future__ import annotations

from .maker import Maker, branch
from .words import WORDS
from .words.carries import last
from .words.globals import output


def statement(make: Maker, depth: int) -> None:
    """A word, or a loop or branch around a block of them."""
    draws = make.draws
    kind = draws.pick(["word", "loop", "branch"], [8, 1.5, 2]) if depth > 0 else "word"
    if kind == "loop" and len(make.around) < 3 and make.instances() <= 64:
        loop(make, depth - 1)
    elif kind == "branch":
        branch(
            make,
            lambda: block(make, depth - 1, (1, 2)),
            (lambda: block(make, depth - 1, (1, 1))) if draws.chance(30) else None,
        )
    else:
        one_word(make)


def loop(make: Maker, depth: int, kinds=None, low: int | None = None) -> None:
    kind = make.draws.pick(list(kinds or make.limits.loops))
    high = 3 if make.around or kind == "static" else make.limits.trips[1]
    trips = make.draws.integer(min(high, make.limits.trips[0] if low is None else low), high)
    with make.loop(kind, trips):
        block(make, depth, (1, 4))


def one_word(make: Maker) -> None:
    groups = [name for name, weight in make.limits.words.items() if weight]
    group = make.draws.pick(groups, [make.limits.words[name] for name in groups])
    words = WORDS[group]
    found = make.draws.pick([function for _, function in words], [weight for weight, _ in words])
    before = len(make.nodes)
    if found(make) is False and len(make.nodes) == before:
        make.let(make.operand())


def block(make: Maker, depth: int, size: tuple[int, int] | None = None) -> None:
    """Fill the block at hand, and store the tiles that nobody used."""
    low, high = size or make.limits.statements
    first, carried = len(make.tiles), len(make.carried)
    for _ in range(low):
        with make.draws.span():
            statement(make, depth)
    for _ in range(high - low):
        with make.draws.span():
            if make.draws.chance(60):
                statement(make, depth)
    sinks(make, first, carried)


def sinks(make: Maker, first: int, carried: int) -> None:
    """Store what the sums of this block came to, and its tiles that no step has used, so that nothing is for nothing."""
    for one in make.carried[carried:]:
        if one.product:
            last(make, one)
    used = frozenset().union(*(names(node) for node in make.nodes)) if make.nodes else frozenset()
    loose = [tile for tile in make.tiles[first:] if tile.kernel not in used]
    for tile in loose:
        output(make, tile)


def names(node) -> frozenset[str]:
    if hasattr(node, "uses"):
        return node.uses
    parts = node.body if hasattr(node, "body") else (*node.then, *node.else_)
    return frozenset().union(*(names(part) for part in parts)) if parts else frozenset()
