"""Everything of `tl` works in kernels that take our path: on both machines, and compiled to a cubin."""

import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel
from mimw.runtime.host import specialise
from mimw.testing import compare
from tests.compiling import to_assembly

from .tl_cases import CASES


def compile_specialised(kernel, signature, constants, by=compile_kernel):
    return by(kernel, signature, {kernel.arg_names[path[0]]: value for path, value in constants.items()})


@pytest.mark.parametrize("name", CASES)
def test_tl(machine, name):
    case = CASES[name]
    inputs, outputs = case.arguments()
    machine.launch(case.kernel, (1, ), *inputs, *outputs, **case.meta)
    for got, wanted in zip(outputs, case.expected(), strict=True):
        compare(got, wanted, rtol=case.tolerance, atol=case.tolerance)


@pytest.mark.long(but=list(CASES)[::3], everywhere=True)     # in two tasks, below, the others go to the binary
@pytest.mark.parametrize("name", CASES)
def test_tl_compiles(name):
    case = CASES[name]
    inputs, outputs = case.arguments()
    signature, constants, _ = specialise(case.kernel, dict(zip(case.kernel.arg_names, (*inputs, *outputs), strict=True)))
    compiled = compile_specialised(case.kernel, signature, constants, to_assembly)
    assert compiled.program.orchestrates()
    assert ".visible .entry" in compiled.stage("ptx")       # ptxas has the same in two tasks


@mimw.jit
def in_a_task(arguments, BODY: tl.constexpr, WARPS: tl.constexpr):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        with tlx.async_task(num_warps=WARPS):
            BODY(*arguments)


@mimw.jit
def in_two_tasks(arguments, BODY: tl.constexpr):
    """A warp's tiles and eight warps', compiled at once."""
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        with tlx.async_task(num_warps=1):
            BODY(*arguments)
        with tlx.async_task(num_warps=8):
            BODY(*arguments)


@pytest.mark.long(but=[name for number, name in enumerate(CASES) if number % 3], everywhere=True)       # the third is above
@pytest.mark.parametrize("name", CASES)
def test_tl_compiles_in_a_task(name):
    case = CASES[name]
    inputs, outputs = case.arguments()
    signature, constants, _ = specialise(in_two_tasks, dict(arguments=(*inputs, *outputs), BODY=case.kernel))
    assert len(compile_specialised(in_two_tasks, signature, constants).stage("cubin")) > 1000


@pytest.mark.parametrize("name", CASES)
def test_tl_in_a_task(machine, name):
    """A task's tiles lie on its own warps, and everything that syncs inside syncs those only."""
    case = CASES[name]
    inputs, outputs = case.arguments()
    machine.launch(in_a_task, (1, ), (*inputs, *outputs), case.kernel, 4)
    for got, wanted in zip(outputs, case.expected(), strict=True):
        compare(got, wanted, rtol=case.tolerance, atol=case.tolerance)
