"""What a case is made of: random choices that a seed and a number settle, and tensors on the device.

Input: a seed, the number of a case. Output: the same `Draw`, and so the same case, in every process. For example:

    draw = Draw(1, 4711, "cuda")
    m, n = draw.extent(1, 2048), draw.extent(1, 2048)
    a = draw.normal(m, n, dtype=draw.kind(bf16, fp16))

Kernels are compiled for kinds of arguments, not for shapes: what is compiled depends on `kind`, of which an operator has few in a
run (`families`), and on whether extents are multiples of 16, which is one of these kinds. All else is new in each case.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

SMALL = 40      # the longest extent on a CPU, where kernels are simulated


@dataclass(frozen=True)
class Case:
    """`found()` launches and gives tensors, `expected()` the same by torch; they may differ by `allowed` of the largest one."""

    found: Callable[[], tuple[Tensor, ...]]
    expected: Callable[[], tuple[Tensor, ...]]
    allowed: float


class Draw:
    """Random choices of one case. `kind` chooses what is one for all cases of a family, the others what is new in each."""

    def __init__(self, seed: int, number: int, device: str, operators: tuple[str, ...], families: int = 4):
        self._new = random.Random(f"{seed}:{number}")
        self.operator = self._new.choice(operators)
        self._family = random.Random(f"{seed}:{self.operator}:{self._new.randrange(families)}")
        self.device, self.said = device, []
        self._generator = torch.Generator(device).manual_seed(self._new.randrange(1 << 40))
        self.step = self.kind(64, 64, 16, 1)

    def kind(self, *choices):
        """One of these, for the whole family."""
        return self.note(self._family.choice(choices))

    def choice(self, *choices):
        """One of these, for this case."""
        return self.note(self._new.choice(choices))

    def extent(self, low: int, high: int, step: int | None = None) -> int:
        """A number from low to high, a multiple of the family's step; short ones are as likely as long ones."""
        step = step or self.step
        if self.device == "cpu":
            high, step = max(low, min(high, SMALL)), min(step, 8)
        drawn = int(low * (high / low)**self._new.random())
        return self.note(max(-(-low // step), drawn // step) * step)

    def number(self, low: int, high: int) -> int:
        """Any number from low to high."""
        return self.note(self._new.randint(low, high))

    def note(self, value):
        self.said.append(value)
        return value

    def normal(self, *shape: int, dtype: torch.dtype = torch.bfloat16, scale: float = 1.0) -> Tensor:
        return (torch.randn(shape, device=self.device, generator=self._generator) * scale).to(dtype)

    def integers(self, low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.randint(low, high, shape, device=self.device, generator=self._generator).to(dtype)

    def permutation(self, n: int) -> Tensor:
        return torch.randperm(n, device=self.device, generator=self._generator)

    def matrix(self, *shape: int, dtype: torch.dtype, turned: bool) -> Tensor:
        """Normal numbers; turned: the last but one dimension is contiguous."""
        return self.normal(*shape[:-2], shape[-1], shape[-2], dtype=dtype).mT if turned else self.normal(*shape, dtype=dtype)


def with_gradients(call: Callable, inputs: list[Tensor], dys: list[Tensor | None], wide: bool) -> tuple[Tensor, ...]:
    """What `call` gives of the inputs, in fp64 if `wide`, and the gradients of the inputs."""
    leaves = [x.detach().to(torch.float64 if wide else x.dtype).requires_grad_() for x in inputs]
    found = call(*leaves)
    found = found if isinstance(found, tuple) else (found, )
    graded = [(y, dy.to(y.dtype)) for y, dy in zip(found, dys) if dy is not None]
    return (*(y.detach() for y in found), *torch.autograd.grad([y for y, _ in graded], leaves, [dy for _, dy in graded]))
