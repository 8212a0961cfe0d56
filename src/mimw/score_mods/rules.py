"""Which expression each of torch's operations is.

Input: an operation's name and arguments, which are expressions, tables and numbers, and the type of its result. Output: an
expression. For example:

    called("add", {"self": SCORE, "other": 2, "alpha": 1}, torch.float32, [torch.float32], tables)      "s + 2.0"
    called("index", {"self": TableRead(bias), "indices": [h]}, torch.float32, [...], tables)            "f0[h]"

Types are torch's: an operation with a float32 and a whole number converts the number, one of int32 tables keeps 32 bits, `//` and
`%` round down. Refused is what torch itself computes in different ways here and there: arithmetic of bfloat16, float16 and
float64, `//` and `%` of floats, floats that become whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import ScoreModError
from .nodes import BOOL, FLOAT, INT, UNARY, Node, lookup, make, number
from .ranges import depends_on
from .tables import FLOATS, LETTERS, MOST, WHOLE

_TURNED = {"gt": "lt", "ge": "le"}
_COMPARED = ("lt", "le", "gt", "ge", "eq", "ne")
_LOGICAL = {f"{room}_{name}": name for room in ("logical", "bitwise") for name in ("and", "or", "xor")}
_SAME = ("_to_copy", "clone", "alias", "detach", "lift_fresh_copy")
_POWERS: dict[float, Callable[[Node], Node]] = {
    1: lambda x: x, 2: lambda x: make("mul", x, x), 3: lambda x: make("mul", make("mul", x, x), x), 0.5: lambda x: make("sqrt", x),
    -0.5: lambda x: make("rsqrt", x), -1: lambda x: make("div", number(1.0), x)}


@dataclass(frozen=True, eq=False)
class TableRead:
    """A tensor that a function reads, real or without data, and what stands for it: itself, or its number among those given."""

    tensor: Tensor
    what: Tensor | int


def constant(read: TableRead) -> Node:
    """The number in a tensor that a function has made itself, as torch.tensor(0.5)."""
    made = read.tensor
    if isinstance(read.what, int) or made.dim() or made.dtype not in LETTERS or made.dtype in FLOATS[1:]:
        raise ScoreModError("a score_mod makes a tensor, other than of one number in float32")
    return number(made.item())


def called(name: str, given: dict[str, Any], result: torch.dtype, types: Sequence[torch.dtype], tables: list[Any]) -> Node:
    """The expression of a call.

    args:      given   the arguments by the schema's names
               result  the type that torch says it has
               types   those of the tensors among the arguments
               tables  tensors so far, to which that of a look-up is added
    errors:    ScoreModError for what has no expression
    """
    if name == "index":
        return _looked_up(given, tables)
    if result not in WHOLE and result not in (torch.float32, torch.bool):
        raise ScoreModError(f"a score_mod computes in {result} ({name})",
                            hint="convert to float32 first: what is rounded on the way differs between torch's implementations")
    if any(isinstance(one, TableRead) for one in given.values()) and name in _SAME:
        raise ScoreModError(f"a score_mod reads a tensor by {name}; it may read single elements, x[i, j] with a number for each of "
                            "its dimensions")
    given = {key: _scalar(one, tables) if isinstance(one, TableRead) else one for key, one in given.items()}
    rule = _RULES.get(name)
    if rule is None:
        raise ScoreModError(f"a score_mod computes with {name}, which kernels do not compute")
    _check_numbers(name, given, types)
    try:
        made = rule(_Call(name, given, FLOAT if result is torch.float32 else BOOL if result is torch.bool else INT))
    except (KeyError, TypeError) as error:
        raise ScoreModError(f"a score_mod calls {name} in a form that is not known: {error}") from error
    return make(str(result).removeprefix("torch."), made) if result in WHOLE and result is not torch.int64 else made


@dataclass(frozen=True)
class _Call:
    """A call: its name, arguments, and the kind of its result."""

    name: str
    given: dict[str, Any]
    kind: str

    def get(self, name: str, kind: str | None = None) -> Node:
        """An argument as an expression of a kind, by default the result's."""
        return as_kind(self.given[name], kind or self.kind)

    def both(self, kind: str | None = None) -> tuple[Node, Node]:
        return self.get("self", kind), self.get("other", kind)


def as_kind(x: Any, kind: str) -> Node:
    """A number or an expression as torch converts it."""
    if isinstance(x, bool | int | float):
        x = number(float(x)) if kind == FLOAT else number(x)
    if not isinstance(x, Node):
        raise ScoreModError(f"a score_mod computes with {type(x).__name__}, which is no number")
    if x.kind == kind:
        return x
    if kind == BOOL:
        return make("ne", x, number(0.0 if x.kind == FLOAT else 0))
    if x.kind == FLOAT:
        raise ScoreModError("a score_mod makes a whole number of a float")
    return make("float" if kind == FLOAT else "int", x)


def _check_numbers(name: str, given: dict[str, Any], types: Sequence[torch.dtype]) -> None:
    """Refuse a whole number that is too large for the tensors that it meets, which torch would cut off or refuse."""
    whole = [WHOLE[one] for one in types if one in WHOLE]
    low, high = max((one[0] for one in whole), default=WHOLE[torch.int64][0]), min((one[1] for one in whole), default=1 << 63)
    for one in given.values():
        if isinstance(one, int) and not isinstance(one, bool) and not low <= one <= high:
            raise ScoreModError(f"a score_mod has the number {one} in {name}, which the tensor's type does not hold")


