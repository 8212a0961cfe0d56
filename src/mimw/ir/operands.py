"""The notation in which a row of the op table declares its operands and attributes, and the test of an op against it.

Input: a row's declaration, one word an operand. Output: `Operand`s, each of which says whether an argument fits.

    "descriptor:Descriptor offsets:i32* barrier:Barrier buffer:Buffer predicate:i1? cache_policy:const?"
    name:kind      the argument is of that kind; `kind|kind` is one of several
    ?  *           the argument may be None, or be left out at the end; it is a tuple of any number of that kind

Kinds of values (results of ops, block arguments, parameters of the kernel):

    i32  i1  fp32            one number of that type                   int  float  ptr  num   one of that class; `num` is any
    i32[]  ptr[]             a tile of them                            i32~  ptr~             either
    Buffer  Barrier  Slot    a single one                              Buffers  Barriers  Slots   a single one or an array
    Descriptor  Token  Storage  Pipe   that                            value                 anything

Kinds of constants: `#int`, `#bool`, `#str`, `#type` (an IR type), `#shape` (a tuple of ints), `@NAME` (a member of Triton's
enumeration NAME, or a constant that stands for one), and `const`, which is any constant: a cache policy, a layout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .types import Barrier, Buffer, Descriptor, DescriptorSlots, Pipe, Pointer, Scalar, Storage, Tensor, Token, Type

_MISSING = object()


@dataclass(frozen=True)
class Operand:
    """One operand or attribute of a row: `text` is its declaration, `accepts` is a test of an argument."""

    name: str
    text: str
    optional: bool
    accepts: Callable[[Any], bool] = field(compare=False, repr=False)

    @property
    def enumeration(self) -> str:
        """The name of Triton's enumeration of which a member is wanted, "" for every other kind."""
        return self.text.strip("@?") if self.text.startswith("@") else ""


def parse(declaration: str) -> tuple[Operand, ...]:
    """The operands of a declaration such as "barrier:Barrier count:#int predicate:i1?"."""
    return tuple(_parse_one(word) for word in declaration.split())


def problem(operands: tuple[Operand, ...], args: tuple[Any, ...]) -> str:
    """The first fault in the arguments of an op, "" if there is none."""
    if len(args) > len(operands):
        return f"{len(args)} arguments for the operands {' '.join(operand.name for operand in operands)}"
    for operand, arg in zip(operands, args):
        if not operand.accepts(arg):
            return f"operand {operand.name!r} is {describe(arg)}, and should be {operand.text}"
    missing = next((operand for operand in operands[len(args):] if not operand.optional), None)
    return f"operand {missing.name!r} ({missing.text}) is missing" if missing else ""


def attribute_problem(attributes: dict[str, Operand], attrs) -> str:
    """The first fault in the attributes of an op, "" if there is none."""
    for name, given in attrs.items():
        known = attributes.get(name)
        if known is None:
            return f"no attribute is named {name!r}; there are {', '.join(attributes) or 'none'}"
        if not known.accepts(given):
            return f"attribute {name!r} is {describe(given)}, and should be {known.text}"
    missing = next((known for name, known in attributes.items() if not known.optional and name not in attrs), None)
    return f"attribute {missing.name!r} ({missing.text}) is missing" if missing else ""


def describe(arg: Any) -> str:
    """An argument in a complaint: the type of a value, or the constant itself."""
    type_ = getattr(arg, "type", None)
    if isinstance(type_, Type):
        return f"a value of type {type_}"
    if isinstance(arg, tuple):
        return f"({', '.join(map(describe, arg))})"
    return f"the constant {arg!r}"


def _parse_one(word: str) -> Operand:
    name, _, text = word.partition(":")
    kind = text.rstrip("?*")
    tests = [_KINDS.get(one) or (_enumeration if one.startswith("@") else _element_kind)(one) for one in kind.split("|")]
    accepts = tests[0] if len(tests) == 1 else lambda arg: any(test(arg) for test in tests)
    if "*" in text:
        accepts = _every(accepts)
    optional = text.endswith("?")
    return Operand(name, text, optional, _or_none(accepts) if optional else accepts)


def _every(accepts):
    return lambda arg: arg.__class__ is tuple and all(map(accepts, arg))


def _or_none(accepts):
    return lambda arg: arg is None or accepts(arg)


def _type_of(arg) -> Any:
    """The IR type of a value; `_MISSING` for a constant."""
    return _MISSING if isinstance(arg, Type) else getattr(arg, "type", _MISSING)


def _single(class_) -> Callable[[Any], bool]:
    def accepts(arg) -> bool:
        type_ = _type_of(arg)
        return type_.__class__ is class_ and not type_.count
    return accepts


def _at_most_one(class_) -> Callable[[Any], bool]:
    """An array of one barrier is a barrier."""
    def accepts(arg) -> bool:
        type_ = _type_of(arg)
        return type_.__class__ is class_ and type_.count <= 1
    return accepts


def _of_class(*classes) -> Callable[[Any], bool]:
    return lambda arg: _type_of(arg).__class__ in classes


_ELEMENT_CLASSES: dict[str, Callable[[Type], bool]] = {
    "int": lambda element: element.__class__ is Scalar and not element.is_float,
    "float": lambda element: element.__class__ is Scalar and element.is_float,
    "ptr": lambda element: element.__class__ is Pointer,
    "num": lambda element: element.__class__ in (Scalar, Pointer),
}


def _element_kind(text: str) -> Callable[[Any], bool]:
    """The test for `i32`, `i32[]` and `i32~`, and for the classes of elements."""
    element = text.rstrip("[]~")
    fits = _ELEMENT_CLASSES.get(element) or Scalar(element).__eq__
    tile, scalar = text.endswith(("[]", "~")), not text.endswith("[]")

    def accepts(arg) -> bool:
        type_ = _type_of(arg)
        if type_.__class__ is Tensor:
            return tile and fits(type_.element) is True
        return scalar and fits(type_) is True

    return accepts


def _constant(test) -> Callable[[Any], bool]:
    return lambda arg: _type_of(arg) is _MISSING and test(arg)


def _enumeration(text: str) -> Callable[[Any], bool]:
    """The test for `@NAME`. Triton is not known here, but its classes have names."""
    constant, name = _KINDS["const"], text[1:]
    return lambda arg: constant(arg) and (type(arg).__name__ == name or not hasattr(type(arg), "__members__"))


_KINDS: dict[str, Callable[[Any], bool]] = {
    "Buffer": _single(Buffer), "Buffers": _of_class(Buffer),
    "Barrier": _at_most_one(Barrier), "Barriers": _of_class(Barrier),
    "Slot": _at_most_one(DescriptorSlots), "Slots": _of_class(DescriptorSlots),
    "Descriptor": _of_class(Descriptor), "Token": _of_class(Token), "Storage": _of_class(Storage),
    "Pipe": _of_class(Pipe),
    "value": lambda arg: isinstance(_type_of(arg), Type),
    "#int": _constant(lambda arg: isinstance(arg, int) and not isinstance(arg, bool)),
    "#bool": _constant(lambda arg: isinstance(arg, bool)),
    "#str": _constant(lambda arg: isinstance(arg, str)),
    "#type": lambda arg: isinstance(arg, Type),
    "#shape": lambda arg: arg.__class__ is tuple and all(isinstance(extent, int) for extent in arg),
    "const": lambda arg: arg is not None and not isinstance(_type_of(arg), Type),
}
