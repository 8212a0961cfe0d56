"""A driver in place of Triton's where launches are simulated, so that host code that asks about the device runs.

Input: what host code asks of Triton's driver. Output: an answer for the target that is simulated, or an error with the question:

    triton.runtime.driver.active.get_current_target()                                       GPUTarget("cuda", 90, 32)
    triton.runtime.driver.active.utils.get_device_properties(0)["multiprocessor_count"]     132

`triton.autotune` asks the active driver for a benchmarker before it calls any kernel. On the simulator time means nothing, so
this one runs each configuration once and calls them equal; the first wins. Scripts ask it for the target to choose kernels by, for
numbers of the device to choose grids by, and for the device to make their tensors on, which is the CPU. A compiled kernel gets its
handles: the registers of its binary, and a launch that is simulated. Anything that needs a real device says so.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .devices import DEVICES
from .runtime import GPUTarget, driver, gpu_is_active

Numbers = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class Cpu:
    """`torch.device("cpu")` for a script that has not imported torch."""

    type: str = "cpu"
    index: int | None = None

    def __str__(self) -> str:
        return self.type


class Properties(dict):
    """The known properties of the device, by the names of Triton's `get_device_properties`."""

    def __missing__(self, name: str):
        raise KeyError(f"{name}: launches are simulated here, and of the device only these are known: {', '.join(self)}")


class NoGpuUtils:
    """The little of `driver.active.utils` that makes sense without a device."""

    def __init__(self, stand_in: NoGpuDriver):
        self._driver = stand_in

    def get_device_properties(self, device=0) -> Properties:
        return self._driver.get_device_properties(device)

    def get_device_capability(self, device=0) -> tuple[int, int]:
        return divmod(int(self._driver.get_current_target().arch), 10)

    def get_current_device(self) -> int:
        return 0

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple:
        return self._driver.loaded(binary)

    def __getattr__(self, name: str):
        raise _no_gpu(f"utils.{name}", name)


class NoGpuDriver:
    """The little of Triton's `DriverBase` that makes sense without a device. `wanted` gives the target that is simulated,
    `numbers` the known facts of its device; `launcher_cls(source, metadata)` launches a compiled kernel, of whose binary `loaded`
    says what `load_binary` does."""

    def __init__(self, wanted: Callable[[], GPUTarget], numbers: Numbers, launcher_cls: type, loaded: Callable[[bytes], tuple]):
        self.wanted, self.numbers, self.launcher_cls, self.loaded = wanted, numbers, launcher_cls, loaded
        self.utils = NoGpuUtils(self)

    def get_current_target(self) -> GPUTarget:
        return self.wanted()

    def get_device_properties(self, device=0) -> Properties:
        return Properties(self.numbers())

    def get_active_torch_device(self):
        torch = sys.modules.get("torch")
        return Cpu() if torch is None else torch.device("cpu")

    def get_benchmarker(self):
        def run_once(kernel_call, quantiles=None, **_):
            kernel_call()
            return [0.0] * len(quantiles) if quantiles else 0.0
        return run_once

    def get_device_interface(self):
        """`torch.cpu`, for its streams and `synchronize`."""
        if "torch" not in sys.modules:
            raise _no_gpu("get_device_interface", "get_device_interface")
        return sys.modules["torch"].cpu

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device=None) -> int:
        return 0

    def __getattr__(self, name: str):
        raise _no_gpu(name, name)


def _no_gpu(question: str, name: str) -> Exception:
    if name.startswith("__"):
        return AttributeError(name)
    return RuntimeError(f"no GPU here: Triton's driver was asked for {question!r}. Kernels decorated with mimw.jit run on the "
                        "simulator; those of triton.jit need a device")


def stand_in(wanted: Callable[[], GPUTarget], numbers: Numbers, launcher_cls: type, loaded: Callable[[bytes], tuple],
             beside_a_gpu: bool = False) -> None:
    """Make Triton's active driver the stand-in, once, where there is no GPU, or `beside_a_gpu` if all launches of the process
    are simulated; the other arguments are those of `NoGpuDriver`.

    Called while kernels are decorated, so it only looks for device files: asking Triton would load its driver and open
    the device, and a process that has done so cannot fork workers any more.
    """
    if driver._active is None and (beside_a_gpu or not any(map(os.path.exists, DEVICES))):
        driver.set_active(NoGpuDriver(wanted, numbers, launcher_cls, loaded))
        atexit.register(driver.__dict__.__setitem__, "_active", None)  # nothing of ours stays in Triton's modules


def answer_for(asked: Callable[[], GPUTarget | None]) -> None:
    """Let the driver of a GPU name the target that a simulated launch under way has asked for; `asked` gives that, None outside
    of all such launches. Without a GPU the stand-in does."""
    if not gpu_is_active() or isinstance(driver.active, NoGpuDriver) or "get_current_target" in vars(driver.active):
        return
    real = driver.active.get_current_target
    driver.active.get_current_target = lambda: asked() or real()
