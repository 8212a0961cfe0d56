"""Triton's AST walk and semantics, borrowed whole: types, promotion, broadcasting, constexpr, tuples, aggregates, helpers.

Input: nothing. Output: Triton's own names, and syntax trees and MLIR contexts for those who use them:

    parse(kernel.fn)        the `ast.FunctionDef` of a JIT function, parsed once
"""

import ast
import functools

import triton.language as tl
from triton._C.libtriton import ir as mlir
from triton._utils import apply_with_path
from triton.compiler.code_generator import (
    ASTFunction,
    CodeGenerator,
    enter_sub_region,
    flatten_values_to_ir,
    normalize_value,
    unflatten_ir_values,
)
from triton.compiler.errors import CompilationError, CompileTimeAssertionFailure, UnsupportedLanguageConstruct
from triton.language import str_to_ty
from triton.language.core import _unwrap_if_constexpr as unwrap_constexpr
from triton.language.core import base_value, constexpr, device_print, is_builtin, tensor, tensor_descriptor_base
from triton.language.core import tuple as triton_tuple
from triton.language.semantic import TritonSemantic
from triton.runtime.errors import OutOfResources, PTXASError
from triton.runtime.jit import JITCallable, JITFunction

__all__ = [
    "ASTFunction", "CodeGenerator", "CompilationError", "CompileTimeAssertionFailure", "JITCallable", "JITFunction",
    "OutOfResources", "PTXASError", "TritonSemantic", "Unhashed", "UnsupportedLanguageConstruct", "apply_with_path", "base_value",
    "constant_range", "constexpr", "device_print", "empty_context", "enter_sub_region", "flatten_values_to_ir", "is_builtin",
    "mlir_context", "normalize_value", "parse", "str_to_ty", "tensor", "tensor_descriptor_base", "triton_tuple",
    "unflatten_ir_values", "unwrap_constexpr",
]


class Unhashed(dict):
    """The functions that Triton's generator knows, without asking a JIT function for its hash: that hash covers everything
    that the function named at the first request, and refuses later changes. No JIT function is a key here."""

    def get(self, function, default=None):
        return default if isinstance(function, JITCallable) else super().get(function, default)


@functools.lru_cache(maxsize=4096)
def _parsed(source: str) -> ast.Module:
    return ast.parse(source)


def parse(fn) -> ast.FunctionDef:
    """The syntax tree of a JIT function; callers must not change it. Triton parses anew at every call of a helper."""
    (node, ) = _parsed(fn.src).body
    return node


def constant_range(value) -> range | None:
    """The numbers of a `tl.range` or `tl.static_range` whose bounds are known; None for anything else."""
    if not isinstance(value, (tl.range, tl.static_range)):
        return None
    bounds = [unwrap_constexpr(bound) for bound in (value.start, value.end, value.step)]
    return range(*bounds) if all(isinstance(bound, int) for bound in bounds) else None


def empty_context():
    """An MLIR context for the code generator's constructor, which wants one though nothing of ours is made in it."""
    return mlir.context()


def mlir_context():
    """An MLIR context with Triton's dialects."""
    context = mlir.context()
    mlir.load_dialects(context)
    return context
