"""A word of synchronisation at another place, or one too many.

Input: a `Listing` and the clues. Output: candidates. For example:

    tlx.barrier_arrive(free[slot])                  total += tlx.local_load(ring[slot])
    total += tlx.local_load(ring[slot])     ->      tlx.barrier_arrive(free[slot])
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...errors import Edit
from .candidate import Candidate, Clues
from .changes import _array
from .listing import ARRIVES, FENCES, GROUPS, SYNC, Listing, Spot

FURTHEST = 4    # statements that a word is moved over


def moves(listing: Listing, clues: Clues) -> Iterator[Candidate]:
    """A word later or earlier in its block, out of its condition, or gone."""
    for spot in listing.spots:
        if spot.word in SYNC and not spot.stmt.__dict__.get("body"):
            yield from _moved(listing, spot)
            yield from _gone(listing, spot, clues)
        yield from _unconditional(listing, spot)


def _moved(listing: Listing, spot: Spot) -> Iterator[Candidate]:
    down_first = spot.word in ARRIVES
    for distance in range(1, FURTHEST + 1):
        for step in (distance, -distance):
            at = spot.index + step
            if not 0 <= at < len(spot.block):
                continue
            other = spot.block[at]
            if not listing.interesting(other):
                continue
            new = listing.behind(other, listing.whole(spot.stmt)) if step > 0 else listing.before(other, listing.whole(spot.stmt))
            place = f"behind {listing.at(other.end_lineno)}" if step > 0 else f"before {listing.at(other.lineno)}"
            cost = 1.5 + 0.15 * distance + 0.3 * ((step > 0) != down_first)
            yield Candidate(f"move `{spot.text}` from {listing.at(spot.stmt.lineno)} to {place}",
                            (listing.without(spot.stmt), new), cost, _array(spot.call))


def _gone(listing: Listing, spot: Spot, clues: Clues) -> Iterator[Candidate]:
    """Without the word. Not an expect without its copies; not waits alone, which nothing is wrong with."""
    if not spot.bare or spot.word in FENCES or spot.word in GROUPS and spot.word != "async_load_commit_group":
        return
    cost = 1.9 if clues.about("TooManyArrivals", "ArriveCountMismatch", "BytesNeverSent", "BytesNotExpected") else 3.2
    twice = any(other is not spot and other.text == spot.text and other.block is spot.block for other in listing.spots)
    yield Candidate(f"{listing.at(spot.stmt.lineno)}: delete `{spot.text}`" + (", which stands there twice" if twice else ""),
                    (listing.without(spot.stmt), ), 1.0 if twice else cost, _array(spot.call))


def _unconditional(listing: Listing, spot: Spot) -> Iterator[Candidate]:
    """A word of synchronisation out of the condition in which it stands alone."""
    stmt = spot.stmt
    if not isinstance(stmt, ast.If) or stmt.orelse or len(stmt.body) != 1:
        return
    inner = next(other for other in listing.spots if other.stmt is stmt.body[0])
    if inner.word in SYNC:
        text = " " * stmt.col_offset + listing.whole(inner.stmt)
        yield Candidate(f"{listing.at(inner.stmt.lineno)}: take `{inner.text}` out of `if {listing.text(stmt.test)}`",
                        (Edit(listing.source.path, stmt.lineno, stmt.end_lineno, "replace", text), ), 1.8, _array(inner.call))
