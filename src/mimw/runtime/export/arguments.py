"""The arguments of an exported kernel, as C sees them: what the caller gives, and what the kernel's parameters are made of.

Input: a compiled kernel's signature, what was said of divisibility, and what its descriptors need. Output: an argument for each
run-time parameter, in order; compile-time ones are gone:

    arguments_of(compiled)      (Pointer("x", "fp32", aligned=True), Number("n", "i32", aligned=False))

A tuple is its items, `pair[1]` is `pair_1`; a name that C or the launcher has for something else gets a `_`. Types are Triton's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import LaunchError, TargetError

# Numbers as the kernel's parameters are: a half is passed as its bits, for C has no such type.
_C_TYPES = {"i1": "int8_t", "u1": "uint8_t", "fp16": "uint16_t", "bf16": "uint16_t", "fp32": "float", "f32": "float",
            "fp64": "double", **{f"i{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
            **{f"u{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)}}
# Names that an argument cannot have in C, and those that the launcher's own variables have.
_TAKEN = frozenset("""
    auto break case char const continue default do double else enum extern float for goto if inline int long register restrict
    return short signed sizeof static struct switch typedef union unsigned void volatile while bool true false nullptr class
    template this new delete operator namespace private public protected using virtual try catch throw typename export and or not
    xor kernel stream grid_x grid_y grid_z scratch stamps launch attributes arguments image encode status""".split())
_DESCRIPTOR = re.compile(r"tensordesc<(\w+)\[([\d, ]+)\]")


@dataclass(frozen=True)
class Pointer:
    """The address of an array of `element`s; `aligned` if the kernel was compiled for multiples of 16 bytes."""

    name: str
    element: str
    aligned: bool


@dataclass(frozen=True)
class Number:
    """A number of type `kind`; `aligned` if the kernel was compiled for multiples of 16."""

    name: str
    kind: str
    aligned: bool

    @property
    def c_type(self) -> str:
        return _C_TYPES[self.kind]


@dataclass(frozen=True)
class Described:
    """A tensor that the kernel gets by a TMA descriptor, which the launcher encodes.

    args:      element  of the tensor
               rank     dimensions
               box      extents of the box, outermost first
               code     of the element's type, `swizzle` of the mode, as `cuTensorMapEncodeTiled` takes them
               size     bytes of an element
               nan      what lies outside reads as NaN, else as 0
               pairs    the tensor holds two elements of 4 bits a byte, and the copy spreads them
    """

    name: str
    element: str
    rank: int
    box: tuple[int, ...]
    code: int
    swizzle: int
    size: int
    nan: bool = False
    pairs: bool = False


Argument = Pointer | Number | Described
KINDS = {Pointer: "pointer", Number: "number", Described: "tensor"}      # as files of JSON name them


def arguments_of(compiled: Any, options: Mapping[str, Any] | None = None) -> tuple[Argument, ...]:
    """The run-time arguments of a compiled kernel, in order.

    args:      compiled  what `mimw.compile` gives, for an NVIDIA chip
               options   by parameter, host descriptors whose padding and rounding hold; by default zeros, and no rounding
    errors:    LaunchError for descriptors of other kinds than tiled ones
    """
    from ...compiler.triton_port.launcher import encoded_element

    maps = iter(getattr(compiled.metadata, "tensordesc_meta", None) or ())
    found = []
    for path, name, kind in _flat(compiled.source.signature):
        if kind == "constexpr":
            continue
        aligned = ["tt.divisibility", 16] in [list(one) for one in compiled.source.attrs.get(path, ())]
        described = _DESCRIPTOR.match(kind)
        if described:
            told, host = next(maps, None), (options or {}).get(name)
            if told is None or told.get("is_im2col"):
                raise LaunchError(f"the tensor descriptor {name!r} is not one that an exported launcher encodes",
                                  hint="give tiled tensor descriptors as arguments, or make them in the kernel")
            found.append(Described(name, described[1], described[2].count(",") + 1, tuple(told["block_size"]),
                                   encoded_element(told["elem_type"], bool(getattr(host, "round_f32_to_tf32", False))),
                                   told["swizzle"], told["elem_size"], getattr(host, "padding", "zero") == "nan",
                                   told["fp4_padded"]))
        elif kind.startswith("*"):
            found.append(Pointer(name, kind.lstrip("*k"), aligned))
        elif kind in _C_TYPES:
            found.append(Number(name, kind, aligned))
        else:
            raise TargetError(f"the argument {name!r} is of type {kind}, which has no counterpart in C")
    return tuple(found)


def fixed_of(compiled: Any) -> dict[str, Any]:
    """The run-time parameters that this launch made constants, which are no arguments any more, by name: numbers that were 1, and
    None."""
    source = compiled.source
    return {name: source.constants.get(path) for path, name, kind in _flat(source.signature)
            if kind == "constexpr" and not source.fn.params[path[0]].is_constexpr}


def parameters_of(compiled: Any) -> tuple[str, ...]:
    """All run-time parameters of the kernel's source in order, `fixed_of` among them."""
    source = compiled.source
    return tuple(name for path, name, _ in _flat(source.signature) if not source.fn.params[path[0]].is_constexpr)


def _flat(signature: Mapping[str, Any]) -> Iterator[tuple[tuple[int, ...], str, str]]:
    """(path, name in C, type) of each parameter, and of each item of tuples."""
    taken = set(_TAKEN)

    def visit(path: tuple[int, ...], name: str, kind: Any):
        if isinstance(kind, tuple):
            fields = getattr(kind, "_fields", range(len(kind)))
            for index, (field, item) in enumerate(zip(fields, kind, strict=True)):
                yield from visit((*path, index), f"{name}_{field}", item)
            return
        while name in taken:
            name += "_"
        taken.add(name)
        yield path, name, kind

    for index, (name, kind) in enumerate(signature.items()):
        yield from visit((index, ), name, kind)
