"""The forms of a kernel: the same source, compiled for several types and constants. A call takes the first one that it fits.

Input: forms.json beside the binaries. Output: launches, or a NoForm that says of each form why it does not fit. For example:

    forms = Forms.read(folder, Driver)
    forms((64, 1, 1), gate_ptr=gate, up_ptr=up, y_ptr=y, ROWS=64, N=1024)
    forms(lambda facts: (tiles // facts["rows"], ), {"causal": True}, q_desc=q, ...)

A grid may be a function of what a form says of itself (`select` of its case): a tile's extents, for example.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from .driver import ANY_CLUSTER, CLUSTER, COOPERATIVE, EARLY, MAX_SHARED, SPREAD

_FREE_SHARED = 48 * 1024        # what a launch may ask for without leave (CUDA C++ Programming Guide, "Shared Memory")
_BITS = (8, 16, 32, 64)
_C_TYPES = {"i1": ctypes.c_int8, "u1": ctypes.c_uint8, "fp32": ctypes.c_float, "f32": ctypes.c_float, "fp64": ctypes.c_double,
            **{f"i{bits}": getattr(ctypes, f"c_int{bits}") for bits in _BITS},
            **{f"u{bits}": getattr(ctypes, f"c_uint{bits}") for bits in _BITS}}
_DTYPES = {"i1": "bool", "u8": "uint8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "fp16": "float16",
           "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2",
           "fp8e4b8": "float8_e4m3fnuz", "fp8e5b16": "float8_e5m2fnuz", "u16": "uint16", "u32": "uint32", "u64": "uint64"}


class NoForm(RuntimeError):
    """No form of the kernel was compiled for such a call."""


class Form:
    """One binary with what it was compiled for. `facts` is what the host's code may ask for and of."""

    def __init__(self, row: Mapping[str, Any], folder: Path):
        self.row, self.folder, self.facts, self.chip = row, folder, row["select"], row["chip"]
        self.file = row["file"]
        self._functions: dict[int, int] = {}
        self._lock = Lock()

    def unfit(self, given: Mapping[str, Any], select: Mapping[str, Any]) -> str | None:
        """The reason why a call does not fit this form, or None, by types, extents, strides, addresses and numbers."""
        for name, value in select.items():
            if self.facts.get(name) != value:
                return f"it is for {name} {self.facts.get(name)}, not {value}"
        for name, value in self.row["fixed"].items():
            if hasattr(given.get(name), "data_ptr") or given.get(name) != value:
                return f"it was compiled for {name} = {value}, not {_shown(given.get(name))}"
        return next(filter(None, (_problem(one, given.get(one["name"])) for one in self.row["arguments"])), None)

    def launch(self, driver: Any, grid: tuple[int, ...], given: Mapping[str, Any], device: int, stream: int, scratch: int) -> None:
        """Start it; `scratch` is the address of as many bytes as `scratch_bytes` says."""
        row, (x, y, z), function = self.row, (*grid, 1, 1)[:3], self.function(driver, device)
        values = [value for one in row["arguments"] for value in _values(driver, one, given[one["name"]])]
        values += [ctypes.c_uint64(scratch), ctypes.c_uint64(0)]
        driver.launch(function, (x * row["ctas"], y, z), row["threads"], row["shared"], stream, values,
                      self._asked(), device)

    def scratch_bytes(self, grid: tuple[int, ...]) -> int:
        """Bytes of workspace that a launch of this grid needs, at a multiple of `scratch_align`."""
        x, y, z = (*grid, 1, 1)[:3]
        return x * y * z * self.row["ctas"] * self.row["scratch"]

    def function(self, driver: Any, device: int) -> int:
        """The kernel, loaded once on each device."""
        with self._lock:
            if device not in self._functions:
                row, attributes = self.row, {}
                if row["shared"] > _FREE_SHARED:
                    attributes[MAX_SHARED] = row["shared"]
                if not row["portable"]:
                    attributes[ANY_CLUSTER] = 1
                image = (self.folder / self.file).read_bytes()
                self._functions[device] = driver.load(image, row["symbol"], attributes, device)
            return self._functions[device]

    def _asked(self) -> dict[int, tuple[int, ...]]:
        """The attributes of a launch. Clusters that the kernel's launch asked for stand in the binary."""
        row, asked = self.row, {}
        if row["early"]:
            asked[EARLY] = (1, )
        if row["cooperative"]:
            asked[COOPERATIVE] = (1, )
        if row["ctas"] > 1:
            asked |= {CLUSTER: (row["ctas"], 1, 1), SPREAD: (1, )}
        return asked


