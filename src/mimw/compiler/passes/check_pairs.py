"""Products of pairs of CTAs beside those of one CTA, pairs in clusters that have none, and parts of 64 rows in two places.

Input: a program. Output: nothing, or a `KernelError` with the author's lines. For example:

    async_dot(a, b, acc, two_ctas=True); async_dot(a, b, other)      refused: "Expecting all dot ops to be 2cta ..."

PTX ISA, tcgen05 instructions: all that a kernel executes have one `.cta_group`. A pair are the CTAs with ranks 2 i and 2 i + 1 of a
cluster.
"""

from __future__ import annotations

from ...errors import KernelError, NotYet
from ...ir import Buffer, Op, Program, Value
from ...ir.flow import all_carries
from ...ir.tensor_memory import lying
from ...target import Target
from ..constraints.views import find_views


def check_pairs(program: Program, target: Target) -> None:
    """Raise `KernelError` for a pair in clusters of an odd size, for the first product of one CTA beside one of a pair, and for
    parts of buffers that cannot be used so."""
    paired = program.where(lambda row: not row.traits.isdisjoint(("pairs", "pair_load")))
    if not paired:
        return
    if program.cluster_size % 2:
        launched = f"in clusters of {program.cluster}" if program.cluster_size > 1 else "without a cluster"
        raise KernelError(f"{paired[0].row.word} runs on a pair of CTAs, and this kernel is launched {launched}: the CTA with rank "
                          f"{program.cluster_size - 1} is in no pair.", paired[0].site,
                          hint="launch with ctas_per_cga=(2, 1, 1), or another shape of an even number of CTAs.")
    if program.in_pairs:
        _check_parts(program)
    of_pair = next((op for op in paired if "dot" in op.row.traits), None)
    if of_pair is None:
        return
    for op in program.walk():
        if "dot" in op.row.traits and "pairs" not in op.row.traits:
            raise KernelError("Expecting all dot ops to be 2cta together or 1cta together: this product is one CTA's, and the one "
                              f"at {of_pair.site} a pair's.", op.site, of_pair.site,
                              hint="give both two_ctas=True, or neither; tl.dot in such a kernel is one CTA's, too.")


def _check_parts(program: Program) -> None:
    """Raise for parts of buffers of 64 rows, of which each row has its halves in lanes of their own: a part lies in one half, and
    no product adds up into it."""
    parts: dict[Value, Op] = {}
    doubled = _doubled(program)
    for op in program.walk():
        viewed = getattr(op, op.row.view_of) if op.row.view_of and op.results else None
        if viewed in parts:
            parts[op.result] = parts[viewed]
        elif (op.name == "buffer_slice" and viewed not in doubled and _halved(viewed.type)
              and op.result.type.shape != viewed.type.shape):
            parts[op.result] = op
            _check_part(op)
        if {"dot", "pairs"} <= op.row.traits and op.acc in parts:
            raise KernelError("a product of a pair of CTAs adds up into both halves of 64 rows, left and right, and some columns "
                              "of a buffer lie in one of them.", op.site, parts[op.acc].site,
                              hint="allocate a buffer of that width for it, or give each CTA 128 rows")
    for carry in all_carries(program):
        if carry.source in parts:
            raise NotYet("not yet: some columns of 64 rows, in a kernel of pairs of CTAs, that an `if` or a loop passes on",
                         parts[carry.source].site, hint="pass the whole buffer on, and cut it where it is used")


def _doubled(program: Program) -> set[Value]:
    """Buffers of 64 rows that lie twice, whose parts are as any others."""
    allocs = {op.result for op in program.named("local_alloc") if "doubled" in op.attrs}
    views = find_views(program) if allocs else {}
    return {value for value, found in views.items() if any(view.alloc in allocs for view in found)}


def _halved(type_: Buffer) -> bool:
    return type_.space == "tmem" and lying(type_, True) != type_


def _check_part(op: Op) -> None:
    """Raise for a slice of columns of both halves."""
    first, half = op.offsets[1], op.buffer.type.shape[1] // 2
    last = first + op.result.type.shape[1] - 1
    if first // half != last // half:
        raise KernelError(f"columns {first} to {last} of 64 rows of {2 * half}, in a kernel of pairs of CTAs: the left half of a "
                          f"row lies in one lane, the right half, from column {half} on, in another.", op.site,
                          hint="take columns of one half, or the whole buffer, or give each CTA 128 rows")
