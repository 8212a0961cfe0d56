"""The parts of Triton's host side, beside `triton.jit`, that published scripts use: `triton.compile` of a kernel of ours,
the backend of a `GPUTarget` by name, the benchmarks of `triton.testing`, and `gluon.jit`.

Input: the function that compiles; what makes benchmarks ours. Output: attributes of imported modules and of one class, changed in
this process, so that these work:

    triton.compile(triton.compiler.ASTSource(kernel, {"x": "*fp32", "N": "constexpr"}, {"N": 64}), GPUTarget("cuda", 90, 32))
    triton.runtime.driver.active.get_current_target().is_cuda_backend()
"""

from __future__ import annotations

import atexit
from collections.abc import Callable

import triton
import triton.compiler.compiler
import triton.testing
from triton.experimental import gluon

from .runtime import GPUTarget, stock_compile

_GLUON_JIT = gluon.jit


def answer_scripts(compile_: Callable) -> None:
    """`triton.compile`, under each of its names, is `compile_`; a `GPUTarget` says of which backend it is. Idempotent."""
    for module in (triton, triton.compiler, triton.compiler.compiler):
        if module.compile is stock_compile:
            atexit.register(setattr, module, "compile", stock_compile)  # nothing of ours stays in Triton's modules
        module.compile = compile_
    GPUTarget.is_cuda_backend = lambda target: target.backend == "cuda"
    GPUTarget.is_hip_backend = lambda target: target.backend == "hip"


def answer_gluon(jit: Callable) -> None:
    """`gluon.jit`, under each of its names, is `jit`. Idempotent."""
    for module in (gluon, gluon._runtime):
        if module.jit is _GLUON_JIT:
            atexit.register(setattr, module, "jit", _GLUON_JIT)
        module.jit = jit


def answer_benchmarks(timer: Callable[[Callable], Callable], marks: Callable[[type], type]) -> None:
    """`triton.testing` times by what `timer` and `marks` make of its functions and of its class of reports. Idempotent."""
    testing = triton.testing
    for name in ("do_bench", "do_bench_cudagraph", "do_bench_proton", "do_bench_cudagraph_proton"):
        stock = getattr(testing, name)
        if not hasattr(stock, "__wrapped__"):
            setattr(testing, name, timer(stock))
    if testing.Mark.__module__ == testing.__name__:
        testing.Mark = marks(testing.Mark)
