"""The instructions of a kernel's machine code (SASS), where each may go on, and which registers it touches.

Input: what nvdisasm prints, `/*0010*/ FADD R4, R5, R6 ;`, or what `Compiled.sass` does, with labels in place of addresses.
Output: a `Code`. For example:

    code = Code.read(made.sass)
    code.texts[3], code.following(3)            'BRA LBB0;', [0]
    registers("FADD R4, R5, R6"), written("FADD R4, R5, R6")        bits 4, 5 and 6; bit 4

Of a vector, as of `LDS.128 R4`, the first register stands for all: vectors are aligned to their width, and so are the registers of
tensor cores' operands, so that one of the two lies within the other or they lie apart. Hopper has no vector of more than four.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

_LINE = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s+([^;]+?)\s*;"          # as nvdisasm prints an instruction
                   r"|^[0-9a-zA-Z-]+:\S+\t([^;]+?)\s*;"              # as Triton does, behind control codes
                   r"|^\s*(LBB\d+):")                               # and its labels
_PREDICATE = re.compile(r"^@!?U?P[0-9T]+\s+")
_REGISTER = re.compile(r"\bR(\d+)\b")
_BARE = re.compile(r"^-?\|?R(\d+|Z)\b")
_PREDICATES = re.compile(r"^!?U?P(\d|T)$")
_PLACE = re.compile(r"\b(LBB\d+|0x[0-9a-f]+)$")
_BARRIER = re.compile(r"\bB(\d+)\b")
# Their first register is read: it stands behind predicates that are the result, or is all that they have.
_ONLY_READ = re.compile(r"^(\w*SETP\d?|FCHK|BRX|BRXU|JMX|CALL|RET|WARPSYNC|BAR|NANOSLEEP|DEPBAR|KILL|BPT|PLOP3|VOTEU|R2P)\b")


def opcode(text: str) -> str:
    """`HGMMA.64x128x16.F32` of an instruction."""
    return _PREDICATE.sub("", text).partition(" ")[0]


def operands(text: str) -> list[str]:
    """The operands behind the opcode, cut at commas."""
    return [part.strip() for part in _PREDICATE.sub("", text).partition(" ")[2].split(",")]


@lru_cache(1 << 16)
def registers(text: str) -> int:
    """The registers that an instruction names, as bits."""
    return bits(map(int, _REGISTER.findall(text)))


@lru_cache(1 << 16)
def written(text: str) -> int:
    """The registers that an instruction writes, as bits. An instruction of which nothing is known writes its first one."""
    if _ONLY_READ.match(opcode(text)):
        return 0
    for operand in operands(text):
        if _PREDICATES.match(operand):
            continue
        found = _BARE.match(operand)
        return 0 if not found or found[1] == "Z" else 1 << int(found[1])
    return 0


def bits(numbers: Iterable[int]) -> int:
    """Numbers as bits of an integer."""
    found = 0
    for number in numbers:
        found |= 1 << number
    return found


@dataclass(frozen=True)
class Code:
    """Instructions in their order, and the places that branches name, by index of the instruction there."""

    texts: list[str]
    places: dict[str, int]

    @classmethod
    def read(cls, sass: str) -> Code:
        """Of the printed code of one kernel; lines that are no instructions are left out."""
        texts: list[str] = []
        places: dict[str, int] = {}
        for line in sass.splitlines():
            if found := _LINE.match(line):
                address, ours, theirs, label = found.groups()
                places[label or hex(int(address, 16) if address else 16 * len(texts))] = len(texts)
                if not label:
                    texts.append(ours or theirs)
        return cls(texts, places)

    @cached_property
    def ends(self) -> list[int]:
        """Of each instruction, the index of the next one, itself included, that does more than go on to the one behind it, or the
        last index. Whoever looks for something in between need not go one by one."""
        found, end = [0] * len(self.texts), len(self.texts) - 1
        for index in range(len(self.texts) - 1, -1, -1):
            if _leaves(self.texts[index]):
                end = index
            found[index] = end
        return found

    def following(self, index: int) -> list[int]:
        """The instructions that may come next, by index: none after a branch by a table, of which nothing is known. A call comes
        back, and its callee is looked at as well."""
        text = self.texts[index]
        name, is_sure = opcode(text).partition(".")[0], not _PREDICATE.match(text)
        found = [index + 1] if index + 1 < len(self.texts) else []
        if name in ("EXIT", "RET", "BRX", "BRXU", "JMX", "KILL"):
            return [] if is_sure else found
        if name in ("BRA", "JMP", "CALL") and (place := _PLACE.search(text)) and place[1] in self.places:
            is_sure = is_sure and name != "CALL" and len(operands(text)) == 1 and ".DIV" not in text and ".ANY" not in text
            return [self.places[place[1]]] + ([] if is_sure else found)
        if name == "BSYNC":
            joins = self._joins[_BARRIER.search(text)[1]]
            return found if index + 1 in joins else [*joins, *found]
        return found

    @cached_property
    def _joins(self) -> dict[str, list[int]]:
        """By number of a barrier of convergence, where threads go on that have met there."""
        found: dict[str, list[int]] = {}
        for text in self.texts:
            if opcode(text).startswith("BSSY"):
                barrier, place = operands(text)[0], operands(text)[-1]
                if place in self.places:
                    found.setdefault(barrier.removeprefix("B"), []).append(self.places[place])
        return found


def _leaves(text: str) -> bool:
    return opcode(text).partition(".")[0] in ("EXIT", "RET", "BRX", "BRXU", "JMX", "KILL", "BRA", "JMP", "CALL", "BSYNC")
