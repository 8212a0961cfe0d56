"""Readers of matrix products: at once, by Hopper's warp groups, and by Blackwell's tensor cores.

Input: `tt.dot`, ops of `ttng` that multiply. Output: ours. For example:

    %3 = ttng.warp_group_dot %a, %b, %c {isAsync = true} : ..       async_dot %a %b %c
    ttng.tc_gen5_mma %a, %b, %d, %use, %p, %done[%p] : ..           tcgen05_mma, then tcgen05_commit %done
"""

from __future__ import annotations

import re

from ...ir import Barrier, Block, Buffer, Op, Scalar, Tensor, Value
from .cta_ops import both, check_same, leads, ranks_beside, split_of, within
from .reading import Here, reads
from .reshaped import is_turned
from .types import layout_in

_PRECISIONS = {"0": "tf32", "1": "tf32x3", "2": "ieee", "3": "bf16x3", "4": "bf16x6"}
_I1 = Scalar("i1")
_SCALED = re.compile(r"dot_scaled %\S+( scale %\S+)?, %[^\s,]+( scale %[^\s,]+)?, \S+ lhs = (\w+) rhs = (\w+)")


def _precision(here: Here, default: str) -> str:
    found = here.word("inputPrecision")
    return _PRECISIONS.get(found, found) or default


def _check_parts(here: Here, by_pairs: bool = False, scales: tuple[str | None, ...] = ()) -> None:
    """Refuse a product of which a CTA lacks rows of A or columns of B, or their `scales` (types of both, None for none), which
    Triton does not compile either: each has those of its sums; a pair, of whose sums each CTA has rows, halves the columns."""
    if not here.reader.rank_bits:
        return
    a, b, acc = (split_of(here, text) for text in here.operand_texts[:3])
    rank = len(acc.shape)
    rows, columns = rank - 2, rank - 1
    wanted_a = tuple(bit if bit and bit[0] != columns else None for bit in acc.bits)
    wanted_b = tuple(bit if bit and bit[0] != rows else None for bit in acc.bits)
    if by_pairs:
        other = sum(1 for bit in wanted_b if bit)       # the pair's bit is below those that sums are divided by
        wanted_b = ((columns, b.shape[columns].bit_length() - 2 - other), *wanted_b[1:])
    if a.bits != wanted_a or b.bits != wanted_b or by_pairs and (not acc.bits[0] or acc.bits[0][0] != rows) or any(
            split_of(here, text).bits != tuple(bit and (0, bit[1]) if bit and bit[0] == axis else None for bit in acc.bits)
            for text, axis in zip(scales, (rows, columns)) if text):
        raise here.unreadable("a product of parts that lie in other CTAs than its sums is not read")


@reads("tt.dot")
def dot(here: Here):
    _check_parts(here)
    return here.op("dot", *here.operands, _precision(here, "ieee"), 0)


@reads("tt.dot_scaled")
def dot_scaled(here: Here):
    """Operands: a, b, the sum, the scales of a, those of b; scales may be missing, which the text says."""
    found = _SCALED.search(here.text)
    if found is None:
        raise here.unreadable("a scaled product in another form than Triton prints")
    a, b, acc, *scales = here.operands
    a_scale = scales.pop(0) if found[1] else None
    b_scale = scales.pop(0) if found[2] else None
    texts = dict(zip(here.operands, here.operand_texts))
    _check_parts(here, scales=(texts.get(a_scale), texts.get(b_scale)))
    return here.op("dot_scaled", a, a_scale, found[3], b, b_scale, found[4], here.word("fastMath") == "true",
                   here.word("lhs_k_pack", "true") == "true", here.word("rhs_k_pack", "true") == "true", acc)


@reads("ttng.warp_group_dot")
def warp_group_dot(here: Here):
    _check_parts(here)
    a, b, acc, *use = here.operands
    (type_, ) = here.types
    is_async = here.word("isAsync") == "true"
    ops, product = _product(here, a, b, acc, use[0] if use else None, here.results[0] if is_async else here.value(type_))
    return ops if is_async else [*ops, here.op("async_dot_wait", 0, product)]


def _product(here: Here, a, b, acc, use, product) -> tuple[list, Value]:
    """The ops that start a product, which counts `acc` if the number `use` is 1, and the product. A number of the run chooses
    between two products: a sum that is still computed cannot be chosen between."""
    (type_, ), known = here.types, None if use is None else here.known(use)

    def one(acc, result) -> Op:
        return here.op("async_dot", a, b, acc, _precision(here, "tf32"), 0, results=(result, ), type=type_, finished=True)

    if use is None or known is not None:
        return [one(acc if known is None or known else None, product)], product
    blocks = []
    for start in (acc, None):
        result = here.value(type_)
        blocks.append(Block((), (one(start, result), here.op("yield", (result, ), results=()))))
    return [here.op("if", use, (type_, ), results=(product, ), blocks=tuple(blocks))], product


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
    a, b, acc, use, predicate, *rest = here.operands
    _check_parts(here, by_pairs := here.flag("two_ctas"))
    if not by_pairs:
        return [here.op("tcgen05_mma", a, b, acc, use, predicate, results=(), finished=True), *_commits(here, predicate, rest)]
    ops, predicate, odd = _of_even(here, predicate)
    return [*ops, here.op("tcgen05_mma_pair", a, b, acc, use, predicate, odd, results=(), finished=True),
            *_commits(here, predicate, rest)]


