"""Triton's runtime as `jit` needs it: sources, compile, backends, drivers.

Input: nothing. Output: Triton's own names, and small functions over its driver, its cache and its hooks:

    gpu_is_active()                                        False on a machine without a GPU
    keep_beside(compiled, "warnings.json", text)           in Triton's cache on disk; `kept_beside` reads it again
"""

from __future__ import annotations

import atexit
import functools
import gc
import hashlib
import inspect
import operator
import os
import re
import sys
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import triton
from triton import knobs
from triton._C.libtriton import ir as mlir
from triton.backends import backends
from triton.backends.compiler import GPUTarget, Language
from triton.compiler.compiler import ASTSource, CompiledKernel
from triton.compiler.compiler import compile as stock_compile
from triton.compiler.compiler import make_backend as stock_backend
from triton.experimental.gluon._runtime import GluonASTSource, GluonJITFunction
from triton.runtime import _allocation
from triton.runtime.autotuner import Autotuner as StockAutotuner
from triton.runtime.autotuner import Config as StockConfig
from triton.runtime.cache import get_cache_manager
from triton.runtime.driver import driver
from triton.runtime.errors import PTXASError
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import (
    JITCallable,
    JITFunction,
    MockTensor,
    _triton_jit_function_registry,
    compute_cache_key,
    create_function_from_signature,
)
from triton.tools.tensor_descriptor import TensorDescriptor

from .devices import AMD_DEVICES
from .nvidia_stage import mend
from .recording_backend import RecordingBackend

__all__ = [
    "ASTSource", "CompiledKernel", "ContentKeys", "GluonJITFunction", "GPUTarget", "InterpretedFunction",
    "JITCallable", "JITFunction", "Language", "MockTensor", "PTXASError", "StockAutotuner", "StockConfig",
    "TensorDescriptor", "about_kept_files", "active_target", "around_launches", "compiled_ttgir", "compiling_anew",
    "compute_cache_key", "content_key", "create_function_from_signature", "default_warps", "driver", "final_ttgir",
    "gluon_compile", "gpu_is_active", "is_gluons", "keep_beside", "keep_defaults", "keep_text", "kept_beside",
    "kept_text", "knobs", "make_backend", "multiprocessors", "profile_scratch_from", "stock_compile", "triton",
]


@functools.cache
def gpu_is_active() -> bool:
    """True if Triton finds exactly one GPU driver on this machine."""
    if not _there_may_be_one():
        return False
    try:
        return driver.default is not None
    except RuntimeError:
        return False


def _there_may_be_one() -> bool:
    """False where it is known without Triton's driver for AMD, which imports torch to find out: a second or two, in a process that
    may need no torch. AMD's GPUs have a device file."""
    if driver._default is not None or os.environ.get("TRITON_DEFAULT_BACKEND") or backends.keys() != {"nvidia", "amd"}:
        return True
    return any(map(os.path.exists, AMD_DEVICES)) or backends["nvidia"].driver.is_active()


def make_backend(target: GPUTarget):
    """Triton's backend for a target; for a chip that Triton has none for, one that records."""
    return RecordingBackend(target) if RecordingBackend.supports_target(target) else stock_backend(target)


def active_target() -> GPUTarget:
    """The target of the GPU in use."""
    return driver.active.get_current_target()


_WARPS = re.compile(r'"ttg\.num-warps" = (\d+)')


def is_gluons(fn) -> bool:
    """True of a kernel of Gluon's, whose text is none in Triton's language."""
    return isinstance(fn, JITFunction) and fn.is_gluon()


def multiprocessors() -> int:
    """The number of multiprocessors of the GPU in use."""
    return _multiprocessors(driver.active.get_current_device())


@functools.cache
def _multiprocessors(device: int) -> int:
    return driver.active.utils.get_device_properties(device)["multiprocessor_count"]


