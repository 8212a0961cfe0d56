"""Our products as candidates of inductor's own autotuning, under mode="max-autotune".

Input: the choices that inductor collects for `aten.mm`, `addmm` or `bmm`. Output: the same and ours, which inductor then times
against its templates and cuBLAS. For example, in what TORCH_LOGS="+inductor" prints:

    AUTOTUNE mm(4096x4096, 4096x4096)
      mimw_matmul 0.1934 ms 100.0%
      mm 0.1987 ms 97.3%

What inductor has chosen is kept by inductor's cache on disk, by the names and the text of these functions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mimw import ops  # noqa: F401
from mimw.nn.fallback import TYPES

from .settings import Settings
from .torch_versions import extern_choice, is_autotuned, serve_choices

_ACTIVE: list[Settings] = []


def mimw_matmul(a: Tensor, b: Tensor) -> Tensor:
    """Of two matrices. Inductor's code calls these functions by their names."""
    return torch.ops.mimw.matmul.default(a, b)


def mimw_bmm(a: Tensor, b: Tensor) -> Tensor:
    """Of stacks of matrices."""
    return torch.ops.mimw.matmul.default(a, b)


def mimw_addmm(bias: Tensor, a: Tensor, b: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """beta * bias + alpha * a b, as torch.addmm."""
    return torch.ops.mimw.addmm.default(bias, a, b, float(beta), float(alpha))


OURS = {"mm": mimw_matmul, "bmm": mimw_bmm, "addmm": mimw_addmm}
SCALARS = {"addmm": ("alpha", "beta")}


def candidates(kernel_inputs: Any, templates: Any, op_name: str) -> list:
    """Ours for a call of that name, as choices of inductor's; an empty list for a call that is not offered."""
    if not _ACTIVE or not is_offered(kernel_inputs, templates, op_name, _ACTIVE[-1]):
        return []
    scalars = {name: kernel_inputs.get_scalar(name) for name in SCALARS.get(op_name, ())}
    layout = kernel_inputs.output_layout(flexible=False)
    return [extern_choice(OURS[op_name]).bind(kernel_inputs.nodes(), layout, **scalars)]


def are_left(settings: Settings) -> bool:
    """True if products are left for inductor to choose, ours among its choices, in this thread from now on."""
    if settings.force or not is_autotuned() or not serve_choices(candidates):
        return False
    _ACTIVE[:] = [settings]
    return True


def forget_settings() -> None:
    """Offer nothing any longer."""
    _ACTIVE.clear()


def is_offered(kernel_inputs: Any, templates: Any, op_name: str, settings: Settings) -> bool:
    """True for the one list of choices of a call that ours is to be in: fixed extents, one of our types, a contiguous result."""
    if op_name not in OURS or op_name not in settings.allow or not any(getattr(one, "name", "") == op_name for one in templates):
        return False
    layout = kernel_inputs.output_layout(flexible=False)
    extents = [*layout.size, *layout.stride, *(extent for shape in kernel_inputs.shapes_symbolic() for extent in shape)]
    if not all(isinstance(one, int) or getattr(one, "is_Integer", False) for one in extents):
        return False
    size, stride = tuple(map(int, layout.size)), tuple(map(int, layout.stride))
    types = {*kernel_inputs.dtypes(), layout.dtype}
    return (len(types) == 1 and types <= TYPES and layout.device.type in settings.devices and 0 not in map(int, extents[:len(size)])
            and stride == torch.empty(size, device="meta").stride())


__all__ = ["OURS", "are_left", "candidates", "forget_settings", "is_offered"]
