"""Kernels in packages by others: a package is fetched and unpacked, and the one file with a kernel is imported, unchanged.

Input: a package's name and version, a path in it, a function's name. Output: the kernel, as its author decorated it. For example:

    kernel_of(Source("liger-kernel", "0.8.5", "liger_kernel/ops/mlp.py", "_swiglu_kernel_forward"), Path("/tmp/packages"))

Nothing is installed, and of a package's own modules only the file runs, and those that `needs` names: all else that it imports is
a stub, which stands for any value, and as a decorator gives back what it decorates. Wheels are unpacked, and nothing is built.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import triton
import triton.language as tl
from triton.runtime.jit import JITFunction

from .others_inductor import keep


class NotFetched(Exception):
    """A package that cannot be had here, with the reason."""


@dataclass(frozen=True)
class Source:
    """A kernel in a package. `is_source`: of its sdist, as there is no wheel of it for every machine; `needs`: modules of the
    package whose functions the kernel calls. A package with a slash is a repository, and its version a commit; "torch" generates
    its kernels (others_inductor.py)."""

    package: str
    version: str
    path: str
    function: str
    needs: tuple[str, ...] = ()
    is_source: bool = False

    @property
    def folder(self) -> str:
        return f"{self.package.replace('/', '-')}-{self.version}"


def kernel_of(source: Source, packages: Path) -> Any:
    """The kernel.

    errors:    NotFetched where the package is neither in the folder nor to be had from an index
    """
    path = _file(source, packages)
    top = Path(*path.parts[:len(path.parts) - len(Path(source.path).parts)])
    name = source.path.removesuffix(".py").replace("/", ".")
    module = ModuleType(name)
    module.__file__, module.__package__ = str(path), name.rpartition(".")[0]
    with _stubs(top, name.partition(".")[0], source.needs):
        _define(path, source.function, vars(module))
    if source.function not in vars(module):
        raise NotFetched(f"{source.path} of {source.folder} defines no {source.function}")
    return getattr(module, source.function)


def _file(source: Source, packages: Path) -> Path:
    root = unpacked(source, packages)
    if source.package == "torch":
        _generated(source, root / source.path)
    path = next(root.glob(source.path), None) or next(root.glob(f"*/{source.path}"), None)
    if path is None:
        raise NotFetched(f"{source.folder} has no file {source.path}")
    return path


def pack(source: Source, packages: Path, to: Path) -> None:
    """Copy a kernel's file, and those that it needs, into a folder that serves as `packages` on a machine that reaches no index.

    errors:    NotFetched as `kernel_of`
    """
    path = _file(source, packages)
    top = Path(*path.parts[:len(path.parts) - len(Path(source.path).parts)])
    for name in (source.path, *(f"{module.replace('.', '/')}.py" for module in source.needs)):
        copy = to / source.folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(top / name, copy)


def _define(path: Path, function: str, names: dict[str, Any]) -> None:
    """Run a file's statements up to the function, and what it defines behind it: not the tests and benchmarks at a tutorial's end.
    What is assigned from a GPU that is not there is a stub."""
    for statement in ast.parse(path.read_text()).body:
        is_definition = isinstance(statement, (ast.FunctionDef, ast.ClassDef))
        if function in names and not is_definition:
            continue
        try:
            exec(compile(ast.Module([statement], []), str(path), "exec"), names)
        except Exception:       # of any kind: the file's own code runs without what it asks for
            if is_definition:   # .. such as an autotuner's configurations for the GPU that is there
                statement.decorator_list = [one for one in statement.decorator_list if "jit" in ast.unparse(one)]
                exec(compile(ast.Module([statement], []), str(path), "exec"), names)
            if isinstance(statement, ast.Assign):
                names.update({target.id: _Stub() for target in statement.targets if isinstance(target, ast.Name)})


def unpacked(source: Source, packages: Path) -> Path:
    """The folder with a package's files, fetched by pip and unpacked if it is not there yet."""
    root = packages / source.folder
    if root.is_dir() or source.package == "torch":
        return root
    if "/" in source.package:
        return _file_of_repository(source, root)
    packages.mkdir(parents=True, exist_ok=True)
    kind = ["--no-binary", ":all:", "--no-build-isolation"] if source.is_source else ["--only-binary", ":all:"]
    call = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *kind, "--dest", str(packages),
            f"{source.package}=={source.version}"]
    # Of an sdist pip asks for its metadata, for which mamba-ssm would look for a compiler of CUDA.
    done = subprocess.run(call, capture_output=True, text=True, env=os.environ | {"MAMBA_SKIP_CUDA_BUILD": "TRUE"})
    stem = source.folder.replace("-", "_").lower()
    found = [path for path in packages.iterdir() if path.name.replace("-", "_").lower().startswith(stem) and path.is_file()]
    if not found:
        raise NotFetched(f"{source.folder} cannot be downloaded: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    if found[0].suffix == ".whl":
        zipfile.ZipFile(found[0]).extractall(root)
    else:
        tarfile.open(found[0]).extractall(root, filter="data")
    return root


def _generated(source: Source, path: Path) -> None:
    """A file that the torch which is installed generates, unless it lies there."""
    if path.is_file():
        return
    if not torch.__version__.startswith(source.version):
        raise NotFetched(f"{path.name} is made by torch {source.version}, and here is {torch.__version__}: take the file along")
    keep(path.stem, path.parent)


def _file_of_repository(source: Source, root: Path) -> Path:
    address = f"https://raw.githubusercontent.com/{source.package}/{source.version}/{source.path}"
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:
            text = answer.read()
    except OSError as error:
        raise NotFetched(f"{address} cannot be read ({error}): save it as {root / source.path}") from error
    (root / source.path).parent.mkdir(parents=True, exist_ok=True)
    (root / source.path).write_bytes(text)
    return root


# ---- what a file imports -----------------------------------------------------------------------------------------------------


class _Stub:
    """Any value: it can be called, as a decorator too, read, counted, and is false."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        only = args[0] if len(args) == 1 and not options else None
        return only if isinstance(only, JITFunction) or hasattr(only, "__code__") or isinstance(only, (list, type)) else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, key: Any) -> Any:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def keys(self) -> Sequence[str]:
        return ()

    def fp8_dtype(self) -> torch.dtype:
        """The type of vLLM's platform on an NVIDIA GPU. Its limits are defaults of a kernel, and Triton hashes no stub."""
        return torch.float8_e4m3fn

    def __bool__(self) -> bool:
        return False

    def __lt__(self, other: Any) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__


class _StubModule(ModuleType):
    """A module of which every name is a stub, besides Triton's own, which some packages hand on."""

    tl, triton = tl, triton
    __path__: list[str] = []
    needs: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        inner = f"{self.__name__}.{name}"
        return importlib.import_module(inner) if inner in self.needs else _Stub()


class _Finder(MetaPathFinder, Loader):
    """Finds modules of one package, and modules that are not installed: the `needs` in the package's folder, others as stubs."""

    def __init__(self, root: Path, top: str, needs: tuple[str, ...]):
        self.root, self.top, self.needs = root, top, needs

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name in self.needs:
            return importlib.util.spec_from_file_location(name, self.root / (name.replace(".", "/") + ".py"))
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = _StubModule(spec.name)
        module.needs = self.needs
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


class _First(_Finder):
    """The same of the package alone, before what is installed is asked."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return super().find_spec(name, path, target) if name.partition(".")[0] == self.top else None


@contextmanager
def _stubs(root: Path, top: str, needs: tuple[str, ...]) -> Iterator[None]:
    """While it is open, imports find the package in the folder, and stubs for what is missing."""
    kept = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == top}
    for name in kept:
        del sys.modules[name]
    before, (first, last) = set(sys.modules), (_First(root, top, needs), _Finder(root, top, needs))
    sys.meta_path.insert(0, first)
    sys.meta_path.append(last)
    try:
        yield
    finally:
        sys.meta_path.remove(first)
        sys.meta_path.remove(last)
        for name, module in list(sys.modules.items()):
            if name not in before and (name.partition(".")[0] == top or isinstance(module, _StubModule)):
                del sys.modules[name]
        sys.modules.update(kept)
