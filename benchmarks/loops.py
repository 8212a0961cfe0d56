"""What the loops of tensor-core products hold besides work, in machine code: spills, addresses moved to uniform registers, and how
many exponentials lie beside a product.

    python -m benchmarks.loops                              attention and its gradients, on one GPU and over two
    python -m benchmarks.loops --kernels gradients          those whose names hold a text

Input: kernels, compiled here for sm_90a; no GPU is needed. Output: a line for each innermost loop that holds products, in the
order of the code. For example, a consumer's, and that of another one, which fetches addresses from memory:

    gradients over two GPUs, causal     503 instructions, 32 products
    gradients over two GPUs, causal     577 instructions, 32 products, 3 STL, 13 LDL, 37 R2UR

An exponential lies beside a product if it stands between the product's issue and the wait for it, so that the tensor cores work
meanwhile: `66 of 66 exponentials beside products`. The assembler may move exponentials over a wait: no tie of LLVM's binds it.

Roles are branches of one loop for the assembler, so what one role does may lengthen another's loop. A kernel over several GPUs
should have the loops of the one for one GPU.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import mimw
from mimw.kernels import attention, attention_backward, ring_attention, ring_attention_backward

from .progress import each

HEADS, KV_HEADS, ROWS, DIM, PROGRAMS = 8, 2, 2048, 128, 132     # of small launches with the code of large ones
EXTRA = "STL", "LDL", "R2UR"
_LABEL = re.compile(r"^\s*(LBB\d+):")
_ISSUED = re.compile(r"GMMA\..*\bgsb0\b")           # the last product of a group
_AWAITED = re.compile(r"WARPGROUP\.DEPBAR\.LE gsb0, (0x[0-9a-f]+)")
_SUMS = re.compile(r"GMMA\.64x(\d+)x\S+ R(\d+),")
_REGISTER = re.compile(r"\bR(\d+)\b")
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

    def touching(self) -> list[str]:
        """Instructions that read or write sums of a product under way, which are undefined until the wait for it."""
        return [line for line, running in self._beside()
                if "GMMA" not in line and set().union(*running) & set(map(int, _REGISTER.findall(line)))]

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


def _arrays(causal: bool) -> tuple:
    """(q, k, lse, and for gradients rows and sums), of any content."""
    q, k = (np.empty((1, heads, ROWS, DIM), np.float16) for heads in (HEADS, KV_HEADS))
    made = [np.empty(shape, np.float32) for shape in attention_backward.workspace(q, None, causal)]
    return q, k, np.empty((1, HEADS, ROWS), np.float32), *made


def forward(causal: bool) -> tuple:
    q, k, lse, *_ = _arrays(causal)
    return attention.kernel, *attention.arguments(q, k, k, q, lse, np.zeros(1, np.int32), PROGRAMS, causal)


def forward_ring(causal: bool) -> tuple:
    q, k, lse, *_ = _arrays(causal)
    work = ring_attention.Workspace.of(mimw.World(2), 1, KV_HEADS, ROWS, DIM, np.float16).at(1)
    counter = np.zeros(1, np.int32)
    return ring_attention.kernel, *ring_attention.arguments(q, k, k, q, lse, counter, work, 1, PROGRAMS, causal)


def gradients(causal: bool) -> tuple:
    q, k, lse, rows, sums = _arrays(causal)
    return attention_backward.launches(q, k, k, q, lse, q, q, k, k, rows, sums, causal)[1]


def gradients_ring(causal: bool) -> tuple:
    q, k, lse, rows, sums = _arrays(causal)
    work = ring_attention_backward.Workspace.of(mimw.World(2), 1, KV_HEADS, ROWS, DIM, np.float16).at(1)
    return ring_attention_backward.launches(q, k, k, q, lse, q, q, k, k, rows, sums, work, 1, PROGRAMS, causal)[1]


MADE = {"attention": forward, "attention over two GPUs": forward_ring, "gradients": gradients,
        "gradients over two GPUs": gradients_ring}
CASES: dict[str, Callable[[], tuple]] = {
    f"{name}, {'causal' if causal else 'full'}": lambda make=make, causal=causal: make(causal)
    for name, make in MADE.items() for causal in (False, True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", nargs="*", default=[""], help="texts; those kernels whose names hold one")
    options = parser.parse_args()
    for name in each(name for name in CASES if any(text in name for text in options.kernels)):
        kernel, grid, args, meta = CASES[name]()
        for loop in loops(mimw.compile(kernel, grid, *args, **meta, target="sm_90a").sass):
            print(f"{name:<34}  {loop}", flush=True)


if __name__ == "__main__":
    main()
