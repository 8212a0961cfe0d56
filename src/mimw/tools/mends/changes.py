"""Changes inside of a statement: another parity, index, chunk, number of arrivals, bytes or groups, coordinates in another order.

Input: a `Listing` and the clues. Output: candidates. For example:

    tlx.barrier_wait(full[slot], phase ^ 1)     ->  tlx.barrier_wait(full[slot], phase)
    slot, phase = i % 2, i & 1                  ->  slot, phase = i % 2, (i // 2) & 1
    writer.commit(i + 1)                        ->  writer.commit(i)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...errors import Edit
from .candidate import Candidate, Clues
from .listing import COUNTED, DATA, MASKED, PIPES, SYNC, Listing, Spot, given, plain_parity, toggled, word_of


def changes(listing: Listing, clues: Clues) -> Iterator[Candidate]:
    """All changes of one expression."""
    for spot in listing.spots:
        if spot.stmt.__dict__.get("body"):
            yield from _warps(listing, spot, clues)
            continue
        yield from _parity(listing, spot)
        yield from _round(listing, spot)
        yield from _bytes(listing, spot, clues)
        yield from _groups(listing, spot)
        yield from _predicate(listing, spot)
        yield from _chunk(listing, spot)
        for node in ast.walk(spot.stmt):
            yield from _index(listing, spot, node, 1.2 if clues.about("WrongResult") else 2.0)
            yield from _arrivals(listing, node, clues)
            yield from _storage(listing, node, clues)
            yield from _mask(listing, spot, node, clues)
            yield from _coordinates(listing, spot, node, clues)
        yield from _axes(listing, spot, clues)


def _change(listing: Listing, node: ast.AST, text: str, cost: float, why: str = "", names: tuple[str, ...] = ()) -> Candidate:
    before = listing.text(node)
    return Candidate(f"{listing.at(node.lineno)}: write `{text}` for `{before}`{why}", (listing.instead(node, text), ), cost, names)


def _array(call: ast.Call) -> tuple[str, ...]:
    first = given(call)[0] if call.args else None
    return (first.value.id, ) if isinstance(first, ast.Subscript) and isinstance(first.value, ast.Name) else ()


def _parity(listing: Listing, spot: Spot) -> Iterator[Candidate]:
    """The other parity in a wait, or what other waits name."""
    if spot.word != "barrier_wait" or len(given(spot.call)) < 2:
        return
    node, names = given(spot.call)[1], _array(spot.call)
    now = listing.text(node)
    what = f"; the wait for `{listing.text(given(spot.call)[0])}` names the wrong parity"
    yield _change(listing, node, toggled(now), 1.0, what, names)
    for phase in listing.phases(spot):
        for other in (phase, toggled(phase)):
            if other not in (now, toggled(now)) and _known(other, spot):
                cost = 2.6 if other in ("0", "1") else 1.2 if plain_parity(now) in ("0", "1") else 1.6
                yield _change(listing, node, other, cost, what, names)


def _known(text: str, spot: Spot) -> bool:
    return all(node.id in spot.names for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)
               and not node.id.isupper())


def _round(listing: Listing, spot: Spot) -> Iterator[Candidate]:
    """The parity of a round of a ring of n slots is that of i // n, not of i."""
    slots = [(listing.text(node.left), listing.text(node.right)) for other in listing.spots if other.function == spot.function
             and not other.stmt.__dict__.get("body") for node in ast.walk(other.stmt)
             if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)]
    for node in ast.walk(spot.stmt) if isinstance(spot.stmt, ast.Assign) else ():
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd) and listing.text(node.right) == "1":
            counted = node.left.left if isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.FloorDiv) else node.left
            number = listing.text(counted)
            for of, count in dict.fromkeys(slots):
                new = f"({number} // {count}) & 1"
                if of == number and new != listing.text(node):
                    yield _change(listing, node, new, 1.0, f"; with {count} slots that is the parity of the round of `{number}`")


