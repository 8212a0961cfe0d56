"""Kernels without a word of ours: Triton's own path, to the byte, save for two changes.

The code generator is Triton's over Triton's builder. Loop-carried names that share a value are found otherwise
(`frontend.carries`), which changes nothing for a kernel in which no two live-in names share one. And `tl.view` and `tl.cat` keep
the elements in row-major order, as numpy and the simulator have them, where Triton may take any order that one chip's layouts
suggest.
"""

from __future__ import annotations

import triton.language as tl
from triton.compiler import code_generator as stock
from triton.compiler.errors import CompilationError
from triton.language.semantic import TritonSemantic
from triton.runtime.jit import get_full_name


class _InOrder(TritonSemantic):
    """Elements stay in order in `tl.view`, and in `reshape` and `cat` with `can_reorder=True`; only a reduction over all of them
    may take any order."""

    reduces = False

    def reshape(self, input, dst_shape, can_reorder):
        return super().reshape(input, dst_shape, can_reorder and self.reduces)

    def cat(self, lhs, rhs, can_reorder):
        return tl.cat(lhs, rhs, _semantic=self)

    def reduction(self, inputs, axis, region_builder_fn):
        self.reduces = axis is None
        try:
            return super().reduction(inputs, axis, region_builder_fn)
        finally:
            self.reduces = False


def plain_generator(carries: type) -> type:
    """Triton's code generator with the mixin `carries` in front, also for the helpers that it calls."""

    class PlainGenerator(carries, stock.CodeGenerator):

        def __init__(self, *args, **keywords):
            super().__init__(*args, **keywords)
            self.semantic = _InOrder(self.builder)

        def call_JitFunction(self, fn, args, kwargs, caller_context=None):
            bound = fn.signature.bind(*args, **kwargs)
            bound.apply_defaults()
            values = [stock.normalize_value(bound.arguments[name]) for name in fn.arg_names]
            context = caller_context or self.caller_context
            types = [value.type for value in values]
            name = stock.mangle_fn(get_full_name(fn), types, context)
            if not self.module.has_function(name):
                self.function_ret_types[name] = self._generate_callee(fn, name, types, context)
            handles = stock.flatten_values_to_ir(values)
            call = self.builder.call(self.module.get_function(name), handles)
            results = [call.get_result(i) for i in range(call.get_num_results())]
            return next(stock.unflatten_ir_values(results, [self.function_ret_types[name]]))

        def _generate_callee(self, fn, name, types, context):
            callee = type(self)(
                self.context, stock.ASTFunction([], types, {}), fn.get_capture_scope(), module=self.module, jit_fn=fn,
                function_name=name, function_types=self.function_ret_types, noinline=fn.noinline, file_name=fn.file_name,
                begin_line=fn.def_file_line_number, begin_col=fn.def_file_col_number, options=self.builder.options,
                codegen_fns=self.builder.codegen_fns, module_map=self.builder.module_map, caller_context=context,
                is_gluon=False)
            try:
                callee.visit(fn.parse())
            except Exception as error:
                raise CompilationError(self.jit_fn.src, self.cur_node, None) from error
            return callee.ret_type

    return PlainGenerator


def plain_ttir(carries: type, fn, src, context, options, codegen_fns, module_map):
    """Triton's `ast_to_ttir` with our generator: the same function over a scope in which `CodeGenerator` is ours."""
    original = stock.ast_to_ttir
    scope = {**original.__globals__, "CodeGenerator": plain_generator(carries)}
    ast_to_ttir = type(original)(original.__code__, scope, original.__name__, original.__defaults__, original.__closure__)
    return ast_to_ttir(fn, src, context, options, codegen_fns, module_map)
