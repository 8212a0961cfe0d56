"""Triton's launcher of NVIDIA kernels, without its Python front: the C function, its arguments, and the encoding of
descriptors.

Input: a compiled kernel. Output: a `Launcher`, or None for a kernel that only the front can launch:

    launcher = launcher_of(compiled)                            loads the binary
    launcher.call(1, 1, 1, stream, *launcher.head, None, None, None, None, None, *launcher.tail, (address, 128, None))
    launcher.encoder(0, [1024, 64], [64, 1], False, False)(address)       a CUtensorMap, as Triton's front encodes it

The front (`CudaLauncher.__call__`, its `wrap_handle_tensordesc`) is Python, and encodes all descriptors at every launch. Kernels
that need a workspace, as for descriptors that they make, get it from the allocator that the front asks (`workspace_from`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from math import prod
from typing import Any

from triton.backends.nvidia.driver import TMA_DTYPE_DEVICE_TO_HOST, TMA_TF32, CudaLauncher
from triton.runtime import _allocation

from .runtime import CompiledKernel, driver, knobs


@dataclass(frozen=True)
class Launcher:
    """`call` is Triton's C function. Its arguments are the grid, the stream, `head`, hooks and workspaces, `tail` and the kernel's
    arguments: a tuple of the shape of the kernel's signature, in which pointers are ints, anything stands for a constant, and for a
    descriptor its map, shape and strides. `maps` gives the encoding of each descriptor, in the order of the signature; `workspace`
    has the bytes that a program needs, and their alignment."""

    call: Callable
    head: tuple
    tail: tuple
    maps: tuple[dict, ...]
    workspace: tuple[int, int] = (0, 1)

    def workspace_of(self, grid: tuple[int, int, int], stream: int) -> Any:
        """Memory for a launch alone; None for a kernel that needs none."""
        size, alignment = self.workspace
        return workspace_from()(prod(grid) * size, alignment, stream) if size else None

    def encoder(self, index: int, shape: Sequence[int], strides: Sequence[int], nan: bool, tf32: bool) -> Callable[[int], Any]:
        """A function from the address of a descriptor's tensor to its CUtensorMap; `index` counts the kernel's descriptors."""
        told = self.maps[index]
        shape, strides = list(map(int, shape)), list(map(int, strides))
        encoded = [*shape[:-1], 2 * shape[-1]] if told["fp4_padded"] else shape
        fill, swizzle, size = driver.active.utils.fill_tma_descriptor_tiled, told["swizzle"], told["elem_size"]
        kind, block = encoded_element(told["elem_type"], tf32), told["block_size"]
        return lambda address: fill(address, swizzle, size, kind, block, encoded, strides, int(nan))


def encoded_element(code: int, tf32: bool) -> int:
    """A descriptor's element type as `cuTensorMapEncodeTiled` takes it, from the `code` in a kernel's metadata; `tf32` rounds."""
    return TMA_DTYPE_DEVICE_TO_HOST[TMA_TF32 if tf32 else code]


def launcher_of(compiled: CompiledKernel) -> Launcher | None:
    """The C side of a compiled kernel's launcher; its binary is on the current device from now on. None for a kernel of another
    vendor, one with a workspace for profiling, one with descriptors of im2col or such that are no CUtensorMap, and one under the
    sanitizer."""
    front = compiled.run
    if type(front) is not CudaLauncher or front.gsan_enabled or front.profile_scratch_size:
        return None
    maps = tuple(getattr(compiled.metadata, "tensordesc_meta", None) or ())
    if any(told is None or told.get("is_im2col") for told in maps):
        return None
    wanted = sum(_descriptors(kind) for kind in compiled.src.signature.values())
    if wanted != len(maps):
        return None
    return Launcher(driver.active.utils.launch,
                    (compiled.function, front.launch_cooperative_grid, front.launch_pdl, compiled.packed_metadata),
                    (front.arg_annotations, front.kernel_signature), maps,
                    (front.num_ctas * front.global_scratch_size, front.global_scratch_align))


def workspace_from() -> Callable[[int, int, int], Any]:
    """The allocator of now, which `triton.set_allocator` named: a function of bytes, alignment and stream."""
    return _allocation._allocator.get()


def _descriptors(kind: Any) -> int:
    if isinstance(kind, tuple):
        return sum(map(_descriptors, kind))
    return isinstance(kind, str) and kind.startswith("tensordesc")


def launch(compiled: CompiledKernel, grid: tuple[int, int, int], stream: int, values: Sequence[Any]) -> None:
    """Launch a compiled kernel by Triton's front, with its hooks, as `kernel[grid](...)` does once the kernel is found.
    `values` are those of all parameters, in order."""
    told = compiled.launch_metadata(grid, stream, *values)
    compiled.run(*grid, stream, compiled.function, compiled.packed_metadata, told, knobs.runtime.launch_enter_hook,
                 knobs.runtime.launch_exit_hook, *values)


def current_device() -> Callable[[], int] | None:
    """The function that names the current device, None where there is but one: torch's own, which takes a tenth of a microsecond,
    without the check that torch is initialised, which takes longer."""
    torch = sys.modules.get("torch")
    if torch is None or driver.active.get_current_device is not torch.cuda.current_device:
        return driver.active.get_current_device
    return None if torch.cuda.device_count() == 1 else getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)


def current_stream() -> Callable[[int], int]:
    """The function that names the current stream of a device."""
    return driver.active.get_current_stream


@contextmanager
def on_device(device: int) -> Iterator[None]:
    """Inside, `device` is the current one."""
    before = driver.active.get_current_device()
    if before == device:
        yield
        return
    driver.active.set_current_device(device)
    try:
        yield
    finally:
        driver.active.set_current_device(before)


def on_stream(stream: int, device: int):
    """Inside, `stream` is torch's current one; without torch there is none but the default stream."""
    torch = sys.modules.get("torch")
    if torch is None or stream == driver.active.get_current_stream(device):
        return nullcontext()
    return torch.cuda.stream(torch.cuda.ExternalStream(stream, device) if stream else torch.cuda.default_stream(device))