def _bytes(listing: Listing, spot: Spot, clues: Clues) -> Iterator[Candidate]:
    """The number of bytes that are copied; as few changes of the author's sum as give it."""
    if spot.word != "barrier_expect_bytes" or len(given(spot.call)) < 2:
        return
    node, names = given(spot.call)[1], _array(spot.call)
    cost = 1.0 if clues.about("ExpectedBytesMismatch") else 4.0
    why = "; so many bytes are copied there"
    for part in ast.walk(node):
        if isinstance(part, ast.BinOp) and isinstance(part.op, (ast.Add, ast.Sub, ast.FloorDiv, ast.Mult)):
            for kept in (part.left, part.right):
                text = listing.text(kept) if part is not node else listing.text(kept).strip("()")
                yield _change(listing, node, listing.text(node).replace(listing.text(part), text, 1), cost + 0.1, why, names)
        if isinstance(part, ast.Constant) and isinstance(part.value, int):
            for value in (part.value * 2, part.value // 2, part.value * 4):
                if value not in (0, part.value):
                    new = listing.instead(part, str(value))
                    said = _within(listing, node, part, str(value))
                    yield Candidate(f"{listing.at(node.lineno)}: expect `{said}` bytes{why}", (new, ), cost + 0.2, names)
    for factor in ("2 * ", "4 * "):
        text = listing.text(node)
        yield _change(listing, node, factor + (f"({text})" if isinstance(node, ast.BinOp) else text), cost + 0.3, why, names)
    constants = [name for other in listing.spots if isinstance(other.stmt, ast.AnnAssign) and other.function == spot.function
                 and isinstance(name := getattr(other.stmt.target, "id", None), str) and name in spot.names]
    for other in constants:
        if other != listing.text(node):
            yield _change(listing, node, other, cost + 0.05, why, names)
    copied = listing.copied(spot, listing.text(given(spot.call)[0]))
    if copied:
        yield _change(listing, node, copied, cost + 0.25, why, names)
    if clues.about("ExpectedBytesMismatch"):
        for number in clues.numbers:
            yield _change(listing, node, str(number), cost + 0.6, why, names)


def _within(listing: Listing, node: ast.AST, part: ast.AST, text: str) -> str:
    """The text of `node` with another text for a part of it, on one line."""
    line, start = listing.lines[node.lineno - 1], node.col_offset
    if node.lineno != node.end_lineno:
        return text
    return (line[start:part.col_offset] + text + line[part.end_col_offset:node.end_col_offset]).strip()


def _groups(listing: Listing, spot: Spot) -> Iterator[Candidate]:
    """Another number of groups that may be under way."""
    if spot.word not in ("async_load_wait_group", "async_dot_wait", "async_descriptor_store_wait") or not spot.call.args:
        return
    node = given(spot.call)[0]
    now = listing.text(node)
    for other, cost in ((_less(node, listing), 1.8), ("0", 2.2), (_more(node, listing), 2.4)):
        if other not in ("", now):
            yield _change(listing, node, other, cost, "; so many may be under way behind it")


def _less(node: ast.AST, listing: Listing) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value - 1) if node.value else ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and isinstance(node.right, ast.Constant):
        return f"{listing.text(node.left)} - {node.right.value + 1}"
    return f"{listing.text(node)} - 1"


def _more(node: ast.AST, listing: Listing) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value + 1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and isinstance(node.right, ast.Constant):
        less = node.right.value - 1
        return f"{listing.text(node.left)} - {less}" if less else listing.text(node.left)
    return f"{listing.text(node)} + 1"


