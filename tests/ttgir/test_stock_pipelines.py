"""Loops that stock Triton pipelines, as they are compiled: a race of Triton 3.9 (docs/BUGS.md), and the same loop without it.

Shapes: a (n 64, 32), b (n 32, 32) of fp16; c (64, 32), d (n 32, 32). The mistake is Triton's.
"""

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw


@triton.jit
def operand_and_values(a, b, c, d, n):
    """c = sum of a_i b_i, d = 2 b: b's tile is an operand that lies in shared memory, and is read to registers, too."""
    rows, columns, keys = tl.arange(0, 64)[:, None], tl.arange(0, 32)[None, :], tl.arange(0, 32)[:, None]
    acc = tl.zeros([64, 32], tl.float32)
    for i in range(n):
        x = tl.load(a + i * 2048 + rows * 32 + columns)
        y = tl.load(b + i * 1024 + keys * 32 + columns)
        acc = tl.dot(x, y, acc)
        tl.store(d + i * 1024 + keys * 32 + columns, y + y)
    tl.store(c + rows * 32 + columns, acc)


@triton.jit
def operand(a, b, c, n):
    """The product alone."""
    rows, columns, keys = tl.arange(0, 64)[:, None], tl.arange(0, 32)[None, :], tl.arange(0, 32)[:, None]
    acc = tl.zeros([64, 32], tl.float32)
    for i in range(n):
        x = tl.load(a + i * 2048 + rows * 32 + columns)
        acc = tl.dot(x, tl.load(b + i * 1024 + keys * 32 + columns), acc)
    tl.store(c + rows * 32 + columns, acc)


def arrays(n=4):
    return np.ones((n * 64, 32), np.float16), np.ones((n * 32, 32), np.float16), np.zeros((64, 32), np.float32)


@pytest.mark.parametrize("stages", [2, 3])
def test_an_operand_that_is_read_to_registers_too_has_a_slot_too_few(stages):
    a, b, c = arrays()
    report = mimw.check_compiled(operand_and_values, (1, ), a, b, c, np.zeros_like(b), 4, num_stages=stages, target="sm_90a",
                                 seeds=2, shrink=False)
    assert [type(one).__name__ if isinstance(one, Exception) else one.kind for one in report.findings] == ["OperandOverwritten"]
    assert "'y'" in str(report)


def test_without_a_pipeline_or_by_the_product_alone_nothing_is_found():
    a, b, c = arrays()
    options = dict(target="sm_90a", seeds=2, shrink=False)
    assert mimw.check_compiled(operand_and_values, (1, ), a, b, c, np.zeros_like(b), 4, num_stages=1, **options).ok
    assert mimw.check_compiled(operand, (1, ), a, b, c, 4, num_stages=3, **options).ok
