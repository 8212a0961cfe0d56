"""Loops that Triton pipelines, as they are compiled: a race of Triton 3.9, the same loop without it, and the mend."""

import numpy as np
import pytest

import mimw
from mimw import TensorDescriptor
from tests.kernels.stock_pipelines import (
    by_descriptors,
    in_a_task,
    operand,
    operand_and_values,
    product_of_a_product,
    two_products,
)

N = 5
RACING = [operand_and_values, by_descriptors, two_products, product_of_a_product]


def check(kernel, stages):
    tiles, sums = [np.ones((N * 64, 64), np.float16) for _ in range(3)], np.ones((65, 64), np.float32)
    arrays = [tiles[0], tiles[1], sums, tiles[2]]
    if kernel.__name__ == "by_descriptors":
        arrays[2] = sums[:64]
        arrays = [TensorDescriptor.from_tensor(one, [64, 64]) for one in arrays]
    return mimw.check_compiled(kernel, (1, ), *arrays, N, num_stages=stages, target="sm_90a", seeds=2, shrink=False)


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("kernel", RACING, ids=lambda kernel: kernel.__name__)
def test_an_operand_that_is_read_to_registers_too_has_a_slot_too_few(kernel, stages):
    report = check(kernel, stages)
    assert [type(one).__name__ if isinstance(one, Exception) else one.kind for one in report.findings] == ["OperandOverwritten"]
    assert "'y'" in str(report) or "'x'" in str(report)


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("kernel", RACING, ids=lambda kernel: kernel.__name__)
def test_compiled_by_mimw_its_product_is_waited_for(kernel, stages):
    assert check(mimw.jit(kernel.fn), stages).ok


def test_the_loop_of_a_task():
    """It goes by our own list of passes, of which Triton's pipeline is one."""
    assert check(in_a_task, 3).ok


def test_without_a_pipeline_or_by_the_product_alone_nothing_is_found():
    assert check(operand_and_values, 1).ok
    assert check(operand, 3).ok
