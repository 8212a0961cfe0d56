"""Whether all sums of a simulated run are exact in every order, so that a GPU has to give the simulator's numbers to the last bit.

Input: a run of the plain kernel, of which a `Watch` sees each op before it happens. Output: the first op that may round. For
example:

    watch = Watch(fp8=False)
    run(launch.program, launch.grid, launch.values, hooks=Hooks(observer=watch))
    watch.rounds            "" or "line 12: products add up to 2^23 units"

What rounds element by element alone, a cast, a comparison, a maximum, gives every compiler's kernel the same bits from the same
operands. A sum depends on the order, and on how many bits the adder keeps: tensor cores align the products of a step to the
largest one and cut off what is below. So all operands of sums have to be multiples of one unit, and the sum of their magnitudes
at most `MOST` units: then each partial sum in every order is a number that the adder holds. Products of fp8 are added with 14
bits on Hopper, of all others with 24. `exp2` is exact of whole numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mimw.compiler.triton_port.interpreter import round_f32_to_tf32
from mimw.ir import Op

MOST, MOST_FP8 = 2.0**22, 2.0**12       # units: of two such sums, one may still begin with the other


class Watch:
    """An observer of a run (`simulator.machine.hooks`); `rounds` is "" as long as nothing has rounded. `fp8`: the program
    multiplies numbers of fp8."""

    def __init__(self, fp8: bool):
        self.rounds, self.most = "", MOST_FP8 if fp8 else MOST

    def does(self, task: Any, op: Op) -> None:
        look = None if self.rounds else _LOOKS.get(op.name)
        why = look(self, task, op) if look else ""
        if why:
            self.rounds = f"line {op.site.line}: {why}"

    def waits(self, task: Any, wait: Any) -> None:
        pass

    def lands(self, operation: Any) -> None:
        pass

    def completes(self, barrier: Any, task: Any, op: Op) -> None:
        pass

    def sum(self, magnitude: float, unit: float) -> str:
        """What is wrong with a sum of so much, of multiples of a unit."""
        if not np.isfinite(magnitude):
            return "what is added is not finite"
        return "" if magnitude <= self.most * unit else f"{op_units(magnitude, unit)} units are added"


def op_units(magnitude: float, unit: float) -> str:
    """A number of units, as people read it."""
    return f"2^{np.log2(magnitude / unit):.0f}"


def unit(values: np.ndarray) -> float:
    """The largest power of two of which all values are multiples; infinite if all are zero."""
    mantissas, exponents = np.frexp(values[(values != 0) & np.isfinite(values)])
    if not mantissas.size:
        return np.inf
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    return float(np.ldexp((whole & -whole).astype(np.float64), exponents - 53).min())


def _wide(task: Any, value: Any, op: Op) -> np.ndarray:
    return np.atleast_1d(np.asarray(task.read(value, op)).astype(np.float64))


def _is_float(task: Any, value: Any, op: Op) -> bool:
    return np.asarray(task.read(value, op)).dtype.kind not in "iub"


def _product(watch: Watch, task: Any, op: Op) -> str:
    if not _is_float(task, op.a, op):
        return ""
    a, b, acc = (_wide(task, value, op) for value in (op.a, op.b, op.acc))
    operands = [np.asarray(task.read(value, op)) for value in (op.a, op.b)]
    if any(one.dtype == np.float32 and (round_f32_to_tf32(one) != one).any() for one in operands):
        return "an operand is rounded to tf32"
    return watch.sum(float((np.abs(acc) + np.abs(a) @ np.abs(b)).max()), min(unit(a) * unit(b), unit(acc)))


def _sum(watch: Watch, task: Any, op: Op) -> str:
    x, y = _wide(task, op.lhs, op), _wide(task, op.rhs, op)
    return watch.sum(float((np.abs(x) + np.abs(y)).max(initial=0)), min(unit(x), unit(y)))


def _times(watch: Watch, task: Any, op: Op) -> str:
    kind = np.asarray(task.read(op.lhs, op)).dtype
    exact = _wide(task, op.lhs, op) * _wide(task, op.rhs, op)
    return "" if (exact.astype(kind).astype(np.float64) == exact).all() else "a product is rounded"


def _power(watch: Watch, task: Any, op: Op) -> str:
    x = _wide(task, op.value, op)
    return "" if (np.floor(x) == x).all() and (np.abs(x) <= 126).all() else "2 to the power of a fraction"


def _reduced(watch: Watch, task: Any, op: Op) -> str:
    if not any(inner.name == "fadd" for block in op.blocks for inner in block.ops):
        return ""
    x = _wide(task, op.values[0], op)
    return watch.sum(float(np.abs(x).sum(op.axis).max()), unit(x))


def _unknown(watch: Watch, task: Any, op: Op) -> str:
    return f"nobody looks at {op.name}"


_LOOKS = {"dot": _product, "fadd": _sum, "fsub": _sum, "fmul": _times, "exp2": _power, "reduce": _reduced,
          **dict.fromkeys(("fma", "fdiv", "frem", "exp", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "erf", "scan",
                           "atomic_rmw"), _unknown)}
