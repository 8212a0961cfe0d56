"""A GPU that takes launches and runs nothing: Triton's own binder, caches and launcher, and a C side that notes its arguments.

Input: the fixture `gpu`. Output: kernels of `mimw.jit` compile for sm_90a up to LLVM IR and launch "on a device":

    kernel[(4, )](Held(0x1000), 7)              what stock Triton hands to its launcher in C is gpu.launches[-1]
    kernel.freeze((4, ), Held(0x1000), 7)()     what a frozen launch hands to it
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
import triton
from triton import knobs
from triton.backends.nvidia import driver as nvidia
from triton.runtime import _allocation

from mimw.compiler.triton_port.runtime import GPUTarget, driver, gpu_is_active
from tests.compiling import _nothing, _only_metadata


class Held:
    """An array on a device: what Triton and a frozen launch ask of a tensor."""

    def __init__(self, address: int, dtype="float32", shape=(128, ), strides=None, device=0):
        self.address, self.dtype, self.shape, self.device = address, np.dtype(dtype), tuple(shape), device
        self.strides = tuple(strides or (int(np.prod(shape[at + 1:])) for at in range(len(shape))))
        self.asked = 0

    def data_ptr(self):
        self.asked += 1
        return self.address

    def get_device(self):
        return self.device

    def is_pinned(self):
        return False

    def element_size(self):
        return self.dtype.itemsize

    def stride(self):
        return self.strides

    def is_contiguous(self):
        return self.strides == Held(0, self.dtype, self.shape).strides


@dataclass
class Launch:
    """One call of Triton's launcher in C."""

    grid: tuple
    stream: int
    function: int
    cooperative: bool
    pdl: bool
    packed: tuple
    hooks: tuple
    scratch: tuple
    signature: tuple
    values: tuple       # as C finds them: flat, without constants, arrays as addresses
    device: int = 0


@dataclass
class Gpu:
    """The active driver, and what it was asked for."""

    launches: list[Launch] = field(default_factory=list)
    encoded: list[tuple] = field(default_factory=list)
    device: int = 0
    launcher_cls = nvidia.CudaLauncher

    def __post_init__(self):
        self.utils = SimpleNamespace(
            launch=self._launch, fill_tma_descriptor_tiled=self._encode, load_binary=lambda *_: (None, 2, 0, 0, 1024),
            unload_module=lambda module: None, build_signature_metadata=tuple,
            get_device_properties=lambda device: {"max_shared_mem": 232448})

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return self.device

    def set_current_device(self, device):
        self.device = device

    def get_current_stream(self, device):
        return 70 + device

    def _encode(self, *asked):
        asked = tuple(tuple(one) if isinstance(one, (list, tuple)) else one for one in asked)
        self.encoded.append(asked)
        return "CUtensorMap", asked

    def _launch(self, x, y, z, stream, function, cooperative, pdl, packed, told, enter, leave, *rest):
        *scratch, annotations, signature, values = rest
        for hook in (enter, leave):
            if hook is not None:
                hook(told)
        self.launches.append(Launch((x, y, z), stream, function, bool(cooperative), bool(pdl), packed, (enter, leave),
                                    tuple(scratch), signature, tuple(_flat(annotations, values)), self.device))


def _flat(annotations, values):
    """As `extractArgs` of Triton's driver.c walks them, and `extractPointer` reads them."""
    assert len(annotations) == len(values)
    for annotation, value in zip(annotations, values):
        if annotation.type == "tuple":
            yield from _flat(annotation.nested_tuple, value)
        elif annotation.type == "kernel":
            yield value.data_ptr() if hasattr(value, "data_ptr") else value


def _without_llvm(backend=None, stages=None, options=None, language=None, capability=None):
    """No LLVM IR, PTX or binary: nothing here runs one."""
    if stages is None:
        return "for a fake GPU", "for a fake GPU"
    for name in list(stages)[list(stages).index("llir"):]:
        stages[name] = _only_metadata(capability) if name == "llir" else _nothing
    stages["ptx"] = lambda source, metadata: ""


@contextmanager
def standing_in(monkeypatch):
    """The fake GPU, as Triton's active driver and mimw's, without an allocator that a script has set before."""
    for name in ("CONSTEXPR", "KERNEL", "TUPLE"):
        monkeypatch.setattr(nvidia, f"ARG_{name}", name.lower())
    monkeypatch.setattr(nvidia, "PyKernelArg", lambda nested_tuple, type: SimpleNamespace(nested_tuple=nested_tuple, type=type))
    monkeypatch.delenv("MIMW_SIMULATE", raising=False)
    fake = Gpu()
    monkeypatch.setattr(driver, "_default", fake)
    monkeypatch.setattr(driver, "_active", fake)
    gpu_is_active.cache_clear()
    allocator = _allocation._allocator.get()
    triton.set_allocator(_allocation.NullAllocator())
    with knobs.runtime.scope():
        knobs.runtime.add_stages_inspection_hook = _without_llvm
        yield fake
    triton.set_allocator(allocator)
    gpu_is_active.cache_clear()


@pytest.fixture
def gpu(monkeypatch):
    """The fake GPU, as Triton's active driver and mimw's."""
    with standing_in(monkeypatch) as fake:
        yield fake
