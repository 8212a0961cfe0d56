"""`mimw.ops.explain`: what a call of an operator would launch on a chip, with which configurations and why, and what torch does.

Input: an operator, the arguments of a call, and the chip. Output: an `Explanation`. For example:

    explain(ops.matmul, a, b).line                      "matmul: by gemm"
    print(explain(ops.matmul, a, b, target="gfx950"))   that line, and one for each launch, reason and step of torch
    explain(ops.scaled_dot_product_attention, q, k, v, bias).line   "scaled_dot_product_attention: by torch, as attn_mask is ..."
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_map

from .chips import SIMULATED_PROGRAMS, asked_for, asking, chip_of, programs
from .log import shown_options
from .scaled_dot_product_attention import reason, scaled_dot_product_attention
from .stand_in import rank_stand_in, stand_in

_PLAIN = frozenset((Tensor, torch.nn.Parameter, FakeTensor))
REASONS = {scaled_dot_product_attention: reason}     # of functions that leave some calls to torch's own: why, or None


@dataclass(frozen=True)
class Launched:
    """A launch: the kernel's package in `mimw.kernels`, programs along each axis, constants and options, and why these."""

    kernel: str
    grid: tuple[int, ...]
    configuration: str
    why: str

    def __str__(self) -> str:
        return f"{self.kernel}: grid {self.grid}, {self.configuration} ({self.why})"


@dataclass(frozen=True)
class Explanation:
    """The work of a call on a chip.

    fields:    operator  its name
               target    the chip
               launches  in their order, `Launched`
               declined  kernels that do not take the call, each "KERNEL: what speaks against it"
               torch     what torch computes besides, each "FUNCTION of TYPE SHAPE": copies, sorts, pads
               why       the reason why torch computes all of it, or None
    """

    operator: str
    target: str
    launches: tuple[Launched, ...]
    declined: tuple[str, ...]
    torch: tuple[str, ...]
    why: str | None = None

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels' packages, each once."""
        return tuple(dict.fromkeys(one.kernel for one in self.launches))

    @property
    def line(self) -> str:
        """The short answer."""
        return f"{self.operator}: by {', '.join(self.kernels) or 'torch'}" + (f", as {self.why}" if self.why else "")

    def json(self) -> dict[str, Any]:
        """The fields as plain data."""
        return {"operator": self.operator, "target": self.target, "kernels": list(self.kernels), "why": self.why,
                "launches": [vars(one) | {"grid": list(one.grid)} for one in self.launches], "declined": list(self.declined),
                "torch": list(self.torch)}

    def __str__(self) -> str:
        return "\n".join([f"{self.line} (on {self.target})", *(f"    {one}" for one in self.launches),
                          *(f"    not {one}" for one in self.declined), *(f"    torch: {one}" for one in self.torch)])


def explain(operator: Callable, *args: Any, target: str | None = None, **options: Any) -> Explanation:
    """The launches of a call with their configurations, what speaks against other kernels, and what torch computes of it. Nothing
    is computed, compiled or launched, and no plan is kept.

    args:      operator        a function of `mimw.ops`, or of `mimw.ops.distributed` in a process group: then of the rank that
                               asks, which other ranks need not do
               args, options   of the call; tensors may be of a GPU, the CPU, torch's device `meta`, or fake
               target          the chip, as "sm_90a", "sm_80" or "gfx950"; by default that of the tensors: of the CPU and of `meta`
                               the one that is simulated, with its few programs
    returns:   an `Explanation`: `.line` is the answer in a line, `str()` has all, `.json()` is plain data. Of the forward pass;
               configurations that were measured for several GPUs of one chip are those of the GPU in use, if there is one
    errors:    those of the call; TargetError for another chip; RuntimeError where the kernels go by numbers in a tensor that has no
               data, as the sizes of groups
    """
    return explained(operator, args, options, target)


def explained(operator: Callable, args: tuple, options: dict, target: str | None, sizes: int | None = None) -> Explanation:
    """`explain`, with `sizes` for the numbers that the host would wait for and that are not known, as the ends of groups."""
    of_ranks, tensors = operator.__module__.startswith(f"{__package__}.distributed."), []
    made: dict[int, Tensor] = {}

    def stand(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        tensors.append(x)
        if type(x) not in _PLAIN or x.is_nested:        # torch's, as the operator says
            return x
        return made.setdefault(id(x), (rank_stand_in if of_ranks else stand_in)(x))

    args, options = tree_map(stand, (args, options))
    on = tensors[0] if tensors else torch.empty(0)
    chip, count = asked_for(target) if target is not None else (chip_of(on), programs(on) if on.is_cuda else SIMULATED_PROGRAMS)
    with asking(chip, count, sizes) as call, torch.no_grad():
        why = REASONS[operator](*args, **options) if operator in REASONS else None
        if why is None:
            operator(*args, **options)
    launches = tuple(Launched(one.package, one.grid, shown_options(one.options), one.why) for one in call.launched)
    declined = dict.fromkeys(line for plan in call.plans for line in plan.declined)
    return Explanation(operator.__name__, chip, launches, tuple(declined), tuple(call.steps), why)


__all__ = ["Explanation", "Launched", "explain", "explained"]
