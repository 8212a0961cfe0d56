"""`mimw.ops.available`: which operators a chip has, by which kernels, for which types, and whether they have a derivative.

Input: a chip. Output: a table. For example:

    print(available())                          of the GPU in use; without one, of the chip that is simulated
    available("gfx950")["matmul"].kernels       ("mfma_gemm", )
    available("sm_80")["matmul"].types          ("bf16", "fp16", "fp32")

Kernels are those of one call, of usual shapes, that `mimw.ops.explain` is asked about; which one another call takes, it says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import torch
from torch import Tensor

from .chips import asked_for, chip_of
from .explain import Explanation, explained
from .operator import OPERATORS

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "fp64": torch.float64, "e4m3": torch.float8_e4m3fn,
         "e5m2": torch.float8_e5m2}
OF_USUAL_TYPE = dict.fromkeys(("lightning_indexer", "lightning_indexer_decode"), "e4m3")    # kernels are those of this type
BEHIND = {"scaled_dot_product_attention": "attention"}      # no operator of torch: the one that has its derivative


def _x(dtype: torch.dtype, *shape: int) -> Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


def _ids(*shape: int) -> Tensor:
    return torch.empty(*shape, dtype=torch.int32, device="meta")


def _fp32(*shape: int) -> Tensor:
    return _x(torch.float32, *shape)


# A call of usual shapes, by the type of its rows.
CALLS: dict[str, Callable[[torch.dtype], tuple[tuple, dict]]] = {
    "addmm": lambda t: ((_x(t, 512), _x(t, 256, 512), _x(t, 512, 512).mT), {}),
    "attention": lambda t: ((_x(t, 2, 8, 512, 128), ) * 3, {}),
    "attention_decode": lambda t: ((_x(t, 4, 1, 8, 128), *(_x(t, 4, 512, 2, 128), ) * 2, _ids(4)), {}),
    "attention_varlen": lambda t: ((*(_x(t, 512, 8, 128), ) * 3, _ids(3), _ids(3), 256, 256), {}),
    "cross_entropy": lambda t: ((_x(t, 512, 4096), _ids(512)), {}),
    "gather_matmul_scatter": lambda t: ((_x(t, 512, 256), _x(t, 512, 256).T, _ids(256), _ids(256)), {}),
    "grouped_matmul": lambda t: ((_x(t, 256, 128), _x(t, 2, 256, 128).mT, _ids(2)), {}),
    "layer_norm": lambda t: ((_x(t, 512, 4096), 4096), {}),
    "lightning_indexer": lambda t: ((_x(t, 64, 64, 128), _x(t, 512, 128), _fp32(64, 64), _fp32(512)), {"topk": 64}),
    "lightning_indexer_decode": lambda t: ((_x(t, 4, 1, 64, 128), _x(t, 32, 64, 128), _fp32(4, 1, 64), _ids(4), _ids(4, 8)), {}),
    "linear_attention": lambda t: ((*(_x(t, 1, 256, 2, 128), ) * 3, _fp32(1, 256, 2), _fp32(1, 256, 2)), {}),
    "linear_attention_step": lambda t: ((*(_x(t, 4, 2, 128), ) * 3, _fp32(4, 2, 128, 128)), {}),
    "linear_cross_entropy": lambda t: ((_x(t, 512, 256), _x(t, 4096, 256), _ids(512)), {}),
    "log_softmax": lambda t: ((_x(t, 512, 4096), -1), {}),
    "matmul": lambda t: ((_x(t, 512, 256), _x(t, 512, 256).T), {}),
    "mla_decode": lambda t: ((_x(t, 4, 1, 64, 576), _x(t, 4, 256, 1, 576), _ids(4)), {}),
    "moe": lambda t: ((_x(t, 64, 128), _x(t, 4, 256, 128), _x(t, 4, 128, 128), _ids(64, 2), _fp32(64, 2)), {}),
    "moe_align": lambda t: ((_ids(64, 2), 4, 64), {}),
    "rms_norm": lambda t: ((_x(t, 512, 4096), 4096), {}),
    "rope": lambda t: ((_x(t, 2, 8, 512, 128), _fp32(512, 64), _fp32(512, 64)), {}),
    "scaled_dot_product_attention": lambda t: ((_x(t, 2, 8, 512, 128), ) * 3, {}),
    "scaled_mm": lambda t: ((_x(t, 512, 256), _x(t, 512, 256).T, _fp32(1), _fp32(1)), {}),
    "simplicial_attention": lambda t: ((_x(t, 1, 64, 128, 128), *(_x(t, 1, 1, 128, 128), ) * 4), {"windows": (64, 64)}),
    "softmax": lambda t: ((_x(t, 512, 4096), -1), {}),
    "sparse_mla": lambda t: ((_x(t, 1, 16, 64, 576), _x(t, 1, 256, 1, 576), _ids(1, 16, 1, 128), _ids(1, 16, 1), 512), {}),
    "swiglu": lambda t: ((_x(t, 512, 512), _x(t, 512, 512)), {}),
    "topk": lambda t: ((_x(t, 512, 8192), 32), {}),
    "topk_selector": lambda t: ((_x(t, 512, 8192), 32), {}),
}


@dataclass(frozen=True)
class Row:
    """An operator on a chip: kernels of the usual call (none where torch computes it), types of its rows, and whether it has a
    derivative."""

    operator: str
    kernels: tuple[str, ...]
    types: tuple[str, ...]
    derivative: bool


class Available(dict):
    """Operator -> its `Row`, on the chip `target`. `str()` is a table; `.json()` plain data."""

    def __init__(self, target: str, rows: dict[str, Row]):
        super().__init__(rows)
        self.target = target

    def json(self) -> list[dict]:
        """A row each: operator, kernels, types, derivative."""
        return [vars(row) | {"kernels": list(row.kernels), "types": list(row.types)} for row in self.values()]

    def __str__(self) -> str:
        lines = [("operator", "kernels", "types", "derivative")]
        lines += [(row.operator, ", ".join(row.kernels) or "torch", ", ".join(row.types), "yes" if row.derivative else "no")
                  for row in self.values()]
        widths = [max(map(len, column)) for column in zip(*lines)]
        return "\n".join([f"on {self.target}:",
                          *("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)])


def available(target: str | None = None) -> Available:
    """The operators of `mimw.ops` on a chip.

    args:      target   as "sm_90a", "sm_80" or "gfx950"; by default that of the GPU in use, without one that of the simulator
    returns:   operator -> `Row`. Operators of integers have the types that their rows may have, or none
    errors:    TargetError for another chip
    """
    if target is None:
        target = chip_of(torch.empty(0, device="cuda" if torch.cuda.is_available() else "cpu"))
    name, _ = asked_for(target)
    return Available(name, {operator: _row(operator, name) for operator in CALLS})


def _row(operator: str, chip: str) -> Row:
    found = {type_: said for type_, dtype in TYPES.items() if (said := _said(operator, dtype, chip)) is not None}
    first = found.get(OF_USUAL_TYPE.get(operator)) or next(iter(found.values()))
    of_torch = OPERATORS[BEHIND.get(operator, operator)]
    takes_any = operator == "moe_align"        # of ids alone
    return Row(operator, first.kernels, () if takes_any else tuple(found), of_torch.differentiable)


def _said(operator: str, dtype: torch.dtype, chip: str) -> Explanation | None:
    """The kernels of a call of that type; None if it is refused, or torch's."""
    args, options = CALLS[operator](dtype)
    try:
        said = explained(getattr(import_module(__package__), operator), args, options, chip, 16)
    except (NotImplementedError, RuntimeError):
        return None
    return None if said.why else said


__all__ = ["Available", "Row", "available"]
