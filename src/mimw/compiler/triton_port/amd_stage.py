"""The stage of AMD's backend that makes LLVM IR, for kernels of ours: tasks on gfx942 and gfx950, and calls of our functions.

Input: a compilation by Triton's `compile`. Output: the same, with our stage `llir` for kernels that come as Gluon does:

    with our_amd_stage():
        stock_compile(src, target=GPUTarget("hip", "gfx942", 64), options=options)

Triton's lowering of tasks asks for gfx1250 by name, and what it makes is made fit for gfx9 afterwards (`gfx9_tasks`). So the stage
is Triton's own function, all passes in its own order, with one name in it bound to another thing; nothing of Triton's is replaced,
and a kernel without tasks and without calls of ours goes through it as it is. `add_stages_inspection_hook` is the way by which
Triton lets a stage be another one; a hook that is there already sees our stages as it would Triton's.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager

from triton import knobs
from triton.backends.amd import compiler as stock
from triton.backends.compiler import Language

from .amd_functions import with_functions
from .gfx9_tasks import for_gfx9

GFX9 = ("gfx942", "gfx950")
_KNOWS_TASKS = "gfx1250"  # the one chip for which Triton's pass lowers them
_TASKS = "ttg.warp_specialize"
_turn = threading.RLock()  # knobs are the process's


@contextmanager
def our_amd_stage() -> Iterator[None]:
    """Inside, what Triton compiles for AMD's chips from finished TTGIR goes through our stage `llir`."""
    with _turn, knobs.runtime.scope():
        knobs.runtime.add_stages_inspection_hook = _hook(knobs.runtime.add_stages_inspection_hook)
        yield


def _hook(other):
    """The hook that puts our stage in, and then calls the `other` one that was there."""

    def hook(backend=None, stages=None, options=None, language=None, capability=None):
        """Triton calls it with nothing for a part of the cache's key, and with the stages to change."""
        if stages is None:
            return other() if other else ("", "")
        if isinstance(backend, stock.HIPBackend) and language == Language.GLUON:
            stages["llir"] = lambda module, metadata: make_llir(module, metadata, options)
        return other(backend, stages, options, language, capability) if other else None

    return hook


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
