"""Kernels without a word of ours: Triton's own path, to the byte, save for six changes here and one behind (`nvidia_stage`).

Input: a JIT function and its specialisation. Output: the TTIR module that Triton would make of it:

    plain_ttir(PlainKernel, fn, source, context, options, codegen_fns, module_map)

The code generator is Triton's over Triton's builder. Loop-carried names that share a value are found otherwise
(`frontend.carries`), which changes nothing for a kernel in which no two live-in names share one; words of ours that leave no op
behind may take dictionaries (`frontend.displays`), which Triton refuses. And `tl.view` and `tl.cat` keep
the elements in row-major order, as numpy and the simulator have them, where Triton may take any order that one chip's layouts
suggest. Two functions of one name are two functions, also where Triton would call the first for both. An annotated assignment
works its value out once (`frontend.annotated`). Floats become whole numbers out of an fp32 that LLVM does not see through, since
ptxas gets the short way from 16 bits wrong.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import triton.language as tl
from triton.compiler import code_generator as stock
from triton.compiler.errors import CompilationError
from triton.language import str_to_ty
from triton.language.semantic import TritonSemantic
from triton.runtime.jit import get_full_name

from .builder import unseen_f32
from .codegen import Unhashed
from .numbers import as_debug_file

DEEPEST = 500       # helpers inside each other, in any kernel; what would be deeper is a recursion without an end


class _SpecializationProxy(NamedTuple):
    """The argument of a kernel's `repr`, from which the name of the specialised function follows."""

    constants: dict[str, Any]
    signature: dict[str, str]


class _InOrder(TritonSemantic):
    """Elements stay in order in `tl.view`, and in `reshape` and `cat` with `can_reorder=True`; only a reduction over all of them
    may take any order."""

    reduces = False

    def reshape(self, input, dst_shape, can_reorder):
        return super().reshape(input, dst_shape, can_reorder and self.reduces)

    def cat(self, lhs, rhs, can_reorder):
        return tl.cat(lhs, rhs, _semantic=self)

    def cast(self, input, dst_ty, fp_downcast_rounding=None):
        """Cast as in our own kernels; `lowering.nvidia.whole_numbers` says why. Triton extends floats of 16 bits to fp32
        first."""
        whole = dst_ty.scalar.is_int() and not dst_ty.scalar.is_bool()
        if whole and input.type.scalar is tl.float32 and getattr(self.builder.options, "backend_name", "") == "cuda":
            input = tl.tensor(unseen_f32(self.builder, input.handle), input.type)
        return super().cast(input, dst_ty, fp_downcast_rounding)

    def reduction(self, inputs, axis, region_builder_fn):
        self.reduces = axis is None
        try:
            return super().reduction(inputs, axis, region_builder_fn)
        finally:
            self.reduces = False


def plain_generator(carries: type) -> type:
    """Triton's code generator with the mixin `carries` in front, also for the helpers that it calls."""

    class PlainGenerator(carries, stock.CodeGenerator):
        depth = 0       # helpers around this one

        def __init__(self, *args, **keywords):
            super().__init__(*args, **keywords)
            self.semantic = _InOrder(self.builder)

        statically_implemented_functions = Unhashed(stock.CodeGenerator.statically_implemented_functions)

        def call_JitFunction(self, fn, args, kwargs, caller_context=None):
            bound = fn.signature.bind(*args, **kwargs)
            bound.apply_defaults()
            values = [stock.normalize_value(bound.arguments[name]) for name in fn.arg_names]
            context = caller_context or self.caller_context
            types = [value.type for value in values]
            name = self._name_of(fn, types, stock.mangle_fn(get_full_name(fn), types, context))
            if not self.module.has_function(name):
                if self.depth >= DEEPEST:
                    raise self._unsupported(self.cur_node, too_deep(fn.__name__))
                self.function_ret_types[name] = self._generate_callee(fn, name, types, context)
            handles = stock.flatten_values_to_ir(values)
            call = self.builder.call(self.module.get_function(name), handles)
            results = [call.get_result(i) for i in range(call.get_num_results())]
            return next(stock.unflatten_ir_values(results, [self.function_ret_types[name]]))

        def _name_of(self, fn, types, mangled):
            """Triton's name for a function of such arguments, with a number if another one has it already: two closures of one
            text, or a helper and its earlier definition, have one name, and Triton would call the first for both."""
            for number in itertools.count():
                name = f"{mangled}__{number}" if number else mangled
                owner, given = self.function_ret_types.setdefault(("function", name), (fn, types))
                if owner is fn and given == types:
                    return name

        def _generate_callee(self, fn, name, types, context):
            callee = type(self)(
                self.context, stock.ASTFunction([], types, {}), fn.get_capture_scope(), module=self.module, jit_fn=fn,
                function_name=name, function_types=self.function_ret_types, noinline=fn.noinline,
                file_name=as_debug_file(fn.file_name), begin_line=fn.def_file_line_number, begin_col=fn.def_file_col_number,
                options=self.builder.options, codegen_fns=self.builder.codegen_fns, module_map=self.builder.module_map,
                caller_context=context,
                is_gluon=False)
            callee.depth = self.depth + 1
            try:
                callee.visit(fn.parse())
                return callee.ret_type
            except Exception as error:
                wrapped = CompilationError(self.jit_fn.src, self.cur_node, None)
                wrapped.__cause__ = error
            raise wrapped       # here, so that its context is none: Triton's `filter_traceback` follows both, 2^depth times

    return PlainGenerator


def too_deep(helper: str) -> str:
    """The message about a helper below the deepest."""
    return (f"{helper} would be helper number {DEEPEST + 1} inside each other, and {DEEPEST} may be: each is inlined where it is "
            "called. A recursion ends by a condition on constants; a loop, `for i in tl.static_range(n)`, needs no helpers")


def plain_ttir(carries: type, fn, src, context, options, codegen_fns, module_map):
    """Compile a kernel to TTIR like Triton's `ast_to_ttir`, with our generator: that function names Triton's and takes no
    other."""
    constants = {fn.arg_names[path[0]]: value for path, value in src.constants.items() if len(path) == 1}
    generator = plain_generator(carries)(
        context, stock.ASTFunction([], _argument_types(fn, src), src.attrs), gscope=fn.get_capture_scope(),
        function_name=fn.repr(_SpecializationProxy(constants, src.signature)), jit_fn=fn, is_kernel=True,
        file_name=as_debug_file(fn.file_name), begin_line=fn.def_file_line_number, begin_col=fn.def_file_col_number,
        options=options, codegen_fns=codegen_fns, module_map=module_map, is_gluon=fn.is_gluon())
    generator.visit(fn.parse())
    module = generator.module
    module.context = context  # which must live as long as the module
    if not module.verify():
        raise RuntimeError(f"Triton's code generator made a module that MLIR refuses:\n{module}")
    return module


def _argument_types(fn, src) -> list:
    """The frontend type of each parameter, compile-time values in their places."""
    types = [str_to_ty(src.signature[name], None) if name in src.signature else None for name in fn.arg_names]
    for path, value in src.constants.items():
        holder = types
        for index in path[:-1]:
            holder = holder[index]
        (holder if holder is types else holder.types)[path[-1]] = _constant_type(value)
    return types


def _constant_type(value):
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", None)
        return tl.tuple_type([_constant_type(one) for one in value], fields)
    return tl.constexpr(value).type
