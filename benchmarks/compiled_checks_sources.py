"""Published kernels for `compiled_checks`: a file is fetched, its kernel compiled by stock Triton up to TTGIR, without a GPU.

Input: a `Case`: repository, commit, path and function, and a launch of tiny arrays. Output: the text of TTGIR. For example:

    text, launch, names = to_ttgir(CASES["gluon-04-memcpy"], Path("/tmp/packages"))     'module attributes {"ttg.num-ctas" = 1 ..'

Of a file all definitions run, and what needs a GPU does not; files beside it that it imports by name (`needs`) are loaded the same
way.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonJITFunction, constexpr_function
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.blackwell import tma as fifth
from triton.experimental.gluon.language.nvidia.hopper import tma

from mimw.compiler.triton_port.late_fences import with_late_fences
from mimw.compiler.triton_port.runtime import compiled_ttgir

from .others_sources import NotFetched, Source, unpacked

_ARRAY = re.compile(r"(\w+)\[([\d,]+)\](?:/([\d,]+))?")
_ELEMENTS = {"fp16": gl.float16, "bf16": gl.bfloat16, "fp32": gl.float32, "u8": gl.uint8, "i32": gl.int32}      # of descriptors


@dataclass(frozen=True)
class Launch:
    """`args` by name, as `mimw check --args` takes them: 'fp16[64,64]' is an array, 'fp16[128,64]/64,64' a descriptor with that
    block, and numbers. `constants`: the constexprs. `results`: for an argument that the kernel writes its right value, as an
    expression of the other arguments, of numpy in float32. `fill`: what an array begins with, where random numbers (integers:
    zeros) will not do. `layouts`: of a descriptor whose shared memory is not what Gluon chooses for its block."""

    grid: tuple[int, ...]
    args: Mapping[str, Any]
    constants: Mapping[str, Any] = field(default_factory=dict)
    results: Mapping[str, str] = field(default_factory=dict)
    fill: Mapping[str, str] = field(default_factory=dict)
    layouts: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)     # num_warps, num_ctas, num_stages, ..
    tolerance: float = 1e-2


@dataclass(frozen=True)
class Case:
    """A kernel of a file; "test.kernel" is one inside a function. `launch` takes the file's module, as constants may be classes of
    it. `needs`: {module's name: its file}."""

    name: str
    source: Source
    target: int                 # 90: sm_90a, 100: sm_100a
    launch: Callable[[Any], Launch]
    needs: Mapping[str, Source] = field(default_factory=dict)
    is_wrong: bool | None = None        # what its authors say of it: wrong on purpose, or right; None where they say nothing


def module_of(source: Source, packages: Path) -> ModuleType:
    """A file's definitions, as a module that is not imported.

    errors:    NotFetched where the file is neither in the folder nor to be had
    """
    path = unpacked(source, packages) / source.path
    if not path.is_file():
        raise NotFetched(f"{source.folder} has no file {source.path}")
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    with _registered({path.stem: module}):
        for statement in ast.parse(path.read_text()).body:
            if _runs(statement):
                _run(statement, path, vars(module))
    return module


def _run(statement: ast.stmt, path: Path, names: dict[str, Any]) -> None:
    try:
        exec(compile(ast.Module([statement], []), str(path), "exec"), names)
    except Exception:       # of any kind: the file's own code runs without what it asks for
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):      # .. such as an autotuner's configurations for a GPU
            statement.decorator_list = [one for one in statement.decorator_list if "jit" in ast.unparse(one)]
            exec(compile(ast.Module([statement], []), str(path), "exec"), names)


def _runs(statement: ast.stmt) -> bool:
    """Whether a statement of a file is one that its kernels may stand on: no loop, no benchmark, no test."""
    if isinstance(statement, ast.FunctionDef):
        return not statement.name.startswith(("test_", "bench"))
    return isinstance(statement, (ast.Import, ast.ImportFrom, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.If))


