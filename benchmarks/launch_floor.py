"""What a launch costs below Python: Triton's launcher in C, and the driver's `cuLaunchKernelEx` called by ctypes.

Input: a frozen launch, or nothing for an empty kernel. Output: a function that launches, with everything ready beforehand:

    launch = by_ctypes(*empty_kernel(), 1, [])              the least that a launch can cost from Python
    launch = by_triton_in_c(frozen)                         what a frozen launch adds its tests to
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

EMPTY = b""".version 8.0
.target sm_80
.address_size 64
.visible .entry empty() { ret; }
"""


class Config(ctypes.Structure):
    """CUlaunchConfig (CUDA driver API)."""

    _fields_ = [(name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")] + [
        ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint)]


def driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _checked(status: int) -> None:
    if status:
        raise RuntimeError(f"the driver says CUresult {status}")


def empty_kernel() -> tuple[int, int]:
    """(a kernel that does nothing, its threads), loaded into the current context."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _checked(driver().cuModuleLoadData(ctypes.byref(module), EMPTY))
    _checked(driver().cuModuleGetFunction(ctypes.byref(function), module, b"empty"))
    return function.value, 32


def by_ctypes(function: int, threads: int, shared: int, values: Sequence[ctypes._SimpleCData]) -> Callable[[], None]:
    """Launch one CTA of a kernel on the default stream; `values` are its parameters, `()` calls the driver and nothing else."""
    config = Config(1, 1, 1, threads, 1, 1, shared, None, None, 0)
    pointers = (ctypes.c_void_p * max(1, len(values)))(*(ctypes.addressof(value) for value in values))
    call = driver().cuLaunchKernelEx
    config_at, pointers_at, handle = map(ctypes.c_void_p, (ctypes.addressof(config), ctypes.addressof(pointers), function))
    _checked(call(config_at, handle, pointers_at, None))

    def launch(keep=(config, pointers, values)):
        call(config_at, handle, pointers_at, None)

    return launch


def by_triton_in_c(frozen) -> Callable[[], None]:
    """Triton's launcher in C with the arguments that `frozen` was frozen with, on the default stream."""
    route = frozen._route
    launcher, values = route.launcher, route.packed()
    given = (*route.extents, 0, *launcher.head, None, None, None, None, None, *launcher.tail, values)
    call = launcher.call
    return lambda: call(*given)
