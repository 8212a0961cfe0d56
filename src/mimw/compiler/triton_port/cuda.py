"""The CUDA driver as a watchdog needs it: events that can be asked, host memory that a kernel writes, copies beside a kernel.

Input: the current device of Triton's driver. Output: a `Cuda` for its context. Once it exists, its calls return at once while a
kernel hangs, but for `host_memory`.

    cuda = Cuda()
    memory = cuda.host_memory(1 << 20)      # memory.data_ptr() goes to the kernel, memory.bytes is a numpy array
    event = cuda.record(stream)
    cuda.done(event)                        # False while work before it in the stream runs
"""

from __future__ import annotations

import ctypes
import time
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

import numpy as np

from .runtime import driver

# CUDA driver API: cuMemHostAlloc, cuEventCreate, cuStreamCreate, cuEventQuery, cuThreadExchangeStreamCaptureMode.
_PORTABLE_AND_MAPPED, _WITHOUT_TIMING, _NON_BLOCKING, _NOT_READY = 0x1 | 0x2, 0x2, 0x1, 600
_RELAXED = 2
_STAGE_BYTES = 1 << 24


class HostMemory:
    """Page-locked memory of the host at an address that kernels use, too."""

    def __init__(self, host: int, device: int, size: int):
        self.device, self.size = device, size
        self.bytes = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(host))

    def data_ptr(self) -> int:
        return self.device


class Cuda:
    """The driver's calls on the context that is current where the object is made; threads of ours make it current in `enter`."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.context = c_void_p()
        self._call("cuCtxGetCurrent", byref(self.context))
        if not self.context:        # nothing has run on the device yet
            device = c_int()
            self._call("cuDeviceGet", byref(device), c_int(driver.active.get_current_device()))
            self._call("cuDevicePrimaryCtxRetain", byref(self.context), device)
            self.enter()
        self.events: list[c_void_p] = []
        self.stream = c_void_p()
        self._call("cuStreamCreate", byref(self.stream), c_uint(_NON_BLOCKING))
        self.stage = self.host_memory(_STAGE_BYTES)

    def _call(self, name: str, *arguments) -> None:
        status = getattr(self.library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} says {self._name(status)}")

    def _name(self, status: int) -> str:
        text = ctypes.c_char_p()
        self.library.cuGetErrorName(c_int(status), byref(text))
        return (text.value or str(status).encode()).decode()

    def enter(self) -> None:
        """Make the context current in the calling thread."""
        self._call("cuCtxSetCurrent", self.context)

    def relax(self) -> None:
        """Let the calling thread ask for events and copies while another one records a graph, which they would spoil otherwise."""
        mode = c_int(_RELAXED)
        self._call("cuThreadExchangeStreamCaptureMode", byref(mode))

    def synchronize(self) -> None:
        """Wait until the device has done all that it has been given. RuntimeError if that fails, or while a graph is recorded."""
        self._call("cuCtxSynchronize")

    def capturing(self, stream: int) -> bool:
        """True if the stream records a graph, in which an event says nothing."""
        return driver.active.utils.is_stream_capturing(stream)

    # ---- events -----------------------------------------------------------------------------------------------------

    def record(self, stream: int) -> c_void_p:
        """An event behind all work that is in the stream now."""
        event = self.events.pop() if self.events else c_void_p()
        if not event:
            self._call("cuEventCreate", byref(event), c_uint(_WITHOUT_TIMING))
        self._call("cuEventRecord", event, c_void_p(stream))
        return event

    def done(self, event: c_void_p) -> bool:
        """True if the work before an event is done. RuntimeError if that work has failed."""
        status = self.library.cuEventQuery(event)
        if status in (0, _NOT_READY):
            return status == 0
        raise RuntimeError(self._name(status))

    def give_back(self, event: c_void_p) -> None:
        self.events.append(event)

    # ---- memory -----------------------------------------------------------------------------------------------------

    def host_memory(self, size: int) -> HostMemory:
        """Zeroed memory that both sides see. It is never freed: freeing waits for kernels."""
        host, device = c_void_p(), c_uint64()
        self._call("cuMemHostAlloc", byref(host), c_size_t(size), c_uint(_PORTABLE_AND_MAPPED))
        self._call("cuMemHostGetDevicePointer_v2", byref(device), host, c_uint(0))
        memory = HostMemory(host.value, device.value, size)
        memory.bytes[:] = 0
        return memory

    def copied(self, address: int, size: int, until: float) -> np.ndarray:
        """The bytes at a device address, read beside whatever runs. TimeoutError if that takes beyond time.monotonic() `until`."""
        found = np.empty(size, np.uint8)
        for start in range(0, size, _STAGE_BYTES):
            count = min(_STAGE_BYTES, size - start)
            self._call("cuMemcpyDtoHAsync_v2", c_void_p(self.stage.bytes.ctypes.data), c_uint64(address + start),
                       c_size_t(count), self.stream)
            while self.library.cuStreamQuery(self.stream) == _NOT_READY:
                if time.monotonic() > until:
                    raise TimeoutError("the copy of the arguments does not come back either")
                time.sleep(0.001)
            found[start:start + count] = self.stage.bytes[:count]
        return found
