"""Readers of Blackwell's launch control: a cluster asks for the work of one that has not started.

Input: ops of `ttng`, and the assembly in which mimw asks for a whole cluster and reads an answer. Output: ours. For example:

    ttng.clc_try_cancel %answer, %done                         clc_issue %answer %done
    %a = ttng.clc_load_result %answer, then its decoding       clc_query %answer

An answer that is loaded stands for the bytes that it is in, until something decodes it.
"""

from __future__ import annotations

from .assembly import form
from .assembly_cluster import when
from .reading import Here, reads


@reads("ttng.clc_try_cancel", one_cta=True)
def asked(here: Here):
    return here.op("clc_issue", *here.operands[:2])


@reads("ttng.clc_load_result", one_cta=True)
def loaded(here: Here):
    here.stands_for(here.operands[0])


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
