"""Happens-before on a GPU: which accesses of a run are ordered, and the report of two that are not
(docs/MEMORY_MODEL.md).

Input: the acts of a simulated run: accesses, releases, acquires, fences, asynchronous operations. Output: an error at
the access that completes a race. For example:

    order = Order(machine)
    order.touch(task, op, order.place(view), "'tiles'[0]", write=True)
"""

from .clocks import ASYNC, GENERIC, VACANT
from .order import Order
from .unordered import Unordered

__all__ = ["ASYNC", "GENERIC", "VACANT", "Order", "Unordered"]
