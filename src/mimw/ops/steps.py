"""Several launches as one plan, which know by name the arrays that each call has.

Input: a function that makes a call's arrays, those that it is given and those that it needs, and one that makes launches of them.
Output: a plan. For example:

    def arrays_of(x, w): return dict(x=x, w=w, held=x.new_empty(8), out=torch.empty_like(x))

    plan = in_steps(arrays_of, lambda arrays: [(kernel, grid, (arrays["x"], arrays["held"]), meta), ...], x, w)
    plan(x, w)                      launches them for new arrays, and gives `out`
    steps = named(x, arrays, [...])                 the same for arguments that are views of arrays, or tuples of them
    steps(arrays)                   launches them for arrays of these names
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor

from .launching import Launch


def in_steps(arrays_of: Callable[..., dict[str, Tensor]], make: Callable[[dict], Iterable[tuple]],
             *given: Tensor | None) -> Callable[..., Tensor]:
    """The plan of the launches [(kernel, grid, args, meta), ...] that `make(arrays)` gives; an array among `args` is one of these,
    by identity, perhaps in a descriptor."""
    arrays = arrays_of(*given)
    names, steps = {id(array): name for name, array in arrays.items()}, []
    for kernel, grid, args, meta in make(arrays):
        used = [names[id(array)] for one in args if isinstance(array := getattr(one, "base", one), Tensor)]
        steps.append((Launch(given[0], kernel, grid, args, meta), used))
    del arrays      # plans hold no memory

    def plan(*given: Tensor | None) -> Tensor:
        arrays = arrays_of(*given)
        for launch, used in steps:
            launch(*[arrays[name] for name in used])
        return arrays["out"]

    return plan


def named(on: Tensor, arrays: Mapping[str, Tensor | None],
          launches: Iterable[tuple]) -> Callable[[Mapping[str, Tensor | None]], None]:
    """The launches [(kernel, grid, args, meta), ...] for other arrays of the same names, shapes and types. An argument, also in a
    tuple or a descriptor, is an array, or a view of a whole one; each of `arrays` has memory of its own."""
    names = {_memory(array): name for name, array in arrays.items() if array is not None}
    steps = [(Launch(on, kernel, grid, args, meta), [names[_memory(one)] for one in _tensors(args)])
             for kernel, grid, args, meta in launches]

    def launch_all(arrays: Mapping[str, Tensor | None]) -> None:
        for launch, used in steps:
            launch(*[arrays[name] for name in used])

    return launch_all


def _memory(array: Tensor) -> int:
    return array.untyped_storage()._cdata


def _tensors(value: Any) -> Iterator[Tensor]:
    """The tensors of a launch's arguments, in the order in which a `Launch` takes them."""
    if isinstance(value, tuple):
        for one in value:
            yield from _tensors(one)
    elif isinstance(array := getattr(value, "base", value), Tensor):
        yield array


__all__ = ["in_steps", "named"]
