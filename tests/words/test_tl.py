"""Everything of `tl` works in kernels that take our path: on both machines, and compiled to a cubin."""

import numpy as np
import pytest

from mimw.compile import compile_kernel
from mimw.host import specialise
from mimw.testing import compare

from .tl_cases import CASES


@pytest.mark.parametrize("name", CASES)
def test_tl(machine, name):
    case = CASES[name]
    inputs, outputs = case.arguments()
    machine.launch(case.kernel, (1, ), *inputs, *outputs, **case.meta)
    for got, wanted in zip(outputs, case.expected(), strict=True):
        compare(got, wanted, rtol=case.tolerance, atol=case.tolerance)


@pytest.mark.parametrize("name", CASES)
def test_tl_compiles(name):
    case = CASES[name]
    inputs, outputs = case.arguments()
    signature, constants, _ = specialise(case.kernel, dict(zip(case.kernel.arg_names, (*inputs, *outputs), strict=True)))
    compiled = compile_kernel(case.kernel, signature, {case.kernel.arg_names[path[0]]: value for path, value in constants.items()})
    assert compiled.program.orchestrates()
    assert len(compiled.stage("cubin")) > 1000
