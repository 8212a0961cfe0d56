"""The report of an orchestrated launch tells of the race that stock Triton puts into some plain kernels."""

import numpy as np
import pytest

import mimw
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.stock_race import remark
from tests.kernels.stock_pipelines import operand, operand_and_values


@pytest.mark.parametrize("kernel, stages, target, told", [
    (operand_and_values, 3, "sm_90a", True), (mimw.jit(operand_and_values.fn), 3, "sm_90a", False),
    (operand_and_values, 1, "sm_90a", False), (operand_and_values, 3, "sm_100a", False), (operand, 3, "sm_90a", False)])
def test_a_launch_that_has_it(kernel, stages, target, told):
    tiles = [np.ones((256, 64), np.float16) for _ in range(3)]
    args = (tiles[0], tiles[1], np.zeros((64, 64), np.float32), tiles[2], 4)
    found = remark(plain_of(kernel, (1, ), args, {"num_stages": stages}, target))
    assert ("mimw.jit" in found and "docs/BUGS.md" in found) if told else found == ""
