"""Operators of torch over the forms of a kernel: on a GPU they launch, without data they give shapes, on the CPU is an error.

Input: a schema, what makes the results, what launches. Output: the operator, for torch.compile and torch.export, too:

    operator("mimw_swiglu_1f::swiglu", "(Tensor gate, Tensor up) -> Tensor", outputs, call, forms)
    operator("mimw_scale_2e::scale", "(Tensor x, Tensor(a!) y, SymInt grid_x) -> ()", nothing, launch, forms)

`outputs(*arguments)` allocates the results, and is the fake form, so it asks for no data; `call(forms, results, *arguments)`
launches. There is no derivative: torch says so where one is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .forms import Forms

_MUTATED = re.compile(r"Tensor\(\w+!\)\??\s+(\w+)")


def operator(name: str, schema: str, outputs: Callable[..., Any], call: Callable[..., None], forms: Forms) -> Any:
    """Register an operator; return it as torch.ops has it."""
    import torch

    def on_gpu(*arguments: Any) -> Any:
        devices = {str(one.device) for one in arguments if isinstance(one, torch.Tensor)}
        if len(devices) > 1:
            raise RuntimeError(f"{forms.name} runs on one GPU, and its tensors are on {' and '.join(sorted(devices))}; move all "
                               "to one")
        results = outputs(*arguments)
        call(forms, results, *arguments)
        return results

    def on_cpu(*arguments: Any) -> Any:
        raise RuntimeError(f"{forms.name} runs on NVIDIA GPUs ({', '.join(sorted({one.chip for one in forms.forms}))}), and its "
                           "tensors are on the CPU; move them by .cuda()")

    made = torch.library.custom_op(name, on_gpu, mutates_args=_MUTATED.findall(schema), device_types="cuda", schema=schema)
    made.register_kernel("cpu")(on_cpu)
    made.register_fake(outputs)
    space, _, short = name.partition("::")
    return getattr(getattr(torch.ops, space), short)


def plain(names: list[str]) -> tuple[Callable[..., None], Callable[..., None]]:
    """(outputs, call) of an operator that is the launch itself: the kernel's parameters `names`, then the grid."""

    def nothing(*arguments: Any) -> None:
        return None

    def launch(forms: Forms, results: None, *arguments: Any) -> None:
        forms(arguments[len(names):], **dict(zip(names, arguments)))

    return nothing, launch
