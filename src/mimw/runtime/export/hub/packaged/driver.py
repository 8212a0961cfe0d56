"""CUDA's driver, called from Python: binaries loaded, tensor maps encoded, kernels started. No compiler and no CUDA runtime.

Input: libcuda.so.1, which comes with the driver. Output: what the launcher in C passes, argument by argument. For example:

    driver = Driver()
    function = driver.load(cubin, "swiglu", {8: 100000}, device=0)
    driver.launch(function, (64, 1, 1), 128, 100000, stream, [ctypes.c_uint64(address), ctypes.c_int32(64)], attributes={})

The numbers of attributes and modes are those of cuda.h (CUDA Driver API, "Data types used by CUDA driver").
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_byte, c_char_p, c_int, c_uint, c_uint32, c_uint64, c_void_p
from threading import Lock

MAX_SHARED, ANY_CLUSTER = 8, 14                     # CUfunction_attribute
COOPERATIVE, CLUSTER, SPREAD, EARLY = 2, 4, 5, 6    # CUlaunchAttributeID
_L2_128B, _NAN_FILL = 2, 1                          # CUtensorMapL2promotion, CUtensorMapFloatOOBfill
_MAP_BYTES, _MAP_ALIGN = 128, 64
_MENDED = 13010                                     # the last driver whose maps of less than 128 KiB lose their last bytes


class DriverError(RuntimeError):
    """The driver is not there, or refused what it was asked for."""


class _Attribute(ctypes.Structure):
    _fields_ = [("id", c_int), ("pad", c_int), ("value", c_uint * 16)]


class _Config(ctypes.Structure):
    _fields_ = [("grid", c_uint * 3), ("block", c_uint * 3), ("shared", c_uint), ("stream", c_void_p),
                ("attributes", POINTER(_Attribute)), ("count", c_uint)]


class TensorMap:
    """A CUtensorMap, at an address that is a multiple of 64."""

    def __init__(self):
        self._room = (c_byte * (_MAP_BYTES + _MAP_ALIGN))()
        self.address = -(-ctypes.addressof(self._room) // _MAP_ALIGN) * _MAP_ALIGN


class Driver:
    """The functions of libcuda that a launch needs, each of which raises DriverError where the driver reports an error."""

    def __init__(self, library: str = "libcuda.so.1"):
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise DriverError(f"there is no CUDA driver on this machine ({error}); the kernel runs on NVIDIA GPUs alone") from None
        self._lock, self._version = Lock(), None

    def load(self, image: bytes, symbol: str, attributes: dict[int, int], device: int) -> int:
        """The address of a kernel in a binary, loaded into the context of the thread, or of the device if it has none."""
        with self._lock:
            self._enter(device)
            module, function = c_void_p(), c_void_p()
            self._call("cuModuleLoadData", byref(module), c_char_p(image))
            try:
                self._call("cuModuleGetFunction", byref(function), module, c_char_p(symbol.encode()))
                for name, value in attributes.items():
                    self._call("cuFuncSetAttribute", function, c_int(name), c_int(value))
            except DriverError:
                self._library.cuModuleUnload(module)
                raise
            return function.value

    def encode(self, address: int, code: int, size: int, shape, strides, box, swizzle: int, nan: bool, pairs: bool) -> TensorMap:
        """A tensor map as the launcher in C makes it. Shape and strides are in elements, outermost first; the driver wants them
        innermost first and in bytes. `pairs`: an element of the tensor holds two of the map's."""
        rank = len(shape)
        extents = [extent << (pairs and axis == rank - 1) for axis, extent in enumerate(shape)][::-1]
        steps = [stride * size for stride in strides[:-1]][::-1]
        steps.append(extents[-1] * (steps[-1] if steps else size))
        found = TensorMap()
        self._call("cuTensorMapEncodeTiled", c_void_p(found.address), c_int(code), c_uint32(rank), c_void_p(address),
                   (c_uint64 * rank)(*extents), (c_uint64 * rank)(*steps), (c_uint32 * rank)(*box[::-1]),
                   (c_uint32 * rank)(*([1] * rank)), c_int(0), c_int(swizzle), c_int(_L2_128B), c_int(_NAN_FILL if nan else 0))
        last = (extents[0] - 1) * size + sum((extent - 1) * step for extent, step in zip(extents[1:], steps))
        if self.version() <= _MENDED and last + 1 < 128 * 1024:
            c_uint64.from_address(found.address + 8).value &= ~(1 << 21)
        return found

    def launch(self, function: int, grid: tuple[int, int, int], threads: int, shared: int, stream: int, values,
               attributes: dict[int, tuple[int, ...]], device: int = 0) -> None:
        """Start a kernel, and return at once. `values` are ctypes numbers and tensor maps, in the order of its parameters."""
        self._enter(device)
        asked = (_Attribute * max(1, len(attributes)))()
        for place, (name, value) in zip(asked, attributes.items()):
            place.id = name
            place.value[:len(value)] = value
        config = _Config((c_uint * 3)(*grid), (c_uint * 3)(threads, 1, 1), shared, stream, asked, len(attributes))
        addresses = (c_void_p * len(values))(*(
            one.address if isinstance(one, TensorMap) else ctypes.addressof(one) for one in values))
        self._call("cuLaunchKernelEx", byref(config), c_void_p(function), addresses, None)

    def version(self) -> int:
        """13010 is CUDA 13.1."""
        if self._version is None:
            found = c_int()
            self._call("cuDriverGetVersion", byref(found))
            self._version = found.value
        return self._version

    def _enter(self, device: int) -> None:
        """Take the device's primary context, torch's own, where the thread has none."""
        current = c_void_p()
        self._call("cuCtxGetCurrent", byref(current))
        if not current.value:
            place, context = c_int(), c_void_p()
            self._call("cuInit", c_uint(0))
            self._call("cuDeviceGet", byref(place), c_int(device))
            self._call("cuDevicePrimaryCtxRetain", byref(context), place)
            self._call("cuCtxSetCurrent", context)

    def _call(self, name: str, *arguments) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            text = c_char_p()
            self._library.cuGetErrorString(c_int(status), byref(text))
            raise DriverError(f"{name}: {(text.value or b'unknown error').decode()} ({status})")
