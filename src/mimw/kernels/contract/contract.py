"""A contract: its lines, and the check of arguments by them.

Input: lines, and a call's arguments by name. Output: the extents and options of the call, or an error that says what does not fit:

    CONTRACT = Contract("x: float (rows, n) rows", "y: float (rows, n) rows", "n <= 4096 -- cut the rows", empty="rows")
    of = CONTRACT.check(x=x, y=y)       of.rows, of.n

Extents of 0 are refused, but those that `empty` names ("*" for all). An argument that is no line's is an option, for rules. A
contract is parsed at its first use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

from . import types
from .extents import Extents, Shape
from .lines import Option, Rule, Tensor, parsed
from .memory import wrong


class Contract:
    """The lines of a call's arguments. A subclass says how something is refused, and what else holds for its arguments."""

    def __init__(self, *lines: str, empty: str = ""):
        self.text, self.empty = lines, tuple(empty.replace(",", " ").split())

    @cached_property
    def lines(self) -> list[Tensor | Option | Rule]:
        """The lines, parsed."""
        return [parsed(one) for one in self.text]

    @cached_property
    def tensors(self) -> list[Tensor]:
        """The tensors that a call takes, in order."""
        return [one for one in self.lines if isinstance(one, Tensor) and not one.is_result]

    @cached_property
    def results(self) -> list[Tensor]:
        """The tensors that a call gives, in order."""
        return [one for one in self.lines if isinstance(one, Tensor) and one.is_result]

    @cached_property
    def options(self) -> list[Option]:
        """The arguments that are types."""
        return [one for one in self.lines if isinstance(one, Option)]

    @cached_property
    def rules(self) -> list[Rule]:
        """The rules, in order."""
        return [one for one in self.lines if isinstance(one, Rule)]

    def check(self, **given: Any) -> Extents:
        """The extents of the call's tensors by name, with its options, or an error."""
        named = {one.name: one for one in self.tensors}
        tensors = {name: given[name] for name in named if given.get(name) is not None}
        of = Extents(**{name: one for name, one in given.items() if name not in named})
        for name, one in named.items():
            if name not in tensors and not one.optional:
                self.refuse(f"{name} is None; it is needed, as {one.text.partition(': ')[2]}")
        self.check_devices(tensors)
        for name, array in tensors.items():
            self._check_rank(named[name], array, of)
        for name, array in tensors.items():
            self._check_type(named[name], array, tensors)
        self._check_options(of)
        early = [rule for rule in self.rules if all(hasattr(of, name) for name in rule.names)]     # expressions of options alone
        self._check_rules(early, tensors, of)
        expressions = self.check_extents(tensors, of)
        self._check_rules([rule for rule in self.rules if rule not in early], tensors, of)
        for holds, said in expressions:
            self.demand(holds, said)
        for name, array in tensors.items():
            if named[name].memory and (how := wrong(named[name].memory, array)):
                self.refuse(f"{name} {how}")
        return of

    def takes(self, **given: Any) -> bool:
        """True if `check` lets this pass."""
        try:
            self.check(**given)
        except (ValueError, RuntimeError):
            return False
        return True

    # How something is refused: kernels know numpy and torch arrays, and no symbols.

    def refuse(self, text: str, unknown_type: bool = False) -> None:
        """Raise what the contract's calls raise; `unknown_type` for a type that is not offered."""
        raise ValueError(text)

    def demand(self, holds: Any, text: Callable[[], str]) -> None:
        """`refuse` unless it holds."""
        if not holds:
            self.refuse(text())

    def check_devices(self, tensors: dict[str, Any]) -> None:
        """Nothing: kernels' arrays may be of numpy."""

    def shown(self, type_: str) -> str:
        """An element type in a message."""
        return type_

    # The checks.

    def _check_rank(self, line: Tensor, array: Any, of: Extents) -> None:
        if any(shape.groups(len(array.shape), of) is not None for shape in line.shapes):
            return
        few = f"have {_rank(line.shapes[0])} dimensions: " if len(line.shapes) == 1 else "be "
        self.refuse(f"{line.name} has {len(array.shape)} dimensions, {by(array)}; it must {few}"
                    f"{' or '.join(shape.text for shape in line.shapes)}")

    def _check_type(self, line: Tensor, array: Any, tensors: dict[str, Any]) -> None:
        type_ = types.of(array)
        if line.like is None:
            if line.types and type_ not in line.types:
                self.refuse(f"{line.name} is {array.dtype}; it may be {', '.join(map(self.shown, line.types))}", True)
            return
        other = tensors.get(line.like)
        same = other is None or types.of(other) == type_
        if same or ({type_, types.of(other)} <= {*line.types} if line.fp8_too else type_ in line.types):
            return
        more = "or both fp8" if line.fp8_too else f"or {line.name} {' or '.join(map(self.shown, line.types))}"
        self.refuse(f"{line.like} is {other.dtype} and {line.name} {array.dtype}; both must be of one type"
                    f"{line.types and ', ' + more or ''}")

    def _check_options(self, of: Extents) -> None:
        for option in self.options:
            value = getattr(of, option.name, None)
            if value is not None and str(value).removeprefix("torch.") not in option.types:
                self.refuse(f"{option.name} is {value}; it may be {', '.join(map(self.shown, option.types))}", True)

    def check_extents(self, tensors: dict[str, Any], of: Extents) -> list[tuple[Any, Callable[[], str]]]:
        """Bind the names of extents; what else must hold, of expressions of them, with what is said where it does not."""
        named, bound, later = {one.name: one for one in self.tensors}, {}, []
        for name, array in tensors.items():
            shape = self._shape_of(named[name], array, of)
            if shape.groups(len(array.shape), of) is None:
                self.refuse(self._misfit(named[name], shape, tensors, bound, of))
            self._check_empty(name, array, shape, of)
            said = partial(self._misfit, named[name], shape, tensors, bound, of)
            for place, extent, choices in shape.bound(tuple(array.shape), of):
                if place.group or place.is_name:
                    self.demand(_is_one_of(extent, choices), said)
                else:
                    later.append((_is_one_of(extent, choices), said))
            bound.update({one: name for one in vars(of) if one not in bound})
        of.front = self.broadcast(getattr(of, "front", ()))
        return later

    def broadcast(self, shapes: tuple[tuple, ...]) -> tuple:
        """The shape to which these are broadcast."""
        return max(shapes, key=len, default=())

    def _check_empty(self, name: str, array: Any, shape: Shape, of: Extents) -> None:
        if "*" in self.empty:
            return
        for extent, one in zip(array.shape, shape.extents):
            if extent == 0 and one.name not in self.empty:
                self.refuse(f"{name} is empty, {by(array)}: there is nothing to compute")

    def _shape_of(self, line: Tensor, array: Any, of: Extents) -> Shape:
        """The shape that the array has, of those that it may have: the one whose extents fit, else the first of that rank."""
        fitting = [shape for shape in line.shapes if shape.groups(len(array.shape), of) is not None]
        for shape in fitting[:-1] if len(fitting) > 1 else ():
            trial = Extents(**vars(of))
            if all(_is_one_of(extent, choices) for _, extent, choices in shape.bound(tuple(array.shape), trial)):
                return shape
        return (fitting or line.shapes)[-1]

    def _misfit(self, line: Tensor, shape: Shape, tensors: dict[str, Any], bound: dict[str, str], of: Extents) -> str:
        """The message for a tensor of another shape, with the tensors that have named its extents."""
        array = tensors[line.name]
        shapes = [one for one in line.shapes if one.groups(len(array.shape), of) is not None] or [shape]
        of_names = {bound[name] for one in shapes for name in one.names if bound.get(name) in tensors}
        others = [f"{name} {by(one)}" for name, one in tensors.items() if name in of_names]
        expected = " or ".join(one.expected(of, len(array.shape)) for one in shapes)
        return (f"{line.name} is {by(array)}; {f'for {_and(others)} ' if others else ''}it must be {expected}, "
                f"{' or '.join(one.text for one in shapes)}")

    def _check_rules(self, rules: list[Rule], tensors: dict[str, Any], of: Extents) -> None:
        for rule in rules:
            values = {name: tensors.get(name, getattr(of, name, None)) for name in rule.names}
            known = {one.name for one in self.tensors}
            if any(values[name] is None and name not in known and hasattr(of, name) and f"{name} is" not in rule.text
                   for name in rule.names):
                continue
            holds = of.value(rule.code, **{name: tensors.get(name) for name in rule.names if name in known})
            if rule.offered and not holds:
                self.refuse(self._broken(rule, values), True)
            self.demand(holds, lambda: self._broken(rule, values))

    def _broken(self, rule: Rule, values: dict[str, Any]) -> str:
        if all(value is None for value in values.values()):
            return f"{_and([f'{name} is None' for name in values])}; {rule.mend}"
        said = [f"{name} is {_shown(value)}" for name, value in values.items() if value is not None]
        return f"{_and(said)}; {rule.mend or 'it must be ' + rule.text}"


def by(array: Any) -> str:
    """An array's shape: 4 x 64."""
    return " x ".join(map(str, array.shape)) or "a number"


def _shown(value: Any) -> str:
    if hasattr(value, "shape"):
        return f"{by(value)} of {value.dtype}"
    return repr(value) if isinstance(value, str) else str(value)


def _is_one_of(extent: Any, choices: list) -> Any:
    """Without asking a symbol more than once where there is one choice."""
    if len(choices) == 1:
        return extent == choices[0]
    return any(bool(extent == one) for one in choices)


def _rank(shape: Shape) -> str:
    fixed = sum(not one.group for one in shape.extents)
    return f"{fixed} or more" if fixed < len(shape.extents) else str(fixed)


def _and(words: list[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


__all__ = ["Contract", "by"]
