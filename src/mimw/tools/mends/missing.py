"""A word of synchronisation that is missing: a wait, an arrival, an expect, a commit, a release, a group's word, a fence.

Input: a `Listing` and the clues. Output: candidates, each one statement that is put in. For example:

    total += tlx.local_load(ring[slot])     ->      tlx.barrier_wait(full[slot], phase)
                                                    total += tlx.local_load(ring[slot])
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .candidate import Candidate, Clues
from .listing import ASYNC, PIPES, Listing, Spot, given, toggled

INDICES = 3     # ways to take a barrier that are tried at one place


def missing(listing: Listing, clues: Clues) -> Iterator[Candidate]:
    """Every word that may be missing, in front of each statement that does something, and behind the last such of a block or of
    several in a row."""
    for spot in listing.spots:
        if not listing.interesting(spot.stmt):
            continue
        for text, cost, names in _words(listing, spot, clues):
            yield _put_in(listing, spot, text, cost + _place(listing, spot, text, spot.index), names, False)
            if not any(map(listing.interesting, spot.block[spot.index + 1:spot.index + 2])):
                yield _put_in(listing, spot, text, cost + _place(listing, spot, text, spot.index + 1), names, True)


def _place(listing: Listing, spot: Spot, text: str, index: int) -> float:
    """The cost of a place in a block: waits come first there, so that what follows may run ahead, arrivals last."""
    doing = [listing.interesting(stmt) for stmt in spot.block]
    early, late = sum(doing[:index]), sum(doing[index:])
    return 0.15 * early if "barrier_wait(" in text else 0.15 * late if "barrier_arrive(" in text else 0.0


def _put_in(listing: Listing, spot: Spot, text: str, cost: float, names: tuple[str, ...], last: bool) -> Candidate:
    edit = listing.behind(spot.stmt, text) if last else listing.before(spot.stmt, text)
    place = f"behind {listing.at(spot.stmt.end_lineno)}" if last else f"before {listing.at(spot.stmt.lineno)}"
    return Candidate(f"put `{text}` {place}", (edit, ), cost, names)


def _words(listing: Listing, spot: Spot, clues: Clues) -> Iterator[tuple[str, float, tuple[str, ...]]]:
    """(statement, cost, names) of each word that may be missing at a place."""
    arrays = listing.arrays(spot.function)
    prefix, loop = listing.prefix, _loop(spot)
    less = 0.4 * clues.about("Deadlock")        # an arrival is missing
    for array in arrays:
        indices = [index for index in listing.indices(spot, array) if _known(index, spot)][:INDICES]
        unwaited = not _used(listing, array, "barrier_wait")
        unsent = not _used(listing, array, "barrier_arrive", "barrier_expect_bytes")
        for rank, index in enumerate(indices):
            at, far = f"{array}[{index}]", 0.2 * rank
            for phase in (one for one in listing.phases(spot) if _known(one, spot)):
                more = 0.5 * (phase == "0" and index != "0")
                yield f"{prefix}barrier_wait({at}, {phase})", 2.2 + far + more - 1.2 * unwaited, (array, )
                yield f"{prefix}barrier_wait({at}, {toggled(phase)})", 2.3 + far + more - 1.2 * unwaited, (array, )
            yield f"{prefix}barrier_arrive({at})", 2.2 + far - 0.8 * unsent - less, (array, )
            if loop:
                yield f"{prefix}barrier_arrive({at}, pred={loop} > 0)", 2.5 + far - less, (array, )
            if unsent or clues.about("ExpectedBytesMismatch", "Deadlock", "TooManyArrivals", "BytesNotExpected"):
                for size, dear in _sizes(listing, spot, at, clues):
                    yield f"{prefix}barrier_expect_bytes({at}, {size})", 2.4 + far + dear - 0.8 * unsent, (array, )
    yield from _pipe_words(listing, spot)
    yield from _group_words(listing, spot, clues)


def _known(text: str, spot: Spot) -> bool:
    return all(node.id in spot.names for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name))


def _loop(spot: Spot) -> str:
    return getattr(spot.loops[-1].target, "id", "") if spot.loops else ""


def _used(listing: Listing, array: str, *words: str) -> bool:
    return any(spot.text.partition("(")[2].startswith(array + "[") for spot in listing.words(*words))


def _sizes(listing: Listing, spot: Spot, at: str, clues: Clues) -> Iterator[tuple[str, float]]:
    """Numbers of bytes that an expect may name: what others name, a constant of the function, the sum of the copies that complete
    on the barrier, a number in the findings."""
    others = [listing.text(given(other.call)[1]) for other in listing.words("barrier_expect_bytes")
              if other.function == spot.function]
    constants = [other.stmt.target.id for other in listing.spots if isinstance(other.stmt, ast.AnnAssign)
                 and other.function == spot.function and isinstance(other.stmt.target, ast.Name)]
    yield from ((one, 0.0) for one in dict.fromkeys([*others, *constants]) if _known(one, spot))
    copied = listing.copied(spot, at)
    yield from [(copied, 0.1)] if copied else []
    yield from ((str(number), 0.4) for number in clues.numbers if number >= 16)


def _pipe_words(listing: Listing, spot: Spot) -> Iterator[tuple[str, float, tuple[str, ...]]]:
    """`commit` and `release` of the pipes that the function uses, of chunks that are named beside."""
    chunks, ends = [], []
    for other in listing.spots:
        if other.function == spot.function and other.word in PIPES and len(given(other.call)) == 1:
            near = other.block is spot.block
            chunks.insert(0 if near else len(chunks), listing.text(given(other.call)[0]))
            ends.append((listing.text(other.call.func.value), "commit" if other.word in ("acquire", "commit") else "release"))
    loop = _loop(spot)
    chunks += [loop, f"{loop} - 1"] if loop else []
    for end, word in dict.fromkeys(ends):
        for rank, chunk in enumerate(dict.fromkeys(chunks)):
            if _known(chunk, spot) and _known(end, spot):
                yield f"{end}.{word}({chunk})", 1.8 + 0.2 * rank, (end, )


def _group_words(listing: Listing, spot: Spot, clues: Clues) -> Iterator[tuple[str, float, tuple[str, ...]]]:
    """The words of groups of copies and products, and fences."""
    prefix = listing.prefix
    called = {word for word in ASYNC if any(listing.words(word))}
    if "async_load" in called:
        yield f"{prefix}async_load_commit_group()", 1.6, ()
        yield from ((f"{prefix}async_load_wait_group({count})", 1.9 + 0.1 * rank, ())
                    for rank, count in enumerate(dict.fromkeys([*_counts(listing, "async_load_wait_group"), "0"])))
    if "async_dot" in called:
        sums = [other.stmt.targets[0].id for other in listing.words("async_dot") if other.function == spot.function
                and isinstance(other.stmt, ast.Assign) and isinstance(other.stmt.targets[0], ast.Name)]
        for name in dict.fromkeys(sums):
            for rank, count in enumerate(dict.fromkeys([*_counts(listing, "async_dot_wait"), "0", "1"])):
                if name in spot.names:
                    yield f"{name} = {prefix}async_dot_wait({count}, {name})", 1.9 + 0.1 * rank, ()
    if "async_descriptor_store" in called:
        yield f"{prefix}async_descriptor_store_wait(0)", 1.9, ()
    if clues.about("MissingFence"):
        yield f'{prefix}fence("async_shared")', 1.2, ()
        yield f'{prefix}fence("gpu")', 1.3, ()


def _counts(listing: Listing, word: str) -> list[str]:
    return [listing.text(given(other.call)[0]) for other in listing.words(word) if other.call.args]
