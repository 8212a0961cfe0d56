"""Inline assembly of the author: straight-line PTX on registers, instruction by instruction.

Input: a task at `inline_asm` (`tl.inline_asm_elementwise`). Output: its results, or a refusal that names the first
instruction without a meaning here. For example:

    cvt.rn.satfinite.e4m3x2.f32 $0, $2, $1;        two elements of fp32 as one 16-bit register of e4m3

What an instruction means stands in `ptx_instructions.py` and `ptx_conversions.py`; memory, branches, predicates and
special registers have no meaning here. One instance of the text takes `pack` neighbours in row-major order, and Triton's
rules say which registers they come in: as many elements as fit into 32 bits share one. A GPU may take others together, as
the layout has it, which only assembly that mixes its elements can tell.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from ...errors import SimulatorMisuse, fail
from ...ir import Op, Tensor
from ..machine.guarded import PerThread
from ..machine.table import handles
from ..memory.values import numpy_type
from . import ptx_conversions, ptx_instructions
from .lanes import settled, threads

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STATEMENT = re.compile(r"\s*([{}])\s*|\s*([^;{}]*(?:\{[^{};]*\}[^;{}]*)*);")
_OPERAND = re.compile(r"\{[^}]*\}|[^,{}\s][^,{}]*")
_WIDTH = re.compile(r"[a-z]+(\d+)$")
_FULL_RATE = frozenset("add and fma lop3 mad mov mul neg not or prmt selp setp shl shr sub xor".split())
_MEANINGS = (ptx_instructions.meaning, ptx_conversions.meaning)


@handles("inline_asm")
def inline_asm(task, op: Op) -> None:
    """Registers of all groups at once, each an array with one element for a group."""
    statements = _statements(op)
    shapes = [np.shape(task.read(value, op)) for value in op.values]
    shape, pack = (shapes[0] if shapes else ()), op.pack
    differs = any(task.read(value, op).__class__ is PerThread for value in op.values)
    if differs:
        shape = (threads(task), )
    registers = _Registers(task, op)
    constraints = [one.strip() for one in op.constraints.split(",") if not one.strip().startswith("~")]
    outputs = [_Packing(numpy_type(value.type, op.site), pack) for value in op.results]
    place = sum(packing.registers for packing in outputs)
    for value in op.values:
        packing = _Packing(numpy_type(value.type, op.site), pack)
        for register in packing.taken(np.broadcast_to(task.read(value, op), shape)):
            if place >= len(constraints):
                raise fail(SimulatorMisuse, task, op, f"inline assembly has {len(constraints)} constraints, fewer than operands",
                           hint="write one constraint for each register: results first, then arguments")
            registers.values[f"${place}"] = register
            place += 1
    for name, text in statements:
        _run(registers, name, text)
    place = 0
    for value, packing in zip(op.results, outputs):
        made = packing.given([registers.read(f"${place + index}", packing.bits) for index in range(packing.registers)], shape)
        place += packing.registers
        # In the region of a reduction an array stands for a scalar, one element for each run of the region.
        task.env[value] = settled(made) if differs and not isinstance(value.type, Tensor) else made if shape else made[()]


def plain_instructions(op: Op) -> int:
    """The number of instructions that the text has, if each of them is one that threads issue at the full rate; else 0."""
    opcodes = [opcode.split(".")[0] for opcode, _ in _statements(op)]
    return len(opcodes) if _FULL_RATE.issuperset(opcodes) else 0


class _Packing:
    """The packing of `pack` elements into registers: Triton puts as many into one as fit into 32 bits."""

    def __init__(self, dtype: np.dtype, pack: int):
        self.dtype, self.pack = np.dtype(dtype), pack
        self.each = min(pack, max(1, 4 // self.dtype.itemsize))
        self.registers = max(1, pack // self.each)
        self.bits = 8 * self.dtype.itemsize * self.each

    def taken(self, tile: np.ndarray) -> list[np.ndarray]:
        """The registers of all groups; the last group is filled up with zeros."""
        bits = np.ascontiguousarray(tile).reshape(-1).view(f"u{self.dtype.itemsize}").astype(np.uint64)
        groups = np.zeros(-(-bits.size // self.pack) * self.pack, np.uint64)
        groups[:bits.size] = bits
        groups = groups.reshape(-1, self.registers, self.each)
        shifts = np.uint64(8 * self.dtype.itemsize) * np.arange(self.each, dtype=np.uint64)
        return list(np.bitwise_or.reduce(groups << shifts, axis=2).T)

    def given(self, registers: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """The tile that the registers of all groups hold; a register that a number was moved to holds the same in each group."""
        size, groups = self.dtype.itemsize, -(-int(np.prod(shape)) // self.pack)
        shifts = np.uint64(8 * size) * np.arange(self.each, dtype=np.uint64)
        columns = [np.broadcast_to(one, groups) for one in registers]
        elements = (np.stack(columns, axis=-1)[..., None] >> shifts).astype(f"u{size}").reshape(-1)
        return elements[:int(np.prod(shape))].view(self.dtype).reshape(shape)


class _Registers:
    """The registers of the text by name: bits, in arrays of one element for a group."""

    def __init__(self, task, op: Op):
        self.task, self.op, self.values = task, op, {}
        self.steps = op.attrs.get("lanes")

    def read(self, name: str, bits: int) -> np.ndarray:
        """The low bits of a register, of a vector of registers, or of a number."""
        if name.startswith("{"):
            names = [one.strip() for one in name[1:-1].split(",")]
            return _joined([self.read(one, bits // len(names)) for one in names], bits // len(names))
        number = ptx_instructions.number(name, bits)
        if number is not None:
            return number
        if name not in self.values:
            raise self.refused(f"register {name!r} is read and was never written")
        return self.values[name] & np.uint64((1 << bits) - 1)

    def write(self, name: str, value: np.ndarray, bits: int) -> None:
        """The register, or each of a vector of registers, from the low bits on."""
        names = [one.strip() for one in name[1:-1].split(",")] if name.startswith("{") else [name]
        each = bits // len(names)
        for place, one in enumerate(names):
            if one != "_":
                self.values[one] = (np.asarray(value, np.uint64) >> np.uint64(place * each)) & np.uint64((1 << each) - 1)

    def refused(self, what: str) -> SimulatorMisuse:
        return fail(SimulatorMisuse, self.task, self.op, f"inline assembly cannot be simulated: {what}",
                    hint="write it in tl, or keep this kernel to the GPU")


def _joined(parts: list[np.ndarray], bits: int) -> np.ndarray:
    total = np.uint64(0)
    for place, part in enumerate(parts):
        total = total | (part << np.uint64(place * bits))
    return total


def _statements(op: Op) -> list[tuple[str, str]]:
    """(opcode, operands) of each instruction, without scopes and declarations."""
    text, found, at = _COMMENT.sub(" ", op.assembly).strip(), [], 0
    text = text if not text or text.endswith((";", "}")) else text + ";"
    while at < len(text):
        match = _STATEMENT.match(text, at)
        if match is None:
            found.append((text[at:at + 60].strip(), ""))
            break
        at = match.end()
        statement = (match[2] or "").strip()
        if statement and not statement.startswith(".reg"):
            opcode, _, operands = statement.partition(" ")
            found.append((opcode, operands.strip()))
    return found


def _run(registers: _Registers, opcode: str, text: str) -> None:
    meaning: Callable | None = next((found for one in _MEANINGS if (found := one(opcode)) is not None), None)
    if meaning is None:
        raise registers.refused(f"{f'{opcode} {text}'.strip()[:60]!r}")
    meaning(registers, [operand.strip() for operand in _OPERAND.findall(text)])
