"""Kernels of tasks on AMD's chips that are mutated, small and ready to be checked: a task that copies past the registers, one that
multiplies, and a ring with barriers between them.

    next(case for case in CASES if case.target == "gfx942").make()      (kernel, grid, args, meta)

Input: nothing. Output: `CASES`.
"""

from __future__ import annotations

import numpy as np

from tests.programs_amd import with_tasks

from .case import Case, numbers

FILE = "tests/programs_amd/with_tasks.py"


def _product(by_base: bool) -> tuple:
    """One program and five chunks, in two slots; the copies take a base and offsets, or pointers."""
    a, b = numbers((64, 160), (64, 160))
    args = a, b, np.zeros((64, 64), np.float16), 64, 64, 160, 160, 160, 64
    return with_tasks.by_pointers, (1, ), args, dict(BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, NUM_BUFFERS=2, BUFFER=by_base, num_warps=4)


def _product_by_mover() -> tuple:
    """The same by gfx1250's data mover, whose task tells of a chunk when the next one is on its way."""
    a, b = numbers((64, 160), (64, 160))
    args = a, b, np.zeros((64, 64), np.float16), 64, 64, 160, 160, 160, 64
    return with_tasks.by_mover, (1, ), args, dict(BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, NUM_BUFFERS=2, num_warps=4)


CASES = (
    Case("Product by tasks, on gfx950", FILE, lambda: _product(False), target="gfx950"),
    Case("Product by tasks, on gfx942", FILE, lambda: _product(True), target="gfx942"),
    Case("Product by tasks, on gfx1250", FILE, _product_by_mover, target="gfx1250"),
)
