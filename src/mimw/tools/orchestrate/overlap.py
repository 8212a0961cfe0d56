"""What the loops of a kernel's products hold besides work, in machine code: whether exponentials lie beside a product under way.

Input: a kernel's SASS, as `Compiled.sass` prints it. Output: its innermost loops with products. For example:

    for loop in loops(made.sass): print(loop)       468 instructions, 16 products, 66 of 66 exponentials beside products
    undone(made.sass)                               False; True if most exponentials wait for the product that was to run beside

An exponential lies beside a product if it stands between the product's issue and the wait for it, so that the tensor cores work
meanwhile. No prediction sees where the assembler puts that wait: a plan with late products whose wait stands in front of the
exponentials gains nothing by them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

EXTRA = "STL", "LDL", "R2UR"
_LABEL = re.compile(r"^\s*(LBB\d+):")
_ISSUED = re.compile(r"GMMA\..*\bgsb0\b")           # the last product of a group
_AWAITED = re.compile(r"WARPGROUP\.DEPBAR\.LE gsb0, (0x[0-9a-f]+)")
_SUMS = re.compile(r"GMMA\.64x(\d+)x\S+ R(\d+),")
_BRANCH = re.compile(r"\bBRA\S*\s+.*?(LBB\d+)")
_ROLES = re.compile(r"\b(USETMAXREG|EXIT)\b")


@dataclass(frozen=True)
class Loop:
    """An innermost loop: its instructions, one a line."""

    code: tuple[str, ...]

    @property
    def products(self) -> int:
        return self.count("[HQI]GMMA")

    def count(self, pattern: str) -> int:
        """The number of instructions with a match of the pattern as a word."""
        return sum(bool(re.search(rf"\b{pattern}\b", line)) for line in self.code)

    def exponentials(self) -> tuple[int, int]:
        """(those beside a product, all)."""
        found = [bool(running) for line, running in self._beside() if "MUFU.EX2" in line]
        return sum(found), len(found)

    def _beside(self) -> Iterator[tuple[str, list[set[int]]]]:
        """Each instruction, with the registers of sums of each group of products that is under way. Products may be under way from
        one trip to the next, so the loop is read twice, and told the second time."""
        running: list[set[int]] = []
        begun: set[int] = set()
        for trip in range(2):
            for line in self.code:
                if found := _AWAITED.search(line):
                    running = running[max(0, len(running) - int(found[1], 16)):]
                elif sums := _SUMS.search(line):
                    begun |= {*range(int(sums[2]), int(sums[2]) + int(sums[1]) // 2)}
                    if _ISSUED.search(line):
                        running, begun = [*running, begun], set()
                if trip:
                    yield line, running

    def __str__(self) -> str:
        more = "".join(f", {count} {word}" for word in EXTRA if (count := self.count(word)))
        beside, every = self.exponentials()
        more += f", {beside} of {every} exponentials beside products" if every else ""
        return f"{len(self.code)} instructions, {self.products} products{more}"


def loops(sass: str) -> Iterator[Loop]:
    """The innermost loops with products of a kernel's SASS, as `Compiled.sass` prints it. A span in which a role begins or ends is
    none: that is a wait that is out of the way, at the end of the code, and goes back to its role."""
    code: list[str] = []
    labels: dict[str, int] = {}
    spans: list[tuple[int, int]] = []
    for line in sass.splitlines():
        if found := _LABEL.match(line):
            labels[found[1]] = len(code)
        elif "\t" in line:
            code.append(line)
    for end, line in enumerate(code):
        found = _BRANCH.search(line)
        begin = labels.get(found[1], end + 1) if found else end + 1
        body = code[begin:end + 1]
        if any("GMMA" in one for one in body) and not any(map(_ROLES.search, body)):
            spans.append((begin, end))
    for begin, end in spans:
        if not any(begin <= other and last <= end for other, last in spans if (other, last) != (begin, end)):
            yield Loop(tuple(code[begin:end + 1]))


def undone(sass: str) -> bool:
    """True if fewer than half of the exponentials in loops with products lie beside a product."""
    found = [loop.exponentials() for loop in loops(sass)]
    return 2 * sum(beside for beside, _ in found) < sum(every for _, every in found)
