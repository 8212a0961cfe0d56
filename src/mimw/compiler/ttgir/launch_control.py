"""Readers of Blackwell's launch control: a cluster asks for the work of one that has not started.

Input: ops of `ttng`, and the assembly in which mimw asks for a whole cluster and reads an answer. Output: ours. For example:

    ttng.clc_try_cancel %answer, %done                         clc_issue %answer %done
    %a = ttng.clc_load_result %answer, then its decoding       clc_query %answer

An answer that is loaded stands for the bytes that it is in, until assembly decodes it; Triton's own ops decode registers.
"""

from __future__ import annotations

import re

from ...ir import I32
from .assembly import form
from .assembly_cluster import when
from .cta_ops import leads
from .reading import Here, reads

DECODED_BY = "ttng.clc_is_canceled", "ttng.clc_get_program_id"


@reads("ttng.clc_try_cancel")
def asked(here: Here):
    """In a program of several CTAs the first asks for all of them."""
    response, barrier = here.operands[:2]
    if not (bits := here.reader.rank_bits):
        return here.op("clc_issue", response, barrier)
    ops, first = leads(here, (1 << bits) - 1)
    return [*ops, here.op("clc_issue_all", response, barrier, tuple(range(1 << bits)), first)]


@reads("ttng.clc_load_result")
def loaded(here: Here):
    """What mimw's assembly decodes stands for its bytes; what Triton's ops decode is looked at here."""
    here.stands_for(here.operands[0])
    if not here.reader.notes["decodes"]:
        return None
    found = tuple(here.value(I32) for _ in "xyz")
    here.reader.notes.setdefault("answers", {})[here.node.results[0][0]] = found
    return here.op("clc_query", here.operands[0], results=found)


def _answer(here: Here):
    found = here.reader.notes.get("answers", {}).get(here.node.operands[0])
    if found is None:
        raise here.unreadable("an answer of launch control that goes through a loop or a branch is not read")
    return found


@reads(DECODED_BY[0])
def taken(here: Here):
    """No number of a program is -1."""
    made, none = here.number(-1, I32)
    return [made, here.op("icmpNE", _answer(here)[0], none)]


@reads(DECODED_BY[1])
def program(here: Here):
    """The number of the first CTA: along x the CTAs of a program follow each other."""
    axis = "xyz".index(re.search(r", ([xyz]) :", here.text)[1])
    number = _answer(here)[axis]
    if axis or not here.reader.rank_bits:
        here.stands_for(number)
        return None
    made, count = here.number(1 << here.reader.rank_bits, I32)
    return [made, here.op("sdiv", number, count)]


@form(r"\{ \.reg \.pred taken; \.reg \.b128 answer; mov\.b128 answer, \{\$3, \$4\}; .* "
      r"clusterlaunchcontrol\.query_cancel\.is_canceled\.pred\.b128 taken, answer; .* \}")
def decoded(here: Here, found):
    return here.op("clc_query", here.operands[0])


@form(r"\{ \.reg \.pred on, leader; elect\.sync _\|leader, 0xffffffff; setp\.lt\.and\.s32 on, \$0, 32, leader;"
      r"(?P<when> setp\.ne\.and\.s32 on, \$3, 0, on;)? @on clusterlaunchcontrol\.try_cancel\.async\.shared::cta\.mbarrier::"
      r"complete_tx::bytes\.multicast::cluster::all\.b128 \[\$1\], \[\$2\]; \}")
def asked_for_all(here: Here, found):
    _, response, barrier, *flag = here.operands
    ops, predicate = when(here, flag[0]) if flag else ([], None)
    return [*ops, here.op("clc_issue_all", response, barrier, tuple(range(here.reader.notes["cluster"])), predicate)]
