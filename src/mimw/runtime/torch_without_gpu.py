"""Tensors, streams and events of scripts that ask torch for a GPU where launches are simulated: on the CPU.

Input: a machine without a GPU. Output: torch takes "cuda" for the CPU while a script runs. For example, in the script:

    x = torch.rand(1024, device="cuda")         a tensor of the CPU, which simulated launches take
    x.device == torch.device("cuda")            True: that is the CPU, too
    x.cuda(), x.to("cuda"), x.cpu()             copies, as between a GPU and its host
    torch.cuda.synchronize()                    returns at once, as all is done
    start.elapsed_time(end)                     nan, and a line on stderr: no time is measured

`torch.cuda.is_available()` stays False, and a tensor's `device` is the CPU. Its `is_cuda` is True for scripts, many of which assert
it, and False for torch and for us, who choose by it what to call.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from unittest import mock

from .torch_cuda import once_imported


class Stream:
    """A stream on which everything is done at once."""

    cuda_stream = 0

    def __init__(self, device=None, priority: int = 0, **_: Any):
        self.device, self.priority = device, priority

    def synchronize(self) -> None:
        """Nothing is in flight."""

    def wait_stream(self, stream) -> None:
        """Nothing is in flight."""

    def wait_event(self, event) -> None:
        """Nothing is in flight."""

    def query(self) -> bool:
        return True

    def record_event(self, event: Event | None = None) -> Event:
        return event or Event()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        """Nothing is in flight."""


class Device(contextlib.nullcontext):
    """`with torch.cuda.device(0)`: there is one device."""


class Event:
    """An event that has happened; no time lies between two of them."""

    said = False

    def __init__(self, *_: Any, **__: Any):
        pass

    def record(self, stream=None) -> None:
        """Nothing is in flight."""

    def wait(self, stream=None) -> None:
        """Nothing is in flight."""

    def synchronize(self) -> None:
        """Nothing is in flight."""

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Event) -> float:
        if not Event.said:
            Event.said = True
            sys.stdout.flush()
            print("mimw: torch.cuda.Event.elapsed_time is nan: launches are simulated, and no time is measured; "
                  "triton.testing.do_bench predicts one", file=sys.stderr, flush=True)
        return math.nan


@contextlib.contextmanager
def cuda_is_the_cpu() -> Iterator[None]:
    """Meanwhile torch, once it has been imported, takes "cuda" for the CPU in this thread, if there is no GPU."""
    with contextlib.ExitStack() as stack:
        lasting = True

        def begin(torch: ModuleType) -> None:
            if lasting and not torch.cuda.is_available():
                stack.enter_context(mock.patch.multiple(torch.cuda, **_streams()))
                stack.enter_context(mock.patch.object(torch.cpu, "set_stream", lambda stream: None, create=True))
                stack.enter_context(_mode(torch))

        once_imported("torch", begin)
        yield
        lasting = False


def _streams() -> dict[str, Any]:
    """The stand-ins for names of `torch.cuda`."""
    one = Stream()
    return {"Stream": Stream, "Event": Event, "synchronize": lambda device=None: None, "current_device": lambda: 0,
            "current_stream": lambda device=None: one, "default_stream": lambda device=None: one,
            "stream": lambda stream: contextlib.nullcontext(stream), "set_stream": lambda stream: None,
            "set_device": lambda device: None, "device": Device, "is_current_stream_capturing": lambda: False}


def _mode(torch: ModuleType):
    copied, moved, asked = {torch.Tensor.cuda, torch.Tensor.cpu}, torch.Tensor.to, torch.Tensor.is_cuda.__get__

    def is_cuda(value: Any) -> bool:
        text = value if isinstance(value, str) else value.type if isinstance(value, torch.device) else ""
        return text.partition(":")[0] == "cuda"

    class CudaIsTheCpu(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if func == asked and sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] not in ("mimw", "torch"):
                return True
            if func in copied:
                return args[0].clone()
            if func is torch.device and (is_cuda(kwargs.get("type")) or any(map(is_cuda, args))):
                return func("cpu")
            named = [value for value in (*args[1:2], kwargs.get("device")) if isinstance(value, str)] if func is moved else []
            args = tuple("cpu" if is_cuda(value) else value for value in args)
            kwargs = {name: "cpu" if is_cuda(value) or name == "device" and type(value) is int else value
                      for name, value in kwargs.items()}
            found = func(*args, **kwargs)
            return found.clone() if named and found is args[0] else found

    return CudaIsTheCpu()
