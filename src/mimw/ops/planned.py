"""The function behind an operator whose calls are planned once for arguments that look alike.

Input: how a plan is made, and the operator's schema and contract. Output: the function, written for the schema's arguments. For
example:

    SCALED = Operator("scaled(Tensor x, Tensor? y, float scale=1.0) -> Tensor", Planned(_plan, is_exact), CONTRACT)

    def scaled(x, y, scale=1.0):
        key = look(x), y if y is None else look(y), scale, is_exact(x)
        plan = planned.plans[key] or planned.plans.made(key, x, y, scale, key[-1])
        return plan(x, y)

`_plan(of, x, y, scale, exact)` gives the plan of calls like this one, a function of the tensors alone. `of` are the extents and
results that the contract has found; what it refuses has no plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .contract import Contract
from .plans import Plans, look


class Planned:
    """What an `Operator` runs, if its calls are planned.

    args:      make    `make(of, *arguments, *answers)`: the plan
               asks    functions of a tensor whose answers a plan depends on, too
               of      the name of that tensor, by default the first
    """

    def __init__(self, make: Callable[..., Callable], *asks: Callable[[Tensor], Any], of: str | None = None):
        self.make, self.asks, self.of, self.plans = make, asks, of, Plans(make)

    def function(self, schema: str, contract: Contract) -> Callable:
        """The function for a schema's arguments, which `contract` checks when a plan is made."""
        parsed = torch._C.parse_schema(f"mimw::{schema}")
        names = [one.name for one in parsed.arguments]

        def made(*given: Any) -> Callable:
            return self.make(contract.planned(**dict(zip(names, given))), *given)

        self.plans = Plans(made)
        known = {"planned": self, "look": look, **{f"ask{number}": ask for number, ask in enumerate(self.asks)},
                 **{f"default_of_{one.name}": one.default_value for one in parsed.arguments}}
        name = parsed.name.partition("::")[2]
        exec(compile(_text(name, parsed.arguments, self.of or names[0], len(self.asks)), f"<planned {name}>", "exec"), known)
        function = known[name]
        function.__module__ = self.make.__module__
        return function


def _text(name: str, arguments: list, asked: str, asks: int) -> str:
    """The text of the function."""
    names = [one.name for one in arguments]
    tensors = [one.name for one in arguments if "Tensor" in str(one.type)]
    optional = {one.name for one in arguments if str(one.type) == "Optional[Tensor]"}
    parts = [name if name not in tensors else f"{name} if {name} is None else look({name})" if name in optional else f"look({name})"
             for name in names]
    answers = [f"answer{number}" for number in range(asks)]
    head = ", ".join(one.name + (f"=default_of_{one.name}" if one.has_default_value() else "") for one in arguments)
    return "\n".join([
        f"def {name}({head}):", *(f"    answer{number} = ask{number}({asked})" for number in range(asks)),
        f"    key = {', '.join([*parts, *answers])},",
        f"    plan = planned.plans[key] or planned.plans.made(key, {', '.join([*names, *answers])})",
        f"    return plan({', '.join(tensors)})"])


__all__ = ["Planned"]
