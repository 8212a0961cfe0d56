"""Record one kernel: from a JIT function and its specialisation to an IR `Program`.

Input: the function, the types of its parameters, the compile-time values, the backend's options. Output: a `Program`,
or a `KernelCompilationError` with the user's file and line. For example:

    record_program(fn, {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {(2, ): 128}, {}, options, codegen_fns)
"""

from __future__ import annotations

import inspect
from functools import cache

from ...errors import KernelError, MimwError, ResourceError, causes, excerpt
from ...ir import LaunchFacts, Program, verify
from ..triton_port.codegen import (
    ASTFunction,
    CompilationError,
    CompileTimeAssertionFailure,
    OutOfResources,
    apply_with_path,
    constexpr,
    empty_context,
    str_to_ty,
    triton_tuple,
)
from .generator import KernelGenerator
from .plain_pointers import mend_of_pointers
from .recorder import Recorder

_FACTS = ("message", "sites", "hint", "required", "limit", "name")  # attributes of an error of ours, beside its text


class KernelCompilationError(CompilationError):
    """The error of a kernel that cannot be compiled: file, line, caret and the calls that led there.

    A `triton.CompilationError`, so that callers who catch that catch this; where the complaint has a class of `mimw.errors`,
    the error is of that class, too, so that `except mimw.errors.TooFewArrivals` catches what the compiler knows and what a
    run finds. The original is the `__cause__`.
    """

    def __init__(self, src, node, error_message=None, text: str | None = None):
        super().__init__(src, node, error_message)
        self.text = text or self.message

    def __str__(self) -> str:
        return self.text

    def __reduce__(self):
        ours = next((base for base in type(self).__bases__ if issubclass(base, MimwError)), None)
        facts = {name: value for name, value in vars(self).items() if name in _FACTS}
        return _again, (_is_about_the_configuration(self), ours, (self.src, None, self.error_message, self.text), facts)


class ConfigurationRefused(KernelCompilationError, CompileTimeAssertionFailure):
    """A kernel that does not fit the chip or fails a `tl.static_assert`: Triton's autotuner skips such a configuration."""


class ResourcesRefused(ConfigurationRefused, OutOfResources):
    """A kernel that needs more than the chip has. Triton says that by `OutOfResources` at the launch: code that catches it, to
    try something smaller, catches this as well. `required` of what `name` says, where there is `limit`."""


def compilation_error(fn, error: Exception) -> KernelCompilationError:
    """`error` as the user should see it: one of ours as it is, any other with the file and the call chain in front."""
    about, root, site = _is_about_the_configuration(error), origin(error), getattr(error, "mimw_site", None)
    where = f"{excerpt(site)}\n" if site else ""
    if isinstance(root, MimwError):
        facts = {name: getattr(root, name) for name in _FACTS if hasattr(root, name)}
        if isinstance(root, ResourceError):
            facts["name"] = root.kind
        says_where = isinstance(root, KernelError) and facts.get("sites")
        return _again(about, type(root), (fn.src, None, None, str(root) if says_where else f"{where}{root}"), facts)
    text = f"{where}{_message(error, root)}" if site else str(error)
    return _again(about, None, (error.src, error.node, error.error_message, text), {})


def _again(about_the_configuration: bool, ours: type | None, arguments: tuple, facts: dict) -> KernelCompilationError:
    found = _kind(about_the_configuration, ours)(*arguments)
    vars(found).update(facts)
    return found


@cache
def _kind(about_the_configuration: bool, ours: type | None) -> type[KernelCompilationError]:
    """Triton's class of error, and ours."""
    stock = ConfigurationRefused if about_the_configuration else KernelCompilationError
    if ours is not None and issubclass(ours, ResourceError):
        stock = ResourcesRefused
    return stock if ours is None else type(ours.__name__, (stock, ours), {"__module__": ours.__module__, "__doc__": ours.__doc__})


def origin(error: BaseException) -> BaseException:
    """The error at the start of a chain: Triton's generator wraps an error statement by statement, and replaces an error that
    is not a compilation error by one with the `repr` of it."""
    while isinstance(error, CompilationError):
        replaced = error.__context__ if error.__suppress_context__ and error.error_message == repr(error.__context__) else None
        if (inner := error.__cause__ or replaced) is None:
            break
        error = inner
    return error


def _is_about_the_configuration(error: BaseException | None) -> bool:
    return any(isinstance(one, (ResourceError, CompileTimeAssertionFailure)) for one in causes(error))


def _message(error: BaseException, root: BaseException) -> str:
    """The message of an error of Triton or of Python, without Python's quotes around it."""
    if isinstance(root, RecursionError):
        return ("this is nested too deep for Python to walk through: give parts of a long expression names of their own, or "
                "write a loop, `for i in tl.static_range(n)`")
    if not isinstance(root, CompilationError):
        return f"{type(root).__name__}: {root}" if isinstance(root, KeyError) or not str(root) else str(root)
    message = ""
    for one in causes(error):
        if not isinstance(one, CompilationError):
            break
        message = one.error_message or message
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
    recorder.launch_facts = LaunchFacts(cluster)
    recorder.options, recorder.codegen_fns, recorder.module_map = options, codegen_fns, module_map or {}
    types = _argument_types(fn, signature, constants)
    prototype = ASTFunction([], types, attrs)
    generator = KernelGenerator(
        empty_context(), prototype, fn.get_capture_scope(), fn.__name__, fn, recorder=recorder, is_kernel=True,
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
        told, root = compilation_error(fn, error), origin(error)
        if not isinstance(root, MimwError) and not getattr(root, "hint", "") and (mend := mend_of_pointers(fn, signature)):
            told.text += f"\nMend: {mend}"
        raise told from root
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
