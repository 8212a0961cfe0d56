"""Stochastic rounding, bit by bit as `cvt.rs` does it.

Input: a task at `stoch_round`. Output: the elements, rounded up where their random bits say so. For example:

    stoch_round 1.5 to e4m3 with the bits 0x0000      1.5, which is a number of e4m3
    stoch_round 1.07 to e4m3                          1.125 if the 16 random bits exceed 0.44 * 2^16, else 1.0

PTX ISA, "cvt", rounding modifier .rs: the random bits are added to the mantissa bits that the result has no room for, and the carry
decides. Each element takes its own bits of the one random word of the instruction:

    .f16x2      13 bits: 12..0 for the lower element, 28..16 for the upper one
    .bf16x2     16 bits: the lower and the upper half of the word
    .f8x4type   16 bits: the lower half for elements 0 and 1, the upper half for 2 and 3; for 1 and 3 in reverse order

Which bits those are was read off an sm_100a by others, element by element; no sm_100a ran this code. Where more bits are cut off
than there are random ones, as below the normal numbers of a format, the random bits are the highest of them (measured for e4m3,
assumed for the others).
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ...ir import Tensor
from ...ir.ops.rounding import SHARING
from ...ir.types import element_of
from ..machine.guarded import PerThread
from ..machine.table import handles
from ..memory.values import numpy_type
from .lanes import settled

_HALF = 0xFFFF


@handles("stoch_round")
def stoch_round(task, op):
    values, random = task.read(op.value, op), task.read(op.random, op)
    dtype = numpy_type(op.result.type, op.site)
    if isinstance(op.result.type, Tensor):
        each = min(SHARING[element_of(op.result.type).bits], np.shape(values)[-1])
    else:
        each = 1
    task.env[op.result] = _settle(values, random, rounded(np.asarray(values), np.asarray(random), dtype, each))


def _settle(values, random, made):
    """A scalar that differs between threads stays one value a thread."""
    if PerThread in (values.__class__, random.__class__):
        return settled(made)
    return made[()]


def rounded(values: np.ndarray, random: np.ndarray, dtype: np.dtype, each: int, saturates: bool = True) -> np.ndarray:
    """`values`, fp32, in `dtype`; `each` neighbours along the last axis share the random word of the first of them."""
    if each > 1:
        at = np.arange(values.shape[-1])
        words, lane = random[..., at - at % each], at % each
    else:
        words, lane = random, np.zeros((), np.int64)
    return _carried(values, *_slices(words.astype(np.int64) & 0xFFFF_FFFF, lane, dtype), dtype, saturates)


def _slices(words: np.ndarray, lane: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, int]:
    """The random bits of each element, as a number, and how many there are."""
    if dtype == np.float16:
        return (words >> (16 * lane)) & 0x1FFF, 13
    if dtype.itemsize == 2:
        return (words >> (16 * lane)) & _HALF, 16
    bits = (words >> (16 * (lane // 2))) & _HALF
    return np.where(lane % 2 == 1, _reversed(bits), bits), 16


def _reversed(bits: np.ndarray) -> np.ndarray:
    """16 bits in reverse order."""
    for step, mask in ((1, 0x5555), (2, 0x3333), (4, 0x0F0F), (8, 0x00FF)):
        bits = ((bits >> step) & mask) | ((bits & mask) << step)
    return bits


def _carried(values: np.ndarray, random: np.ndarray, bits: int, dtype: np.dtype, saturates: bool) -> np.ndarray:
    """The mantissas plus random bits, cut off; .satfinite: no more than the largest finite number. NaN stays NaN."""
    facts = ml_dtypes.finfo(dtype)
    pattern = np.asarray(values, np.float32).view(np.int32).astype(np.int64)
    exponent, fraction = (pattern >> 23) & 0xFF, pattern & 0x7F_FFFF
    mantissa = np.where(exponent > 0, fraction | 0x80_0000, fraction)
    exponent = np.maximum(exponent, 1) - 127
    last = np.maximum(exponent, facts.minexp) - facts.nmant                 # the exponent of the result's last bit
    cut = np.minimum(last - (exponent - 23), 24 + bits)                     # beyond that no random bits reach a carry
    kept = (mantissa + (random << (cut - bits))) >> cut
    magnitude = np.where(np.isinf(values), np.inf, np.ldexp(kept.astype(np.float64), last))
    magnitude = np.where(magnitude > float(facts.max), facts.max if saturates else np.inf, magnitude)
    made = np.copysign(np.where(np.isnan(values), np.nan, magnitude), values)
    return made.astype(dtype)
