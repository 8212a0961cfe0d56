"""Reads the types of IR values from their text: the inverse of `str(type)`, in the notation of `ir.types`.

Input: a `Line` that stands before a type. Output: the type; the line stands behind it. An example:

    parse_type(Line("buffer<bf16[128, 64] x 4> : ...", "k.ir", 1))      Buffer(BF16, (128, 64), 4)
"""

from __future__ import annotations

from .lexer import Line
from .types import (
    TOKEN,
    Barrier,
    Buffer,
    Descriptor,
    DescriptorSlots,
    Element,
    Pipe,
    Pointer,
    Scalar,
    Storage,
    Tensor,
    Type,
    is_scalar_name,
)

_SPACES = ("shared", "cluster", "constant")


def begins_type(line: Line) -> bool:
    """True if the next token can begin a type."""
    return line.kind != "text" and (line.text in ("*", *_READERS) or is_scalar_name(line.text)
                                    or line.text in _SPACES and line.after() == "*")


def parse_type(line: Line) -> Type:
    """The type that stands next on the line."""
    if line.kind == "word" and (read := _READERS.get(line.text)):
        line.expect(line.text)
        return read(line)
    element = _element(line)
    return Tensor(element, parse_shape(line)) if line.text == "[" else element


def parse_shape(line: Line) -> tuple[int, ...]:
    """A list of extents in brackets."""
    line.expect("[")
    extents = []
    while line.text != "]":
        if extents:
            line.expect(",")
        extents.append(parse_int(line))
    line.expect("]")
    return tuple(extents)


def parse_int(line: Line) -> int:
    column, text = line.column, line.take("number", "a whole number")
    try:
        return int(text)
    except ValueError:
        line.fail(f"a whole number is expected, not {text!r}", column)


def _element(line: Line) -> Element:
    space = "global"
    if line.text in _SPACES and line.after() == "*":
        space = line.take("word")
    if line.skip("*"):
        return Pointer(_element(line), space)
    if not is_scalar_name(line.text):
        line.fail(f"a type is expected, not {line.shown()}", mend="types are written as i32, *bf16, fp32[128, 64], "
                  "buffer<bf16[128, 64] x 4>, barrier<x 4>, desc<bf16[128, 64]>")
    return Scalar(line.take("word"))


def _count(line: Line) -> int:
    return parse_int(line) if line.skip("x") else 0


def _space(line: Line) -> str:
    return line.take("word", "a memory space") if line.skip("in") else "smem"


def _buffer(line: Line) -> Buffer:
    line.expect("<")
    found = Buffer(_element(line), parse_shape(line), _count(line), _space(line))
    line.expect(">")
    return found


def _barrier(line: Line) -> Barrier:
    count = 0
    if line.skip("<"):
        count = _count(line)
        line.expect(">")
    return Barrier(count, line.skip("per", "thread"))


def _descriptor(line: Line) -> Descriptor:
    line.expect("<")
    found = Descriptor(_element(line), parse_shape(line), not line.skip("unsigned"), line.skip("pixels"))
    line.expect(">")
    return found


def _slots(line: Line) -> DescriptorSlots:
    line.expect("<")
    found = DescriptorSlots(_count(line))
    line.expect(">")
    return found


def _pipe(line: Line) -> Pipe:
    line.expect("<")
    capacity, slots = parse_int(line), []
    line.expect("x")
    line.expect("(")
    while line.text != ")":
        if slots:
            line.expect(",")
        slots.append(parse_type(line))
    line.expect(")")
    line.expect(">")
    return Pipe(capacity, tuple(slots))


def _storage(line: Line) -> Storage:
    if not line.skip("<"):
        return Storage()
    limit = None
    if line.skip("at", "most"):
        limit = parse_int(line)
        line.expect("bytes")
    found = Storage(_space(line), limit)
    line.expect(">")
    return found


_READERS = {"buffer": _buffer, "barrier": _barrier, "desc": _descriptor, "slots": _slots, "slot": lambda line: DescriptorSlots(),
            "pipe": _pipe, "token": lambda line: TOKEN, "storage": _storage}
