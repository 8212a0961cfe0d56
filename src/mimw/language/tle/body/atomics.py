"""Atomics of raw bodies: every thread combines a value with an element, each in one step.

Input: the kind as MLIR names it, pointers and values. Output: Triton's atomics, for the threads that come. For example:

    combine(body, "addi", pointers, values, "memref.atomic_rmw")        atomic_rmw ADD, acquire and release; what was there before
"""

from __future__ import annotations

import enum
from typing import Any

import triton.language.core as tl

from .dialect import DIALECTS
from .types import is_float
from .values import Number

# arith.AtomicRMWKind, in MLIR's order, and which word of Triton's is it
_KINDS = {"addf": "add", "addi": "add", "assign": "xchg", "maximumf": "max", "maxnumf": "max", "maxs": "max", "maxu": "umax",
          "minimumf": "min", "minnumf": "min", "mins": "min", "minu": "umin", "mulf": None, "muli": None, "ori": "or",
          "andi": "and", "xori": "xor"}
# llvm.AtomicBinOp
_BINARY = {"xchg": "xchg", "add": "add", "sub": None, "_and": "and", "nand": None, "_or": "or", "_xor": "xor", "max": "max",
           "min": "min", "umax": "umax", "umin": "umin", "fadd": "add", "fsub": None, "fmax": "max", "fmin": "min"}

AtomicRMWKind = enum.IntEnum("AtomicRMWKind", list(_KINDS), start=0)
AtomicBinOp = enum.IntEnum("AtomicBinOp", list(_BINARY), start=0)
AtomicOrdering = enum.IntEnum("AtomicOrdering", {"not_atomic": 0, "unordered": 1, "monotonic": 2, "acquire": 4, "release": 5,
                                                 "acq_rel": 6, "seq_cst": 7})
DIALECTS["arith"].AtomicRMWKind = AtomicRMWKind
DIALECTS["llvm"].AtomicBinOp, DIALECTS["llvm"].AtomicOrdering = AtomicBinOp, AtomicOrdering


_ORDERS = {"monotonic": "relaxed", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}


def order_of(body, ordering: Any, what: str) -> str:
    """Triton's word for the order of an atomic; without one, acquire and release."""
    name = "acq_rel" if ordering is None else getattr(ordering, "name", None) or str(getattr(ordering, "value", ordering))
    name = next((one.name for one in AtomicOrdering if str(one.value) == name), name)
    if name not in _ORDERS:
        body.fail(f"{what}: raw bodies have no atomics of the order {name}; there are {', '.join(_ORDERS)}")
    return _ORDERS[name]


def combine(body, kind: Any, pointers: tl.tensor, value: Number, what: str, order: str = "acq_rel") -> Number:
    """Record an atomic; give each active thread the value at its pointer from before that thread combined its own value with
    it."""
    threads = body.threads
    name = kind.name if isinstance(kind, enum.Enum) else str(getattr(kind, "value", kind))
    word = {**{one.strip("_"): to for one, to in _BINARY.items()}, **_KINDS}.get(name.strip("_"))
    if word is None:
        offered = [one for one, to in (_KINDS if what.startswith("memref") else _BINARY).items() if to]
        body.fail(f"{what}: {name!r} is no atomic that raw bodies have; there are {', '.join(offered)}")
    operand = threads.spread(value).tensor
    if word.startswith("u"):
        unsigned = getattr(tl, f"uint{value.tensor.dtype.primitive_bitwidth}")
        pointers = threads.semantic.bitcast(pointers, tl.pointer_type(unsigned, pointers.dtype.address_space))
        operand = threads.semantic.bitcast(operand, unsigned)
        word = word[1:]
    if is_float(value.type) and word in ("and", "or", "xor"):
        body.fail(f"{what}: {name!r} is for integers, got {value.type}")
    mask = None if threads.mask is None else threads.spread(threads.mask).tensor
    found = getattr(tl, f"atomic_{word}")(pointers, operand, mask=mask, sem=order, _semantic=threads.semantic)
    body.settle()
    return threads.value(threads.semantic.bitcast(found, value.tensor.dtype), value.type)
