"""What a launch is decided by, read from its arguments by a function that is written for their types.

Input: the types of a launch's arguments, in order. Output: a function of them, or None where they hold anything that it cannot
read. For example, of a tensor and two numbers, of which the float is no constant:

    read = reader(fn, (x, 256, 0.5), {"BLOCK": 128})
    read((x, 256, 0.5), {"BLOCK": 128}, 0)      ((address, 256, 0.5, 128), (x.shape, x.stride(), x.dtype, 256, 128))

The first tuple has addresses for arrays and descriptors; the second all that a descriptor, a specialisation or a question about
sizes depends on. No array is in either, so neither keeps memory alive, and an address that another array has later says no more
than where that array lies. A float of the launch is in the first one alone: it decides nothing, and 0.0 is equal to -0.0. None in
place of both: an array without memory, on another device, or not at a multiple of 16 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from triton.language import dtype

from ...compiler.triton_port.runtime import TensorDescriptor as StockTensorDescriptor
from ...runtime.freeze.slots import ALIGNMENT
from ...runtime.host import TensorDescriptor

_NUMBERS = (int, bool, str, type(None))         # equal where they are the same, of one type
_OF_ARRAYS = ("data_ptr", "dtype", "get_device", "shape", "stride")
_NO_MEMORY = ("FakeTensor", "FunctionalTensor")     # torch's stand-ins

Reader = Callable[[tuple, Mapping[str, Any], int], Any]


def reader(fn: Any, args: tuple, meta: Mapping[str, Any]) -> Reader | None:
    """The function for arguments of these types, and keywords of these names in this order."""
    constants = {one.name for one in fn.params if one.is_constexpr} | (meta.keys() - set(fn.arg_names))
    names, values = [*fn.arg_names[:len(args)], *meta], (*args, *meta.values())
    taken = [f"_{at}" for at in range(len(values))]
    arrays, flat, key = [], [], []      # of each: the array that is asked; what the launch takes; what decides
    for name, variable, value in zip(names, taken, values):
        if has_memory(value):
            array, *facts = _described(variable) if hasattr(value, "block_shape") else _plainly(variable)
            arrays.append((f"{variable}_at", array))
            flat.append(f"{variable}_at")
            key += facts
        elif type(value) in _NUMBERS or name in constants and type(value) in (float, dtype):
            flat.append(variable)
            key += [variable, f"copysign(1.0, {variable})"] if type(value) is float else [variable]
        elif type(value) is float:
            flat.append(variable)
        else:
            return None
    return _written(taken[:len(args)], taken[len(args):], arrays, flat, key)


def has_memory(value: Any) -> bool:
    """True of tensors on a device, of torch or of what stands for it, and of descriptors of such."""
    if type(value) in (TensorDescriptor, StockTensorDescriptor):
        return has_memory(value.base)
    return type(value).__name__ not in _NO_MEMORY and all(hasattr(value, name) for name in _OF_ARRAYS)


def _plainly(variable: str) -> tuple[str, ...]:
    return variable, f"{variable}.shape", f"{variable}.stride()", f"{variable}.dtype"


def _described(variable: str) -> tuple[str, ...]:
    lists = (f"tuple({variable}.{part})" for part in ("shape", "strides", "block_shape"))
    return f"{variable}.base", f"{variable}.base.dtype", *lists, f"{variable}.padding", f"{variable}.round_f32_to_tf32"


def _written(args: list[str], meta: list[str], arrays: list[tuple[str, str]], flat: list[str], key: list[str]) -> Reader:
    found = [at for at, _ in arrays]
    tests = [*found, *(f"{array}.get_device() == device" for _, array in arrays)]
    tests += [f"not ({' | '.join(found)}) & {ALIGNMENT - 1}"] if found else ["True"]
    lines = [f"{_tuple(args)} = args"] * bool(args) + [f"{_tuple(meta)} = meta.values()"] * bool(meta)
    lines += [f"{at} = {array}.data_ptr()" for at, array in arrays]
    lines += [f"if {' and '.join(tests)}:", f"    return {_tuple(flat)}, {_tuple(key)}", "return None, None"]
    scope: dict[str, Any] = {"copysign": math.copysign}
    exec(compile("\n    ".join(["def read(args, meta, device):", *lines]), "<arguments of a launch>", "exec"), scope)
    return scope["read"]


def _tuple(items: list[str]) -> str:
    return f"({''.join(f'{item}, ' for item in items)})"
