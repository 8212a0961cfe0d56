"""An exported kernel as an operator of torch in a Python process: torch.export carries it, and the CPU's tensors are simulated.

Input: a kernel and a launch of it. Output: `torch.ops.mimw_export.NAME`, with the schema of NAME_torch.cpp, which takes its place
where there is no Python. For example:

    op = torch_op("double", double, (2, ), x, y, 256, BLOCK=128)
    op(x, y, 256, 2)                    2 is the grid; y is written
    torch.export.export(module_that_calls_op, (x, ))

On tensors of the CPU a call runs in the simulator; on those of a GPU it is a frozen launch, one for each grid and shape of tensors
that descriptors describe.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...errors import LaunchError
from ...ir.tuples import like
from ..call import resolve
from ..host import TensorDescriptor
from ..simulate import simulate
from .arguments import Argument, Described, Number, Pointer
from .made import export
from .torch_cpp import NAMESPACE, check_for_torch, schema

_LIBRARIES: dict[str, Any] = {}     # an operator lives as long as the library that defines it
_KEPT = 64                          # frozen launches of one operator


def torch_op(name: str, kernel, grid, *args, target: str | None = None, writes: Iterable[str] | None = None, **meta) -> Any:
    """Register the operator `mimw_export::NAME` in this process, in place of one that there is; return it.

    args:      name    of the operator
               others  as `mimw.export.export`
    returns:   torch's operator. Its arguments are the launch's run-time arguments in order, a descriptor's the tensor that it
               describes; then grid_x, grid_y=1, grid_z=1. It returns nothing, and has no derivative; autograd notices what it wrote
    errors:    as `mimw.export.export`; LaunchError for arguments that operators of torch do not take. A call raises LaunchError
               for numbers and addresses for which the kernel was not compiled, as the launcher in C refuses them; RuntimeError
               while gradients are recorded for a written tensor that is a leaf that requires grad, or a view of one, and
               NotImplementedError for any other that requires grad
    """
    import torch

    from ..in_place import InPlace

    exported = export(kernel, grid, *args, target=target, name=name, writes=writes, **meta)
    arguments = check_for_torch(name, exported.arguments)
    call = _Call(name, arguments, kernel, args, meta)
    _forget(name)
    library = _LIBRARIES[name] = torch.library.Library(NAMESPACE, "FRAGMENT")
    library.define(text := schema(name, arguments, exported.written), tags=(torch.Tag.pt2_compliant_tag, ))
    run = InPlace(f"{NAMESPACE}::{name}", text, overlaps=False).around(call)
    for key in ("CPU", "CUDA"):
        library.impl(name, run, key)
    torch.library.register_fake(f"{NAMESPACE}::{name}", lambda *values: None, lib=library)
    return getattr(getattr(torch.ops, NAMESPACE), name).default


def _forget(name: str) -> None:
    """End an operator of that name, whose definition would stand in the way."""
    before = _LIBRARIES.pop(name, None)
    if before is not None:
        before._destroy()


class _Call:
    """The function behind the operator: the launch that was exported, with other arrays, numbers and grid."""

    def __init__(self, name: str, arguments: Sequence[Argument], kernel, args: tuple, meta: dict[str, Any]):
        self.name, self.arguments = name, arguments
        self.fn, args, meta = resolve(kernel, args, dict(meta))
        self.options = {key: value for key, value in meta.items() if key not in self.fn.arg_names}
        self.bound = self.fn.signature.bind(*args, **{key: value for key, value in meta.items() if key in self.fn.arg_names})
        self.bound.apply_defaults()
        self.frozen: dict[Any, Any] = {}

    def __call__(self, *values):
        *values, x, y, z = (*values, *(1, 1, 1)[len(values) - len(self.arguments):])
        for one, value in zip(self.arguments, values):
            if wrong := _problem(one, value):
                raise LaunchError(f"{NAMESPACE}::{self.name}: {wrong}",
                                  hint="export the kernel again, by a launch with such arguments")
        tensors = [value for one, value in zip(self.arguments, values) if not isinstance(one, Number)]
        given = iter(values)
        bound = self.fn.signature.bind(*self.bound.args, **self.bound.kwargs)
        bound.apply_defaults()
        constant = {parameter.name for parameter in self.fn.params if parameter.is_constexpr}
        for name, value in bound.arguments.items():
            if name not in constant:
                bound.arguments[name] = _filled(value, given)
        if not tensors[0].is_cuda:
            simulate(self.fn, (x, y, z), *bound.args, **bound.kwargs, **self.options)
            return
        described = tuple((tuple(value.shape), value.stride()) for one, value in zip(self.arguments, values)
                          if isinstance(one, Described))
        key = x, y, z, tensors[0].device, described
        if key not in self.frozen:
            if len(self.frozen) >= _KEPT:
                self.frozen.clear()
            self.frozen[key] = self.fn.freeze((x, y, z), *bound.args, **bound.kwargs, **self.options).forget()
        frozen = self.frozen[key]
        frozen(*(bound.arguments[name] for name in frozen.parameters))


def _filled(value: Any, given) -> Any:
    """A parameter's value with the operator's arguments in place of what was exported; constants stay."""
    if isinstance(value, tuple):
        return like(value, [_filled(item, given) for item in value])
    if value is None or callable(value) or isinstance(value, int) and not isinstance(value, bool) and value == 1:
        return value
    if hasattr(value, "block_shape"):
        tensor = next(given)
        return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), value.block_shape, value.padding,
                                value.round_f32_to_tf32)
    return next(given)


def _problem(one: Argument, value: Any) -> str | None:
    """The reason why the kernel, compiled for some values alone, does not take an argument; None if it does."""
    if isinstance(one, Number) and one.aligned and value % 16:
        return f"{one.name} is {value}, and the kernel was compiled for multiples of 16"
    if isinstance(one, Pointer) and one.aligned and value.is_cuda and value.data_ptr() % 16:
        return f"{one.name} begins at address {value.data_ptr():#x}, and the kernel was compiled for multiples of 16"
    return None
