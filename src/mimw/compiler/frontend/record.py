"""Record one kernel: from a JIT function and its specialisation to an IR `Program`.

Input: the function, the types of its parameters, the compile-time values, the backend's options. Output: a `Program`,
or a `KernelCompilationError` with the user's file and line. For example:

    record_program(fn, {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {(2, ): 128}, {}, options, codegen_fns)
"""

from __future__ import annotations

import inspect
from functools import cache

from ...errors import AssemblerError, AssertionFailed, KernelError, LanguageError, MimwError, ResourceError, causes, excerpt
from ...ir import LaunchFacts, Program, Site, verify
from ...ir.plainly import plainly
from ..triton_port.codegen import (
    ASTFunction,
    CompilationError,
    CompileTimeAssertionFailure,
    OutOfResources,
    PTXASError,
    apply_with_path,
    constexpr,
    empty_context,
    str_to_ty,
    triton_tuple,
)
from .diagnostics import complaint, origin
from .generator import KernelGenerator
from .plain_pointers import mend_of_pointers
from .recorder import Recorder

_FACTS = ("message", "sites", "hint", "required", "limit", "name")  # attributes of an error of ours, beside its text


class KernelCompilationError(CompilationError):
    """The error of a kernel that cannot be compiled: file, line, caret and the calls that led there.

    A `triton.CompilationError`, so that callers who catch that catch this. It is of a class of `mimw.errors`, too, so that
    `except mimw.errors.TooFewArrivals` catches what the compiler knows and what a run finds; of a complaint that has none there,
    Python's or Triton's, it is a `LanguageError`. The original is the `__cause__`.
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


class AssemblerRefused(KernelCompilationError, PTXASError):
    """A kernel that the assembler does not take, or is known to get wrong: Triton's autotuner skips such a configuration."""


def compilation_error(fn, error: Exception, mend: str = "") -> KernelCompilationError:
    """`error` as the user should see it: of our classes, with its lines, without words of Python's or Triton's own. `mend` is for
    an error that has none."""
    about, root = _is_about_the_configuration(error), origin(error)
    site = getattr(error, "mimw_site", None) or site_in(fn, error)
    if isinstance(root, MimwError):
        facts = {name: getattr(root, name) for name in _FACTS if hasattr(root, name)}
        if isinstance(root, ResourceError):
            facts["name"] = root.kind
        says_where = isinstance(root, KernelError) and facts.get("sites")
        text = str(root) if says_where or not site else f"{excerpt(site)}\n{root}"
        for name in ("message", "hint"):
            if part := facts.get(name):
                facts[name] = plainly(part)
                text = text.replace(part, facts[name])
        facts["sites"] = facts.get("sites") or ((site, ) if site else ())
        return _again(about, type(root), (fn.src, None, None, text), facts)
    message, hint = getattr(error, "mimw_told", None) or tuple(map(plainly, complaint(error, root)))
    kind = AssertionFailed if isinstance(root, CompileTimeAssertionFailure) else LanguageError
    told = kind(message, site, hint=getattr(root, "hint", "") or mend or hint)
    return _again(about, kind, (error.src, error.node, error.error_message, str(told)),
                  {"message": told.message, "sites": told.sites, "hint": told.hint})


def site_in(fn, error: Exception) -> Site | None:
    """The line of an error of Triton's own generator, which knows the text of the function and a node in it."""
    of_kernel = [one for one in causes(error) if isinstance(one, CompilationError) and one.src == fn.src
                 and hasattr(one.node, "lineno")]
    if not of_kernel:
        return None
    node = of_kernel[-1].node
    return Site(fn.file_name, fn.def_file_line_number - 1 + node.lineno, fn.def_file_col_number + node.col_offset, fn.__name__)


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
    elif ours is AssemblerError:
        stock = AssemblerRefused
    return stock if ours is None else type(ours.__name__, (stock, ours), {"__module__": ours.__module__, "__doc__": ours.__doc__})


def _is_about_the_configuration(error: BaseException | None) -> bool:
    return any(isinstance(one, (ResourceError, CompileTimeAssertionFailure)) for one in causes(error))


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
    recorder.launch_facts = LaunchFacts(cluster, registers=getattr(options, "maxnreg", None))
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
        raise compilation_error(fn, error, mend_of_pointers(fn, signature)) from origin(error)
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
