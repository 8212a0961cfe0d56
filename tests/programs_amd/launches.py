"""A launch of a program for AMD, simulated with a look for races and compiled to a binary; operands for it.

    code = launch(gemm.pipelined, (2, ), (a, b, c, ...), "gfx950", dict(num_warps=4, waves_per_eu=2), BLOCK_M=64, ...)
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

import mimw
import mimw.tlx as tlx
from mimw.testing import compare

CDNA, AMD = ("gfx942", "gfx950"), ("gfx942", "gfx950", "gfx1250")
PADDED, SWIZZLED = tlx.padded_shared_layout_encoding, tlx.swizzled_shared_layout_encoding


def launch(kernel, grid, args, chip, options, **meta) -> Counter:
    """How often each instruction stands in the code; the arrays are as the simulator leaves them."""
    mimw.simulate(kernel, grid, *args, target=chip, races=True, **options, **meta)
    compiled = mimw.compile(kernel, grid, *args, target=chip, **options, **meta)
    assert compiled.hsaco[:4] == b"\x7fELF" and compiled.stack_bytes == 0
    return Counter(re.findall(r"^\t([a-z]\w+)", compiled.amdgcn, re.MULTILINE))


def random(*shape, seed=0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 0.5).astype(np.float16)


def is_product(c, a, b) -> None:
    """C = A B^T, in the type of C."""
    compare(c, (a.astype(np.float32) @ b.astype(np.float32).T).astype(c.dtype), rtol=1e-2, atol=1e-2)


def rows_apart(rows, columns, every=16):
    """A padded layout in which rows `every` apart follow each other in LDS, 512 elements from padding to padding."""
    bits = [1 << bit for bit in range(rows.bit_length() - 1)]
    order = [bit for bit in bits if bit >= every] + [bit for bit in bits if bit < every]
    low = [[0, 1 << bit] for bit in range(columns.bit_length() - 1)]
    return PADDED.with_bases([[512, 16]], [*low, *([bit, 0] for bit in order)], [rows, columns])


def layouts(shape):
    """A layout of each kind in which authors keep the operands of a product, by name."""
    return {"own": None, "padded": PADDED.with_identity_for([[512, 16]], shape), "rows": rows_apart(*shape),
            "swizzled": SWIZZLED(8, 1, 8, [1, 0], [1, 1], [1, 1], [1, 1], [1, 0]), "bits": tlx.swizzled_layout(3, 3, 3)}


def matrix_layout(chip, warps, size=16):
    """Of the accumulator of fp16 products by instructions of `size` rows and columns."""
    depth = {("gfx942", 16): 16, ("gfx942", 32): 8, ("gfx950", 16): 32, ("gfx950", 32): 16}[chip, size]
    return tlx.amd_mfma_layout(3 if chip == "gfx942" else 4, [size, size, depth], True, warps)
