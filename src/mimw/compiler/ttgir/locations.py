"""Locations of MLIR as places in an author's file.

Input: a location as MLIR writes it. Output: a `Site` with the calls that led there, and the name of the value. For example:

    site_in('loc("acc"("tile.py":27:13))', there)                       tile.py:27
    site_in('loc(callsite("a.py":3:4 at "tile.py":9:1))', there)        a.py:3, called from tile.py:9
    name_in('loc("acc"("tile.py":27:13))')                              "acc"
    name_in('loc(callsite("bar"(..) at "full"("tile.py":9:5)))')        "full", if the callee is one of Gluon's own

Triton counts columns from 1 in locations, and a `Site` counts from 0. Of a fusion the first part that says a line is taken.
"""

from __future__ import annotations

import re

from ...ir import Site

_PLACE = re.compile(r'"([^"]*)":(\d+):(\d+)(?: to :?[\d:]+)?')
_NAMED = re.compile(r'"([^"]*)"\(')
_NAME = re.compile(r'loc\("([^"]*)"\(')
_MADE = re.compile(r'loc\(callsite\("[^"]*"\("[^"]*[/\\]triton[/\\]experimental[/\\]gluon[/\\][^"]*":\d+:\d+\) at "([^"]*)"\(')
_NUMBERED = re.compile(r"\.\d+$")


def site_in(location: str, there: Site) -> Site:
    """The place that a location names; `there` where it names none."""
    found, _ = _read(location.removeprefix("loc(").removesuffix(")"), 0)
    return found or there


def name_in(location: str) -> str:
    """The name of the author's value that a location says; "" where it says none."""
    found = _NAME.match(location) or _MADE.match(location)
    return _NUMBERED.sub("", found[1]) if found else ""


def _read(text: str, at: int) -> tuple[Site | None, int]:
    """The place that the text says from `at` on, and where it ends."""
    if found := _PLACE.match(text, at):
        return Site(found[1], int(found[2]), int(found[3]) - 1), found.end()
    if found := _NAMED.match(text, at):
        inner, end = _read(text, found.end())
        return inner, end + 1
    if text.startswith("callsite(", at):
        callee, end = _read(text, at + len("callsite("))
        caller, end = _read(text, text.index(" at ", end) + len(" at ")) if " at " in text[end:] else (None, end)
        return _called(callee, caller), end + 1
    if text.startswith("fused", at):
        return _first_of(text, text.index("[", at) + 1)
    found = re.compile(r"[^,)\]]*").match(text, at)
    return None, found.end()


def _first_of(text: str, at: int) -> tuple[Site | None, int]:
    found = None
    while at < len(text) and text[at - 1] != "]":
        one, end = _read(text, at)
        found = found or one
        at = max(end, at) + 1
        while at < len(text) and text[at] == " ":
            at += 1
    return found, at


def _called(callee: Site | None, caller: Site | None) -> Site | None:
    if callee is None or caller is None:
        return callee or caller
    if callee.caller is not None:
        return Site(callee.file, callee.line, callee.column, callee.function, _called(callee.caller, caller))
    return Site(callee.file, callee.line, callee.column, callee.function, caller)
