"""Types in MLIR text, and texts with types in them.

Input: a type as MLIR writes it, or one of ours. Output: the other. An example:

    type_of("tensor<128xf32, #blocked>")            Tensor(fp32, (128,))
    spelled(Pointer(Scalar("fp16")))                "!tt.ptr<f16>"

A short buffer type, `!ttg.memdesc<128xf32>`, leaves out how the buffer lies; where a text is parsed an alias stands for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .types import Barrier, Buffer, Pointer, Scalar, Tensor, Type

_SCALARS = {"i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "f16": "fp16", "bf16": "bf16", "f32": "fp32",
            "f64": "fp64", "f8E5M2": "fp8e5", "f8E4M3FN": "fp8e4nv", "f8E4M3FNUZ": "fp8e4b8", "f8E5M2FNUZ": "fp8e5b16"}
_NAMES = {ours: theirs for theirs, ours in _SCALARS.items()}
_QUIET = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*')        # strings and comments
_SHAPED = re.compile(r"((?:\d+x)+)(.*)", re.DOTALL)
_SHORT_BUFFER = re.compile(r"!ttg\.memdesc<((?:\d+x)+)([A-Za-z]\w*)>")
OPENING, CLOSING = "([{<", ")]}>"
BARRIER = "1xi64"


def quiet(text: str) -> str:
    """The text with blanks for what stands in strings and comments; every other character stays at its place."""
    return _QUIET.sub(lambda found: " " * len(found[0]) if found[0][0] == "/" else f'"{"_" * (len(found[0]) - 2)}"', text)


def parts_of(text: str) -> list[str]:
    """The parts between commas that stand in no brackets."""
    parts, depth, start, code = [], 0, 0, quiet(text)
    for at, char in enumerate(code):
        depth += (char in OPENING) - (char in CLOSING and not (char == ">" and code[at - 1] == "-"))
        if char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [part for part in parts if part.strip()]


def type_of(written: str) -> Type | None:
    """The type that MLIR writes so; None for one that cannot be handed over. A buffer of one i64 is a barrier."""
    if written in _SCALARS:
        return Scalar(_SCALARS[written])
    if written.startswith("!tt.ptr<") and written.endswith(">"):
        pointee, _, space = written[8:-1].partition(",")
        inner = type_of(pointee.strip())
        return Pointer(inner) if isinstance(inner, (Scalar, Pointer)) and space.strip() in ("", "1") else None
    kind, opening, rest = written.partition("<")
    if kind not in ("tensor", "!ttg.memdesc") or not rest.endswith(">"):
        return None
    shaped = parts_of(rest[:-1])[0].strip()
    found = _SHAPED.fullmatch(shaped)
    element = type_of(found[2]) if found else None
    if not isinstance(element, (Scalar, Pointer)):
        return None
    shape = tuple(map(int, found[1].rstrip("x").split("x")))
    if kind == "tensor":
        return Tensor(element, shape)
    return Barrier() if shaped == BARRIER else Buffer(element, shape)


def spelled(type_: Type) -> str:
    """A type in MLIR's notation, without layouts."""
    match type_:
        case Scalar(name):
            return _NAMES.get(name, name)
        case Pointer(pointee):
            return f"!tt.ptr<{spelled(pointee)}>"
        case Tensor(element, shape):
            return f"tensor<{''.join(f'{extent}x' for extent in shape)}{spelled(element)}>"
        case Buffer(element, shape):
            return f"!ttg.memdesc<{''.join(f'{extent}x' for extent in shape)}{spelled(element)}>"
        case Barrier():
            return f"!ttg.memdesc<{BARRIER}>"
    return str(type_)


def buffer_alias(type_: Buffer | Barrier) -> str:
    """The alias that stands for a short buffer type, as long as that, so that columns stay."""
    return "!" + re.sub(r"[.<>]", "_", spelled(type_)[1:])


def in_some_layout(type_: Buffer | Barrier) -> str:
    """The whole type of a buffer for readers to whom it is the same how it lies: as the tensor cores read it, if they can."""
    shape = type_.shape if isinstance(type_, Buffer) else (1, )
    if len(shape) > 1 and (bits := type_.element.bits) in (8, 16, 32):
        row = shape[-1] * bits // 8
        swizzle = next((width for width in (128, 64, 32) if row % width == 0), 0)
        layout = (f"#ttg.nvmma_shared<{{swizzlingByteWidth = {swizzle}, transposed = false, elementBitWidth = {bits}, "
                  f"rank = {len(shape)}}}>")
    else:
        order = ", ".join(map(str, reversed(range(len(shape)))))
        layout = f"#ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, order = [{order}]}}>"
    return f"{spelled(type_)[:-1]}, {layout}, #ttg.shared_memory, mutable>"


def with_buffer_aliases(text: str) -> str:
    """The text with the alias of each short buffer type in its place."""
    code, made, last = quiet(text), [], 0
    for found in _SHORT_BUFFER.finditer(code):
        made += [text[last:found.start()], buffer_alias(type_of(found[0]))]
        last = found.end()
    return "".join([*made, text[last:]])


def short_buffers(text: str) -> Iterator[Buffer | Barrier]:
    """The short buffer types in a text, each once."""
    for written in dict.fromkeys(found[0] for found in _SHORT_BUFFER.finditer(quiet(text))):
        yield type_of(written)
