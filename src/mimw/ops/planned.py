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

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from .contract import Contract
from .plans import Plans, look


class Planned:
    """The function of an `Operator` whose calls are planned.

    args:      make    `make(of, *arguments, *answers)`: the plan
               asks    functions of a tensor whose answers a plan depends on, too
               of      the name of that tensor, by default the first
               rounds  argument -> a function of numbers: calls with the same result look alike, and plans get that
    """

    def __init__(self, make: Callable[..., Callable], *asks: Callable[[Tensor], Any], of: str | None = None,
                 rounds: Mapping[str, Callable[[int], int]] = {}):
        self.make, self.asks, self.of, self.rounds, self.plans = make, asks, of, rounds, Plans(make)

    def function(self, schema: str, contract: Contract) -> Callable:
        """The function for a schema's arguments, which `contract` checks when a plan is made."""
        parsed = torch._C.parse_schema(f"mimw::{schema}")
        names = [one.name for one in parsed.arguments]

        def made(*given: Any) -> Callable:
            return self.make(contract.planned(**dict(zip(names, given))), *given)

        name = parsed.name.partition("::")[2]
        self.plans = Plans(made, name=name)
        known = {"planned": self, "look": look, **{f"ask{number}": ask for number, ask in enumerate(self.asks)},
                 **{f"round_{name}": round_ for name, round_ in self.rounds.items()},
                 **{f"default_of_{one.name}": one.default_value for one in parsed.arguments}}
        exec(compile(self._text(name, parsed.arguments), f"<planned {name}>", "exec"), known)
        function = known[name]
        function.__module__ = self.make.__module__
        return function


    def _text(self, name: str, arguments: list) -> str:
        """The text of the function."""
        kinds = {one.name: str(one.type) for one in arguments}
        looks = {"Tensor": "look({0})", "Optional[Tensor]": "{0} if {0} is None else look({0})"}
        answers = [f"answer{number}" for number in range(len(self.asks))]
        head = ", ".join(one.name + (f"=default_of_{one.name}" if one.has_default_value() else "") for one in arguments)
        return "\n".join([
            f"def {name}({head}):",
            *(f"    answer{number} = ask{number}({self.of or arguments[0].name})" for number in range(len(self.asks))),
            *(f"    {one} = round_{one}({one})" for one in self.rounds),
            f"    key = {', '.join([*(looks.get(kind, '{0}').format(one) for one, kind in kinds.items()), *answers])},",
            f"    plan = planned.plans[key] or planned.plans.made(key, {', '.join([*kinds, *answers])})",
            f"    return plan({', '.join(one for one, kind in kinds.items() if kind in looks)})"])


__all__ = ["Planned"]