def _predicate(listing: Listing, spot: Spot) -> Iterator[Candidate]:
    """An arrival that is not made in the first round, or is."""
    if spot.word not in ("barrier_arrive", "barrier_expect_bytes"):
        return
    predicate = next((one for one in spot.call.keywords if one.arg == "pred"), None)
    call, word = listing.text(spot.call), spot.word
    if predicate is None and spot.loops and isinstance(spot.loops[-1].target, ast.Name):
        yield _change(listing, spot.call, f"{call[:-1]}, pred={spot.loops[-1].target.id} > 0)", 2.4,
                      "; there is none to be made in the first round", _array(spot.call))
    elif predicate is not None:
        kept = [listing.text(one) for one in spot.call.args]
        yield _change(listing, spot.call, f"{call.partition(word)[0]}{word}({', '.join(kept)})", 2.4, "", _array(spot.call))


def _chunk(listing: Listing, spot: Spot) -> Iterator[Candidate]:
    """Another number of a chunk, as calls of the pipe's methods beside it have."""
    if spot.word not in PIPES or len(given(spot.call)) != 1 or not isinstance(spot.call.func, ast.Attribute):
        return
    node, end = given(spot.call)[0], listing.text(spot.call.func.value)
    near = [(other.word, listing.text(given(other.call)[0])) for other in listing.spots if other.function == spot.function
            and other.word in PIPES and other is not spot and len(given(other.call)) == 1]
    loops = [loop.target.id for loop in spot.loops if isinstance(loop.target, ast.Name)]
    now = listing.text(node)
    others = [text for _, text in near] + loops + [f"{name} - 1" for name in loops]
    for other in dict.fromkeys(others):
        if other != now and _known(other, spot):
            yield _change(listing, node, other, 1.5, f"; that is the chunk of `{end}` here", (end, ))


def _index(listing: Listing, spot: Spot, node: ast.AST, cost: float) -> Iterator[Candidate]:
    """Another index into barriers or buffers, as the statements beside it use."""
    if not isinstance(node, ast.Call) or word_of(node) not in SYNC | DATA | listing.jitted:
        return
    for arg in node.args:
        if isinstance(arg, ast.Subscript) and isinstance(arg.value, ast.Name) and isinstance(arg.slice, ast.expr):
            if isinstance(arg.slice, (ast.Tuple, ast.Slice)):
                continue
            now = listing.text(arg.slice)
            for other in listing.indices(spot):
                if other != now and _known(other, spot):
                    yield _change(listing, arg, f"{arg.value.id}[{other}]", cost, "", (arg.value.id, ))
            for array in listing.arrays(spot.function):
                if word_of(node).startswith("barrier_") and array != arg.value.id:
                    yield _change(listing, arg, f"{array}[{now}]", 2.6, "", (arg.value.id, array))


def _arrivals(listing: Listing, node: ast.AST, clues: Clues) -> Iterator[Candidate]:
    """Another number of arrivals that a barrier waits for, or that one call makes."""
    word = word_of(node)
    if word not in COUNTED or not node.args:
        return
    cost = 1.2 if clues.about("ArriveCountMismatch", "TooFewArrivals", "TooManyArrivals") else 2.8
    named = next((one.value for one in node.keywords if one.arg == "arrive_count"), None)
    count_of = given(node)[1] if len(given(node)) > 1 else named
    first, head = listing.text(given(node)[0]), listing.text(node.func)
    rest = [f"{one.arg}={listing.text(one.value)}" for one in node.keywords if one.arg != "arrive_count"]
    now = listing.text(count_of) if count_of is not None else "1"
    what = "; so many arrivals come in a phase" if word == "alloc_barriers" else "; so many arrivals the barrier waits for"
    for count in ("1", "2", "3", "4"):
        if count != now:
            more = [] if count == "1" else [f"arrive_count={count}"]
            yield _change(listing, node, f"{head}({', '.join([first, *more, *rest])})", cost + 0.1 * (count in "34")
                          + 0.2 * (word == "barrier_arrive"), what, (listing.text(given(node)[0]).partition("[")[0], ))


