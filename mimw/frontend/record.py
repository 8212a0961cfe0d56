"""Record one kernel: from a JIT function and its specialisation to an IR `Program`."""

from __future__ import annotations

import inspect

from ..errors import KernelError, MimwError, ResourceError, excerpt
from ..ir import Program, Recorder, verify
from ..triton_port.codegen import (
    ASTFunction,
    CompilationError,
    CompileTimeAssertionFailure,
    OutOfResources,
    apply_with_path,
    constexpr,
    mlir_context,
    str_to_ty,
    triton_tuple,
)
from .generator import KernelGenerator


class KernelCompilationError(CompilationError):
    """What the user sees when a kernel cannot be compiled: file, line, caret and the calls that led there.

    A `triton.CompilationError`, so that callers who catch that catch this; the original is the `__cause__`.
    """

    def __init__(self, src, node, error_message=None, text: str | None = None):
        super().__init__(src, node, error_message)
        if text:
            self.message = text

    def __reduce__(self):
        return type(self), (self.src, self.node, self.error_message, self.message)


class ConfigurationRefused(KernelCompilationError, CompileTimeAssertionFailure):
    """A kernel that does not fit the chip or fails a `tl.static_assert`: Triton's autotuner skips such a configuration."""


class ResourcesRefused(ConfigurationRefused, OutOfResources):
    """A kernel that needs more than the chip has. Triton says that by `OutOfResources` at the launch: code that catches it, to
    try something smaller, catches this as well."""

    def __init__(self, src, node, error_message=None, text: str | None = None, required=None, limit=None, name=""):
        super().__init__(src, node, error_message, text)
        self.required, self.limit, self.name = required, limit, name

    def __reduce__(self):
        return type(self), (self.src, self.node, self.error_message, self.message, self.required, self.limit, self.name)


def compilation_error(fn, error: Exception) -> KernelCompilationError:
    """`error` as the user should see it: one of ours as it is, Triton's with the file and the call chain in front."""
    if isinstance(error, ResourceError):
        return ResourcesRefused(fn.src, None, None, str(error), error.required, error.limit, error.kind)
    kind = ConfigurationRefused if _is_about_the_configuration(error) else KernelCompilationError
    if isinstance(error, MimwError):
        return kind(fn.src, None, text=str(error))
    site = getattr(error, "mimw_site", None)
    text = f"{excerpt(site)}\n{_innermost(error)}" if site else str(error)
    return kind(error.src, error.node, error.error_message, text)


def _is_about_the_configuration(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, (ResourceError, CompileTimeAssertionFailure)):
            return True
        error = error.__cause__
    return False


def _innermost(error: BaseException) -> str:
    """The message of the deepest complaint in a chain of compilation errors."""
    message = ""
    while isinstance(error, CompilationError):
        message = error.error_message or message
        error = error.__cause__
    if error is not None and not message:
        message = str(error) or type(error).__name__
    return message or "compilation failed"


def record_program(fn, signature: dict[str, str], constants: dict, attrs: dict, options, codegen_fns: dict,
                   module_map: dict | None = None, cluster: tuple[int, int, int] = (1, 1, 1)) -> Program:
    """Record `fn` for one specialisation.

    args:      signature    parameter name -> Triton type string ("*bf16", "i32", "tensordesc<bf16[128,64]>", "constexpr")
               constants    path of a parameter -> its compile-time value
               attrs        path of a parameter -> [[attribute, value], ...] (`tt.divisibility` and the like)
               options      the backend's options (num_warps, arch, ...), which Triton's semantics read
               cluster      the shape of the launch's clusters in CTAs
    errors:    KernelCompilationError, chained to what was wrong, with the user's file and line
    """
    recorder = Recorder()
    recorder.launch_cluster = cluster
    recorder.options, recorder.codegen_fns, recorder.module_map = options, codegen_fns, module_map or {}
    types = _argument_types(fn, signature, constants)
    prototype = ASTFunction([], types, attrs)
    generator = KernelGenerator(
        mlir_context(), prototype, fn.get_capture_scope(), fn.__name__, fn, recorder=recorder, is_kernel=True,
        options=options, codegen_fns=codegen_fns, module_map=module_map or {}, file_name=fn.file_name,
        begin_line=fn.def_file_line_number, begin_col=fn.def_file_col_number)
    recorder.enter_function(fn.__name__)
    entry = _Entry(recorder, prototype)
    values = dict(zip(fn.arg_names, prototype.deserialize(entry), strict=True))
    entry.name_params(fn.arg_names)
    site = recorder.create_loc(fn.file_name, fn.def_file_line_number, fn.def_file_col_number).site
    try:
        result = generator.record_body(values)
        if not isinstance(result, constexpr) or result.value is not None:
            raise KernelError("a kernel cannot return a value", site, hint="store the value through a pointer argument")
    except (CompilationError, KernelError) as error:
        raise compilation_error(fn, error) from error
    program = recorder.finish(fn.__name__, entry.params(), options.num_warps, site)
    verify(program)
    return program


def _argument_types(fn, signature: dict[str, str], constants: dict) -> list:
    """Frontend types of all parameters; a parameter that the signature leaves out takes its default as a constant."""
    constants = dict(constants)
    for index, (name, parameter) in enumerate(fn.signature.parameters.items()):
        if name not in signature and parameter.default is not inspect.Parameter.empty:
            constants.setdefault((index, ), parameter.default)
    types = [str_to_ty(signature[name], None) if name in signature else None for name in fn.arg_names]

    def place(holder, path, value):
        if len(path) > 1:
            return place(holder[path[0]], path[1:], value)
        if isinstance(holder, list):
            holder[path[0]] = _constant_type(value)
        else:
            holder.types[path[0]] = _constant_type(value)

    for path, value in constants.items():
        place(types, path, value)
    return types


def _constant_type(value):
    if isinstance(value, tuple):
        return triton_tuple([constexpr(item) for item in value]).type
    return constexpr(value).type


class _Entry:
    """The kernel's entry as `ASTFunction.deserialize` wants it: numbered arguments whose attributes can be set."""

    def __init__(self, recorder: Recorder, prototype):
        self.handles, self.paths, self.attrs, self.names = [], [], {}, []

        def collect(path, type_):
            flat = []
            type_._flatten_ir_types(recorder, flat)
            for item in flat:
                self.handles.append(recorder.entry.add_argument(item))
                self.paths.append(tuple(path))

        apply_with_path(prototype.arg_types, collect)
        recorder.entry.args = []

    def get_num_args(self) -> int:
        return len(self.handles)

    def args(self, index: int):
        return self.handles[index]

    def set_arg_attr(self, index: int, name: str, value) -> None:
        self.attrs.setdefault(index, []).append((name, value))

    def name_params(self, arg_names: list[str]) -> None:
        """Name each handle after its parameter; the pieces of a descriptor are numbered after it."""
        for index, path in enumerate(self.paths):
            piece = sum(1 for other in self.paths[:index] if other == path)
            base = "_".join([arg_names[path[0]], *map(str, path[1:])])
            self.names.append(base if not piece else f"{base}_{piece}")
            self.handles[index].name = self.names[-1]

    def params(self) -> list:
        return [(handle, self.names[i], self.paths[i], tuple(self.attrs.get(i, ()))) for i, handle in enumerate(self.handles)]