@contextmanager
def old_names() -> Iterator[None]:
    """While it is open, Gluon's functions also have the names that files of the year before call them by; 3.9 renamed them."""
    names = [(tma, "async_copy_global_to_shared", tma.async_load), (tma, "async_copy_shared_to_global", tma.async_store),
             (fifth, "async_copy_global_to_shared", fifth.async_load), (fifth, "async_copy_shared_to_global", fifth.async_store),
             (async_copy, "async_copy_global_to_shared", async_copy.async_load), (gl, "constexpr_function", constexpr_function),
             (gl.shared_memory_descriptor, "_reinterpret", gl.shared_memory_descriptor.reinterpret)]
    kept = [(module, name, vars(module).get(name)) for module, name, _ in names]
    for module, name, new in names:
        setattr(module, name, new)
    try:
        yield
    finally:
        for module, name, before in kept:
            if before is None:
                delattr(module, name)
            else:
                setattr(module, name, before)


@contextmanager
def _registered(modules: Mapping[str, ModuleType]) -> Iterator[None]:
    """While it is open, the modules can be imported: Triton looks up a class's annotations in the module that names it."""
    kept = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in kept.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


@contextmanager
def _beside(needs: Mapping[str, Source], packages: Path) -> Iterator[None]:
    """While it is open, the files that a tutorial imports by name are there, each with those before it."""
    with ExitStack() as stack:
        for name, source in needs.items():
            stack.enter_context(_registered({name: module_of(source, packages)}))
        yield


def to_ttgir(case: Case, packages: Path) -> tuple[str, Launch, list[str]]:
    """The kernel's TTGIR after all of Triton's passes, its launch, and the names of the arguments that are left at run time.

    errors:    NotFetched; whatever Triton's front end says of a kernel that it does not take
    """
    with old_names(), _beside(case.needs, packages):
        module = module_of(case.source, packages)
        with _registered({module.__name__: module}):
            return _launched(case, module)


def _launched(case: Case, module: ModuleType) -> tuple[str, Launch, list[str]]:
    outer, _, function = case.source.function.rpartition(".")
    kernel = _inner(module, outer)[function] if outer else getattr(module, function)
    while not isinstance(kernel, triton.JITFunction):
        kernel = kernel.fn
    launch = case.launch(module)
    is_gluon = isinstance(kernel, GluonJITFunction)
    signature, constants, attributes = {}, dict(launch.constants), {}
    for place, parameter in enumerate(kernel.params):
        name, value = parameter.name, launch.args.get(parameter.name)
        is_one = value == 1 and isinstance(value, int) and not parameter.do_not_specialize      # as Triton does with a stride of 1
        if name in constants or is_one:
            constants.setdefault(name, value)
            signature[name] = "constexpr"
            continue
        signature[name] = _type(value, launch.layouts.get(name), is_gluon)
        if signature[name].startswith("*") or isinstance(value, int) and value % 16 == 0:
            attributes[(place,)] = [["tt.divisibility", 16]]
    text = compiled_ttgir(kernel, signature, constants, attributes, GPUTarget("cuda", case.target, 32), dict(launch.options))
    names = [name for name, of in signature.items() if of != "constexpr"]
    return with_late_fences(text, case.target) if case.target >= 90 else text, launch, names


def _inner(module: ModuleType, outer: str) -> dict[str, Any]:
    """The functions that a test of a file defines in it."""
    names = dict(vars(module))
    tree = ast.parse(Path(module.__file__).read_text())
    (test, ) = (one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == outer)
    for statement in test.body:
        if isinstance(statement, ast.FunctionDef):
            exec(compile(ast.Module([statement], []), module.__file__, "exec"), names)
    return names


def _type(value: Any, layout: Any, is_gluon: bool) -> str:
    if isinstance(value, float):
        return "fp32"
    if isinstance(value, int):
        return "i32"
    element, shape, block = _ARRAY.fullmatch(value).groups()
    if block is None:
        return f"*{element}"
    if not is_gluon:
        return f"tensordesc<{element}[{block}]>"
    if layout is None:
        layout = gl.NVMMASharedLayout.get_default_for([int(size) for size in block.split(",")], _ELEMENTS[element])
    return f"tensordesc<{element}[{block}],{layout!r}>"
