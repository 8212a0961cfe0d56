"""Reads what the kernel's line says of the launch; the inverse of `printer`'s line of the kernel behind its warps.

Input: a `Line` that stands behind `on 4 warps`. Output: the launch facts, and whether words were used where the ops do not say it:

    in clusters of (2, 1, 1), a mesh of 2, a grid of clusters, the grid meets, waits sleep 100 ns, at most 80 registers {
"""

from __future__ import annotations

from dataclasses import replace

from .argument_parser import separated
from .launch_facts import LaunchFacts
from .lexer import Line
from .type_parser import parse_int


def parse_facts(line: Line) -> tuple[LaunchFacts, bool | None]:
    facts, words = LaunchFacts(), None
    if line.skip("in", "clusters", "of"):
        line.expect("(")
        facts = replace(facts, cluster=tuple(separated(line, ")", lambda: parse_int(line))))
    while line.skip(","):
        if line.skip("a", "mesh", "of"):
            facts = replace(facts, mesh_size=parse_int(line))
        elif line.skip("a", "grid", "of", "clusters"):
            facts = replace(facts, grid_of_clusters=True)
        elif line.skip("the", "grid", "meets"):
            facts = replace(facts, grid_meets=True)
        elif line.skip("waits", "sleep"):
            facts = replace(facts, suspend_ns=parse_int(line))
            line.expect("ns")
        elif line.skip("at", "most"):
            facts = replace(facts, registers=parse_int(line))
            line.expect("registers")
        elif line.text in ("with", "without"):
            words = line.take("word") == "with"
            line.expect("words")
        else:
            line.fail("'a mesh of N', 'a grid of clusters', 'the grid meets', 'waits sleep N ns', 'at most N registers', "
                      f"'with words' or 'without words' is expected, not {line.shown()}")
    return facts, words
