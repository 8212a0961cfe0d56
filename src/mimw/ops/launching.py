"""Where an operator's kernels run: on the GPU of its tensors, or, for tensors of the CPU, in the simulator.

Input: a tensor that says where; a kernel, its grid, arguments and options. Output: the arguments are written:

    launch = Launch(x, kernel, grid, args, meta)    a launch for tensors like those in `args`
    launch(x, out)                                  for these
    programs(x)             one a multiprocessor: how many persistent programs to start
    zeros(x)                int32 zeros for kernels that leave them 0, kept for each device and stream

The first simulated call warns once, as `SimulationWarning`, which `warnings.simplefilter("ignore", mimw.ops.SimulationWarning)`
silences.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import mimw
from mimw.kernels.descriptors import Maps

from .chips import SIMULATED_PROGRAMS, amd_chip, asked, has_e4m3, is_amd, is_hopper, programs
from .notes import note_launch

KEPT = 4096                 # zeros of each stream


class SimulationWarning(UserWarning):
    """An operator got tensors of the CPU, and so is simulated."""


@cache
def note_simulation() -> None:
    """Once a process."""
    warnings.warn("mimw.ops got tensors of the CPU: its kernels run in mimw's simulator, instruction by instruction, which shows "
                  "that they are right and takes seconds where a GPU takes microseconds; the time grows with the tensors. Pass "
                  'tensors of a CUDA device for speed. warnings.simplefilter("ignore", mimw.ops.SimulationWarning) silences this.',
                  SimulationWarning, stacklevel=_of_the_caller())


def _of_the_caller() -> int:
    """The number of calls from `note_simulation` up to the first one that is neither ours nor torch's."""
    ours, frame, level = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent)), sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(ours):
        frame, level = frame.f_back, level + 1
    return level


class Launch:
    """A launch made ready for arrays that look alike, whichever they are.

    args:      on      a tensor of the device
               kernel, grid, args, meta   of the launch; the tensors and descriptors among `args` and in their tuples show what is
                       to come: only their shapes, strides, types and alignment count, and no memory is held
    returns:   of the call `launch(*tensors)`: nothing. One tensor for each of these tensors and descriptors, in their order, and
                       for all descriptors of a `Maps`; a view need not be given as one, since only a descriptor's address is taken
    """

    def __init__(self, on: Tensor, kernel, grid: tuple[int, ...], args: tuple, meta: dict):
        self._kernel, self._grid, self._meta = kernel, grid, meta
        self._args = tuple(map(_without_memory, args))
        self._device = on.get_device() if on.is_cuda else None
        self._frozen = None
        self._repeated = _repeated(args)
        self.why = note_launch(self)

    def __call__(self, *tensors: Tensor) -> None:
        if self._frozen is None:
            self._first(tensors)
            return
        if self._repeated is not None:
            tensors = [tensors[at] for at in self._repeated]
        self._frozen(_stream_of(self._device), *[tensor.data_ptr() for tensor in tensors])

    @property
    def package(self) -> str:
        """The kernel's package in `mimw.kernels`."""
        return self._kernel.fn.__module__.removeprefix("mimw.kernels.").partition(".")[0]

    @property
    def grid(self) -> tuple[int, ...]:
        """The programs of the launch, along each axis."""
        return tuple(self._grid)

    @property
    def options(self) -> dict[str, Any]:
        """Its constants and launch options: tiles, stages, warps."""
        return self._meta

    def note(self, *tensors: Tensor) -> None:
        """In place of a call, while `mimw.compile_ahead` notes launches: this one's binary is wanted."""
        if self._frozen is None:
            self._kernel[self._grid](*self._filled(tensors), **self._meta)

    def load(self, *tensors: Tensor) -> None:
        """Compile and load for tensors like these, and launch nothing: so that the first call may be one that a graph records."""
        if self._device is not None and self._frozen is None and asked() is None:
            self._freeze(self._filled(tensors))

    def _first(self, tensors: tuple[Tensor, ...]) -> None:
        """Launch as ever, and on a GPU freeze the launch for those to come; in the simulator every launch is a first one. A call
        that is only to be explained launches nothing."""
        if (explained := asked()) is not None:
            explained.launched.append(self)
            return
        args = self._filled(tensors)
        if self._device is None:
            note_simulation()
            mimw.simulate(self._kernel, self._grid, *args, **self._meta)
            return
        self._kernel[self._grid](*args, **self._meta)
        self._freeze(args)

    def _filled(self, tensors: tuple[Tensor, ...]) -> list:
        """The arguments, with these tensors and descriptors of them."""
        given = iter(tensors)
        return [_with_memory(one, given) for one in self._args]

    def _freeze(self, args: list) -> None:
        frozen = self._kernel.freeze(self._grid, *args, **self._meta).forget()
        if frozen.device is not None:       # not while MIMW_SIMULATE says that launches are simulated
            self._frozen = frozen.launch_arrays


mimw.jit.meanwhile(Launch, "__call__", Launch.note)

# The handle of the current stream of a device, as Triton's launches have it. Builds for the CPU lack it.
_stream_of = getattr(torch._C, "_cuda_getCurrentRawStream", None)


