"""Calls of plain Python functions, which kernels cannot make: Triton refuses them in words of its own before it reads a kernel, and
only where a text names them itself.

Input: a call in a kernel. Output: what the function gives, or a refusal at the line. For example:

    tl.zeros((consts.rounded(N), ), tl.float32)     rounded is a Python function, which a kernel cannot call; decorate it with ...
"""

from __future__ import annotations

import ast
from types import FunctionType

import triton

from ..triton_port.codegen import is_builtin
from .seen.settled import is_settled_thing

_CONSTANTS = "cdiv", "next_power_of_2"      # functions of triton that work on numbers known when compiling


class PythonCalls:
    """Mixin over Triton's `CodeGenerator`."""

    def call_Function(self, node, fn, args, kws):
        if isinstance(fn, FunctionType) and fn.__name__ in _CONSTANTS and fn is getattr(triton, fn.__name__):
            fn = triton.constexpr_function(fn)      # SGLang puts a function of its own into triton, for its host
        if isinstance(fn, FunctionType) and fn.__module__.startswith("mimw.") and not is_builtin(fn) and not is_settled_thing(fn):
            raise self._unsupported(node, f"{ast.unparse(node.func)} is a function of the host, and a kernel cannot call it")
        if isinstance(fn, FunctionType) and not is_builtin(fn) and not is_settled_thing(fn):
            raise self._unsupported(node, f"{fn.__name__} is a Python function, which a kernel cannot call; decorate it with "
                                    "`triton.constexpr_function` if it works on numbers that are known when compiling, with "
                                    "`mimw.jit` if on values of the kernel")
        return super().call_Function(node, fn, args, kws)
