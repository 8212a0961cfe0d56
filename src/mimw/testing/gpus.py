"""The GPUs of this machine, asked of the CUDA driver itself, so that no torch is needed.

    gpus()              (Device("NVIDIA H200", (9, 0)), ); empty without a driver
    gpu_available()     True where torch can launch there

Input: nothing. Output: the devices. Where one test case runs, on the simulator or on such a device, is machines.py.
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from functools import cache

from ..compiler.triton_port.devices import AMD_DEVICES

_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR = 75, 76


@dataclass(frozen=True)
class Device:
    """One CUDA device as its driver describes it; `capability` is (9, 0) on an H100 or H200."""

    name: str
    capability: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.name} (sm_{self.capability[0]}{self.capability[1]})"


def gpu_available() -> bool:
    """True if torch can launch on a CUDA device, which tests marked `gpu` need. Torch is asked only where there is a driver."""
    if "torch" not in sys.modules and _driver() is None and not any(map(os.path.exists, AMD_DEVICES)):
        return False
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def _driver() -> ctypes.CDLL | None:
    """The library of the CUDA driver, which is not started yet."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


@cache
def gpus() -> tuple[Device, ...]:
    """The CUDA devices of this machine; empty without a driver."""
    cuda, count = _driver(), ctypes.c_int()
    if cuda is None or cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return ()
    return tuple(_describe(cuda, index) for index in range(count.value))


def _describe(cuda: ctypes.CDLL, index: int) -> Device:
    device, name, value = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_int()
    cuda.cuDeviceGet(ctypes.byref(device), index)
    cuda.cuDeviceGetName(name, len(name), device)
    numbers = []
    for attribute in (_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR):
        cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        numbers.append(value.value)
    return Device(name.value.decode(), tuple(numbers))