class ContentKeys(dict):
    """The keys of a function's kernels in memory, by specialisation and options. Triton makes them with `repr`, which need not
    differ between compile-time values; one that has a `cache_key` puts that into the key as well, and so does `of(values)`: what
    the functions among them look at, and a function that says that at a launch if it can change. `now` gives what the kernels
    depend on besides: "" as long as that is as it was at first."""

    def __init__(self, now: Callable[[], str] | None = None, of: Callable | None = None):
        super().__init__()
        self.now, self.of = now, of
        self._changing: dict = {}     # a specialisation: what says what its functions look at

    def get(self, wanted, default=None):
        found, now = super().get(wanted), "" if self.now is None else self.now()
        if found is None:
            specialization, options = wanted
            contents = [key for key in map(content_key, specialization) if key]
            text, changing = ("", None) if self.of is None else self.of(specialization)
            if contents or now or text:
                found = self[wanted] = f"{_by_content(list(specialization))}{options}{contents}{text}"
            if changing:
                self._changing[wanted] = changing
        if self._changing and wanted in self._changing:
            now += self._changing[wanted]()
        return f"{found}{now}" if found and now else found or default


def _by_content(value):
    """The value with the cache key of each JIT function in place of the function, as Triton's own keys have it."""
    if isinstance(value, JITCallable):
        return value.cache_key
    if isinstance(value, (list, tuple)):
        made = map(_by_content, value)
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return value


def content_key(value) -> str:
    """The `cache_key`s of our compile-time values in `value`, or of those in a tuple; "" if there is none."""
    if isinstance(value, (tuple, list)):
        return "".join(map(content_key, value))
    return value.cache_key if type(value).__module__.startswith("mimw.") and hasattr(value, "cache_key") else ""


def keep_defaults(function) -> bool:
    """Have a JIT function take the defaults that its Python function has now, where it still has those of its definition; True if
    they were others. Arguments bound before have to be bound again."""
    parameters = function.signature.parameters.values()
    positional = tuple(one.default for one in parameters if one.kind is not one.KEYWORD_ONLY and one.default is not one.empty)
    by_name = {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is not one.empty}
    now, named = function.fn.__defaults__ or (), function.fn.__kwdefaults__ or {}
    if len(now) == len(positional) and all(map(operator.is_, now, positional)) and by_name.keys() == named.keys() \
            and all(by_name[name] is named[name] for name in named):
        return False
    function.signature = inspect.signature(function.fn)
    for kept, parameter in zip(function.params, function.signature.parameters.values()):
        kept._param = parameter
    function.device_caches.clear()
    return True


def around_launches(before, behind) -> None:
    """Have every launch of Triton's call `before(metadata)` just ahead of the driver's, and `behind(metadata)` after it."""
    knobs.runtime.launch_enter_hook.add(before)
    knobs.runtime.launch_exit_hook.add(behind)


@contextmanager
def compiling_anew() -> Iterator[None]:
    """Inside, Triton compiles whatever its cache on disk has, and keeps it there."""
    with knobs.compilation.scope():
        knobs.compilation.always_compile = True
        yield


def about_kept_files(error: Exception) -> bool:
    """True if an error comes from reading a kernel's files in the cache on disk: metadata cut short, or an invalid text."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code is not CompiledKernel.__init__.__code__:
        trace = trace.tb_next
    if trace is None or isinstance(error, OSError):
        return False
    trace.tb_frame.f_locals["self"].module = None       # its `__del__` asks, and would complain of an object half made
    return True


def keep_beside(compiled, name: str, text: str) -> None:
    """Keep a text beside a compiled kernel in Triton's cache on disk."""
    get_cache_manager(compiled.hash).put(text, name, binary=False)


def kept_beside(compiled, name: str) -> str | None:
    """The text that was kept beside a compiled kernel; None if there is none."""
    path = get_cache_manager(compiled.hash).get_file(name)
    return Path(path).read_text() if path else None


def keep_text(key: str, name: str, text: str) -> None:
    """Keep a text in Triton's cache on disk, under a key that says all that the text depends on; its digest in the first line."""
    get_cache_manager(key).put(f"{_digest(text)}\n{text}", name, binary=False)