class Forms:
    """All forms of a kernel, in the order in which a call tries them."""

    def __init__(self, name: str, forms: list[Form], driver: Callable[[], Any]):
        self.name, self.forms, self._driver, self._opened = name, forms, driver, None

    @classmethod
    def read(cls, folder: Path, driver: Callable[[], Any]) -> Forms:
        """Those of a folder; `driver` makes the driver, at the first launch."""
        told = json.loads((folder / "forms.json").read_text())
        return cls(told["name"], [Form(row, folder) for row in told["forms"]], driver)

    def choose(self, given: Mapping[str, Any], select: Mapping[str, Any] | None = None, chip: str | None = None) -> Form:
        """The first form that fits, on `chip` ("sm_90") if that is given. NoForm if none does."""
        if unknown := set(given).difference(*(form.row["parameters"] for form in self.forms)):
            raise TypeError(f"{self.name} has no parameters {', '.join(sorted(unknown))}; it has "
                            f"{', '.join(self.forms[0].row['parameters'])}")
        facts, reasons = dict(select or {}), {}
        for form in [one for one in self.forms if facts.items() <= one.facts.items()] or self.forms:
            reason = f"it is for {form.chip}, and the GPU is {chip}" if chip and form.chip.rstrip("af") != chip else None
            reason = reason or form.unfit(given, facts)
            if reason is None:
                return form
            reasons.setdefault(reason, []).append(form.file)
        told = "".join(f"\n  {', '.join(files)}: {reason}" for reason, files in reasons.items())
        raise NoForm(f"{self.name} has no form for this call:{told}\nExport the kernel again with such a launch among its cases.")

    @staticmethod
    @cache
    def processors(device: Any) -> int:
        """The multiprocessors of a GPU: the programs of a persistent launch."""
        import torch

        return torch.cuda.get_device_properties(device).multi_processor_count

    def __call__(self, grid: Any, select: Mapping[str, Any] | None = None, **given: Any) -> None:
        """Launch on the current stream of the device of the first tensor.

        args:      grid    1 to 3 ints, or a function of the chosen form's facts that gives them
                   select  facts that the form has to have
                   given   the kernel's parameters by name; a tuple's item by the tuple's name and its own, `steps_gate`
        errors:    NoForm; RuntimeError for tensors of another device than a GPU; DriverError where the driver refuses
        """
        import torch

        tensors = {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}
        first = next(iter(tensors.values()))
        for name, tensor in tensors.items():
            if not tensor.is_cuda or tensor.device != first.device:
                raise RuntimeError(f"{self.name} runs on one NVIDIA GPU ({', '.join(sorted({one.chip for one in self.forms}))}), "
                                   f"and {name} is on {tensor.device}; move all tensors to one by .cuda()")
        major, minor = torch.cuda.get_device_capability(first.device)
        form = self.choose(given, select, f"sm_{major}{minor}")
        extents = tuple(grid(form.facts)) if callable(grid) else tuple(grid)
        if 0 in extents:
            return
        if self._opened is None:
            self._opened = self._driver()
        with torch.cuda.device(first.device):
            count = form.scratch_bytes(extents)
            room = torch.empty(count, dtype=torch.uint8, device=first.device) if count else None
            form.launch(self._opened, extents, given, first.get_device(), torch.cuda.current_stream().cuda_stream,
                        0 if room is None else room.data_ptr())


def _problem(one: Mapping[str, Any], value: Any) -> str | None:
    """The reason why an argument is not one that the form was compiled for; None if it is."""
    name = one["name"]
    if one["is"] == "number":
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return f"{name} is {_shown(value)}, and should be a number"
        kind = _C_TYPES[one["kind"]]
        if kind not in (ctypes.c_float, ctypes.c_double) and (value != int(value) or kind(int(value)).value != value):
            return f"{name} is {value}, which {one['kind']} does not hold"
        return f"{name} is {value}, and it was compiled for multiples of 16" if one["aligned"] and value % 16 else None
    if not hasattr(value, "data_ptr"):
        return f"{name} is {_shown(value)}, and should be a tensor"
    wanted = _DTYPES[one["element"]]
    if str(value.dtype) != f"torch.{wanted}":
        return f"{name} has elements of {str(value.dtype).removeprefix('torch.')}, not {wanted}"
    if one["is"] == "pointer":
        return _misplaced(name, value) if one["aligned"] else None
    if value.dim() != one["rank"]:
        return f"{name} has {value.dim()} dimensions, not {one['rank']}"
    if 0 in value.shape or max(value.shape) > 2**31 - 1:
        return f"{name} has shape {tuple(value.shape)}: extents are from 1 to 2147483647"
    if value.stride(-1) != 1 or any(stride < 0 or stride * one["size"] % 16 for stride in value.stride()[:-1]):
        return (f"{name} has strides {value.stride()}: the last is to be 1, and the others multiples of 16 bytes "
                f"({16 // one['size']} elements)")
    return _misplaced(name, value)


def _misplaced(name: str, value: Any) -> str | None:
    return f"{name} begins at {value.data_ptr():#x}, which is no multiple of 16" if value.data_ptr() % 16 else None


def _values(driver: Any, one: Mapping[str, Any], value: Any) -> list[Any]:
    """An argument as parameters of the kernel: a tensor that the kernel copies by TMA as its map, its extents and its strides."""
    if one["is"] == "number":
        return [_C_TYPES[one["kind"]](value)]
    if one["is"] == "pointer":
        return [ctypes.c_uint64(value.data_ptr())]
    shape, strides = tuple(value.shape), tuple(value.stride())
    made = driver.encode(value.data_ptr(), one["code"], one["size"], shape, strides, one["box"], one["swizzle"], one["nan"],
                         one["pairs"])
    return [made, *map(ctypes.c_int32, shape), *map(ctypes.c_int64, strides)]


def _shown(value: Any) -> str:
    return f"a tensor of shape {tuple(value.shape)}" if hasattr(value, "data_ptr") else repr(value)
