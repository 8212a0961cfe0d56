"""The stage of AMD's backend that makes LLVM IR, for kernels of ours: tasks on gfx942 and gfx950, and calls of our functions.

Input: a compilation by Triton's `compile`. Output: the same, with our stage `llir` for kernels that come as Gluon does:

    with our_amd_stage():
        stock_compile(src, target=GPUTarget("hip", "gfx942", 64), options=options)

Triton's lowering of tasks asks for gfx1250 by name, and what it makes is made fit for gfx9 afterwards (`gfx9_tasks`). So the stage
is Triton's own function, all passes in its own order, with one name in it bound to another thing; nothing of Triton's is replaced,
and a kernel without tasks and without calls of ours goes through it as it is.
"""

from __future__ import annotations

import types
from contextlib import AbstractContextManager

from triton.backends.amd import compiler as stock
from triton.backends.compiler import Language

from .amd_functions import with_functions
from .gfx9_tasks import for_gfx9
from .stage_hook import changed_stages

GFX9 = ("gfx942", "gfx950")
_KNOWS_TASKS = "gfx1250"  # the one chip for which Triton's pass lowers them
_TASKS = "ttg.warp_specialize"


def our_amd_stage() -> AbstractContextManager[None]:
    """Inside, what Triton compiles for AMD's chips from finished TTGIR goes through our stage `llir`."""
    return changed_stages(_change)


def _change(backend, stages, options, language) -> None:
    if isinstance(backend, stock.HIPBackend) and language == Language.GLUON:
        stages["llir"] = lambda module, metadata: make_llir(module, metadata, options)


def make_llir(module, metadata: dict, options) -> str:
    """The LLVM IR of a finished TTGIR module."""
    if options.arch not in GFX9 or not _has_tasks(module):
        return with_functions(stock.HIPBackend.make_llir(module, metadata, options), options.arch)
    return with_functions(for_gfx9(_lowering_tasks()(module, metadata, options)), options.arch)


def _has_tasks(module) -> bool:
    found = False

    def look(op) -> None:
        nonlocal found
        found = found or op.get_name() == _TASKS

    module.walk(look)
    return found


def _lowering_tasks():
    """Triton's function of the stage, in which the pass that lowers tasks takes the chip for the one that it knows."""
    ours = vars(stock.amd.passes.ttgpuir) | {
        "add_warp_specialize_to_llvm": lambda manager, arch: stock.amd.passes.ttgpuir.add_warp_specialize_to_llvm(
            manager, _KNOWS_TASKS)}
    passes = types.SimpleNamespace(**vars(stock.amd.passes) | {"ttgpuir": types.SimpleNamespace(**ours)})
    amd = types.SimpleNamespace(**vars(stock.amd) | {"passes": passes})
    return types.FunctionType(stock.HIPBackend.make_llir.__code__, vars(stock) | {"amd": amd})
