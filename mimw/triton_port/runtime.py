"""Triton's runtime as `jit` needs it: sources, compile, backends, drivers."""

from __future__ import annotations

import atexit
import functools
import gc
import sys
from contextlib import contextmanager

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget, Language
from triton.compiler.compiler import ASTSource, CompiledKernel, make_backend
from triton.compiler.compiler import compile as stock_compile
from triton.runtime import _allocation
from triton.runtime.autotuner import Autotuner as StockAutotuner
from triton.runtime.autotuner import Config as StockConfig
from triton.runtime.driver import driver
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITCallable, JITFunction, MockTensor, _triton_jit_function_registry, create_function_from_signature
from triton.tools.tensor_descriptor import TensorDescriptor

__all__ = [
    "ASTSource", "CompiledKernel", "GPUTarget", "InterpretedFunction", "JITCallable", "JITFunction", "Language",
    "MockTensor", "StockAutotuner", "StockConfig", "TensorDescriptor", "active_target", "create_function_from_signature",
    "driver", "gpu_is_active", "knobs", "make_backend", "profile_scratch_from", "stock_compile", "triton",
]


@functools.cache
def gpu_is_active() -> bool:
    """True if Triton finds exactly one GPU driver on this machine."""
    try:
        return driver.default is not None
    except RuntimeError:
        return False


def active_target() -> GPUTarget:
    """The target of the GPU in use."""
    return driver.active.get_current_target()


@contextmanager
def profile_scratch_from(allocate):
    """Launches inside take the scratch memory of time stamps from `allocate(bytes, alignment, stream)`."""
    before = _allocation._profile_allocator.get()
    _allocation.set_profile_allocator(allocate)
    try:
        yield
    finally:
        _allocation._profile_allocator.set(before)


@atexit.register
def _leave_triton_registry() -> None:
    """Triton keeps every JIT function, and so its module's globals, until the process ends. Through ours they lead to its
    C++ types, which would then outlive the binding library and have it complain about leaks on stderr; so would the
    generators' reference cycles and the frames of an uncaught error."""
    _triton_jit_function_registry.clear()
    for name in ("last_exc", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)
    gc.collect()
