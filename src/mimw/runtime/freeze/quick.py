"""The functions of a frozen launch, written for its arguments: Python that tests them and calls Triton's launcher in C.

Input: the slots of a kernel's parameters, and Triton's `Launcher`. Output: three functions, made of text, as Triton's binder is:

    call, launch, arrays = written({"x": slot, "n": slot}, {"x": x, "n": 256}, maps, launcher, (1, 1, 1), 0, names)
    call(x, 256); launch(stream, x.data_ptr(), 256); arrays(stream, x.data_ptr())

What `call` does for a kernel with a pointer and an integer that is a multiple of 16:

    _0_at = _0.data_ptr()
    quick = get_device() == 0 and ... and _0.dtype is _0_dtype and not _0_at & 15 and type(_1) is int and not _1 & 15 ...
    if not quick:
        return checked((_0, _1, ), stream)
    c_launch(1, 1, 1, current_stream(0) if stream is None else as_stream(stream), function, ..., (_0_at, _1, None))

Whatever a test turns down goes to `checked`, which looks again and says what is wrong, or launches; so a test may turn down more
than it must. The shapes and numbers that were frozen stand in the text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...compiler.triton_port.launcher import Launcher, current_device, current_stream, workspace_from
from ...compiler.triton_port.runtime import knobs
from .slots import ALIGNMENT, Constant, Descriptor, Number, Pointer, Slot, Tuple

# Asked at every launch: does the environment want a watchdog or the simulator, do Triton's launches or the kernel have hooks?
# Triton's hooks are chains, unless somebody has put something else in their place: then there is no attribute `calls`.
_USUAL = ("not (watchdog in environment and seconds() is not None or simulate in environment and simulating() or "
          "runtime.launch_enter_hook.calls or runtime.launch_exit_hook.calls or hooks)")
_C_LAUNCH = ("c_launch({grid}, {stream}, function, cooperative, pdl, packed, None, None, None, {workspace}, None, annotations, "
             "signature, {values})")


@dataclass
class Text:
    """Lines and expressions of the functions, by where they go, the variables of arrays, and what the lines name."""

    unpack: list[str] = field(default_factory=list)
    find: list[str] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)
    maps: list[str] = field(default_factory=list)
    bare_maps: list[str] = field(default_factory=list)
    arrays: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)


@dataclass
class Arguments:
    """The arguments, as text, that the launcher in C is given by `call`, by `launch`, by `arrays`."""

    call: str
    launch: str
    arrays: str


def written(slots: Mapping[str, Slot | None], values: Mapping[str, Any], maps: list, launcher: Launcher, grid: tuple[int, int, int],
            device: int, names: Mapping[str, Any]) -> tuple[Callable, Callable, Callable]:
    """(`call(*values, stream=None)`, `launch(stream, *values)`, `arrays(stream, *addresses)`) of a frozen launch.

    args:      slots  - of each parameter in order; None for one of constants (`tl.constexpr`), which the functions do not take
               values - of each parameter, of which numbers are those of `arrays`
               maps   - the CUtensorMaps of each descriptor by address
               names  - what the text calls where it does not launch at once: `checked`, `addressed`, `rearranged`, `again`; and
                        `named`, whose `still()` says whether all that the kernel names is as it was, or is None
    """
    text, taken, found = Text(), [], []
    for name, slot in slots.items():
        if slot is not None:
            taken.append(f"_{len(taken)}")
        found.append(_NOTHING if slot is None else _put(slot, values[name], taken[-1], text, maps, device))
    scope = {**names, **text.names, "c_launch": launcher.call, "runtime": knobs.runtime, "current_stream": current_stream(),
             "get_device": current_device(), "as_stream": as_stream, "workspace_from": workspace_from}
    scope["function"], scope["cooperative"], scope["pdl"], scope["packed"] = launcher.head
    scope["annotations"], scope["signature"] = launcher.tail
    lines = _lines(taken, text, _all(found), grid, device, scope["get_device"] is not None, names["named"].still is not None,
                   _workspace(launcher, grid))
    exec(compile("\n".join(lines), "<frozen launch>", "exec"), scope)
    return scope.pop("call"), scope.pop("launch"), scope.pop("arrays")


def as_stream(stream: Any) -> int:
    """A stream's handle: of a torch stream, or the number itself."""
    return getattr(stream, "cuda_stream", stream)


