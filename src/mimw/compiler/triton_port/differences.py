"""What differs between the releases of Triton that this package runs on, name by name. Nothing else in it asks for the version, but
`kernels/gemm/configs.py` for what it costs.

Input: the Triton that is installed. Output: names that mean the same on each release:

    GluonOpBuilder              Triton 3.9's builder, or 3.8's under the methods of 3.9
    joined_policies(args)       of 3.8's (CACHE_MODIFIER.CG, EVICTION_POLICY.NORMAL): (('cache', 'cg', 'evict_normal'), )

    | name | 3.9 | 3.8 |
    |---|---|---|
    | cache hints of loads and stores | one attribute, `get_cache_policy(modifier, eviction)` | two arguments, of two enumerations |
    | cache hints of TMA copies | there | left out: they change no value |
    | `create_threadwise_inline_asm` | an op | none: a call that becomes LLVM's assembly (`thread_assembly`) |
    | `get_total_elems_per_thread` | there | none: asked of Triton's lowering (`thread_assembly`) |
    | `create_atomic_store`, `create_atomic_load` | there | none: exchanges, and an OR with 0 |
    | `create_atomic_rmw`, `create_atomic_cas` | all threads of a task release and acquire | one does: a barrier before or behind |
    | `create_atomic_poll` | there | of a number without a time limit a loop in assembly, others refused |
    | `create_grid_dependency_wait`, `.._launch_dependents` | there | none: assembly, as 3.8's own functions have it |
    | `make_tensor` and atomic loads and stores of the semantics | there | none: `older_words` |
    | the interpreter's fused multiply-adds, sums of bits, histograms | as the hardware has them | `older_interpreter` |
    | `create_amd_sched_barrier` | there | none: a call that becomes LLVM's intrinsic (`thread_assembly`) |
    | `create_async_tdm_fused_copy_global_to_local` | there | none: refused |
    | `get_ptr_ty` | a space's name | its number |
    | `create_mbarrier_arrive` | `(barrier, count, predicate)` | with a mask of CTAs before the predicate |
    | `create_tmem_subslice` | an offset and a dimension | an offset |
    | a part of storage that arrays share, seen as another array | any | one of windows of equal size (`window`), others refused |
    | tiles that `while` carries | any | behind calls that Triton's passes do not look through (`held`) |
    | the first stage of a Gluon kernel | `glir` | `ttgir` |
    | sums that `while` carries to where they are stored | in registers | by 32 KB of scratch: a GEMM's last round is not cut |
    | flags of LLVM for NVIDIA's chips | `get_llvm_flags()` | a list in the backend's text |

Refused is what `NotInTriton` says; lowering adds the kernel's line (docs/PACKAGE.md, "Following Triton").
"""

from __future__ import annotations

from triton._C.libtriton import ir as mlir
from triton._C.libtriton.gluon_ir import GluonOpBuilder as _Stock
from triton.backends.nvidia import compiler as _nvidia
from triton.language.semantic import TritonSemantic
from triton.runtime.interpreter import InterpreterBuilder as _StockInterpreter

from . import older_builder, older_interpreter, older_words, thread_assembly
from .older_builder import EVICTIONS, MODIFIERS, NotInTriton
from .release import OLDER

__all__ = ["ABSENT", "FIRST_STAGE", "GluonOpBuilder", "InterpreterBuilder", "NotInTriton", "OLDER", "Semantics", "finished", "held",
           "joined_policies", "layout_arguments", "llvm_flags", "with_stand_ins"]

FIRST_STAGE = "ttgir" if OLDER else "glir"      # of what comes in as Gluon's does
ABSENT = frozenset({
    "triton._C.libtriton.gluon_ir:GluonOpBuilder.create_amd_sched_barrier",
    "triton._C.libtriton.gluon_ir:GluonOpBuilder.create_async_tdm_fused_copy_global_to_local",
    "triton._C.libtriton.gluon_ir:GluonOpBuilder.create_threadwise_inline_asm",
    "triton._C.libtriton.gluon_ir:GluonOpBuilder.get_cache_policy",
    "triton._C.libtriton.gluon_ir:GluonOpBuilder.get_total_elems_per_thread",
}) if OLDER else frozenset()
"""Names of the builder that lowering calls and that this release lacks, which this file stands in for or refuses."""

_BY_MODIFIER = {name: text for text, name in MODIFIERS.items()}
_BY_EVICTION = {name: text for text, name in EVICTIONS.items()}

def joined_policies(args: tuple) -> tuple:
    """Arguments of a call of Triton's semantics to its builder, with cache hints as 3.9 has them: one argument."""
    if not OLDER or not any(isinstance(arg, mlir.CACHE_MODIFIER) for arg in args):
        return args
    made = []
    for arg in args:
        if isinstance(arg, mlir.CACHE_MODIFIER):
            made.append(("cache", _BY_MODIFIER[arg.name], "evict_normal"))
        elif isinstance(arg, mlir.EVICTION_POLICY):
            made[-1] = (*made[-1][:2], _BY_EVICTION[arg.name])
        else:
            made.append(arg)
    return tuple(made)


def llvm_flags() -> list[str]:
    """The flags with which Triton's backend for NVIDIA calls LLVM; 3.8 sets short pointers, the other one, by a call."""
    return _nvidia.get_llvm_flags() if hasattr(_nvidia, "get_llvm_flags") else ["nvptx-mad-wide-opt"]


def layout_arguments() -> list[list[str]]:
    """Arguments of `llvm.attach_datalayout` besides triple, chip and features."""
    return [] if OLDER else [llvm_flags()]


GluonOpBuilder = older_builder.Older if OLDER else _Stock
InterpreterBuilder = older_interpreter.OlderInterpreter if OLDER else _StockInterpreter
Semantics = older_words.OlderSemantic if OLDER else TritonSemantic
if OLDER:
    older_builder.add()
    older_words.add()


def held(builder, value):
    """A value that a `scf.while` carries, on its way in, around and out.

    3.8's pass that removes conversions hands the layout of a tile on to the `while`'s result of the same number. That is another
    one, or none, where the canonicaliser has dropped a result that nobody takes, and the pass ends in an assertion. Behind calls it
    finds nothing to hand on.
    """
    return builder.held(value) if OLDER else value


def finished(module):
    """A TTGIR module behind all passes, as Triton's backend takes it."""
    return thread_assembly.placed(module) if OLDER else module


def with_stand_ins(module) -> str:
    """The text of a module in which stand-ins are written as 3.9's assembly."""
    return thread_assembly.as_of_3_9(module) if OLDER else str(module)
