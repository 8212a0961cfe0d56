"""Readers of matrix products: at once, by Hopper's warp groups, and by Blackwell's tensor cores.

Input: `tt.dot`, ops of `ttng` that multiply. Output: ours. For example:

    %3 = ttng.warp_group_dot %a, %b, %c {isAsync = true} : ..       async_dot %a %b %c
    ttng.tc_gen5_mma %a, %b, %d, %use, %p, %done[%p] : ..           tcgen05_mma, then tcgen05_commit %done
"""

from __future__ import annotations

from ...ir import Barrier, Scalar, Tensor
from .reading import Here, reads
from .types import layout_in

_PRECISIONS = {"0": "tf32", "1": "tf32x3", "2": "ieee", "3": "bf16x3", "4": "bf16x6"}
_I1 = Scalar("i1")


def _precision(here: Here, default: str) -> str:
    found = here.word("inputPrecision")
    return _PRECISIONS.get(found, found) or default


@reads("tt.dot")
def dot(here: Here):
    return here.op("dot", *here.operands, _precision(here, "ieee"), 0)


@reads("ttng.warp_group_dot")
def warp_group_dot(here: Here):
    a, b, acc, *use = here.operands
    if use and not (use := here.known(use[0])) == 1:
        if use is None:
            raise here.unreadable("a product whose sum starts anew by a number of the run has no meaning in the simulator")
        acc = None
    (type_, ) = here.types
    if here.word("isAsync") == "true":
        return here.op("async_dot", a, b, acc, _precision(here, "tf32"), 0, type=type_)
    pending = here.value(type_)
    return [here.op("async_dot", a, b, acc, _precision(here, "tf32"), 0, results=(pending, ), type=type_),
            here.op("async_dot_wait", 0, pending)]


@reads("ttng.warp_group_dot_wait")
def warp_group_dot_wait(here: Here):
    """Gives all its operands: sums that were pending are there behind it, and the rest is what must not be touched before."""
    ops, pending = [], here.integer("pendings")
    for place, (value, text) in enumerate(zip(here.operands, here.operand_texts, strict=True)):
        if isinstance(value.type, Tensor) and not layout_in(text).startswith("#ttg.dot_op"):
            number, kind = here.node.results[place]
            ops.append(here.op("async_dot_wait", pending, value, results=(here.reader.new(number, kind, here.node, value.name), )))
        else:
            here.stands_for(value, place)
    return ops


@reads("ttng.tc_gen5_mma")
def tc_gen5_mma(here: Here):
    """Operands: a, b, the sum, whether it counts, the predicate, then barriers and a predicate for each."""
    if here.flag("two_ctas"):
        raise here.unreadable("products of two CTAs have no meaning in the simulator")
    a, b, acc, use, predicate, *rest = here.operands
    ops = [here.op("tcgen05_mma", a, b, acc, use, predicate, results=())]
    return ops + _commits(here, rest, predicate)


@reads("ttng.tc_gen5_mma_scaled")
def tc_gen5_mma_scaled(here: Here):
    a, b, acc, a_scale, b_scale, use, predicate, *rest = here.operands
    kinds = here.text.partition("lhs = ")[2].split()[0], here.text.partition("rhs = ")[2].split()[0]
    ops = [here.op("tcgen05_mma_scaled", a, b, acc, a_scale, b_scale, *kinds, use, predicate, results=())]
    return ops + _commits(here, rest, predicate)


def _commits(here: Here, rest: list, predicate) -> list:
    """The arrivals of a product at its barriers: each where the product is made at all, and where its own predicate says so."""
    barriers = [value for value in rest if isinstance(value.type, Barrier)]
    own = [value for value in rest if value.type == _I1]
    ops = []
    for barrier, condition in zip(barriers, own or (predicate, ) * len(barriers), strict=True):
        if here.known(condition) == 1:
            condition = predicate
        elif condition is not predicate and here.known(predicate) != 1:
            both = here.value(_I1)
            ops.append(here.op("and", predicate, condition, results=(both, )))
            condition = both
        ops.append(here.op("tcgen05_commit", barrier, condition, results=(), of_dot=True))
    return ops


@reads("ttng.tc_gen5_commit")
def committed(here: Here):
    return here.op("tcgen05_commit", *here.operands[:2])


@reads("ttng.tmem_copy")
def copied(here: Here):
    source, buffer, *barrier = here.operands
    return [here.op("tmem_copy", source, buffer, results=())] + [here.op("tcgen05_commit", one, results=()) for one in barrier]
