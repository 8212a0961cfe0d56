"""The gradient of a last linear layer's weight, summed over pieces of rows in fp32 or 16 bits.

Input: pieces of the logits' gradient, and of the layer's rows. Output: the sum of their products, of the type that is kept. For
example:

    dw = WeightGradient(128256, torch.float32, torch.bfloat16)
    for logits, rows in pieces: dw.add(logits, rows)        (rows, 128256) and (rows, 4096)
    dw.total()                                              bf16 (128256, 4096)

Sums of fp32 that become 16 bits would stand beside their result in the end, one and a half times their size. So they are two
matrices, each with half of the classes. The first is as large as the result, and becomes it: its numbers are rounded from the front
on, in steps that double, so that none is written over before it is read. Then the second one fills the rest.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .add_product import ADD_PRODUCT
from .matmul import MATMUL

STEP = 128          # what the first half's classes are a multiple of: tiles of a product, and addresses that TMA takes
BY_COPY = 1024      # rows that are rounded into memory of their own first


class WeightGradient:
    """The sum, `sums` its type while it is summed, `kept` in the end: the same, or 16 bits for fp32."""

    def __init__(self, classes: int, sums: torch.dtype, kept: torch.dtype):
        half = classes if sums is kept else min(classes, -(-classes // (2 * STEP)) * STEP)
        self.classes, self.sums, self.kept = classes, sums, kept
        self.ranges = [(first, end) for first, end in ((0, half), (half, classes)) if first < end]
        self.parts: list[Tensor] = []

    def add(self, logits: Tensor, rows: Tensor) -> None:
        """Add the product of logits (rows, classes), transposed, with rows (rows, hidden): the first one is written, the others
        are added by the epilogue of their products."""
        columns = [logits[:, first:end].T for first, end in self.ranges]
        if not self.parts:
            self.parts = [MATMUL(part, rows, self.sums) for part in columns]
            return
        for sums, part in zip(self.parts, columns):
            ADD_PRODUCT(sums, part, rows)

    def total(self) -> Tensor:
        """The sum, (classes, hidden); afterwards there are no sums."""
        parts, self.parts = self.parts, []
        if self.sums is self.kept:
            return parts[0]
        (half, hidden), whole = parts[0].shape, self.classes
        found = parts[0].new_empty(0, dtype=self.kept).set_(parts[0].untyped_storage(), 0, (2 * half, hidden))
        _round(parts[0], found)
        if len(parts) > 1:
            found[half:whole] = parts[1]
        return found[:whole]


def _round(sums: Tensor, found: Tensor) -> None:
    """The rows of sums, fp32, as the first rows of found, of 16 bits, which lie in the same memory: rows a to 2 a of found end
    where those of sums begin."""
    rows, begin = len(sums), min(len(sums), BY_COPY)
    found[:begin] = sums[:begin].to(found.dtype)
    while begin < rows:
        end = min(rows, 2 * begin)
        found[begin:end] = sums[begin:end]
        begin = end


__all__ = ["WeightGradient"]
