"""What a score_mod's functions call in a kernel, beside Triton's own words.

Input: tiles. Output: tiles. For example:

    tanh(x)                         to the last bits of fp32, on any GPU
    floordiv(a, d), mod(a, d)       rounded down, and with the divisor's sign, as Python and torch have it; Triton's own have C's
"""

import triton.language as tl

import mimw

LOG2_E = tl.constexpr(1.4426950408889634)
SMALL = tl.constexpr(0.25)     # below it 1 - 2 / (1 + exp(2 x)) would lose bits, and five terms of the series lose none


@mimw.jit
def tanh(x):
    """The hyperbolic tangent."""
    square = x * x
    series = x + x * square * (-0.3333333333 + square * (0.1333333333 + square * (-0.0539682540 + square * 0.0218694885)))
    return tl.where(tl.abs(x) < SMALL, series, 1 - 2 / (1 + tl.exp2(x * (2 * LOG2_E))))


@mimw.jit
def sigmoid(x):
    """1 / (1 + exp(-x))."""
    return 1 / (1 + tl.exp2(x * -LOG2_E))


@mimw.jit
def smaller(x, y):
    """The smaller of two floats; NaN where one is."""
    return tl.where((x < y) | (x != x), x, y)


@mimw.jit
def larger(x, y):
    """The larger of two floats; NaN where one is."""
    return tl.where((y < x) | (x != x), x, y)


@mimw.jit
def floordiv(a, d):
    """a / d rounded down."""
    rest = a % d
    return a // d - tl.where((rest != 0) & ((rest < 0) != (d < 0)), 1, 0)


@mimw.jit
def mod(a, d):
    """The rest of a beyond a multiple of d, with the sign of d."""
    rest = a % d
    return rest + tl.where((rest != 0) & ((rest < 0) != (d < 0)), d, 0)


@mimw.jit
def nonzero(d):
    """The divisor, where it is none, beyond the last query or key, 1."""
    return tl.where(d == 0, 1, d)


@mimw.jit
def near(x, score, HOPPER: tl.constexpr):
    """Elements that were read, x, which broadcasts to the score's shape, lying in registers as the score does.

    The compiler lays what is loaded as loads are best, and computes with it there; what comes of two such tiles it would move as a
    whole, through shared memory that these kernels have not. Together with a score in one instruction, which takes no time, each is
    moved by itself, before it is broadcast."""
    if HOPPER:
        x = tl.broadcast_to(x, score.shape)
        if x.dtype == tl.float32:
            return tl.inline_asm_elementwise("mov.b32 $0, $1;", "=f,f,f", [x, score], tl.float32, True, 1)
        elif x.dtype == tl.int32:
            return tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r,f", [x, score], tl.int32, True, 1)
        else:
            return tl.inline_asm_elementwise("mov.b64 $0, $1;", "=l,l,f", [x, score], tl.int64, True, 1)
    else:
        return x


@mimw.jit
def placed(index, extent):
    """An index from the end, as a negative one is, from the beginning."""
    return tl.where(index < 0, index + extent, index)


@mimw.jit
def inside(index, extent):
    """True for an index of an element that there is."""
    return (index >= 0) & (index < extent)