def _scalar(read: TableRead, tables: list[Any]) -> Node:
    """A tensor of no dimensions as a value."""
    return _looked_up({"self": read, "indices": []}, tables)


def _looked_up(given: dict[str, Any], tables: list[Any]) -> Node:
    table, indices = given["self"], given["indices"]
    number_ = next((at for at, one in enumerate(tables) if one is table.what), None)
    if number_ is None:
        number_ = len(tables)
        tables.append(table.what)
    if len(tables) > MOST:
        raise ScoreModError(f"a score_mod reads more than {MOST} tensors")
    if table.tensor.dtype not in LETTERS:
        raise ScoreModError(f"a score_mod reads a tensor of {table.tensor.dtype}")
    return lookup(LETTERS[table.tensor.dtype], number_, tuple(indices))


def _arithmetic(call: _Call) -> Node:
    if call.kind == BOOL:
        raise ScoreModError(f"a score_mod has {call.name} of truth values")
    first, second = call.both()
    if (alpha := call.given.get("alpha", 1)) != 1:
        second = make("mul", second, as_kind(alpha, call.kind))
    if call.name == "rsub":
        first, second = second, first
    return make({"rsub": "sub"}.get(call.name, call.name), first, second)


def _divided(call: _Call) -> Node:
    mode = call.given.get("rounding_mode")
    if mode is None:
        return make("div", *call.both(FLOAT))
    if mode != "floor":
        raise ScoreModError(f"a score_mod divides with rounding_mode={mode!r}")
    return _whole(call)


def _whole(call: _Call) -> Node:
    if call.kind != INT:
        raise ScoreModError(f"a score_mod has {call.name} of floats, which torch's own implementations round in different ways")
    return make("mod" if call.name == "remainder" else "floordiv", *call.both())


def _compared(call: _Call) -> Node:
    kinds = {one.kind if isinstance(one, Node) else BOOL if isinstance(one, bool) else INT if isinstance(one, int) else FLOAT
             for one in (call.given["self"], call.given["other"])}
    kind = FLOAT if FLOAT in kinds else INT if INT in kinds or call.name not in ("eq", "ne") else BOOL
    first, second = call.both(kind)
    if kind == BOOL:
        differ = make("xor", first, second)
        return differ if call.name == "ne" else make("not", differ)
    return make(_TURNED[call.name], second, first) if call.name in _TURNED else make(call.name, first, second)


def _joined(call: _Call) -> Node:
    return make(_LOGICAL[call.name], *call.both())


def _same(call: _Call) -> Node:
    if call.name == "detach" and depends_on(call.get("self"), "s"):
        raise ScoreModError("a score_mod detaches what it has made of the score")
    return call.get("self")


def _power(call: _Call) -> Node:
    exponent = call.given["exponent"]
    if exponent not in _POWERS or call.kind != FLOAT and exponent not in (1, 2, 3):
        raise ScoreModError(f"a score_mod has the power {exponent}; it may have {', '.join(map(str, _POWERS))}")
    return _POWERS[exponent](call.get("self"))


def _chosen(call: _Call) -> Node:
    condition = call.given["condition"]
    if not isinstance(condition, Node) or condition.kind != BOOL:
        raise ScoreModError("a score_mod chooses by something that is no truth value")
    return make("where", condition, *call.both())


def _filled(call: _Call) -> Node:
    return make("where", call.get("mask", BOOL), call.get("value"), call.get("self"))


def _clamped(call: _Call) -> Node:
    made = call.get("self")
    for name, lower in (("min", True), ("max", False)):
        if call.given.get(name) is not None:
            bound = call.get(name)
            outside = make("lt", made, bound) if lower else make("lt", bound, made)
            made = make("where", outside, bound, made)
    return made


def _positive(call: _Call) -> Node:
    zero = as_kind(0, call.kind)
    return make("where", make("le", call.get("self"), zero), zero, call.get("self"))


def _full(call: _Call) -> Node:
    value = next((call.given[name] for name in ("fill_value", "s") if name in call.given), None)
    if value is None:
        value = 1 if "ones" in call.name else 0
    return as_kind(value, call.kind)


def _extreme(call: _Call) -> Node:
    return make(call.name[:3], *call.both())


_RULES: dict[str, Callable[[_Call], Node]] = {
    **dict.fromkeys(("add", "sub", "mul", "rsub"), _arithmetic), "div": _divided, "floor_divide": _whole, "remainder": _whole,
    **dict.fromkeys(_COMPARED, _compared), **dict.fromkeys(_LOGICAL, _joined), **dict.fromkeys(_SAME, _same),
    **{f"{room}_not": lambda call: make("not", call.get("self")) for room in ("logical", "bitwise")},
    **{name: lambda call: make(call.name, call.get("self")) for name in ("neg", "abs")},
    **{name: lambda call: make(call.name, call.get("self", FLOAT)) for name in UNARY},
    "reciprocal": lambda call: make("div", number(1.0), call.get("self", FLOAT)), "pow": _power, "where": _chosen,
    "masked_fill": _filled, **dict.fromkeys(("clamp", "clamp_min", "clamp_max"), _clamped),
    "relu": _positive, **dict.fromkeys(("minimum", "maximum"), _extreme),
    **dict.fromkeys(("scalar_tensor", "full", "zeros", "ones", "zeros_like", "ones_like", "full_like", "new_full", "new_zeros",
                     "new_ones"), _full)}


__all__ = ["TableRead", "as_kind", "called", "constant"]
