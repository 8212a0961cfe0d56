"""Compiles for tests, no further than to the text that a test reads: LLVM and ptxas take three quarters of a compilation.

    to_ttgir(kernel, {"x": "*fp16"}, {"N": 64}).stage("ttgir")      arguments of `mimw.compile.compile_kernel`
    to_assembly(kernel, {"x": "*fp16"}, {"N": 64}).stage("ptx")     no cubin; for AMD "amdgcn", and no hsaco

Input: a kernel and one specialisation of it. Output: a `Compiled` without the stages behind the named one: reading one of them is a
KeyError, so no test looks for something in a text that was never made. `metadata.shared` is what Triton's allocator finds. A test
that asks whether a kernel compiles takes `compile_kernel`, which goes to the binary.
"""

from __future__ import annotations

from contextlib import contextmanager

from triton import knobs

from mimw.compiler.triton_port.allocation import allocation
from mimw.runtime.compile_kernel import compile_kernel
from mimw.runtime.compiled import Compiled

ASSEMBLY = ("ptx", "amdgcn")
_STAGES = ("ttir", "ttgir", "llir", "ptx", "amdgcn", "cubin", "hsaco")     # those of both vendors, in order
whole = False       # benchmarks/compiled_code.py notes all stages of what the tests compile


def to_ttgir(kernel, *args, **options) -> Compiled:
    return _until(("ttgir", ), kernel, *args, **options)


def to_assembly(kernel, *args, **options) -> Compiled:
    return _until(ASSEMBLY, kernel, *args, **options)


def _until(last: tuple[str, ...], kernel, *args, **options) -> Compiled:
    if whole:
        return compile_kernel(kernel, *args, **options)
    with stopping(last):
        compiled = compile_kernel(kernel, *args, **options)
    for name in _STAGES[1 + max(map(_STAGES.index, last)):]:
        compiled.stages._asm.pop(name, None)
    return compiled


@contextmanager
def stopping(last: tuple[str, ...] = ASSEMBLY):
    """What is compiled inside, by Triton's own `compile` as well, has nothing behind the stages of these names."""
    def stop(backend=None, stages=None, options=None, language=None, capability=None):
        """Triton calls it with nothing for a part of the cache's key, and with the stages to change."""
        if stages is None:
            return f"until {last}", f"until {last}"
        names = list(stages)
        for name in names[max(names.index(one) for one in last if one in names) + 1:]:
            stages[name] = _only_metadata(capability if capability else options.arch) if name == "llir" else _nothing

    with knobs.runtime.scope():
        knobs.runtime.add_stages_inspection_hook = stop
        yield


def _only_metadata(arch):
    """In place of the stage that makes LLVM IR, what a `Compiled` is told by it; the amount of shared memory is the right one."""

    def stage(module, metadata) -> str:
        metadata |= {"name": "not compiled", "shared": allocation(str(module), arch).total, "tmem_size": 0}
        metadata |= {f"{kind}_scratch_{what}": int(what == "align") for kind in ("global", "profile") for what in ("size", "align")}
        return ""

    return stage


def _nothing(source, metadata):
    return b""
