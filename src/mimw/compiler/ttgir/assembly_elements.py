"""Readers of the assembly in which threads read and write picked elements of another CTA's shared memory.

Input: `ttg.inline_asm`. Output: one op of ours for all elements. For example:

    mad.lo.u32 to, $1, 4, $0;  mapa.shared::cluster.u32 to, to, $2;  st.shared::cluster.b32 [to], $3;
        remote_scatter %tile %positions %ranks %values

The operands are the buffer, the numbers of elements and the ranks, of which neighbours in one access have following numbers and one
rank; then values, the mask as numbers, and each thread's number where some threads hold copies only. What an atomic op gives,
threads hand on to those that hold copies, through shared memory: the same tile.
"""

from __future__ import annotations

import re

from ...ir import Op, Scalar, Tensor, Value, like
from .assembly import form
from .assembly_cluster import elements
from .reading import Here

_I1 = Scalar("i1")
_ORDERS = {"relaxed": "RELAXED", "acquire": "ACQUIRE", "release": "RELEASE", "acq_rel": "ACQUIRE_RELEASE"}
_SCOPES = {"cluster": "CTA", "gpu": "GPU", "sys": "SYSTEM"}
_KINDS = {("add", "f"): "FADD", ("max", "u"): "UMAX", ("min", "u"): "UMIN", ("exch", "b"): "XCHG"}
_PLACE = r"mad\.lo\.u32 to, \$\d+, \d+, \$\d+; mapa\.shared::cluster\.u32 to, to, \$\d+;"
_SIDE = r"(?: (?:\.reg|prmt|setp|mov|bfe)[^;]*;)*"


@form(rf"\{{ \.reg \.pred on; \.reg \.b32 to;{_SIDE}(?: {_PLACE}{_SIDE} (?:@on |@mine )?st\.shared::cluster[^;]*;)+ \}}")
def scattered(here: Here, found):
    buffer, position, rank, bits, *rest = here.operands
    makes, value = elements(here, bits, buffer.type.element)
    ops, mask = _mask(here, rest, found[0])
    return [*makes, *ops, here.op("remote_scatter", buffer, position, rank, value, mask, run=1)]


@form(rf"\{{ \.reg \.pred on; \.reg \.b32 to;{_SIDE}(?: {_PLACE}{_SIDE} (?:@on |@mine )?"
      r"atom\.(?P<order>relaxed|acquire|release|acq_rel)\.(?P<scope>cluster|gpu|sys)\.shared::cluster\."
      r"(?P<kind>add|min|max|and|or|xor|exch)\.(?P<sort>[usbf])32 \$\d+, \[to\], \$\d+;)+ \}")
def changed(here: Here, found):
    buffer, position, rank, bits, *rest = here.operands
    makes, value = elements(here, bits, buffer.type.element)
    ops, mask = _mask(here, rest, found[0])
    old = here.value(value.type)
    kind = _KINDS.get((found["kind"], found["sort"]), found["kind"].upper())
    change = here.op("remote_rmw", kind, buffer, position, rank, value, mask, _ORDERS[found["order"]], _SCOPES[found["scope"]],
                     results=(old, ), run=1, used=True)
    if old.type == here.types[0]:
        here.stands_for(old)
        return [*makes, *ops, change]
    return [*makes, *ops, change, here.op("bitcast", old, here.types[0])]


@form(r"\{ \.reg \.pred on; \.reg \.b32 to; \.reg \.b32 me, at; mov\.u32 me, %cluster_ctarank; and\.b32 at, \$1, \d+; "
      r"mul\.lo\.u32 at, at, \d+; mad\.lo\.u32 to, at, \d+, \$0; mapa\.shared::cluster\.u32 to, to, me; setp\.lt\.u32 on, \$2, \d+;"
      r"(?: @on st\.shared::cluster\.b\d+ \[to\+\d+\], \$\d+;)+ \}")
def handed_out(here: Here, found):
    here.reader.notes.setdefault("handed on", {})[here.operands[0]] = here.operands[-1]


@form(r"\{ \.reg \.pred on; \.reg \.b32 to; \.reg \.b32 me, at; mov\.u32 me, %cluster_ctarank; and\.b32 at, \$\d+, \d+; "
      r"mul\.lo\.u32 at, at, \d+; mad\.lo\.u32 to, at, \d+, \$\d+; mapa\.shared::cluster\.u32 to, to, me;"
      r"(?: ld\.shared::cluster\.b\d+ \$\d+, \[to\+\d+\];)+ \}")
def handed_in(here: Here, found):
    bits = here.reader.notes.get("handed on", {}).get(here.operands[0])
    if bits is None or bits.type != here.types[0]:
        raise here.unreadable("what these threads are handed is not known")
    here.stands_for(bits)


@form(rf"\{{ \.reg \.pred on; \.reg \.b32 to;{_SIDE}(?: {_PLACE}{_SIDE} (?:@on )?ld\.shared::cluster[^;]*;{_SIDE})+ \}}")
def loaded(here: Here, found):
    buffer, position, rank, *rest = here.operands
    (type_, ), element = here.types, buffer.type.element
    ops, mask = _mask(here, rest[:1], found[0])
    makes, other = elements(here, rest[1], element) if len(rest) > 1 else ([], None)
    value = here.value(Tensor(element, type_.shape))
    ops += [*makes, here.op("remote_load", buffer, position, rank, mask, other, results=(value, ), run=1)]
    if element.is_float:
        seen = here.value(like(type_, Scalar(f"i{element.bits}")))
        ops.append(here.op("bitcast", value, seen.type, results=(seen, )))
        value = seen
    return [*ops, here.op("int_cast", value, type_, False)]


def _mask(here: Here, rest: list[Value], text: str) -> tuple[list[Op], Value | None]:
    """The ops that make a mask of numbers that are 0 or 1, and the mask: none where the text asks for none."""
    if not re.search(r"setp\.ne(?:\.and)?\.u32 on, \$\d+, 0", text):
        return [], None
    flags = rest[0]
    zero, none = here.number(0, flags.type)
    mask = here.value(like(flags.type, _I1))
    return [zero, here.op("icmpNE", flags, none, results=(mask, ))], mask
