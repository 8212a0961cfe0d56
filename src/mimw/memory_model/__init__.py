"""Happens-before on a GPU: which accesses of a run are ordered, and what is reported of two that are not (docs/MEMORY_MODEL.md).

Input: what a simulated run does: accesses, releases, acquires, fences, asynchronous operations. Output: an error at the access
that completes a race. For example, `Order(machine).touch(task, op, view, "'tiles'[0]", write=True)`.
"""

from .accesses import ASYNC, GENERIC
from .order import Order, Unordered

__all__ = ["ASYNC", "GENERIC", "Order", "Unordered"]
