"""What differs between the releases of Triton that this package runs on, name by name. Nothing else in it asks for the version.

Input: the Triton that is installed. Output: names that mean the same on each release:

    GluonOpBuilder              Triton 3.9's builder, or 3.8's under the methods of 3.9
    joined_policies(args)       of 3.8's (CACHE_MODIFIER.CG, EVICTION_POLICY.NORMAL): (('cache', 'cg', 'evict_normal'), )

    | name | 3.9 | 3.8 |
    |---|---|---|
    | cache hints of loads and stores | one attribute, `get_cache_policy(modifier, eviction)` | two arguments, of two enumerations |
    | `create_threadwise_inline_asm` | numbers, tiles, buffers | none: numbers by `create_inline_asm`, others refused |
    | `get_total_elems_per_thread` | there | none: refused |
    | `create_amd_sched_barrier` | there | none: refused |
    | `create_async_tdm_fused_copy_global_to_local` | there | none: refused |
    | `get_ptr_ty` | a space's name | its number |
    | `create_mbarrier_arrive` | `(barrier, count, predicate)` | with a mask of CTAs before the predicate |
    | `create_tmem_subslice` | an offset and a dimension | an offset |
    | the first stage of a Gluon kernel | `glir` | `ttgir` |
    | flags of LLVM for NVIDIA's chips | `get_llvm_flags()` | a list in the backend's text |

Refused is what `NotInTriton` says; lowering adds the kernel's line. The table is of what lowering calls. The language of 3.8 lacks
names, too: `tl.atomic_store`, for instance (docs/PACKAGE.md, "Following Triton").
"""

from __future__ import annotations

import re

import triton
from triton._C.libtriton import ir as mlir
from triton._C.libtriton.gluon_ir import GluonOpBuilder as _Stock
from triton.backends.nvidia import compiler as _nvidia

__all__ = ["ABSENT", "FIRST_STAGE", "GluonOpBuilder", "NotInTriton", "OLDER", "joined_policies", "layout_arguments", "llvm_flags"]

OLDER = not hasattr(_Stock, "get_cache_policy")
FIRST_STAGE = "ttgir" if OLDER else "glir"      # of what comes in as Gluon's does
ABSENT = frozenset({
    "triton._C.libtriton.gluon_ir:GluonOpBuilder.create_amd_sched_barrier",
    "triton._C.libtriton.gluon_ir:GluonOpBuilder.create_async_tdm_fused_copy_global_to_local",
    "triton._C.libtriton.gluon_ir:GluonOpBuilder.create_threadwise_inline_asm",
    "triton._C.libtriton.gluon_ir:GluonOpBuilder.get_cache_policy",
    "triton._C.libtriton.gluon_ir:GluonOpBuilder.get_total_elems_per_thread",
}) if OLDER else frozenset()
"""Names of the builder that lowering calls and that this release lacks, which this file stands in for or refuses."""

_MODIFIERS = {"none": "NONE", "ca": "CA", "cg": "CG", "wb": "WB", "cs": "CS", "wt": "WT", "cv": "CV"}
_EVICTIONS = {"evict_normal": "NORMAL", "evict_last": "EVICT_LAST", "evict_first": "EVICT_FIRST"}
_BY_MODIFIER = {name: text for text, name in _MODIFIERS.items()}
_BY_EVICTION = {name: text for text, name in _EVICTIONS.items()}
_SPACES = {"global": 1, "shared": 3, "constant": 4}
_PLAIN = ("none", "evict_normal")
_OPERAND = re.compile(r"\$\$|\$(\{?)(\d+)")


class NotInTriton(Exception):
    """The compiler of the installed Triton lacks what an op of the kernel needs; `what` says that in words."""

    def __init__(self, what: str):
        self.what = what
        super().__init__(f"Triton {triton.__version__} cannot compile {what}.")


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


class _Policy(tuple):
    """(modifier, eviction policy), as texts, on their way to a method that takes two arguments."""


