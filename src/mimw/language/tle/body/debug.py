"""The helpers `vprintf` and `vassert`: a line from each thread, and a condition that has to hold in each.

Input: a C format, and numbers of a body. Output: the op `print_lanes`, and an `assert`. For example:

    vprintf("Hello from bidx %d, tidx %d\\n", bidx, tidx)       a line for each thread that comes
    vassert(arith.cmpi(slt, i, n), "i = %d is past the end\\n", i)      the line of each thread where it is false, then the kernel
    ends
"""

from __future__ import annotations

import re
from typing import Any

from ....errors import UnknownSymbolError
from .dialect import DIALECTS, op
from .threads import I1, I32, I64
from .types import FloatType, PointerType, is_float, width
from .values import Number

DIALECTS["mlir"].UnknownSymbolError = UnknownSymbolError
_CONVERSION = re.compile(r"%(?:%|[-+ #0]*\d*(?:\.\d+)?(hh|h|ll|l|z)?([diouxXcfFeEgGaAp]))")


@op("mlir")
def vprintf(body, fmt, *args):
    """Print a line of each thread that comes, as C's printf does; the order of threads is not fixed."""
    _print(body, "vprintf", fmt, args)


@op("mlir")
def vassert(body, cond, fmt="", *args):
    """End the kernel unless the condition holds in each thread that comes; those where it does not print the line before."""
    threads = body.threads
    holds = threads.number(cond, I1, "vassert: the condition")
    if holds.type != I1:
        body.fail(f"vassert: the condition must be an i1, got {holds.type}")
    fails = threads.inverse(holds)
    fails = fails if threads.mask is None else threads.both(threads.mask, fails)
    if fmt:
        with threads.only(fails):
            _print(body, "vassert", fmt, args)
    message = str(fmt).rstrip("\n") or "vassert"
    threads.builder.create_assert(threads.spread(threads.inverse(fails)).handle, message)


def _print(body, what: str, fmt: Any, args: tuple) -> None:
    """The op `print_lanes`: numbers as C's varargs take them, i32, i64 and f64."""
    if not isinstance(fmt, str):
        body.fail(f"{what}: the format must be a text, got {fmt!r}")
    kinds = [found for found in _CONVERSION.finditer(fmt) if found[0] != "%%"]
    if fmt.count("%") != sum(found[0].count("%") for found in _CONVERSION.finditer(fmt)):
        body.fail(f"{what}: the format {fmt!r} has a conversion that raw bodies do not have", "%d %u %x %lld %f %g %c %p are there")
    if len(kinds) != len(args):
        body.fail(f"{what}: the format {fmt!r} wants {len(kinds)} values, {len(args)} are given")
    threads = body.threads
    values = [_vararg(body, what, found, value) for found, value in zip(kinds, args)]
    mask = None if threads.mask is None else threads.spread(threads.mask).handle
    threads.builder.record("print_lanes", threads.lane.handle, fmt, tuple(threads.spread(value).handle for value in values), mask)


def _vararg(body, what: str, conversion: re.Match, value: Any) -> Number:
    threads, number = body.threads, body.threads.number(value, None, f"{what}: a value")
    length, letter = conversion[1], conversion[2]
    if isinstance(number.type, PointerType):
        return threads.cast("ptr_to_int", number, I64)
    if is_float(number.type) != (letter in "fFeEgGaA"):
        body.fail(f"{what}: {conversion[0]} does not print {number.type}")
    if is_float(number.type):
        return number if width(number.type) == 64 else threads.cast("fp_ext", number, FloatType("f64"))
    wanted = I64 if length in ("l", "ll", "z") or letter == "p" else I32
    if width(number.type) > width(wanted):
        return threads.resized(number, I64)
    return threads.resized(number, wanted, letter in "di" and number.type != I1)
