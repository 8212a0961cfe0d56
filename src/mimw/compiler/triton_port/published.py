"""The parts of Triton's host side, beside `triton.jit`, that published scripts use: `triton.compile` of a kernel of ours,
and the backend of a `GPUTarget` by name.

Input: the function that compiles. Output: attributes of imported modules and of one class, changed in this process, so
that these work:

    triton.compile(triton.compiler.ASTSource(kernel, {"x": "*fp32", "N": "constexpr"}, {"N": 64}), GPUTarget("cuda", 90, 32))
    triton.runtime.driver.active.get_current_target().is_cuda_backend()
"""

from __future__ import annotations

import atexit
from collections.abc import Callable

import triton
import triton.compiler.compiler

from .runtime import GPUTarget, stock_compile


def answer_scripts(compile_: Callable) -> None:
    """`triton.compile`, under each of its names, is `compile_`; a `GPUTarget` says of which backend it is. Idempotent."""
    for module in (triton, triton.compiler, triton.compiler.compiler):
        if module.compile is stock_compile:
            atexit.register(setattr, module, "compile", stock_compile)  # nothing of ours stays in Triton's modules
        module.compile = compile_
    GPUTarget.is_cuda_backend = lambda target: target.backend == "cuda"
    GPUTarget.is_hip_backend = lambda target: target.backend == "hip"
