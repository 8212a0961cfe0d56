"""Arithmetic of floats and functions of them where they overflow, vanish or have no value: exact ones to the last bit, others
closely.

    inf % 3, 5 % inf, 0.9 % 0.1      NaN, 5, -3.7e-8        the quotient is rounded, as the chip's instructions have it
"""

from __future__ import annotations

from ..draws import Draws
from ..elements import ELEMENTS
from . import family
from .numbers import ROUNDED
from .sketch import Sketch, places

SHAPES = ((64,), (128,), (16, 16), (4, 64))
FLUSHED = '''
def flushed(v):
    """Subnormal numbers of fp32 as zeros."""
    return np.where(np.abs(v) < 2.0 ** -126, np.copysign(0, v), v)


def rest(x, y):
    """x - trunc(x / y) * y of a quotient that is rounded to fp32."""
    x, y = x.astype(np.longdouble), y.astype(np.longdouble)
    left = x - np.trunc(rounded(rounded(x / y, "f32"), "f32")) * y
    return np.where(np.isinf(y), x, left)
'''
# name -> (the kernel's text, numpy's of 64-bit floats, what may differ).
UNARY = {
    "floor": ("tl.floor({0})", "np.floor(flushed({0}))", 0.0),
    "ceil": ("tl.ceil({0})", "np.ceil(flushed({0}))", 0.0),
    "sqrt_rn": ("tl.sqrt_rn({0})", "np.sqrt({0})", 0.0),
    "abs": ("tl.abs({0})", "np.abs({0})", 0.0),
    "neg": ("-{0}", "-{0}", 0.0),
    "sqrt": ("tl.sqrt({0})", "np.sqrt(flushed({0}))", 2e-6),
    "rsqrt": ("tl.rsqrt({0})", "1 / np.sqrt(flushed({0}))", 2e-6),
    "exp": ("tl.exp({0})", "np.exp({0})", 2e-5),
    "exp2": ("tl.exp2({0})", "np.exp2(flushed({0}))", 2e-5),
    "log": ("tl.log({0})", "np.log({0})", 2e-5),
    "log2": ("tl.log2({0})", "np.log2({0})", 2e-5),
    "sin": ("tl.sin({0})", "np.sin({0})", 2e-5),
    "cos": ("tl.cos({0})", "np.cos({0})", 2e-5),
    "erf": ("tl.erf({0})", "np.vectorize(math.erf)({0})", 2e-5),
}
BINARY = {
    "+": ("{0} + {1}", "{0}.astype(np.longdouble) + {1}", 0.0),
    "-": ("{0} - {1}", "{0}.astype(np.longdouble) - {1}", 0.0),
    "*": ("{0} * {1}", "{0}.astype(np.longdouble) * {1}", 0.0),
    "div_rn": ("tl.div_rn({0}, {1})", "{0}.astype(np.longdouble) / {1}", 0.0),
    "%": ("{0} % {1}", "rest({0}, {1})", 0.0),
    "/": ("{0} / {1}", "{0}.astype(np.longdouble) / {1}", 2e-6),
}
NARROW = ("+", "-", "*", "abs", "neg")


@family(1.5)
def functions(draws: Draws):
    """Two to five of them, each of the same two tiles of edge numbers."""
    s, shape = Sketch(draws), draws.pick(SHAPES)
    element = draws.pick(["f32", "f32", "f16", "bf16"])
    without = draws.pick([(), ("subnormal",), ("large", "subnormal")])
    s.helper(ROUNDED)
    s.helper(FLUSHED)
    s.kernel(f"at = {places(shape)}")
    for name in "ab":
        x = s.array(element, shape, ("edges", s.seed(), without))
        s.kernel(f"{name} = tl.load({x} + at)")
        s.reads(f"{name} = {x}.astype(np.float64)")
    for number in range(draws.integer(2, 5)):
        how = draws.pick(draws.pick([list(UNARY), list(BINARY)]) if element == "f32" else list(NARROW))
        kernel, reading, tolerance = {**UNARY, **BINARY}[how]
        if how in BINARY and draws.chance(20):  # with a number that is known while compiling
            constant = draws.pick([3.0, 0.1, -2.0, 0.5])
            known = f"np.float64({ELEMENTS[element].reading}({constant}))"
            kernel, reading = kernel.format("a", constant), reading.format("a", known)
        else:
            kernel, reading = kernel.format("a", "b"), reading.format("a", "b")
        y = s.output(element, shape, tolerance=tolerance)
        s.kernel(f"tl.store({y} + at, {kernel})")
        s.reads(
            "with np.errstate(all='ignore'):\n"
            f"    {y}[...] = rounded({reading}, {element!r}).astype({ELEMENTS[element].reading})"
        )
    return s