def _in_two(name: str):
    """The method of 3.8's builder that takes both cache hints, called with one argument for both."""
    stock = getattr(_Stock, name)

    def method(self, *args, cache_policy=None):
        made = []
        for arg in (*args, *(() if cache_policy is None else (cache_policy, ))):
            if isinstance(arg, _Policy):
                made += [getattr(mlir.CACHE_MODIFIER, _MODIFIERS[arg[0]]), getattr(mlir.EVICTION_POLICY, _EVICTIONS[arg[1]])]
            else:
                made.append(arg)
        return stock(self, *made)

    return method


def _without(name: str):
    """The method of 3.8's builder for a TMA copy, which takes no cache hint: the plain one is left out, another one refused."""
    stock = getattr(_Stock, name)

    def method(self, *args, **named):
        hints = [arg for arg in (*args, *named.values()) if isinstance(arg, _Policy)]
        if any(tuple(hint) != _PLAIN for hint in hints):
            raise NotInTriton("cache hints of TMA copies")
        return stock(self, *(arg for arg in args if not isinstance(arg, _Policy)),
                     **{key: arg for key, arg in named.items() if not isinstance(arg, _Policy)})

    return method


class _Older(_Stock):
    """3.8's builder under the methods of 3.9's."""

    def get_cache_policy(self, modifier: str, eviction: str) -> _Policy:
        return _Policy((modifier, eviction))

    def create_threadwise_inline_asm(self, assembly: str, constraints: str, operands: list, results: list, pure: bool):
        """Assembly of numbers runs once in each thread by `tt.elementwise_inline_asm`, too, which has at least one result."""
        given = [str(type_) for type_ in (*(value.get_type() for value in operands), *results)]
        other = next((text for text in given if text.startswith(("tensor<", "!ttg.", "!tt.tensordesc"))), None)
        if other is not None:
            kind = "a tile" if other.startswith("tensor<") else "a buffer or a descriptor"
            raise NotInTriton(f"assembly that runs once in each thread and takes or gives {kind}")
        if results:
            return self.create_inline_asm(assembly, constraints, operands, results, pure, 1)
        assembly = f"{_shifted(assembly)}\n{'mov.u32 $0, 0;' if self._is_nvidia() else 'v_mov_b32 $0, 0'}"
        constraints = ",".join(filter(None, ("=r" if self._is_nvidia() else "=v", constraints)))
        return self.create_inline_asm(assembly, constraints, operands, [self.get_int32_ty()], pure, 1)

    def get_ptr_ty(self, element, space: str):
        return super().get_ptr_ty(element, _SPACES[space])

    def create_mbarrier_arrive(self, barrier, count: int, predicate) -> None:
        super().create_mbarrier_arrive(barrier, count, 0, predicate)     # 0: of this CTA's barrier

    def create_tmem_subslice(self, type_, memory, offset: int, dim: int):
        return super().create_tmem_subslice(type_, memory, offset)       # along columns, as each of our slices is

    def _is_nvidia(self) -> bool:
        return not str(getattr(self.options, "arch", "")).startswith("gfx")

    def get_total_elems_per_thread(self, type_) -> int:
        raise NotInTriton("assembly that takes the elements of a tile that a thread holds")

    def create_amd_sched_barrier(self, mask: int):
        raise NotInTriton("barriers of the scheduler on AMD's chips")

    def create_async_tdm_fused_copy_global_to_local(self, *args):
        raise NotInTriton("several copies of the tensor data mover as one")


def _shifted(assembly: str) -> str:
    """Assembly whose operands count one more; `$$` is a dollar sign."""
    return _OPERAND.sub(lambda found: found[0] if not found[2] else f"${found[1]}{int(found[2]) + 1}", assembly)


if OLDER:
    for _name in ("create_load", "create_masked_load", "create_store", "create_masked_store", "create_descriptor_load",
                  "create_async_copy_global_to_local"):
        setattr(_Older, _name, _in_two(_name))
    for _name in ("create_async_tma_copy_global_to_local", "create_async_tma_copy_local_to_global", "create_async_tma_gather",
                  "create_async_tma_scatter"):
        setattr(_Older, _name, _without(_name))

GluonOpBuilder = _Older if OLDER else _Stock
