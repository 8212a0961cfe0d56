"""The contract of an operator of torch: checks as torch refuses, shapes and types of results, operations for torch's counter.

Input: the operator's name, and lines as `mimw.kernels.contract` has them, with results behind arrows. Output: a `Contract`:

    MATMUL = Contract("matmul", "a: bf16|fp16 (..., m, k)", "b: =a (..., k, n)", "out_dtype?: bf16|fp16",
                      "-> c: out_dtype|=a (..., m, n)", flops="2 * prod(front) * m * n * k")
    of = MATMUL.check(a=a, b=b, out_dtype=None)     RuntimeError, or NotImplementedError for other types
    of.c.shape, of.c.dtype, of.c.empty(a)           the result's, of tensors with data or without
    of.empty(a)                                     all results, without content: a tensor, or a tuple of several
    MATMUL.fake(a=a, b=b, out_dtype=None)           empty results, for `Operator(..., contract=MATMUL)`

The types of a result are tried in turn: an option that is given, =a for a's type unless that is fp8 and others follow, =x+y for
the wider of two, and words for types. Behind its shape a result may say how it lies: "like x" as x (no elements without x),
"order x" as x does if x's last dimension is contiguous, "if x" without elements unless x is given and not false, "heads x" as x
if that is (batch, length, heads, dim) in memory. Else results are contiguous. One that is there with an argument alone has a `?`,
and "with x". Extents may be symbols of torch.compile, and 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from mimw.kernels import contract as kernels
from mimw.kernels.contract import by
from mimw.kernels.contract.extents import Extents, compiled
from mimw.kernels.contract.types import FP8, are_named, named, of


@dataclass(frozen=True)
class Result:
    """Shape and type of a result, and how it lies: as a word says, or by its strides."""

    shape: tuple
    dtype: torch.dtype
    lies: str = ""
    like: Tensor | None = None
    strides: tuple[int, ...] | None = None

    def empty(self, on: Tensor) -> Tensor:
        """The result without content, where `on` is."""
        if self.strides is not None:        # by these torch takes half the time
            return on.new_empty_strided(self.shape, self.strides, dtype=self.dtype)
        if self.lies == "like" and self.like is None:
            return on.new_empty(0, dtype=self.dtype)
        if self.lies == "like":
            return torch.empty_like(self.like, dtype=self.dtype)
        if self.lies == "order":
            rows = self.like.shape[-1] == 1 or self.like.stride(-1) == 1
            return torch.empty_like(self.like, memory_format=torch.preserve_format if rows else torch.contiguous_format)
        if self.lies == "heads" and _turned(self.like) and len(self.shape) == 4:
            batch, heads, length, dim = self.shape
            return on.new_empty((batch, length, heads, dim), dtype=self.dtype).transpose(1, 2)
        return on.new_empty(self.shape, dtype=self.dtype)


def _with_results(found: Extents, results: dict[str, Result]) -> Extents:
    vars(found).update(results, empty=partial(_empty, tuple(results.values())))
    return found


def _empty(results: tuple[Result, ...], on: Tensor) -> Any:
    """Results without content: one tensor, a tuple of several, None of none."""
    if len(results) == 1:
        return results[0].empty(on)
    return tuple([one.empty(on) for one in results]) or None


def _turned(x: Tensor) -> bool:
    """True if x (batch, heads, length, dim) is (batch, length, heads, dim) in memory."""
    return x.dim() == 4 and not x.is_contiguous() and x.transpose(1, 2).is_contiguous()


class Contract(kernels.Contract):
    """The arguments and results of an operator.

    args:      name, lines    as above
               flops          an expression of extents and options: operations of a call, for torch.utils.flop_counter
               also           `also(of, given)` checks what no line says, after all lines, and may note what it finds in `of`
               says           what is added to the refusal of a type: "torch.matmul takes the other types"
    """

    def __init__(self, name: str, *lines: str, flops: str | None = None, also: Callable | None = None, says: str = ""):
        super().__init__(*lines, empty="*")
        self.name, self.flops, self.also, self.says = name, flops, also, says

    def refuse(self, text: str, unknown_type: bool = False) -> None:
        """RuntimeError, or NotImplementedError for a type that is not offered."""
        if unknown_type:
            raise NotImplementedError(f"{self.name}: {text}{self.says and '. ' + self.says}")
        raise RuntimeError(f"{self.name}: {text}")

    def demand(self, holds: Any, text: Callable[[], str]) -> None:
        """RuntimeError unless it holds; of symbols, a guard or an assertion of the graph."""
        torch._check(holds if isinstance(holds, torch.SymBool) else bool(holds), lambda: f"{self.name}: {text()}")

    def check_devices(self, tensors: dict[str, Tensor]) -> None:
        """RuntimeError unless all are on one device."""
        first = next(iter(tensors))
        for name, one in tensors.items():
            if one.device != tensors[first].device:
                self.refuse(f"{first} is on {tensors[first].device} and {name} on {one.device}; all must be on one device")

    def broadcast(self, shapes: tuple[tuple, ...]) -> tuple:
        """Broadcast by torch."""
        return tuple(torch.broadcast_shapes(*shapes))

    def shown(self, type_: str) -> str:
        """The type's name in torch."""
        return f"torch.{type_}"

    def check(self, **given: Any) -> Extents:
        """The extents of the call by name, and its results, or an error."""
        found = super().check(**given)
        if self.also is not None:
            self.also(found, given)
        return _with_results(found, {line.name: self._result(line, given, found) for line in self.results if not line.optional
                                     or given.get(line.memory.removeprefix("with ")) is not None})

    def planned(self, **given: Any) -> Extents:
        """`check` for a plan, which is kept: results by shape and strides, and no tensor."""
        checked, on = self.check(**given), self._first(given)
        found = Extents(**{name: value for name, value in vars(checked).items() if not isinstance(value, Tensor)})
        made = {line.name: getattr(found, line.name).empty(on) for line in self.results if hasattr(found, line.name)}
        return _with_results(found, {name: Result(tuple(one.shape), one.dtype, strides=one.stride()) for name, one in made.items()})

    def fake(self, **given: Any) -> Any:
        """Empty results of a call, or an error: one tensor, a tuple of several, None of none."""
        return self.check(**given).empty(self._first(given))

    def _first(self, given: dict[str, Any]) -> Tensor:
        return next(given[one.name] for one in self.tensors if given.get(one.name) is not None)

    def _check_type(self, line: kernels.Tensor, array: Tensor, tensors: dict[str, Tensor]) -> None:
        result = next((one for one in self.results if one.name == line.like), None)
        if result is None:
            super()._check_type(line, array, tensors)
        elif (wanted := self._type_of(result.words.split("|"), tensors)) != of(array):
            self.refuse(f"{line.name} is {array.dtype}; it must be of the result's type, {self.shown(wanted)}")

    def operations(self, **given: Any) -> int:
        """The number of operations of a call."""
        found = Extents(**given)
        self.check_extents({one.name: given[one.name] for one in self.tensors if given.get(one.name) is not None}, found)
        return int(found.value(self._flops))

    @cached_property
    def _flops(self):
        return compiled(self.flops)

    def _result(self, line: kernels.Tensor, given: dict[str, Any], found: Extents) -> Result:
        lies, _, like = line.memory.partition(" ")
        absent = tuple(one.name for one in self.tensors if given.get(one.name) is None and not hasattr(found, one.name))
        shape = (0, ) if lies == "if" and (given[like] is None or given[like] is False) else line.shapes[0].of(found, absent)
        return Result(shape, getattr(torch, self._type_of(line.words.split("|"), given)), lies, given.get(like))

    def _type_of(self, words: list[str], given: dict[str, Any]) -> str:
        word, *others = words
        if word.startswith("="):
            tensors = [given[name] for name in word[1:].split("+") if given.get(name) is not None]
            if tensors and not (others and of(tensors[0]) in FP8):
                types = [one.dtype for one in tensors]
                return str(types[0] if len(types) == 1 else torch.promote_types(*types)).removeprefix("torch.")
        elif are_named(word):
            return named(word)[0]
        elif given.get(word) is not None:
            return str(given[word]).removeprefix("torch.")
        return self._type_of(others, given)


__all__ = ["Contract", "Extents", "Result", "by"]
