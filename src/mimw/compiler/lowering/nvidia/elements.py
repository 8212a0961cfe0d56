"""Elements of a tile as integers, one a register, and neighbouring registers as the operand of one access.

Input: the operand of an op, by name; the names of registers in assembly. Output: an MLIR tile; lines of PTX:

    packed(["$2", "$3"], 2, "w")        prmt.b32 w2_0, $2, $3, 0x5410;  and then `.b32`, `w2_0` for the access
"""

from __future__ import annotations

from ....ir import I32, I64, Op, Scalar, like
from ..emitter import Emitter


def as_registers(emitter: Emitter, op: Op, name: str):
    """The tile that is the operand of that name, as integers of one register each: 64 bits, or 32 that hold no more than the
    element."""
    builder, type_ = emitter.builder, getattr(op, name).type
    layout = emitter.wanted(op, name)
    bits = emitter.operand(op, name)
    if type_.element.is_float:
        bits = builder.create_bitcast(bits, emitter.types.tensor(like(type_, Scalar(f"i{type_.element.bits}")), layout))
    wide = I64 if type_.element.bytes == 8 else I32
    if type_.element.bits >= wide.bits:
        return bits
    return builder.create_int_cast(bits, emitter.types.tensor(like(type_, wide), layout), False)


def packed(names: list[str], size: int, prefix: str) -> tuple[list[str], str, str]:
    """Registers of `size` bytes each as one store's: (instructions that pack them, the store's type, its operand)."""
    lines: list[str] = []
    while size < 4 and len(names) > 1:
        selector = "0x0040" if size == 1 else "0x5410"  # PTX ISA, "prmt": the low bytes, or halves, of both
        merged = [f"{prefix}{size}_{index}" for index in range(len(names) // 2)]
        lines.append(f".reg .b32 {', '.join(merged)};")
        pairs = zip(merged, names[::2], names[1::2])
        lines += [f"prmt.b32 {name}, {low}, {high}, {selector};" for name, low, high in pairs]
        names, size = merged, size * 2
    vector = f".v{len(names)}" if len(names) > 1 else ""
    operand = "{" + ", ".join(names) + "}" if vector else names[0]
    return lines, f"{vector}.b{8 * size}", operand
