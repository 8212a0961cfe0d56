"""From the arguments that the host passes to the values that the kernel's parameters hold.

Input: host objects by `Param.path`, their place in the Python signature. Output: the environment in which every CTA starts, and
arrays registered in the global memory. For example:

    bind(program, {(0, ): array, (1, ): 64}, memory)      {%pointer: uint64(address), %n: int32(64)}

Run-time parameters are flat: a pointer takes an array, a scalar a number; a tensor descriptor fills one Descriptor parameter,
then its shape, then its strides. On chips without TMA its parts stand in place of the Descriptor parameter: base, shape, strides,
and two flags (`passes.descriptor_parts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from ...errors import SimulatorMisuse
from ...ir import Descriptor, Param, Pointer, Program, Value
from .global_memory import GlobalMemory
from .global_tensors import GlobalTensor
from .pixel_boxes import box_of
from .values import numpy_type, wrapped


def bind(program: Program, args: Mapping[tuple[int, ...], Any], memory: GlobalMemory) -> dict[Value, Any]:
    """The initial environment of every CTA: `args` by `Param.path`. Arrays are registered in `memory`."""
    env: dict[Value, Any] = {}
    for path, group in groupby(program.params, key=lambda param: param.path):
        params = list(group)
        if path not in args:
            raise SimulatorMisuse(f"no argument for parameter {params[0].name!r} (path {path}) of {program.name}",
                                  program.site)
        if len(params) > 1 and isinstance(params[0].value.type, Pointer):
            _parts(params, args[path], memory, env)
        elif isinstance(params[0].value.type, Descriptor):
            _descriptor(params, args[path], memory, env)
        else:
            for param in params:
                env[param.value] = _plain(param, args[path], memory)
    return env


def _plain(param: Param, argument: Any, memory: GlobalMemory):
    type_ = param.value.type
    if isinstance(type_, Pointer):
        return wrapped(memory.register(argument, param.name), numpy_type(type_))
    if not (isinstance(argument, (bool, int, float)) or hasattr(argument, "__index__") or hasattr(argument, "item")):
        raise SimulatorMisuse(f"argument {param.name!r} should be a number, not {type(argument).__name__}")
    return wrapped(argument, numpy_type(type_))


def _parts(params: list[Param], argument: Any, memory: GlobalMemory, env: dict[Value, Any]) -> None:
    """The parts of a descriptor, in the order in which Triton's launcher passes them, once more without the flags behind."""
    shape, strides = _checked(params[0].name, argument)
    numbers = (*shape, *strides)
    parts = (argument.base, *numbers, argument.padding == "nan", argument.round_f32_to_tf32, *numbers)
    for param, part in zip(params, parts):
        env[param.value] = _plain(param, part, memory)


def _checked(name: str, argument: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of an argument that should be a tensor descriptor."""
    missing = [field for field in ("base", "shape", "strides") if not hasattr(argument, field)]
    if missing:
        raise SimulatorMisuse(f"argument {name!r} should be a TensorDescriptor, not {type(argument).__name__}: "
                              f"it has no {', '.join(missing)}")
    return tuple(map(int, argument.shape)), tuple(map(int, argument.strides))


def _descriptor(params: list[Param], argument: Any, memory: GlobalMemory, env: dict[Value, Any]) -> None:
    """`argument` has the fields of Triton's host `TensorDescriptor`: base, shape, strides, block_shape, padding."""
    head, name = params[0].value, params[0].name
    shape, strides = _checked(name, argument)
    block = head.type.shape
    pixels = box_of(argument, len(shape)) if head.type.pixels else None
    if isinstance(pixels, str):
        raise SimulatorMisuse(f"argument {name!r}: {pixels}")
    if len(shape) != len(block) and pixels is None:
        raise SimulatorMisuse(f"argument {name!r} has rank {len(shape)}, the kernel was compiled for blocks of {block}")
    address = memory.register(argument.base, name)
    nan = getattr(argument, "padding", "zero") == "nan"
    env[head] = GlobalTensor(address, shape, strides, block, numpy_type(head.type.element), head.type.signed, nan,
                             getattr(argument, "round_f32_to_tf32", False), pixels=pixels)
    rest = (*shape, *strides)
    if len(params) - 1 not in (0, len(rest)):
        raise SimulatorMisuse(f"argument {name!r}: {len(params) - 1} parameters follow the descriptor, not {len(rest)}")
    for param, value in zip(params[1:], rest):
        env[param.value] = wrapped(value, numpy_type(param.value.type))
