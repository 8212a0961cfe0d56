"""Library functions of fp64 that numpy does not have.

Input: arrays of fp64 (the order of a Bessel function and the exponent of `ldexp`: integers). Output: arrays of fp64. For example:

    FUNCTIONS["erfinv"](np.array([0.5]))        [0.47693628]
    FUNCTIONS["j0"](np.array([0.0]))            [1.0]

CUDA Math API, "Double Precision Mathematical Functions". Bessel functions are those of the C library (POSIX j0, j1, jn, y0, y1,
yn); modified ones and inverses of the error function stand here.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable

import numpy as np

_SQRT_HALF, _SQRT_PI = math.sqrt(0.5), math.sqrt(math.pi)


def each(function: Callable, *undefined: type[Exception], otherwise: float = math.nan) -> Callable:
    """A function of numbers as one of arrays; `otherwise` where it raises one of these, infinity where it overflows."""

    def one(*values):
        try:
            return function(*values)
        except undefined:
            return math.nan if any(map(math.isnan, values)) else otherwise
        except OverflowError:
            return math.inf

    return lambda *values: np.frompyfunc(one, len(values), 1)(*values).astype(np.float64) if np.ndim(values[0]) or any(
        map(np.ndim, values)) else np.float64(one(*(value.item() for value in values)))


# ---- gamma --------------------------------------------------------------------------------------------------------------

def _tgamma(x: float) -> float:
    """Infinite at zeros, of their sign; no number at the whole numbers below."""
    if x == 0:
        return math.copysign(math.inf, x)
    if x < 0 and x == math.floor(x):
        return math.nan
    return math.gamma(x)


# ---- the error function and its inverses --------------------------------------------------------------------------------

def _erfcx(x: float) -> float:
    """exp(x^2) erfc(x). From 2 on by its continued fraction."""
    if math.isnan(x):
        return x
    if x < 2:
        square = x * x
        return _exp(square) * (1 + _product_error(x, x, square)) * math.erfc(x)
    if x > 1e8:
        return 1 / (x * _SQRT_PI)
    fraction = x
    for k in range(120, 0, -1):
        fraction = x + 0.5 * k / fraction
    return 1 / (fraction * _SQRT_PI)


def _normcdf(x: float) -> float:
    """erfc(-x / sqrt(2)) / 2, with what the division loses made good: far out it counts."""
    if not math.isfinite(x):
        return x if math.isnan(x) else float(x > 0)
    at = -x * _SQRT_HALF
    lost = -x * -4.833646656726457e-17 + _product_error(-x, _SQRT_HALF, at)        # what sqrt(1/2) and the product leave out
    return 0.5 * math.erfc(at) - math.exp(-at * at) * lost / _SQRT_PI


def _exp(x: float) -> float:
    return math.exp(x) if x < 709.78 else math.inf


def _product_error(x: float, y: float, product: float) -> float:
    """x * y - product, exactly (Dekker)."""
    if abs(x) > 1e150 or abs(y) > 1e150:
        return 0.0
    (a, b), (c, d) = _halves(x), _halves(y)
    return ((a * c - product) + a * d + b * c) + b * d


def _halves(x: float) -> tuple[float, float]:
    big = 134217729.0 * x
    high = big - (big - x)
    return high, x - high


def _erfcinv(y: float) -> float:
    """x with erfc(x) = y, by Halley's steps from the quantile's rational start (or, near 0, from the tail's)."""
    if not 0 <= y <= 2:
        return math.nan
    if y in (0, 2):
        return math.inf if y == 0 else -math.inf
    if y > 1:
        return -_erfcinv(2 - y) if y > 1.5 else _erfinv(1 - y)
    if y > 0.5:
        return _erfinv(1 - y)
    tail = math.sqrt(-math.log(y * _SQRT_PI * math.sqrt(-math.log(y))))
    x = tail
    for _ in range(6):
        error = _log_erfc(x) - math.log(y)          # in the logarithm, where the tail is nearly a parabola
        slope = -2 / (_SQRT_PI * _erfcx(x))
        x -= error / slope
    return x


def _log_erfc(x: float) -> float:
    return math.log(math.erfc(x)) if x < 2 else math.log(_erfcx(x)) - x * x


def _erfinv(y: float) -> float:
    """x with erf(x) = y, for any y; Newton's steps, in the middle where erf is no tail."""
    if not -1 <= y <= 1:
        return math.nan
    if abs(y) > 0.5:
        return math.copysign(_erfcinv(1 - abs(y)), y)
    x = y * _SQRT_PI / 2
    for _ in range(8):
        error = math.erf(x) - y
        x -= error / (2 / _SQRT_PI * math.exp(-x * x) - x * error)
    return x


def _normcdfinv(p: float) -> float:
    if not 0 <= p <= 1:
        return math.nan
    return -math.sqrt(2) * _erfcinv(2 * p)


# ---- Bessel functions ---------------------------------------------------------------------------------------------------

@functools.cache
def _libm() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libm.so.6")
    except OSError:
        return ctypes.CDLL(None)        # a C library that is one with its mathematics


@functools.cache
def _of_libm(name: str, orders: int) -> Callable:
    function = getattr(_libm(), name)
    function.restype, function.argtypes = ctypes.c_double, [*[ctypes.c_int] * orders, ctypes.c_double]
    return function


def _bessel(name: str, orders: int = 0) -> Callable:
    """Of the second kind: minus infinity at 0, no number below."""

    def one(*values):
        x = float(values[-1])
        if name[0] == "y" and not x > 0:
            return -math.inf if x == 0 else math.nan
        if orders and values[0] < 0:
            return math.nan         # CUDA Math API: of negative orders there is none
        if orders and values[0] > 2 * abs(x) + 1000:
            return 0.0 if name[0] == "j" else -math.inf     # beyond the numbers; the C library would step through all orders
        return _of_libm(name, orders)(*map(int, values[:-1]), x)

    return each(one)


def _modified(order: int) -> Callable:
    """I0 or I1: by the power series, whose terms are all positive, and from 30 on by the asymptotic one."""

    def run(x):
        size = np.abs(x)
        square, near, term = np.minimum(size, 30.0)**2 / 4, np.zeros_like(size), np.ones_like(size)
        for k in range(1, 81):
            near, term = near + term, term * square / (k * (k + order))
        near = near * np.minimum(size, 30.0) / 2 if order else near
        far, term = np.ones_like(size), np.ones_like(size)
        for k in range(1, 21):
            term = -term * (4 * order * order - (2 * k - 1)**2) / (8 * k * np.maximum(size, 30.0))
            far = far + term
        half = np.exp(size / 2)
        far = np.where(np.isinf(size), np.inf, far / np.sqrt(2 * math.pi * size) * half * half)
        found = np.where(size > 30, far, np.where(np.isnan(size), np.nan, near))
        return np.copysign(found, x) if order else found

    return run


# ---- the rest -----------------------------------------------------------------------------------------------------------

def fast_divide(x, y):
    """PTX ISA, div.approx: 0 for divisors above 2^126, where an infinite number has no quotient."""
    large = (np.abs(y) > 2.0**126) & np.isfinite(y)
    return np.where(large, np.where(np.isinf(x), np.nan, np.copysign(0.0, x * np.sign(y))), x / y)


def _pi_times(x, shift: int):
    """sin(pi x), or with `shift` 1 cos(pi x): exact at multiples of a half."""
    rest = np.fmod(np.abs(x), 2.0)
    quarter = np.rint(2 * rest)
    inner = (rest - quarter / 2) * math.pi
    which = np.where(np.isfinite(quarter), quarter, 0).astype(np.int64) + shift & 3
    found = np.where(which & 1, np.cos(inner), np.sin(inner)) * np.where(which >= 2, -1.0, 1.0)
    found = found + 0.0 if shift else np.copysign(1.0, x) * np.where(rest == np.floor(rest), 0.0, found)
    return np.where(np.isfinite(x), found, np.nan)


def _round(x):
    """Halves away from zero."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1.0, x), whole) + np.copysign(0.0, x)


def _llround(x):
    whole = _round(x)
    inside = np.abs(whole) < 2.0**63
    ends = np.where(whole > 0, np.iinfo(np.int64).max, np.iinfo(np.int64).min)
    return np.where(inside, np.where(inside, whole, 0).astype(np.int64), ends)


def _ilogb(x):
    _, exponent = np.frexp(x)
    found = np.where((x == 0) | np.isnan(x), np.iinfo(np.int32).min, exponent - 1)
    return np.where(np.isinf(x), np.iinfo(np.int32).max, found)


def _logb(x):
    _, exponent = np.frexp(x)
    return np.where(x == 0, -np.inf, np.where(np.isfinite(x), exponent - 1.0, x * x))


def _norm(*values):
    return functools.reduce(np.hypot, values)


def _rcp64h(x):
    """PTX ISA, rcp.approx.ftz.f64: of the upper 32 bits, in the upper 32 bits."""
    high = (np.ascontiguousarray(x).view(np.int64) & ~0xFFFFFFFF).view(np.float64).reshape(np.shape(x))
    tiny = np.finfo(np.float64).tiny
    high = np.where(np.abs(high) < tiny, np.copysign(0.0, high), high)
    with np.errstate(all="ignore"):
        found = np.ascontiguousarray(1 / high)
    found = ((found.view(np.int64) + 0x80000000) & ~0xFFFFFFFF).view(np.float64).reshape(np.shape(x))
    return np.where(np.abs(found) < tiny, np.copysign(0.0, found), found)


FUNCTIONS: dict[str, Callable] = {
    "tgamma": each(_tgamma), "lgamma": each(math.lgamma, ValueError, otherwise=math.inf),
    "erfcx": each(_erfcx), "normcdf": each(_normcdf), "erfinv": each(_erfinv), "erfcinv": each(_erfcinv),
    "normcdfinv": each(_normcdfinv),
    "j0": _bessel("j0"), "j1": _bessel("j1"), "jn": _bessel("jn", 1), "y0": _bessel("y0"), "y1": _bessel("y1"),
    "yn": _bessel("yn", 1), "cyl_bessel_i0": _modified(0), "cyl_bessel_i1": _modified(1), "i0": _modified(0), "i1": _modified(1),
    "sinpi": lambda x: _pi_times(x, 0), "cospi": lambda x: _pi_times(x, 1),
    "rcbrt": lambda x: 1 / np.cbrt(x), "rhypot": lambda x, y: 1 / np.hypot(x, y), "norm3d": _norm, "norm4d": _norm,
    "rnorm3d": lambda *values: 1 / _norm(*values), "rnorm4d": lambda *values: 1 / _norm(*values),
    "round": _round, "llround": _llround, "ilogb": _ilogb, "logb": _logb, "ldexp": np.ldexp, "scalbn": np.ldexp,
    "saturate": lambda x: np.where(x > 0, np.minimum(x, 1.0), 0.0), "rcp64h": _rcp64h,
}
