"""`extern_elementwise`: the functions of NVIDIA's and AMD's device libraries, as `triton.language.extra.libdevice` names them.

Input: a task at a call of a library's symbol. Output: the function's result, rounded once. For example:

    function("__nv_expf")           numpy.exp, in fp64; the result is rounded to fp32
    function("__nv_fadd_rz")        the sum towards zero, exactly

A function that the library only approximates (within the units in the last place of CUDA's Math API) has its true value here. Where
the definition is exact, so is the result: rounding by direction, conversions, integers. Functions of fp32 that are one instruction
with `.ftz` take numbers below the normal ones for zeros, and make such numbers zeros: Triton compiles NVIDIA's library so. The
files: `libdevice_rounding.py`, `libdevice_integers.py`, `libdevice_special.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np

from ...errors import SimulatorMisuse, fail
from ..machine.table import handles
from ..memory.values import numpy_type
from . import libdevice_integers, libdevice_rounding, libdevice_special
from .libdevice_rounding import flushed
from .libdevice_special import each

_SAME_NAME = """
    exp exp2 expm1 log log2 log10 log1p sqrt cbrt sin cos tan sinh cosh tanh fabs floor ceil trunc rint hypot fmod
    fmin fmax copysign isnan isinf
"""

# In fp64, whatever their arguments are: for fp32 nothing is lost, and the result is rounded once.
WIDE: dict[str, Callable] = {
    **{name: getattr(np, name) for name in _SAME_NAME.split()},
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "pow": np.power, "powi": np.power, "pown": np.power, "nearbyint": np.rint,
    "finite": np.isfinite, "isfinite": np.isfinite, "signbit": np.signbit, "exp10": lambda x: 10**x,
    "rsqrt": lambda x: 1 / np.sqrt(x), "frsqrt_rn": lambda x: 1 / np.sqrt(x), "erf": each(math.erf), "erfc": each(math.erfc),
    "fdim": lambda x, y: np.where(x <= y, 0.0, x - y), "remainder": each(math.remainder, ValueError),
    "fast_sin": np.sin, "fast_cos": np.cos, "fast_tan": np.tan, "fast_exp": np.exp, "fast_exp10": lambda x: 10**x,
    "fast_log": np.log, "fast_log2": np.log2, "fast_log10": np.log10, "fast_tanh": np.tanh,
    "fast_pow": lambda x, y: np.exp2(y * np.log2(x)),       # so a number below zero has no power
    "fast_fdivide": libdevice_special.fast_divide,
    **libdevice_special.FUNCTIONS,
}

# Of their arguments as they are: integers, bits, and what depends on the type's last place.
EXACT: dict[str, Callable] = {
    "abs": np.abs, "llabs": np.abs, "iabs": np.abs, "min": np.minimum, "max": np.maximum, "llmin": np.minimum,
    "llmax": np.maximum, "umin": np.minimum, "umax": np.maximum, "nextafter": np.nextafter, "fma": libdevice_rounding.fma,
    **libdevice_integers.FUNCTIONS,
}

# Functions of fp32 that Triton compiles to one instruction that flushes (its PTX has `.ftz`).
_FLUSHING = frozenset(f"__nv_{name}" for name in """
    fabsf floorf ceilf sqrtf rsqrtf frsqrt_rn exp2f fmaf saturatef roundf fdimf fast_sinf fast_cosf fast_tanf fast_expf fast_exp10f
    fast_logf fast_log2f fast_log10f fast_powf fast_fdividef
""".split())
_LIBRARY = re.compile(r"^__(nv|ocml|ockl|triton_hip)_")


def function(symbol: str) -> Callable | None:
    """The meaning of a library symbol, of arrays as the kernel has them, or None: `__nv_expf` and `__ocml_exp_f32` are both
    `exp`."""
    base = re.sub(r"_[fu](16|32|64)$", "", _LIBRARY.sub("", symbol))
    exact = libdevice_rounding.function(base)
    if exact is not None:
        return exact
    for name in (base, base.removesuffix("f"), base.removesuffix("d")):
        if name in EXACT or name in WIDE:
            known = EXACT[name] if name in EXACT else _in_fp64(WIDE[name])
            return _flushing(known) if symbol in _FLUSHING else known
    return None


def _in_fp64(known: Callable) -> Callable:
    return lambda *values: known(*(value.astype(np.float64) if value.dtype.kind == "f" else value for value in values))


def _flushing(known: Callable) -> Callable:
    return lambda *values: flushed(np.asarray(known(*map(flushed, values))).astype(np.float32))


@handles("extern_elementwise")
def extern_elementwise(task, op):
    values = [task.read(value, op) for value in op.values]
    known = function(op.symbol)
    if known is None:
        raise fail(SimulatorMisuse, task, op, f"the simulator does not know the library function {op.symbol!r}",
                   hint="write it in tl, or add its twin to libdevice.py of the simulator")
    task.env[op.result] = np.asarray(known(*map(np.asarray, values))).astype(numpy_type(op.result.type))[()]
