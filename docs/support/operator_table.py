"""The table of all operators at the head of docs/OPERATORS.md: chips, types, derivative, speed, and a page for each.

    text(chips)         "| operator | chips | ..."

Input: the facts of operator_facts.py, and by operator and chip the kernels that its example launches. Output: Markdown, with the
pages' place in the navigation.
"""

from __future__ import annotations

import re
from itertools import groupby, takewhile

from docs.support import operator_speed, peers
from docs.support.operator_facts import Operator, shown

Chips = dict[str, dict[str, list[str]]]


def text(chips: Chips) -> str:
    """The two tables, of one GPU and of several."""
    kinds = next(iter(chips.values()))
    first = next(iter(kinds))
    said = [f"Chips: {', '.join(kinds)}; *others* are those without {first}. The name behind a chip is the kernel that computes "
            "the example of the page there, found by simulating it; it ran on an H200 and an H100 only. Speed: how many times "
            f"as fast as the peer, means over all shapes ({peers.measured_on()}, {peers.days()}).", ""]
    for several, found in groupby(shown(), lambda one: one.several):
        head = ["| operator | chips | types | derivative | speed |", "|---|---|---|---|---|"]
        said += [*["Of several GPUs, `mimw.ops.distributed`:", ""] * several, *head, *(line(one, chips) for one in found), ""]
    return "\n".join(["", *said, "```{toctree}", ":hidden:", "", *(one.file.removesuffix(".md") for one in shown()), "```", ""])


def line(one: Operator, chips: Chips) -> str:
    cells = [f"[`{one.title}`]({one.file})", where(one, chips), types(one), derivative(one), operator_speed.short(one.title)]
    return f"| {' | '.join(cells)} |"


def where(one: Operator, chips: Chips) -> str:
    """`sm_90a: gemm; others: plain_matmul`; of several GPUs, the kernels on sm_90a alone are known."""
    if one.several:
        return "sm_90a: " + re.match(r"`\w+`((, | and )`\w+`)*", one.row["on sm_90"])[0]
    found = by_kernels(chips[one.name])
    every = [chip for names in found.values() for chip in names]
    if len(found) == 1:
        return f"all: {next(iter(found))}"
    others = [kernels for kernels, names in found.items() if len(names) == len(every) - 1]
    return "; ".join(f"{'others' if kernels in others else ', '.join(names)}: {kernels}" for kernels, names in found.items())


def by_kernels(kept: dict[str, list[str]]) -> dict[str, list[str]]:
    """Kernels, as a text -> the chips that have them, in order."""
    found: dict[str, list[str]] = {}
    for chip, kernels in kept.items():
        found.setdefault(", ".join(f"`{one}`" for one in kernels) or "torch", []).append(chip)
    return found


def types(one: Operator) -> str:
    """The types alone, those of another operator spelled out: of what is said of them, the words that lead."""
    cell = one.row["types"]
    while other := re.match(r"as `(\w+)`", cell):
        cell = Operator(one.room, other[1]).row["types"]
    first, *more = re.split(r", |;", without_brackets(cell))
    return ", ".join([first, *takewhile(str.isalnum, more)])


def derivative(one: Operator) -> str:
    """Yes or no."""
    return re.split(r"[;:,]", without_brackets(one.row["derivative"]))[0]


def without_brackets(text: str) -> str:
    while text != (shorter := re.sub(r" ?\([^()]*\)", "", text)):
        text = shorter
    return text
