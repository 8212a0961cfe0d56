"""The code generator of our kernels: Triton's, with our recorder for a builder and helpers inlined as they are called.

Input: a kernel or helper as a JIT function, and its arguments as Triton's values. Output: ops in the recorder, and the
value that the function returns. For example, lines of a kernel and their ops:

    y = at + 1                      %y = add %at, %6, with the name `y` for reports
    z = helper(y)                   %z = mul %y, %9: the op of `helper`'s body, with both lines

The file exists because Triton's generator makes MLIR at once, with calls of helpers; the simulator and the passes need
the ops of one kernel in one program, with the names and lines of the user.
"""

from __future__ import annotations

import ast
from types import MethodType

from ...errors import MimwError
from ...language.binding import binder
from ...language.breakpoints import breakpoint_
from ...language.descriptor_methods import descriptor_store
from ...language.names import no_such_name
from ...language.odd_tiles import instead
from ...language.parts import Parts
from ...language.tle.body.call import InPlace
from ...language.tle.gpu.warp_specialize import Partitions
from ...language.tle.struct import fields_of
from ...language.tlx.types import CLCPipelineContext
from ..triton_port.codegen import (
    CodeGenerator,
    CompilationError,
    Unhashed,
    base_value,
    constexpr,
    device_print,
    flatten_values_to_ir,
    normalize_value,
    parse,
    tensor_descriptor_base,
)
from ..triton_port.origin import is_tritons
from ..triton_port.plain import DEEPEST, too_deep
from .annotated import AnnotatedOnce
from .comprehensions import Comprehensions
from .constants import KeptConstants
from .constructs import Constructs
from .diagnostics import explain, origin
from .displays import Displays
from .dsa_loops import DsaLoops
from .known import known
from .loops import LoopsOnce
from .partitions import PartitionRegions
from .python_calls import PythonCalls
from .recorder import Recorder
from .returns import StructuredReturns
from .semantic import Semantic
from .structs import Structs
from .task_names import TaskNames
from .tasks import TaskRegions


def _binder(fn):
    """The function that binds arguments to the parameters of a helper, made anew after its signature has changed."""
    kept = fn.__dict__.get("_mimw_binder")
    if kept is None or kept[0] is not fn.signature:
        kept = fn.__dict__["_mimw_binder"] = fn.signature, binder(fn.signature)
    return kept[1]


def _mangled(types) -> list[str]:
    return [type_.mangle() for type_ in types]


