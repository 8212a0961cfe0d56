"""Kernels that are compiled and checked, with Gluon's descriptors over tensors of the CPU.

    right(kernel, (1, ), described(a, [64, 64], [[0, 0]]), out, expected={"out": a}, num_ctas=2)        fails if anything is found
    told(report, kernels)       [("CopyReadEarly", "tma.async_load(source, ..)")], lines of the file of the module `kernels`

Input: a kernel and its arguments. Output: findings.
"""

from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

import mimw

QUICK = dict(seeds=3, jobs=1, shrink=False)


def right(kernel, grid, *args, expected, **how):
    report = mimw.check_compiled(kernel, grid, *args, expected=expected, **{"target": "sm_90a"} | QUICK | how)
    assert report.ok and "as expected in" in report.results, report


def described(array, block, cga, element=gl.float16, rows=False, **how):
    """A descriptor of Gluon's; with `rows` one of single rows, which a tile of that block is picked from."""
    layout = gl.NVMMASharedLayout(element_bitwidth=element.primitive_bitwidth, rank=len(block), cga_layout=cga, **how) if how else \
        gl.NVMMASharedLayout.get_default_for(block, element, cga_layout=cga)
    return TensorDescriptor.from_tensor(array, [1, *block[1:]] if rows else block, layout)


def told(report, module) -> list[tuple[str, str]]:
    """The kind and the first line of each finding."""
    lines = open(module.__file__).read().splitlines()
    return [(finding.kind, lines[finding.sites[0].line - 1].strip()) for finding in report.findings]
