"""Reads PTX as a graph of blocks: what is true on every way to an instruction."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

State = frozenset[str]


def blocks(ptx: str) -> dict[str, list[str]]:
    """The instructions of the kernel by label, in order; the entry is ''."""
    body = ptx[ptx.index("{", ptx.index(".entry")):]
    found, label = {"": []}, ""
    for line in body.splitlines():
        line = line.split("//")[0].strip()
        if match := re.match(r"(\$L\w+):", line):
            label = match[1]
            found[label] = []
        elif line and not line.startswith((".", "{", "}", "$")):
            found[label].append(line)
    return found


def _followers(found: dict[str, list[str]], label: str) -> Iterator[str]:
    names = list(found)
    for line in found[label]:
        if match := re.search(r"\bbra(?:\.uni)?\s+(\$L\w+)", line):
            yield match[1]
        if re.search(r"\bbrx\.idx", line):
            yield from names
    ends = found[label] and re.match(r"(bra|ret|brx|trap)\b", found[label][-1])
    after = names.index(label) + 1
    if not ends and after < len(names):
        yield names[after]


def unsafe(ptx: str, step: Callable[[State, str], State], bad: Callable[[State, str], bool]) -> list[str]:
    """The instructions that some path reaches in a `bad` state; `step` is the state after an instruction."""
    found = blocks(ptx)
    arriving: dict[str, set[State]] = {label: set() for label in found}
    arriving[""].add(frozenset())
    pending, hits = [("", frozenset())], []
    while pending:
        label, state = pending.pop()
        for line in found[label]:
            if bad(state, line):
                hits.append(line)
            state = step(state, line)
        for follower in _followers(found, label):
            if state not in arriving[follower]:
                arriving[follower].add(state)
                pending.append((follower, state))
    return hits