def _lines(taken: list[str], text: Text, arguments: Arguments, grid: tuple[int, int, int], device: int, several: bool,
           changes: bool, workspace: str):
    """The text; `several` devices are there, of which another may be current; what the kernel names `changes`, maybe;
    `workspace` makes one for a `stream`."""
    values = _tuple(taken)
    extents = ", ".join(map(str, grid))
    stream = f"current_stream({device}) if stream is None else as_stream(stream)"
    asked = f"{_USUAL} and named.still()" if changes else _USUAL
    usual = f"get_device() == {device} and {asked}" if several else asked
    yield f"def call({''.join(f'{name}=missing, ' for name in taken)}{'/, ' if taken else ''}*, stream=None):"
    yield "    try:"
    yield f"        if {f'{taken[0]} is missing' if taken else 'True'}:"
    yield f"            quick = same is not None and {usual}"
    yield "            given = same"
    yield "        else:"
    yield from (f"            {line}" for line in [*text.unpack, *text.find])
    yield f"            quick = {' and '.join([usual, *text.tests])}"
    yield "            if quick:"
    yield from (f"                {line}" for line in text.maps)
    yield f"                given = {arguments.call}"
    yield "    except (AttributeError, TypeError, ValueError):"
    yield "        quick = False"
    yield "    if not quick:"
    yield f"        return {f'again(stream) if {taken[0]} is missing else checked({values}, stream)' if taken else 'again(stream)'}"
    yield f"    stream = {stream}"
    yield f"    {_C_LAUNCH.format(grid=extents, stream='stream', values='given', workspace=workspace)}"
    yield "    return compiled"
    for name, of, slow, unpack, given in (("launch", taken, "addressed", text.unpack, arguments.launch),
                                          ("arrays", text.arrays, "rearranged", [], arguments.arrays)):
        yield f"def {name}(stream, {''.join(f'{variable}, ' for variable in of)}/):"
        yield "    try:"
        yield f"        quick = {asked}"
        yield "    except AttributeError:"
        yield "        quick = False"
        yield "    if not quick:"
        yield f"        return {slow}({_tuple(of)}, stream)"
        yield from (f"    {line}" for line in [*unpack, *text.bare_maps])
        yield f"    {_C_LAUNCH.format(grid=extents, stream='stream', values=given, workspace=workspace)}"


def _workspace(launcher: Launcher, grid: tuple[int, int, int]) -> str:
    size, alignment = launcher.workspace
    return f"workspace_from()({math.prod(grid) * size}, {alignment}, stream)" if size else "None"


def _put(slot: Slot, value: Any, variable: str, text: Text, maps: list, device: int) -> Arguments:
    """Add what a slot needs to the text; what the functions hand on of it."""
    if isinstance(slot, Tuple):
        items = [f"{variable}_{at}" for at in range(len(slot.items))]
        text.unpack.append(f"{_tuple(items)} = {variable}")
        return _all([_put(*of, text, maps, device) for of in zip(slot.items, value, items)])
    if isinstance(slot, Constant):
        text.names[f"{variable}_is"] = slot.value
        number = type(slot.value) is int
        text.tests.append(f"type({variable}) is int and {variable} == {slot.value}" if number else f"{variable} is {variable}_is")
        return _NOTHING
    if isinstance(slot, Number):
        text.tests += _number(slot, variable)
        text.names[f"{variable}_is"] = value
        return Arguments(variable, variable, f"{variable}_is")
    text.arrays.append(variable)
    array = variable if isinstance(slot, Pointer) else f"{variable}_of"
    if isinstance(slot, Descriptor):
        text.names |= {f"{variable}_is": slot, "tensor_of": tensor_of}
        text.find.append(f"{array} = tensor_of({variable}, {variable}_is) if hasattr({variable}, 'block_shape') else {variable}")
    text.find.append(f"{variable}_at = {array}.data_ptr()")
    text.names[f"{variable}_dtype"] = slot.dtype
    text.tests += [f"{array}.dtype is {variable}_dtype", f"{array}.get_device() == {device}"]
    if isinstance(slot, Descriptor):
        return _descriptor(slot, variable, text, maps)
    if slot.aligned:
        text.tests.append(f"not {variable}_at & {ALIGNMENT - 1}")
    return Arguments(f"{variable}_at", variable, variable)


def _number(slot: Number, variable: str) -> list[str]:
    if slot.limits is None:
        return [f"type({variable}) is {'bool' if slot.kind in ('i1', 'u1') else 'float'}"]
    least, most = slot.limits
    aligned = [f"not {variable} & {ALIGNMENT - 1}"] if slot.aligned else []
    return [f"type({variable}) is int", f"{least} <= {variable} <= {most}", *aligned]


def _descriptor(slot: Descriptor, variable: str, text: Text, maps: list) -> Arguments:
    """The map is made, or refused, where the address is new (`Maps`). Torch tells that a tensor is contiguous in half the time
    that it takes to tell strides; of a dimension with one element the stride means nothing."""
    text.names |= {f"{variable}_maps": maps[slot.index], f"{variable}_shape": slot.shape, f"{variable}_strides": slot.strides}
    strides = f"{variable}.is_contiguous()" if _is_contiguous(slot) else f"{variable}.stride() == {variable}_strides"
    text.tests.append(f"({variable}_of is not {variable} or {variable}.shape == {variable}_shape and {strides})")
    text.maps.append(f"{variable}_map = {variable}_maps[{variable}_at]")
    text.bare_maps.append(f"{variable}_map = {variable}_maps[{variable}]")
    given = ", ".join(map(str, (f"{variable}_map", *slot.shape, *slot.strides)))
    return Arguments(given, given, given)


def tensor_of(value: Any, slot: Descriptor) -> Any:
    """The tensor of a descriptor that says what the frozen one says; None for one that does not."""
    alike = (slot.matches(value.shape, value.strides) and tuple(value.block_shape) == slot.block and value.padding == slot.padding
             and value.round_f32_to_tf32 == slot.tf32)
    return value.base if alike else None


def _is_contiguous(slot: Descriptor) -> bool:
    return all(stride == math.prod(slot.shape[dim + 1:]) for dim, stride in enumerate(slot.strides))


def _all(items: list[Arguments]) -> Arguments:
    return Arguments(*(_tuple(getattr(item, name) for item in items) for name in ("call", "launch", "arrays")))


_NOTHING = Arguments("None", "None", "None")


def _tuple(items) -> str:
    return f"({''.join(f'{item}, ' for item in items)})"
