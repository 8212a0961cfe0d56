"""`extern_elementwise`: the mathematical functions of NVIDIA's and AMD's device libraries that numpy has, too.

Input: a library's symbol. Output: numpy's function, or None. For example:

    function("__nv_expf")      numpy.exp
"""

from __future__ import annotations

import math
import re

import numpy as np

from ...errors import SimulatorMisuse, fail
from ..machine.table import handles
from ..memory.values import numpy_type

_SAME_NAME = """
    exp exp2 expm1 log log2 log10 log1p sqrt cbrt sin cos tan sinh cosh tanh fabs floor ceil trunc rint hypot fmod
    fmin fmax copysign nextafter
"""
FUNCTIONS = {
    **{name: getattr(np, name) for name in _SAME_NAME.split()},
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "pow": np.power, "abs": np.abs, "min": np.minimum, "max": np.maximum,
    "nearbyint": np.rint,
    "isnan": np.isnan, "isinf": np.isinf, "finite": np.isfinite, "signbit": np.signbit, "exp10": lambda x: 10 ** x,
    "rsqrt": lambda x: 1 / np.sqrt(x), "fma": lambda x, y, z: x * y + z, "fdim": lambda x, y: np.maximum(x - y, 0),
    "erf": np.vectorize(math.erf, otypes=[np.float64]), "erfc": np.vectorize(math.erfc, otypes=[np.float64]),
    "tgamma": np.vectorize(math.gamma, otypes=[np.float64]), "lgamma": np.vectorize(math.lgamma, otypes=[np.float64]),
}
FUNCTIONS |= {f"fast_{name}": FUNCTIONS[name] for name in "sin cos tan exp exp10 log log2 log10 pow".split()}
FUNCTIONS |= {"isfinited": np.isfinite, "llabs": np.abs, "llmin": np.minimum, "llmax": np.maximum}


def function(symbol: str):
    """The numpy twin of a library symbol, or None: `__nv_expf` and `__ocml_exp_f32` are both `exp`."""
    base = re.sub(r"^__(nv|ocml)_|_f(16|32|64)$", "", symbol)
    return FUNCTIONS.get(base) or FUNCTIONS.get(base.removesuffix("f")) or FUNCTIONS.get(base.removesuffix("d"))


@handles("extern_elementwise")
def extern_elementwise(task, op):
    symbol, values = op.symbol, [task.read(value, op) for value in op.values]
    known = function(symbol)
    if known is None:
        raise fail(SimulatorMisuse, task, op, f"the simulator does not know the library function {symbol!r}",
                   hint="write it in tl, or add its numpy twin to simulator/words/libdevice.py")
    if values[0].dtype == np.float32:
        values = [value.astype(np.float64) for value in values]       # so that the result is rounded once
    task.env[op.result] = np.asarray(known(*values)).astype(numpy_type(op.result.type))[()]
