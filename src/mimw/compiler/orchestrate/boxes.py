"""Loads and stores by pointers become loads and stores by descriptors that the host makes: plain program to plain program.

Input: a program that a recorder made, and its target. Output: `Lifted`: the program with a parameter for each descriptor behind its
own, what the host makes of the arguments, and a remark for each access. For example:

    x = tl.load(a + rows[:, None] * K + ks[None, :], mask=ks[None, :] < K - k * 64, other=0.0)
    becomes     x = a_desc.load([128 * pid, 64 * k])        a_desc = TensorDescriptor(a, [2^31 - 16, K], [K, 1], [128, 64])

The arithmetic that made the pointers stays where a loop carries it, and nothing uses it: tasks take what they need. `box_host`
writes the host's part as Python.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ...errors import ArgumentError
from ...ir import Op, Program, Site
from ...target import Target
from ..analysis.address_forms import Within
from ..analysis.pointer_boxes import box_of, is_tile_access, ranges_of
from ..analysis.remarks import Remark
from ..analysis.tensor_boxes import Box, Refused
from ..analysis.uses import uses_of
from ..passes.drop_unused import drop_unused
from .box_rewrite import CACHED, Descriptors, HostDescriptor, rewritten
from .memory_order import apart, out_of_order
from .one_address import one_address


@dataclass(frozen=True)
class Lifted:
    """The result of `lifted`. `plain` is the program that went in, to whose values the polynomials refer; `apart` are pairs of
    arguments that may share no byte, with the line of the box; `assumed` is what has to hold for loads of one address."""

    program: Program
    plain: Program
    descriptors: tuple[HostDescriptor, ...]
    apart: tuple[tuple[str, str, Site], ...]
    remarks: tuple[Remark, ...]
    assumed: tuple[Within, ...] = ()


def lifted(program: Program, target: Target, loads: str = "products", stores: bool = True,
           unsigned: Collection[str] = (), assume: bool = False, tiles: bool = False) -> Lifted:
    """The program with boxes as accesses by descriptor.

    args:      program   as recorded, before any pass
               loads     "products": those that a product takes, in loops or as they are; "all"; or "none"
               stores    whether stores are lifted, too
               unsigned  names of the arguments whose elements are unsigned integers, as the signature of the launch has them
                         ("*u8"): a program does not say it, and a descriptor's loads have that sign in text. Those that an op
                         of the program takes as unsigned are so besides
               assume    take boxes as well that are ones only where masks cut nothing off and rows do not wrap around
                         (`box_of`): the host asks, so that fewer launches take the result
               tiles     the program is to be put into a loop over tiles: all of it is in a loop then
    returns:   `Lifted`; its program is the same object if nothing is lifted, and a remark says why
    errors:    ArgumentError for any other `loads`
    """
    if loads not in ("products", "all", "none"):
        raise ArgumentError(f'loads is "products", "all" or "none"; got {loads!r}')
    boxes, remarks, pairs = {}, [], {}
    for op in candidates(program, loads, stores, tiles):
        found: Box | Refused = why_none(program, target) or box_of(program, op, assume)
        if isinstance(found, Box):
            found = out_of_order(program, op, found) or found
        if isinstance(found, Refused):
            remarks.append(Remark(f"the {_word(op)} stays one by pointers: {found.reason}.", op.site))
            continue
        boxes[op] = found
        pairs |= {pair: op.site for pair in apart(program, op, found) if pair not in pairs and pair[::-1] not in pairs}
        remarks.append(Remark(_said(program, op, found), op.site))
    single = {op: found for op in (program.walk() if loads != "none" else ())
              if uses_of(program).loops(op) and (found := one_address(program, op, assume)) is not None}
    remarks += [Remark(f"all elements of the load are one of {found.base.name}, which is loaded once.", op.site)
                for op, found in single.items()]
    if not boxes and not single:
        return Lifted(program, program, (), (), tuple(remarks))
    made = Descriptors(program, boxes, unsigned)
    now = drop_unused(rewritten(program, boxes, made, single))
    assumed = tuple(dict.fromkeys(one for found in single.values() for one in found.assumed))
    return Lifted(now, program, made.all(), tuple((*pair, site) for pair, site in pairs.items()), tuple(remarks), assumed)


def candidates(program: Program, loads: str, stores: bool, tiles: bool = False) -> Iterator[Op]:
    """Loads and stores of tiles of two axes that are asked for, in program order."""
    uses, wanted = uses_of(program), for_products(program) if loads == "products" else None
    for op in program.where(lambda row: row.loads or row.stores):
        if not is_tile_access(op) or len(op.pointer.type.shape) != 2:
            continue
        if op.row.stores and stores or op.row.loads and loads == "all" or wanted is not None and op in wanted and (
                tiles or uses.loops(op) or all(use.op.name == "dot" for use in uses.of(op.result))):
            yield op


def for_products(program: Program) -> set[Op]:
    """The ops whose results reach a product, through arithmetic and within the rounds of loops."""
    uses, found = uses_of(program), set()
    todo = [value for op in program.where(lambda row: row.cost == "dot") for value in (op.a, op.b)]
    while todo:
        op = uses.definition.get(todo.pop())
        if op is not None and op not in found:
            found.add(op)
            todo += op.operands if not op.blocks else ()
    return found


def why_none(program: Program, target: Target) -> Refused | None:
    """The reason for which nothing in a program is lifted; None if there is none."""
    if not target.has("tma"):
        return Refused(f"{target} has no TMA", program.site)
    ours = next((op for op in program.where(lambda row: row.ours) if "observer" not in op.row.traits), None)
    return Refused(f"the kernel calls functions of mimw, as on line {ours.site.line}", ours.site) if ours is not None else None


def _word(op: Op) -> str:
    return "load" if op.row.loads else "store"


def _said(program: Program, op: Op, box: Box) -> str:
    """A box, in a sentence."""
    shown = ranges_of(program).shown
    extents = ["any" if bound is None else shown(extent) for extent, bound in zip(box.shape, box.bounds)]
    proofs = sorted({bound.site.line for bound in box.bounds if bound is not None})
    mask = f", by the mask on line{'s' * (len(proofs) > 1)} {', '.join(map(str, proofs))}" if proofs else ", without a mask"
    hint = "; its cache hint is dropped" if tuple(map(str, op.cache_policy or CACHED)) != CACHED else ""
    block, place = " x ".join(map(str, box.block)), ", ".join(map(shown, box.offsets))
    return (f"the {_word(op)} is a block of {box.base.name}: {block} at [{place}] of [{', '.join(extents)}]{mask}"
            f"{', turned' if box.turned else ''}{hint}.")
