"""Mistakes planted in the source of a kernel, one at a time, as a beginner makes them.

    for mistake in planted(source): mistake.operator, mistake.line, mistake.edits

Input: a `KernelSource`. Output: `Mistake`s: a wait gone or with another parity, `phase = i & 1`, a commit gone or of another chunk,
wrong bytes, a release or arrival gone, twice or early, a wait late, a wrong slot, a fence gone, another number of arrivals or
groups, coordinates or axes of the grid exchanged, a mask gone, more slots or warps than fit. mutants.py plants by the recorded
program, which no editor shows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from mimw.errors import Edit
from mimw.tools.mends.kernel_source import KernelSource
from mimw.tools.mends.listing import ARRIVES, DATA, FENCES, PIPES, SYNC, Listing, Spot, toggled, word_of

_WAIT_WORDS = ("barrier_wait", "async_load_wait_group", "async_dot_wait", "async_descriptor_store_wait")
TOO_MANY = 4000     # slots


@dataclass(frozen=True)
class Mistake:
    operator: str
    line: int
    edits: tuple[Edit, ...]


def planted(source: KernelSource) -> Iterator[Mistake]:
    """Every mistake of every operator."""
    listing = Listing(source)
    for spot in listing.spots:
        if spot.stmt.__dict__.get("body"):
            yield from _warps(listing, spot)
            continue
        for operator, *edits in _of(listing, spot):
            yield Mistake(operator, spot.stmt.lineno, tuple(edits))


def _warps(listing: Listing, spot: Spot) -> Iterator[Mistake]:
    """A task of more warps than a CTA has."""
    for item in spot.stmt.items if isinstance(spot.stmt, ast.With) else ():
        for one in getattr(item.context_expr, "keywords", []):
            if one.arg == "num_warps" and isinstance(one.value, ast.Constant):
                yield Mistake("too many warps", one.value.lineno, (listing.instead(one.value, "32"), ))


def _of(listing: Listing, spot: Spot) -> Iterator[tuple]:
    word, call = spot.word, spot.call
    if word in _WAIT_WORDS and (spot.bare or word == "async_dot_wait"):
        yield "a wait gone", listing.without(spot.stmt)
    if word == "barrier_wait":
        phase = call.args[1]
        yield "a parity inverted", listing.instead(phase, toggled(listing.text(phase)))
        for constant in ("0", "1"):
            if listing.text(phase) not in ("0", "1"):
                yield "a constant parity", listing.instead(phase, constant)
    if isinstance(spot.stmt, ast.Assign):
        yield from _rounds(listing, spot)
    if word == "async_load_commit_group" or word == "commit":
        yield "a commit gone", listing.without(spot.stmt)
    if word in ("commit", "release") and len(call.args) == 1:
        number = listing.text(call.args[0])
        for other in ("0", f"{number} + 1", f"{number} - 1"):
            if other != number:
                yield f"a wrong index of `{word}`", listing.instead(call.args[0], other)
    if word in ("barrier_arrive", "release"):
        yield "one arrival too few", listing.without(spot.stmt)
    if word in ARRIVES:
        yield "one arrival too many", listing.behind(spot.stmt, listing.whole(spot.stmt))
    if word == "barrier_arrive" and any(one.arg == "pred" for one in call.keywords):
        kept = ", ".join(listing.text(one) for one in call.args)
        yield "one arrival too many", listing.instead(call, f"{listing.text(call.func)}({kept})")
    if word == "barrier_expect_bytes":
        size = call.args[1]
        yield "wrong bytes", listing.without(spot.stmt)
        text = listing.text(size)
        bracketed = f"({text})" if isinstance(size, ast.BinOp) else text
        for other in (f"{bracketed} // 2", f"2 * {bracketed}", f"{text} + 16", f"{text} - 16"):
            yield "wrong bytes", listing.instead(size, other)
    yield from _moved(listing, spot)
    if word in FENCES:
        yield "a fence gone", listing.without(spot.stmt)
    yield from _counts(listing, spot)
    yield from _slots(listing, spot)
    yield from _exchanged(listing, spot)
    for node in ast.walk(spot.stmt):
        if word_of(node) in ("load", "store", "async_load") and any(one.arg == "mask" for one in getattr(node, "keywords", [])):
            kept = ", ".join(map(listing.text, node.args))
            yield "a mask gone", listing.instead(node, f"{listing.text(node.func)}({kept})")


def _rounds(listing: Listing, spot: Spot) -> Iterator[tuple]:
    """`phase = i & 1` for the parity of a round."""
    for node in ast.walk(spot.stmt.value):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd) and isinstance(node.left, ast.BinOp):
            yield "`phase = i & 1`", listing.instead(node, f"{listing.text(node.left.left)} & 1")
        if word_of(node) == "get_bufidx_phase":
            number, count = map(listing.text, node.args)
            yield "`phase = i & 1`", listing.instead(node, f"{number} % {count}, {number} & 1")


def _moved(listing: Listing, spot: Spot) -> Iterator[tuple]:
    """A release in front of what it releases, a wait behind what it guards."""
    if spot.word in ("barrier_arrive", "release") and spot.index > 0:
        before = spot.block[spot.index - 1]
        if listing.interesting(before) and not before.__dict__.get("body"):
            yield "a release too early", listing.without(spot.stmt), listing.before(before, listing.whole(spot.stmt))
    if spot.word in _WAIT_WORDS and spot.bare and spot.index + 1 < len(spot.block):
        after = spot.block[spot.index + 1]
        if listing.interesting(after) and not after.__dict__.get("body"):
            yield "a wait too late", listing.without(spot.stmt), listing.behind(after, listing.whole(spot.stmt))


def _counts(listing: Listing, spot: Spot) -> Iterator[tuple]:
    """Another number of arrivals that barriers are made for, of groups that may be under way, of slots."""
    for node in ast.walk(spot.stmt):
        word = word_of(node)
        if word == "alloc_barriers":
            given = next((one.value for one in node.keywords if one.arg == "arrive_count"), None)
            first, name = listing.text(node.args[0]), listing.text(node.func)
            for count in ("1", "2", "3"):
                if count != (listing.text(given) if given else "1"):
                    more = f", arrive_count={count}" if count != "1" else ""
                    yield "a wrong number of arrivals", listing.instead(node, f"{name}({first}{more})")
        if word in ("async_load_wait_group", "async_dot_wait") and node.args:
            pending = listing.text(node.args[0])
            yield "one group too many under way", listing.instead(
                node.args[0], str(int(pending) + 1) if pending.isdigit() else f"{pending} + 1")
        if word == "local_alloc" and isinstance(node.args[2], ast.Constant) and spot.function == listing.source.name:
            yield "more slots than fit", listing.instead(node.args[2], str(node.args[2].value * TOO_MANY))


def _slots(listing: Listing, spot: Spot) -> Iterator[tuple]:
    """A barrier or buffer of another slot."""
    if spot.word not in SYNC | DATA or spot.word in PIPES:
        return
    for arg in spot.call.args:
        indexed = isinstance(arg, ast.Subscript) and isinstance(arg.value, ast.Name)
        if indexed and not isinstance(arg.slice, (ast.Tuple, ast.Constant)):
            yield "a wrong slot", listing.instead(arg.slice, "0")


def _exchanged(listing: Listing, spot: Spot) -> Iterator[tuple]:
    """Rows and columns of a copy, or the axes of the grid."""
    for node in ast.walk(spot.stmt):
        for arg in getattr(node, "args", []) if isinstance(node, ast.Call) else []:
            if isinstance(arg, ast.List) and len(arg.elts) == 2 and "," in listing.text(arg) and word_of(node) in DATA:
                if any(isinstance(one, ast.Constant) or isinstance(one, ast.Name) and one.id.isupper() for one in arg.elts) \
                        and word_of(node) == "copy":
                    continue        # a shape
                one, other = map(listing.text, arg.elts)
                yield "coordinates exchanged", listing.instead(arg, f"[{other}, {one}]")
    axes = [node.args[0] for node in ast.walk(spot.stmt) if word_of(node) == "program_id"]
    if len(axes) == 2 and {axis.value for axis in axes} == {0, 1}:
        line = listing.lines[spot.stmt.lineno - 1]
        for axis in sorted(axes, key=lambda one: one.col_offset, reverse=True):
            line = line[:axis.col_offset] + str(1 - axis.value) + line[axis.end_col_offset:]
        yield "coordinates exchanged", Edit(listing.source.path, spot.stmt.lineno, spot.stmt.end_lineno, "replace", line)
