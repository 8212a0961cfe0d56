"""Several launches as one plan, which know by name the arrays that each call has.

Input: a function that makes a call's arrays, those that it is given and those that it needs, and one that makes launches of them.
Output: a plan. For example:

    def arrays_of(x, w): return dict(x=x, w=w, held=x.new_empty(8), out=torch.empty_like(x))

    plan = in_steps(arrays_of, lambda arrays: [(kernel, grid, (arrays["x"], arrays["held"]), meta), ...], x, w)
    plan(x, w)                      launches them for new arrays, and gives `out`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

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


__all__ = ["in_steps"]
