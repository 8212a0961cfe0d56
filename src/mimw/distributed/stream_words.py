"""Words of GPU memory that a CUDA stream waits for and sets, between copies and without a kernel: the driver's stream memory
operations.

Input: a stream's handle, operations on words of 32 bits. Output: they are in the stream, in this order. For example:

    words = StreamWords()
    steps = words.steps(waits(done, 12), sets(done, 0))         done: the address of an integer in this GPU's memory
    words.put(stream, steps)                                    the stream goes on when 12 have come, and leaves 0

A wait is of this GPU's memory. What a stream sets, here or at a peer, comes behind a fence of the system's scope: a reader that
sees it sees what the stream has copied before.
"""

from __future__ import annotations

import ctypes
from ctypes import c_size_t, c_uint, c_uint64, c_void_p

# CUDA driver API, cuStreamBatchMemOp: CUstreamBatchMemOpType, CUstreamWaitValue_flags and CUstreamWriteValue_flags.
_WAIT_VALUE_32, _WRITE_VALUE_32, _AT_LEAST, _BEHIND_A_FENCE = 1, 2, 0, 0


class Step(ctypes.Structure):
    """CUstreamBatchMemOpParams: 48 bytes."""

    _fields_ = (("operation", c_uint), ("address", c_uint64), ("value", c_uint64), ("flags", c_uint), ("alias", c_uint64),
                ("rest", c_uint64))


def waits(address: int, number: int) -> Step:
    """A step that waits until the integer is at least `number`, by the sign of their difference."""
    return Step(_WAIT_VALUE_32, address, number, _AT_LEAST)


def sets(address: int, number: int) -> Step:
    return Step(_WRITE_VALUE_32, address, number & 0xffffffff, _BEHIND_A_FENCE)


class StreamWords:
    """The driver's calls."""

    def __init__(self):
        library = ctypes.CDLL("libcuda.so.1")
        self._library = library
        self._batch, self._copy = library.cuStreamBatchMemOp_v2, library.cuMemcpyDtoDAsync_v2
        self._batch.argtypes = (c_void_p, c_uint, c_void_p, c_uint)
        self._copy.argtypes = (c_uint64, c_uint64, c_size_t, c_void_p)

    def steps(self, *steps: Step) -> ctypes.Array:
        """Ready for `put`, over and over."""
        return (Step * len(steps))(*steps)

    def put(self, stream: int, steps: ctypes.Array) -> None:
        self._done("cuStreamBatchMemOp", self._batch(stream, len(steps), steps, 0))

    def copy(self, stream: int, to: int, source: int, size: int) -> None:
        """Copy `size` bytes, by a copy engine where the two are of different GPUs."""
        self._done("cuMemcpyDtoDAsync", self._copy(to, source, size, stream))

    def _done(self, name: str, status: int) -> None:
        if status:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(status, ctypes.byref(text))
            raise RuntimeError(f"{name} says {(text.value or str(status).encode()).decode()}")


__all__ = ["Step", "StreamWords", "sets", "waits"]
