"""What scripts learn of the device from `torch.cuda` where launches are simulated: the target's capability and numbers.

Input: functions that give the capability and the numbers of the simulated device, None where launches are not simulated. Output:
two functions of `torch.cuda`, changed in this process now or when torch is imported, so that this works without a GPU:

    torch.cuda.get_device_capability()                                  (10, 0), for MIMW_TARGET=sm_100a
    torch.cuda.get_device_properties("cuda").multi_processor_count      148

`torch.cuda.is_available()` stays torch's answer. Where a simulated launch takes its tensors says
`triton.runtime.driver.active.get_active_torch_device()`; under `mimw run` "cuda" is taken for that (torch_without_gpu.py).
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

_MODULE = "torch.cuda"


@dataclass(frozen=True)
class SimulatedDevice:
    """The device of a simulated launch, under the names of torch's `_CudaDeviceProperties`."""

    name: str
    major: int
    minor: int
    multi_processor_count: int
    shared_memory_per_block_optin: int
    regs_per_multiprocessor: int
    warp_size: int


def answer(device: Callable[[], SimulatedDevice | None]) -> None:
    """`torch.cuda.get_device_capability`, `get_device_properties` and `get_device_name` are about `device()`, where that is not
    None. Idempotent."""
    once_imported(_MODULE, lambda cuda: _change(cuda, device))


def once_imported(name: str, change: Callable[[ModuleType], None]) -> None:
    """Call `change(module)` now, or as soon as the module has been imported."""
    if name in sys.modules:
        change(sys.modules[name])
    elif not any(isinstance(finder, _WhenImported) and finder.name == name for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenImported(name, change))


def _change(cuda: ModuleType, device: Callable[[], SimulatedDevice | None]) -> None:
    for name, of in (("get_device_capability", lambda found: (found.major, found.minor)),
                     ("get_device_properties", lambda found: found), ("get_device_name", lambda found: found.name)):
        real = getattr(cuda, name, None)
        if real is not None and not hasattr(real, "__wrapped__"):
            setattr(cuda, name, _instead(real, of, device))


def _instead(real: Callable, of: Callable, device: Callable[[], SimulatedDevice | None]) -> Callable:
    def asked(*args, **keywords):
        found = device()
        return real(*args, **keywords) if found is None else of(found)

    asked.__name__, asked.__doc__, asked.__wrapped__ = real.__name__, real.__doc__, real
    return asked


class _WhenImported(importlib.abc.MetaPathFinder):
    """Finds nothing itself: lets the module be found as ever, and changes it once it has been executed."""

    def __init__(self, name: str, change: Callable[[ModuleType], None]):
        self.name, self.change = name, change

    def find_spec(self, name: str, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self.change(module)

            spec.loader.exec_module = exec_module
        return spec
