"""The tensors of torch that are alive in this process: memory of simulated launches that follow addresses.

Input: nothing. Output: tensors whose memory is all that any live tensor of the CPU has, each stretch once:

    x = torch.zeros(64); y = x[3:]
    live_tensors()                      [x, ...]: y lies in x

A tensor is found through Python's garbage collector, which knows every one that has an object of Python. torch is not imported:
where nobody has, there is no tensor.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

from .global_memory import describe


def live_tensors() -> list[Any]:
    """Tensors in the order of their addresses; of those that lie in one another the outermost. In sparse ones, in ones without
    memory (`meta`, fake) and in those of other devices than the CPU there is nothing to reach."""
    torch = sys.modules.get("torch")
    if not hasattr(torch, "Tensor"):
        return []
    extents = []
    for one in gc.get_objects():
        if issubclass(type(one), torch.Tensor) and _has_memory(one, torch):
            start, size, _ = describe(one, "")
            if size:
                extents.append((start, -size, one))
    found, end = [], 0
    for start, size, one in sorted(extents, key=lambda extent: extent[:2]):
        if start - size > end:
            found.append(one)
            end = start - size
    return found


def _has_memory(tensor: Any, torch: Any) -> bool:
    """True if it is an ordinary tensor in the memory of this process."""
    fake = getattr(getattr(torch, "_subclasses", None), "FakeTensor", ())
    try:
        plain = tensor.device.type == "cpu" and tensor.layout is torch.strided and not isinstance(tensor, fake)
        return plain and tensor.data_ptr() != 0
    except (RuntimeError, AttributeError, ValueError):     # of subclasses that have no storage of their own
        return False