def keep_file(key: str, name: str, text: str) -> str:
    """Keep a file in Triton's cache on disk, under a key that says all that its text depends on; its path."""
    return get_cache_manager(key).put(text, name, binary=False)


def kept_text(key: str, name: str) -> str | None:
    """The text that was kept under a key; None if there is none, or none that is whole."""
    path = get_cache_manager(key).get_file(name)
    if not path:
        return None
    try:
        with open(path, newline="") as file:
            digest, _, text = file.read().partition("\n")
    except UnicodeDecodeError:
        return None
    return text if digest == _digest(text) else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def final_ttgir(module, backend, options):
    """A TTGIR module of ours after the passes that the backend runs over it before it makes LLVM IR."""
    stages: dict = {}
    backend.add_stages(stages, options, Language.GLUON)
    return stages["ttgir"](module, {})


@contextmanager
def profile_scratch_from(allocate):
    """Launches inside take the workspace of time stamps from `allocate(bytes, alignment, stream)`."""
    before = _allocation._profile_allocator.get()
    _allocation.set_profile_allocator(allocate)
    try:
        yield
    finally:
        _allocation._profile_allocator.set(before)


@contextmanager
def descriptors_from(allocate):
    """Launches inside take the memory of descriptors from `allocate(bytes, alignment, stream)`, unless `triton.set_allocator` has
    named another one."""
    if not isinstance(_allocation._allocator.get(), _allocation.NullAllocator):
        yield
        return
    before = _allocation._allocator.set(allocate)
    try:
        yield
    finally:
        _allocation._allocator.reset(before)


@atexit.register
def _leave_triton_registry() -> None:
    """Triton keeps every JIT function, and so its module's globals, until the process ends. Through ours they lead to its
    C++ types, which would then outlive the binding library and have it complain about leaks on stderr; so would the
    generators' reference cycles, the frames of an uncaught error, and `typing`'s list of overloads, which torch keeps alive."""
    _triton_jit_function_registry.clear()
    typing.clear_overloads()
    for name in ("last_exc", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)
    gc.collect()


def default_warps(metadata) -> int | None:
    """The warps with which a compiled kernel was asked for, by its metadata, which counts those of partitions as well; None where
    Triton's cache on disk has no TTGIR of the kernel."""
    files = get_cache_manager(metadata.hash).get_group(f"{metadata.name[:150]}.json") or {}
    path = next((path for name, path in files.items() if name.endswith(".ttgir")), None)
    found = _WARPS.search(Path(path).read_text()) if path and os.path.exists(path) else None
    return int(found[1]) if found else None


def gluon_compile(fn, signature, constants, attrs, target: GPUTarget, options: dict) -> CompiledKernel:
    """One specialisation of a kernel of Gluon's, with its binary."""
    return stock_compile(GluonASTSource(fn, signature, constants, attrs), target=target, options=options)


def compiled_ttgir(fn, signature, constants, attrs, target: GPUTarget, options: dict, mended: bool = False) -> str:
    """The TTGIR of one specialisation after all passes of stock Triton, or of Gluon for a function of Gluon's; `mended`, as mimw
    compiles it (`nvidia_stage`). Triton's `compile` would go on to a binary; these are its first stages."""
    source = (GluonASTSource if fn.is_gluon() else ASTSource)(fn, signature, constants, attrs)
    backend = stock_backend(target)
    options = backend.parse_options(dict(options) | source.parse_options())
    context = mlir.context()
    mlir.load_dialects(context)
    backend.load_dialects(context)
    module = source.make_ir(target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
    stages: dict = {}
    backend.add_stages(stages, options, source.language)
    if mended:
        mend(backend, stages)
    metadata = {"target": target, **vars(options)}
    for name in ("ttir", "ttgir"):
        if name in stages:
            module = stages[name](module, metadata)
    return str(module)
