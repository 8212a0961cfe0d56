"""What Triton's host code meets where there is no GPU: a driver that stands in, so that code around our kernels runs.

Input: what host code asks of Triton's driver. Output: an answer without a GPU, or an error that names the question:

    triton.runtime.driver.active.get_current_target()        GPUTarget("cuda", 90, 32)

`triton.autotune` asks the active driver for a benchmarker before it calls any kernel. On the simulator time means nothing, so
this one runs each configuration once and calls them equal; the first wins. Scripts ask it for the target to choose kernels by, and
for the device to make their tensors on, which is the CPU. Anything that needs a real device says so.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from .runtime import GPUTarget, driver

_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # NVIDIA's driver, AMD's, and either inside WSL


@dataclass(frozen=True)
class Cpu:
    """`torch.device("cpu")` for a script that has not imported torch."""

    type: str = "cpu"
    index: int | None = None

    def __str__(self) -> str:
        return self.type


class NoGpuDriver:
    """The little of Triton's `DriverBase` that makes sense without a device. `wanted` gives the target that is simulated."""

    def __init__(self, wanted: Callable[[], GPUTarget]):
        self.wanted = wanted

    def get_current_target(self) -> GPUTarget:
        return self.wanted()

    def get_active_torch_device(self):
        torch = sys.modules.get("torch")
        return Cpu() if torch is None else torch.device("cpu")

    def get_benchmarker(self):
        def run_once(kernel_call, quantiles=None, **_):
            kernel_call()
            return [0.0] * len(quantiles) if quantiles else 0.0
        return run_once

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device=None) -> int:
        return 0

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(f"no GPU here: Triton's driver was asked for {name!r}. Kernels decorated with mimw.jit run on the "
                           "simulator; those of triton.jit need a device")


def stand_in(wanted: Callable[[], GPUTarget]) -> None:
    """Make Triton's active driver the stand-in, once, where there is no GPU; `wanted` gives the target that it names.

    Called while kernels are decorated, so it only looks for device files: asking Triton would load its driver and open
    the device, and a process that has done so cannot fork workers any more.
    """
    if driver._active is None and not any(map(os.path.exists, _DEVICES)):
        driver.set_active(NoGpuDriver(wanted))
        atexit.register(driver.__dict__.__setitem__, "_active", None)  # nothing of ours stays in Triton's modules