_TENSOR = object()


@dataclass(frozen=True)
class _Shape:
    """A descriptor without its tensor."""

    shape: list[int]
    strides: list[int]
    block: list[int]
    padding: str
    round_f32_to_tf32: bool

    def __call__(self, tensor: Tensor):
        return mimw.TensorDescriptor(tensor, self.shape, self.strides, self.block, self.padding, self.round_f32_to_tf32)


class _Shapes(tuple):
    """A `Maps` without its array."""


def _repeated(args: tuple) -> list[int] | None:
    """For each array of a launch, the number of the tensor that stands for it; None where each has its own."""
    counts = [count for value in args for count in _counts(value)]
    return None if set(counts) <= {1} else [at for at, count in enumerate(counts) for _ in range(count)]


def _counts(value: Any) -> list[int]:
    """The number of arrays of a launch that each tensor stands for."""
    if isinstance(value, Maps):
        return [len(value)]
    if isinstance(value, tuple):
        return [count for item in value for count in _counts(item)]
    return [1] if isinstance(value, (Tensor, mimw.TensorDescriptor)) else []


def _without_memory(value: Any) -> Any:
    if isinstance(value, Maps):
        return _Shapes(map(_without_memory, value))
    if isinstance(value, mimw.TensorDescriptor):
        return _Shape(value.shape, value.strides, value.block_shape, value.padding, value.round_f32_to_tf32)
    if isinstance(value, tuple):
        return _like(value, map(_without_memory, value))
    return _TENSOR if isinstance(value, Tensor) else value


def _with_memory(value: Any, given: Iterator[Tensor]) -> Any:
    if type(value) is _Shape:
        return value(next(given))
    if type(value) is _Shapes:
        tensor = next(given)
        return Maps(shape(tensor) for shape in value)
    if isinstance(value, tuple):
        return _like(value, (_with_memory(item, given) for item in value))
    return next(given) if value is _TENSOR else value


def _like(value: tuple, items: Iterable) -> tuple:
    return value._make(items) if hasattr(value, "_fields") else tuple(items)


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides. Given them, `x.new_empty_strided` takes half the time of `x.new_empty`."""
    return tuple(prod(shape[dim + 1:]) for dim in range(len(shape)))


_precision = getattr(torch._C, "_get_fp32_precision_getter", None)     # since torch 2.9


def is_exact(x: Tensor) -> bool:
    """True if products of x are to be computed in fp32 itself: torch.set_float32_matmul_precision("highest"), the default, or
    torch.backends.cuda.matmul.fp32_precision = "ieee". Where somebody has set the second, torch must not be asked for the first."""
    if x.dtype is not torch.float32:
        return False
    return torch.get_float32_matmul_precision() == "highest" if _precision is None else _precision("cuda", "matmul") != "tf32"


_ZEROS: dict[tuple[int, int], Tensor] = {}
_capturing = getattr(torch._C, "_cuda_isCurrentStreamCapturing", torch.cuda.is_current_stream_capturing)


def zeros(on: Tensor, count: int = 1) -> Tensor:
    """int32 numbers, `count` or more, that are 0 when a kernel begins that leaves them 0: kept for each device and stream,
    since launches of one stream follow each other. A launch that is being captured gets its graph's own, which the graph fills: the
    graph may be replayed beside anything, and its memory goes with it."""
    if not on.is_cuda or asked() is not None or _capturing() or count > KEPT:
        return torch.zeros(count, dtype=torch.int32, device=on.device)
    device = on.get_device()
    stream = _stream_of(device)
    kept = _ZEROS.get((device, stream))
    if kept is None:
        kept = _ZEROS[device, stream] = _kept_zeros(on.device)
    return kept


def scratch(on: Tensor, sizes: tuple[int, int]) -> list[Tensor]:
    """Room and flags for a kernel whose programs hand sums to each other, as its `room_for` says; none where it wants none."""
    made = [on.new_empty(sizes[0], dtype=torch.float32)] if sizes[0] else []
    return made + [zeros(on, sizes[1])] if sizes[1] else made


def named_scratch(on: Tensor, sizes: tuple[int, int]) -> dict[str, Tensor]:
    """The same by name, as `arguments` of such kernels take it."""
    return dict(zip([name for name, size in zip(("room", "flags"), sizes) if size], scratch(on, sizes)))


def _kept_zeros(device: torch.device) -> Tensor:
    """Memory that stays, and so must not come from a pool of somebody's: pools are a matter of the thread that allocates. That
    of here allocates on the default stream, so the current one waits for what that stream still does with such memory."""
    with ThreadPoolExecutor(1) as outside:
        kept = outside.submit(torch.empty, KEPT, dtype=torch.int32, device=device).result()
    torch.cuda.current_stream(device).wait_stream(torch.cuda.default_stream(device))
    return kept.zero_()


__all__ = ["SIMULATED_PROGRAMS", "Launch", "SimulationWarning", "amd_chip", "contiguous", "has_e4m3", "is_amd", "is_exact",
           "is_hopper", "named_scratch", "note_simulation", "programs", "scratch", "zeros"]