class KernelGenerator(Constructs, TaskNames, TaskRegions, PartitionRegions, Comprehensions, Displays, KeptConstants, DsaLoops,
                      LoopsOnce, StructuredReturns, PythonCalls, Structs, AnnotatedOnce, CodeGenerator):
    """Walks one function (the kernel or a helper) and records its ops."""

    statically_implemented_functions = Unhashed(CodeGenerator.statically_implemented_functions)

    def __init__(self, context, prototype, gscope, function_name, jit_fn, *, recorder: Recorder, callers=(), **keywords):
        super().__init__(context, prototype, gscope, function_name, jit_fn, module=object(), is_gluon=False, **keywords)
        self.builder = recorder
        self.semantic = Semantic(recorder)
        self.callers = callers

    def _define_name_lookup(self):
        """Globals of this package may be named in kernels, as Triton's own may, and Python's `breakpoint`."""
        stock = super()._define_name_lookup()

        def lookup(name: str):
            try:
                return stock(name)
            except NameError:
                if name == "breakpoint":
                    return breakpoint_
                value = self.gscope.get(name)
                if (getattr(value, "__module__", None) or type(value).__module__ or "").startswith("mimw."):
                    self.builder.uses_words = True  # Triton's own path would refuse the name
                    return value
                raise

        return lookup

    def set_value(self, name: str, value) -> None:
        """Assignments name values: the first name that a value gets is the one that reports use."""
        super().set_value(name, value)
        if isinstance(value, (Parts, CLCPipelineContext)) or fields_of(value) is not None:
            value._set_name(self.builder, name)
        if isinstance(value, base_value) and not isinstance(value, constexpr):
            handles = flatten_values_to_ir([value])
            for index, handle in enumerate(handles):
                handle.name = handle.name or (name if len(handles) == 1 else f"{name}_{index}")
            if len(handles) == 1:
                self.builder.bind(name, handles[0])
        elif isinstance(value, constexpr):
            self.builder.bind(name, value.value)

    def get_Attribute(self, lhs, attr):
        """Return the attribute; a name that the author gave in a value comes before an attribute of ours with the same name."""
        if isinstance(lhs, Parts) and attr in lhs._shown:
            return lhs._shown[attr]
        if attr == "store" and isinstance(lhs, tensor_descriptor_base):
            return MethodType(descriptor_store, lhs)
        if getattr(lhs, "__name__", "") == "triton.language" and not hasattr(lhs, attr):
            raise AttributeError(no_such_name("tl", attr, dir(lhs)))
        return known(super().get_Attribute(lhs, attr))

    def visit_Subscript_Load(self, node):
        return known(super().visit_Subscript_Load(node))

    def record_body(self, args: dict):
        """Visit the function's body with its parameters bound to `args`; its value is the result (None = no value)."""
        node = parse(self.jit_fn)
        self.visit(node.args)
        for name, value in args.items():
            self.set_value(name, value)
        self.builder.set_loc(self.file_name, self.begin_line + node.lineno, self.begin_col)
        try:
            self.visit_compound_statement(node.body)
        except CompilationError as error:
            self._note_site(error)
            raise
        return self.return_vals[-1] if self.return_vals else constexpr(None)

    def _note_site(self, error: CompilationError) -> None:
        """Remember where in the user's files the innermost complaint stands, and what it is; the first note wins. A function of
        Triton's library is no file of the user's: the line is that of its call."""
        if hasattr(error, "mimw_site") or not hasattr(error.node, "lineno") or self.callers and is_tritons(self.jit_fn.fn):
            return
        error.mimw_site = self.builder.create_loc(self.file_name, self.begin_line + error.node.lineno,
                                                  self.begin_col + error.node.col_offset).site
        if not isinstance(origin(error), MimwError):
            error.mimw_told = explain(self, error)

    def call_Function(self, node, fn, args, kws):
        """A word that starts partitions describes them; they are recorded here, where its call stands."""
        if fn is device_print and not (args and isinstance(args[0], (str, constexpr))):
            raise self.refused(node, "print and tl.device_print take a text before what is printed",
                               "write `print('value', value)`")
        fn, args = instead(fn, args)
        found = super().call_Function(node, fn, args, kws)
        if isinstance(found, InPlace):
            return self._rebind(node, found)
        return self.record_partitions(found.calls, found.tasks) if isinstance(found, Partitions) else found

    def _rebind(self, node, written: InPlace):
        """Bind the names in the call's list of arguments to the values that the call has written in place."""
        for name, value in written.names(node).items():
            self.set_value(name, value)
        return constexpr(None)

    def call_JitFunction(self, fn, args, kwargs, caller_context=None):
        """Record the helper's body right here."""
        try:
            given = _binder(fn)(args, kwargs)
        except TypeError as error:
            raise TypeError(f"{fn.__name__}({', '.join(fn.arg_names)}): {error}") from None
        values = {name: normalize_value(given[name]) for name in fn.arg_names}
        call = (fn, tuple(value.type for value in values.values()))
        if any(caller is fn and _mangled(types) == _mangled(call[1]) for caller, types in self.callers):
            raise self._unsupported(self.cur_node, f"recursion: {fn.__name__} calls itself with the same types and constants")
        if len(self.callers) >= DEEPEST:
            raise self._unsupported(self.cur_node, too_deep(fn.__name__))
        callee = KernelGenerator(
            self.context, self.prototype, fn.get_capture_scope(), fn.__name__, fn, recorder=self.builder,
            callers=(*self.callers, call), options=self.builder.options, codegen_fns=self.builder.codegen_fns,
            module_map=self.builder.module_map, file_name=fn.file_name, begin_line=fn.def_file_line_number,
            begin_col=fn.def_file_col_number)
        saved = self.builder.enter_function(fn.__name__)
        try:
            return callee.record_body(values)
        except CompilationError as error:
            wrapped = CompilationError(self.jit_fn.src, self.cur_node, None)
            wrapped.__cause__ = error
            vars(wrapped).update({name: value for name, value in vars(error).items() if name in ("mimw_site", "mimw_told")})
        finally:
            self.builder.leave_function(saved)
        raise wrapped       # here, so that its context is none: Triton's `filter_traceback` follows both, 2^depth times

    def visit_Assign(self, node):
        if len(getattr(node, "targets", ())) > 1:
            raise self._unsupported(node, "`a = b = value` is not supported in kernels; write one assignment after the other")
        return super().visit_Assign(node)

    def visit_For(self, node):
        """Visit a loop, then make its induction variable a value that must not be used: stock leaves the handle that stood
        for it there, which here would still mean the loop's own. A later loop may carry the name anew."""
        super().visit_For(node)
        value = self.lscope.get(node.target.id)
        if isinstance(value, base_value) and not isinstance(value, constexpr) and value.handle.final() is not value.handle:
            self.set_value(node.target.id, type(value)(self.builder.create_poison(value.handle.get_type()), value.type))

    def visit_FunctionDef(self, node: ast.FunctionDef):
        raise self.refused(node, "nested function definitions are not allowed inside a kernel",
                           f"write `{node.name}` outside the kernel, decorated with `@mimw.jit`, and pass it what it uses")
