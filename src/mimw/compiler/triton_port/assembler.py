"""Known faults of the assembler in use, NVIDIA's ptxas.

Input: the PTX of a kernel for sm_90a. Output: `Kept` operands of dots, which a ptxas before release 13.3 may overwrite. An example:

    ldmatrix... {%r99, ...}, [a];             a tile in registers, for all trips
    loop:  mov.b32 %r98, %r99;
           wgmma.mma_async... {acc}, {%r98, ...}, b;
           ldmatrix... {%r145, ...}, [c];     given the registers of %r99: the next trip multiplies c

Seen with releases 12.9 and 13.0, at all of their levels of optimisation but 0, where the loop has a branch in it, such as a
predicated atomic; 13.4 copies the operand. NVIDIA's release notes of CUDA 13.3 name a fix (triton-lang/triton#11781; #9433 is of
the same registers). The ptxas that comes with Triton 3.9 for Hopper is new enough; another one may be named by
TRITON_PTXAS_BLACKWELL_PATH. Triton 3.8 has 12.9 for Hopper, and a new one beside it for Blackwell, which knows Hopper as well:
TRITON_PTXAS_PATH may name that.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass

from triton import knobs
from triton.backends.nvidia.compiler import get_ptxas, get_ptxas_version

FIXED = (13, 3)
_FILE = re.compile(r'^\s*\.file\s+(\d+) "([^"]*)"', re.M)
_LOC = re.compile(r"^\s*\.loc\s+(\d+) (\d+) (\d+)")
_LABEL = re.compile(r"^(\$?\w+):")
_TABLE = re.compile(r"^(\w+):\s*\.branchtargets([^;]*);", re.M)
_JUMP = re.compile(r"^(@!?%p\d+ )?(bra|brx|ret|exit|trap)\b")
_TARGETS = re.compile(r"\$\w+")
_OPERAND = re.compile(r"wgmma\.mma_async\S*\s+\{[^}]*\},\s*\{([^}]*)\}")
_MOVE = re.compile(r"^\s*mov\.b32\s+(%r\d+), (%r\d+);")
_REGISTER = re.compile(r"%r\d+\b")
_RESULTS = re.compile(r"(?!st\.|red\.|wgmma|stmatrix|bra)[a-z][\w.:]*\s+(\{[^}]*\}|%r\d+\b)")
_NO_CODE = ("//", ".loc", ".reg", ".param", ".file")


@dataclass(frozen=True)
class Kept:
    """A dot of which an operand in registers is needed after it; line and column, from 1, are those of the dot."""

    file: str
    line: int
    column: int


def ptxas_release(arch: int) -> tuple[int, int] | None:
    """(13, 4) of the ptxas that Triton calls for a chip; None if it does not say."""
    found = re.search(r"release (\d+)\.(\d+)", str(get_ptxas_version(arch)))
    return (int(found[1]), int(found[2])) if found else None


def ptxas_path(arch: int) -> str:
    return get_ptxas(arch).path


def another_ptxas(arch: int) -> str:
    """The mend where the ptxas in use is too old for a chip: how Triton is told to take another one."""
    used, new = ptxas_path(arch), knobs.nvidia.ptxas_blackwell.path
    variable = "TRITON_PTXAS_BLACKWELL_PATH" if used == new else "TRITON_PTXAS_PATH"
    which = (f"unset {variable} for the one that comes with Triton, or name" if variable in os.environ else
             f"name in {variable} {new}, which comes with Triton, or" if used != new else f"name in {variable}")
    return f"Triton takes {used}: {which} one of CUDA {FIXED[0]}.{FIXED[1]} or newer"


def kept_operands(ptx: str) -> list[Kept]:
    """Every dot whose first operand lies in registers with a value that is read once more, behind a branch or in the next trip.

    A register that is written in several places holds another value in each trip of its loop: such a one is none of these.
    """
    if not _OPERAND.search(ptx):
        return []
    lines = ptx.splitlines()
    flow, moved = _Flow(lines, {name: _TARGETS.findall(listed) for name, listed in _TABLE.findall(ptx)}), {}
    files, place, found = dict(_FILE.findall(ptx)), ("0", "0", "0"), {}
    for at, line in enumerate(lines):
        if loc := _LOC.match(line):
            place = loc.groups()
        elif move := _MOVE.match(line):
            moved[move[1]] = move[2]
        elif operand := _OPERAND.search(line):
            registers = _REGISTER.findall(operand[1])
            if any(flow.is_live(register, at) for one in registers for register in {one, moved.get(one, one)}):
                found[place] = Kept(files.get(place[0], ""), int(place[1]), int(place[2]))
    return list(found.values())


class _Flow:
    """The basic blocks of a kernel's PTX, which also end at predicated instructions, and where a register is read and written."""

    def __init__(self, lines: list[str], tables: dict[str, list[str]]):
        self.events: dict[str, list[tuple[int, bool]]] = defaultdict(list)  # (line, whether it only writes), in order
        self.ends: list[int] = []
        self.next: list[list[int]] = []
        labels, jumps = {}, []
        for at, line in enumerate(lines):
            text = line.strip()
            if label := _LABEL.match(text):
                labels[label[1]] = at
                self._end(at - 1, jumps, [], True)
            elif text and not text.startswith(_NO_CODE):
                self._note(at, text)
                if jump := _JUMP.match(text):
                    listed = [target for name, table in tables.items() if name in text for target in table]
                    self._end(at, jumps, listed or _TARGETS.findall(text), bool(jump[1]))
                elif text.startswith("@"):  # ptxas makes a branch of some
                    self._end(at, jumps, [], True)
        self._end(len(lines), jumps, [], False)
        for targets, follows in jumps:
            found = [bisect_right(self.ends, labels[target] - 1) for target in targets if target in labels]
            self.next.append(found + [len(self.next) + 1] * follows)

    def _end(self, at: int, jumps: list, targets: list[str], follows: bool) -> None:
        self.ends.append(at)
        jumps.append((targets, follows))

    def _note(self, at: int, text: str) -> None:
        written = _RESULTS.match(text)
        rest = text[written.end():] if written else text
        for register in _REGISTER.findall(rest):
            self.events[register].append((at, False))
        for register in _REGISTER.findall(written[1]) if written else ():
            self.events[register].append((at, True))

    def is_live(self, register: str, at: int) -> bool:
        """True if a value that is written in one place only is read behind the block of line `at`, before it is written
        again.

        What is read in the same block is counted in by every ptxas that we have seen.
        """
        if sum(writes for _, writes in self.events[register]) != 1:
            return False
        own = bisect_right(self.ends, at - 1)
        events, seen, todo = self.events[register], set(), [(own, self.ends[own])]
        while todo:
            block, after = todo.pop()
            index = bisect_right(events, (after, True))
            if index < len(events) and events[index][0] <= self.ends[block]:
                if not events[index][1]:
                    return True
                continue
            for follower in self.next[block]:
                if follower not in seen:
                    seen.add(follower)
                    todo.append((follower, self.ends[follower - 1] if follower else -1))
        return False
