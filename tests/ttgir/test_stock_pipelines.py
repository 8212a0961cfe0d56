"""Loops that Triton pipelines, as they are compiled: a race of Triton 3.9, the same loop without it, and the mend."""

import numpy as np
import pytest

import mimw
from mimw import TensorDescriptor
from tests.kernels.stock_pipelines import (
    by_descriptors,
    in_a_task,
    operand,
    operand_and_greatest,
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


@pytest.mark.long(but=["*-3"], everywhere=True)
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("kernel", RACING, ids=lambda kernel: kernel.__name__)
def test_an_operand_that_is_read_to_registers_too_has_a_slot_too_few(kernel, stages):
    report = check(kernel, stages)
    assert [type(one).__name__ if isinstance(one, Exception) else one.kind for one in report.findings] == ["OperandOverwritten"]
    assert "'y'" in str(report) or "'x'" in str(report)


@pytest.mark.long(but=["*-3"], everywhere=True)
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


@pytest.mark.gpu
@pytest.mark.parametrize("tiles", [(128, 256, 64), (64, 256, 128), (128, 128, 128)])
def test_on_a_gpu_the_sums_are_right(tiles):
    """Stock Triton's are not, with 2 stages and these tiles: docs/BUGS.md."""
    torch = pytest.importorskip("torch")
    (rows, columns, keys), trips, programs = tiles, 6, 264
    torch.manual_seed(0)
    a, b = (torch.randn(trips, *shape, device="cuda").half() for shape in ((rows, keys), (keys, columns)))
    c, d = torch.empty(programs, rows, columns, device="cuda"), torch.empty(programs, keys, columns, device="cuda").half()
    want = (a.double() @ b.double()).sum(0)
    kernel = mimw.jit(operand_and_greatest.fn)
    for stages in (2, 3):
        for _ in range(20):
            kernel[(programs, )](a, b, c.zero_(), d.zero_(), trips, *tiles, num_stages=stages, num_warps=8)
            assert (c - want).abs().max() < 1e-2 and (d == b.amax(0).clamp(min=0)).all()