@reads("ttng.tc_gen5_mma_scaled", any_order=True)
def tc_gen5_mma_scaled(here: Here):
    if any(is_turned(here, operand) for operand in range(3)):
        raise here.unreadable("a product of a buffer of another shape, which was turned before, is not read")
    a, b, acc, a_scale, b_scale, use, predicate, *rest = here.operands
    _check_parts(here, by_pairs := here.flag("two_ctas"), tuple(here.operand_texts[3:5]))
    args = a, b, acc, a_scale, b_scale, here.word("lhs"), here.word("rhs"), use
    if not by_pairs:
        return [here.op("tcgen05_mma_scaled", *args, predicate, results=(), finished=True), *_commits(here, predicate, rest)]
    ops, predicate, odd = _of_even(here, predicate)
    return [*ops, here.op("tcgen05_mma_pair_scaled", *args, predicate, odd, results=(), finished=True),
            *_commits(here, predicate, rest)]


def _of_even(here: Here, predicate: Value | None) -> tuple[list[Op], Value, Value]:
    """The ops that give a predicate of the even CTA of a pair, and the rank of the other CTA."""
    ops, even = leads(here, 1)
    more, predicate = both(here, predicate, even)
    beside, (odd, ) = ranks_beside(here, {1})
    return [*ops, *more, *beside], predicate, odd


def _commits(here: Here, predicate, rest: list) -> list:
    """A commit for each barrier, where its own predicate and the product's hold: Triton branches around both."""
    ops = []
    barriers = [value for value in rest if isinstance(value.type, Barrier)]
    predicates = [value for value in rest if value.type == _I1] or [predicate] * len(barriers)
    for barrier, own in zip(barriers, predicates, strict=True):
        when = here.value(_I1)
        ops += [here.op("and", predicate, own, results=(when, )),
                *_commit(here, barrier, when, here.operands[:2] if here.flag("multicast") else [])]
    return ops


@reads("ttng.tc_gen5_commit")
def committed(here: Here):
    """Behind barrier and predicate stand the operands that CTAs share whose products are awaited."""
    barrier, *rest = here.operands
    predicate = next((value for value in rest if value.type == _I1), None)
    if not here.reader.rank_bits:
        return here.op("tcgen05_commit", barrier, predicate)
    ops, even = leads(here, int(here.reader.notes["two_ctas"]))
    more, predicate = both(here, predicate, even)
    return [*ops, *more, *_commit(here, barrier, predicate, [one for one in rest if isinstance(one.type, Buffer)])]


def _commit(here: Here, barrier, predicate, operands: list) -> list:
    """A commit that arrives in this CTA, in both of a pair, and, if the product's operands are the same in other CTAs, in those
    that have one of them: nobody may write there before the product is done."""
    if not here.reader.rank_bits:
        return [here.op("tcgen05_commit", barrier, predicate, results=(), of_dot=True)]
    texts = dict(zip(here.operands, here.operand_texts))
    pair = int(here.reader.notes["two_ctas"])
    masks = set.union(within(pair), *(within(split_of(here, texts[one]).same | pair) for one in operands))
    if masks == {0}:
        return [here.op("tcgen05_commit", barrier, predicate, results=(), of_dot=True)]
    ops, targets = ranks_beside(here, masks)
    return [*ops, here.op("tcgen05_commit_pair", barrier, targets, predicate, results=())]


@reads("ttng.tmem_copy", any_order=True)
def copied(here: Here):
    """In a module with products of pairs the even CTA copies in both: `tcgen05.cp.cta_group::2`."""
    source, buffer, *barrier = here.operands
    check_same(here, *here.operand_texts[:2])
    how = {"finished": True} | ({"in_order": True} if is_turned(here, 0) else {})
    if not here.reader.rank_bits or not here.reader.notes["two_ctas"]:
        return [here.op("tmem_copy", source, buffer, results=(), **how),
                *(one for barrier in barrier for one in _commit(here, barrier, None, []))]
    ops, even, odd = _of_even(here, None)
    return [*ops, here.op("tmem_copy_pair", source, buffer, even, odd, results=(), **how),
            *(one for barrier in barrier for one in _commit(here, barrier, even, []))]
