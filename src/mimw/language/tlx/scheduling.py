"""Hints for the compiler behind Triton: they change no value.

Input: the arguments of a kernel's call. Output: the value, and an op where a chip has something to be told. For example:

    tlx.amd_sched_barrier(8)        sched_barrier 8
    tlx.assume_uniform(n)           on AMD uniform %n; on NVIDIA n
"""

from __future__ import annotations

import triton.language.core as tl

from ..core import capability, word
from ..numbers import is_int
from ..refuse import refuse

__all__ = ["amd_sched_barrier", "assume_uniform", "rematerialized_range"]

_MASKS = 0xFFF


@word
def assume_uniform(value, _semantic=None):
    """`value`, promised to be equal in all lanes: on AMD it then lies in scalar registers.

    args:      value - a scalar pointer, or a scalar of at least 16 bits; a number that is known at compile time, as Triton makes of
                       an argument that is 1, stays one
    errors:    AssertionError for anything else
    not:       a check: where lanes differ, all get what the first one has
    lowers to: v_readfirstlane_b32 for each 32 bits (gfx9, gfx12); nothing on NVIDIA
    example:   x_ptr = tlx.assume_uniform(x_ptr)
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return tl.constexpr(value)
    scalar = isinstance(value, tl.tensor) and not value.type.is_block()
    if not scalar or (not value.dtype.is_ptr() and value.dtype.primitive_bitwidth < 16):
        refuse(AssertionError, f"assume_uniform takes a scalar pointer or a scalar of at least 16 bits, got {value}")
    if capability(_semantic) is not None:
        return value
    return tl.tensor(_semantic.builder.record("uniform", value.handle).results[0], value.type)


@word
def amd_sched_barrier(mask: tl.constexpr = 0, _semantic=None) -> None:
    """Let the compiler move only instructions of the kinds in `mask` across this place. It makes no instruction.

    args:      mask - a sum of 1 (what touches no memory), 2 (vector), 4 (scalar), 8 (matrix core), 0x10 (vector memory), 0x20 (its
                      reads), 0x40 (its writes), 0x80 (LDS), 0x100 (its reads), 0x200 (its writes), 0x400 (transcendentals); 0 lets
                      nothing cross
    errors:    ValueError for a mask that is no constexpr int from 0 to 0xFFF; NotImplementedError on NVIDIA
    not:       a barrier of waves: it orders the instructions of one wave, and only for the compiler
    lowers to: rocdl.sched.barrier
    example:   tlx.amd_sched_barrier(0)
    """
    if not is_int(mask) or not 0 <= mask <= _MASKS:
        refuse(ValueError, f"amd_sched_barrier: mask must be a constexpr int from 0 to 0xFFF, got {mask!r}")
    if capability(_semantic) is not None:
        refuse(NotImplementedError, "amd_sched_barrier is only available on AMD")
    _semantic.builder.record("sched_barrier", mask)


@word
def rematerialized_range(start: tl.constexpr, end: tl.constexpr, identity: tl.constexpr, placement: tl.constexpr = None,
                         _semantic=None) -> tl.tensor:
    """`tl.arange(start, end)` that is not made one with a range of another `identity`: so that its registers need not live as long
    as the other one's.

    args:      start, end - constexpr ints, as of tl.arange: a power of two apart
               identity   - a constexpr int or string
               placement  - (opt) a constexpr int or string, a part of the identity
    errors:    ValueError for other arguments, as tl.arange
    lowers to: tt.make_range; on AMD behind assembly without an instruction
    example:   columns = tlx.rematerialized_range(0, 64, "store")
    """
    for name, given in (("identity", identity), ("placement", placement)):
        if not is_int(given) and not isinstance(given, str) and (name == "identity" or given is not None):
            refuse(ValueError, f"rematerialized_range: {name} must be a constexpr int or string, got {given!r}")
    plain = _semantic.arange(start, end)
    called = str(identity) if placement is None else f"{identity}, {placement}"
    found = _semantic.builder.record("distinct_range", plain.type.to_ir(_semantic.builder), start, end, called).results[0]
    return tl.tensor(found, plain.type)