def _storage(listing: Listing, node: ast.AST, clues: Clues) -> Iterator[Candidate]:
    """A number of buffers that fits."""
    if word_of(node) != "local_alloc" or len(given(node)) < 3 or not clues.about("OutOfSharedMemory"):
        return
    count = given(node)[2]
    if isinstance(count, ast.Constant) and isinstance(count.value, int):
        for number in clues.numbers:
            if 0 < number < count.value:
                yield _change(listing, count, str(number), 1.0 + 1 / number, "; so many fit into shared memory")


def _mask(listing: Listing, spot: Spot, node: ast.AST, clues: Clues) -> Iterator[Candidate]:
    """The mask of another load or store of the function, where an address lies outside of its array."""
    if word_of(node) not in MASKED or not clues.about("OutOfBounds") or any(one.arg == "mask" for one in node.keywords):
        return
    masks = [listing.text(one.value) for other in listing.spots if other.function == spot.function
             and not other.stmt.__dict__.get("body") for call in ast.walk(other.stmt) if word_of(call) in MASKED
             for one in getattr(call, "keywords", []) if one.arg == "mask"]
    outside = ", other=0.0" if word_of(node) == "load" else ""
    for rank, mask in enumerate(one for one in dict.fromkeys(masks) if _known(one, spot)):
        yield _change(listing, node, f"{listing.text(node)[:-1]}, mask={mask}{outside})", 1.0 + 0.1 * rank,
                      "; the others of its addresses lie outside of the array")


def _warps(listing: Listing, spot: Spot, clues: Clues) -> Iterator[Candidate]:
    """Fewer warps of a task."""
    for item in spot.stmt.items if isinstance(spot.stmt, ast.With) and clues.about("TooManyWarps") else ():
        for one in getattr(item.context_expr, "keywords", []):
            if one.arg == "num_warps" and isinstance(one.value, ast.Constant):
                for rank, number in enumerate(number for number in (16, 8, 4, 2, 1) if number < one.value.value):
                    yield _change(listing, one.value, str(number), 1.0 + 0.1 * rank, "; so many warps fit")


def _coordinates(listing: Listing, spot: Spot, node: ast.AST, clues: Clues) -> Iterator[Candidate]:
    """The coordinates of a copy in the other order."""
    if not isinstance(node, ast.Call) or word_of(node) not in DATA:
        return
    for arg in node.args:
        if isinstance(arg, (ast.List, ast.Tuple)) and len(arg.elts) == 2:
            one, other = map(listing.text, arg.elts)
            if one != other:
                yield _change(listing, arg, f"[{other}, {one}]" if isinstance(arg, ast.List) else f"({other}, {one})",
                              _misplaced(clues),
                              "; rows come before columns")


def _misplaced(clues: Clues) -> float:
    """The cost of another place in global memory: little where a place, or only the result, is wrong."""
    return 1.0 if clues.about("WrongResult", "OutOfBounds", "IllegalCopy") else 3.0


def _axes(listing: Listing, spot: Spot, clues: Clues) -> Iterator[Candidate]:
    """Two program numbers, or two axes of the grid, in each other's place."""
    numbers = [node for node in ast.walk(spot.stmt) if word_of(node) in ("program_id", "num_programs") and len(given(node)) == 1
               and isinstance(given(node)[0], ast.Constant)]
    if len(numbers) == 2 and {given(node)[0].value for node in numbers} == {0, 1} and numbers[0].lineno == numbers[1].end_lineno:
        stmt = spot.stmt
        text = listing.lines[stmt.lineno - 1]
        for node in sorted(numbers, key=lambda one: one.col_offset, reverse=True):
            at = given(node)[0]
            text = text[:at.col_offset] + str(1 - at.value) + text[at.end_col_offset:]
        yield Candidate(f"{listing.at(stmt.lineno)}: exchange the axes of the grid: `{text.strip().partition('  #')[0]}`",
                        (Edit(listing.source.path, stmt.lineno, stmt.end_lineno, "replace", text), ), _misplaced(clues))
