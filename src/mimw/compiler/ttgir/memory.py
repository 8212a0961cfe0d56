"""Readers of accesses to global memory by pointers, and of printing.

Input: loads, stores and atomics of the dialect `tt`, buffer accesses of `amdg`. Output: ours. For example:

    %5 = tt.load %3, %4, %cst : tensor<128x!tt.ptr<f16>, #blocked>      masked_load %3 %4 %cst
"""

from __future__ import annotations

import re
from typing import Any

from .cta_ops import by_first, leads, meeting, split_of
from .reading import Here, reads

KINDS = {"EXCH": "XCHG"}
ORDERS = {"relaxed": "RELAXED", "acquire": "ACQUIRE", "release": "RELEASE", "acq_rel": "ACQUIRE_RELEASE"}
SCOPES = {"cta": "CTA", "gpu": "GPU", "sys": "SYSTEM"}


@reads("tt.load")
def load(here: Here):
    pointer, *masked = here.operands
    if not masked:
        return here.op("load", pointer, None, False)
    return here.op("masked_load", pointer, masked[0], masked[1] if len(masked) > 1 else None, None, False)


@reads("tt.store")
def store(here: Here):
    """Of several CTAs that have the same elements the first stores them."""
    op = here.op("store" if len(here.operands) == 2 else "masked_store", *here.operands)
    if not (same := _same(here)):
        return op
    ops, first = leads(here, same)
    return [*ops, here.only_if(first, op)]


def _same(here: Here) -> int:
    """The bits of a rank in which CTAs with the same pointers differ."""
    return split_of(here, here.operand_texts[0]).same if here.reader.rank_bits else 0


def _once(here: Here, name: str, *args: Any, order: str, waits: bool = False):
    """An atomic, by the first of several CTAs that have the same elements. What Triton's lowering lets the cluster meet for: all
    come before one that releases, and behind one that acquires or `waits`; there all learn what the first has found, if anybody
    asks."""
    if not here.reader.rank_bits:
        return here.op(name, *args)
    ops, met = by_first(here, lambda results: here.op(name, *args, results=results), _same(here))
    before = [meeting(here)] if "RELEASE" in order else []
    behind = [meeting(here)] if ("ACQUIRE" in order or waits) and not met else []
    return [*before, *ops, *behind]


@reads("tt.atomic_rmw")
def atomic(here: Here):
    """`tt.atomic_rmw fadd, acq_rel, gpu, %p, %v, %m`: kind, order, scope, pointer, value, mask."""
    kind, (order, scope) = re.search(r"tt\.atomic_rmw (\w+),", here.text)[1].upper(), _order_and_scope(here, 1)
    mask = here.operands[2] if len(here.operands) > 2 else None
    return _once(here, "atomic_rmw", KINDS.get(kind, kind), *here.operands[:2], mask, order, scope, order=order)


@reads("tt.atomic_cas")
def compared(here: Here):
    order, scope = _order_and_scope(here, 0)
    return _once(here, "atomic_cas", *here.operands, order, scope, order=order)


@reads("tt.atomic_load")
def atomic_load(here: Here):
    (pointer, *mask), (order, scope) = here.operands, _order_and_scope(here, 0)
    return _once(here, "atomic_load", pointer, mask[0] if mask else None, order, scope, order=order)


@reads("tt.atomic_store")
def atomic_store(here: Here):
    (pointer, value, *mask), (order, scope) = here.operands, _order_and_scope(here, 0)
    return _once(here, "atomic_store", pointer, value, mask[0] if mask else None, order, scope, order=order)


@reads("tt.atomic_poll")
def polled(here: Here):
    (pointer, expected, *timeout), (order, scope) = here.operands, _order_and_scope(here, 0)
    return _once(here, "atomic_poll", pointer, expected, timeout[0] if timeout else None, order, scope, order=order, waits=True)


@reads("tt.grid_dependency_wait", "tt.grid_dependency_launch_dependents")
def dependent(here: Here):
    return here.op(here.name.removeprefix("tt."))


@reads("llvm.intr.assume")
def assumed(here: Here):
    """A condition for the compiler."""


def _order_and_scope(here: Here, before: int) -> tuple[str, str]:
    words = re.search(r"tt\.atomic_\w+ ((?:\w+, )+)", here.text)[1].split(", ")
    return ORDERS[words[before]], SCOPES[words[before + 1]]


@reads("tt.print")
def printed(here: Here):
    return here.op("print", here.string(), "hex = true" in here.text, tuple(here.operands), None)


@reads("tt.assert")
def asserted(here: Here):
    return here.op("assert", here.operands[0], here.string())
