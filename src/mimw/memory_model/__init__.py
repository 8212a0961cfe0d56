"""Happens-before on a GPU: which accesses of a run are ordered, and what is reported of two that are not (docs/MEMORY_MODEL.md)."""

from .accesses import ASYNC, GENERIC
from .order import Order, Unordered

__all__ = ["ASYNC", "GENERIC", "Order", "Unordered"]
