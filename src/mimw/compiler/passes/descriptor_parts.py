"""Tensor descriptors as their parts, for chips without TMA: a pointer, extents, strides, and what lies outside.

Input: a program. Output: the `Parts` of each descriptor, and the parameters of the kernel without descriptors. For example, of
%x: desc<fp16[64, 64]>, a parameter:

    %x: *fp16, %x.extent0: i64, %x.extent1: i64, %x.stride0: i64, %x.stride1: i64, %x.nan: i1, %x.rounds: i1

This is the order in which Triton's launcher passes a descriptor to a kernel whose module has none (`decompose_descriptor`). What it
knows of a descriptor's numbers is what TMA wants of them: base and strides are multiples of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...errors import TargetError, excerpt
from ...ir import I1, I64, Descriptor, Op, Param, Pointer, Program, Site, Value
from ...target import Target

_GRANULE = 16       # bytes: CUDA driver API, cuTensorMapEncodeTiled: globalAddress, globalStrides


@dataclass(frozen=True)
class Parts:
    """`extents` are integers of any width, `strides` i64 in elements, all but the last, which is 1. `nan` says whether what is
    outside reads NaN: an i1, or known when compiling."""

    base: Value
    extents: tuple[Value, ...]
    strides: tuple[Value, ...]
    nan: Value | bool
    type: Descriptor


def split_parameters(program: Program) -> tuple[Program, dict[Value, Parts]]:
    """The program with a parameter for each part of a descriptor, and the parts by the descriptor."""
    params, parts = [], {}
    for param in program.params:
        if isinstance(param.value.type, Descriptor):
            made = _parameters(param)
            rank = len(param.value.type.shape)
            base, extents, strides, (nan, _) = made[0], made[1:1 + rank], made[1 + rank:-2], made[-2:]
            parts[param.value] = Parts(base.value, tuple(one.value for one in extents), tuple(one.value for one in strides[:-1]),
                                       nan.value, param.value.type)
            params += made
        else:
            params.append(param)
    return replace(program, params=tuple(params)), parts


def _parameters(param: Param) -> list[Param]:
    type_, name = param.value.type, param.name
    aligned = (("tt.divisibility", _GRANULE), )
    stepped = (("tt.divisibility", max(1, _GRANULE // type_.element.bytes)), )

    def made(type_, part: str, attrs: tuple = ()) -> Param:
        label = f"{name}.{part}" if part else name
        return Param(Value(type_, label), label, param.path, attrs)

    axes = range(len(type_.shape))
    return [made(Pointer(type_.element), "", aligned), *(made(I64, f"extent{axis}") for axis in axes),
            *(made(I64, f"stride{axis}", stepped if axis < len(axes) - 1 else ()) for axis in axes), made(I1, "nan"),
            made(I1, "rounds")]


def made_parts(op: Op, now: Callable) -> Parts:
    """The parts of a descriptor that the kernel makes; `now` gives the values of the new program."""
    return Parts(now(op.base), now(op.shape), now(op.strides[:-1]), "nan" in str(op.padding).lower(), op.result.type)


def refuse(target: Target, site: Site, what: str, mend: str) -> None:
    """Raise `TargetError`: without TMA, `what` cannot be."""
    raise TargetError(f"TargetError at {site}: {target} has no TMA: descriptors are pointers there, and {what}.\nMend: {mend}.\n"
                      f"{excerpt(site)}".rstrip())
