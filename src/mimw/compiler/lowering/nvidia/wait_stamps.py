"""Stamps of waits: one lane of each warp writes the state of the warp into a table that the host reads while the kernel runs.

Input: ops of `passes/stamp_waits.py`. Output: PTX that stores into the profiling workspace of the launch, host memory here, at
the places of an `ir.WaitTable`. For example `watched_wait %full, %phase {stamp=7}` becomes

    mbarrier.test_wait; if it fails for 0.1 ms: store (7, CTA, phase, address, time, word) and the words of all barriers that
    the wait can name, again each millisecond

A wait that passes soon costs one `test_wait` more and writes nothing. Kernels read the table only where a grid has more CTAs than
it has places: what is wanted of it they have in registers.
"""

from __future__ import annotations

from ....ir import Op, WaitTable
from ....ir.wait_table import CTAS, DONE, LOOKED, MADE, ROW_BYTES, SLOT_BYTES
from ..asm import own_address, ptx, sync, zero_or_one
from ..emitter import Emitter, emits
from ..predicates import predicate
from .cta_number import cta_number

# Nanoseconds: a wait that takes less leaves no stamp; between two looks at the words; how long one try may sleep, which without
# a limit is up to the chip.
PATIENCE, PERIOD, NAP = 100_000, 1_000_000, 20_000

# The lanes that come together leave together: what follows may want whole warps, as they were.
_ENTER = """.reg .pred lead, other;
.reg .b32 together, mask, x, y, z, nx, ny, all, cta, place, warp, state, owner;
.reg .b64 table, slot;
activemask.b32 together;"""
_LEAVE = "over:\nbar.warp.sync together;"


def _find(emitter: Emitter, table: WaitTable) -> str:
    """PTX that leaves for `over`, but for each warp's first active lane, which gets `cta`, `table` (its CTA's part) and `slot`.

    Where the grid has more CTAs than the table has places, a CTA keeps out of one that another holds (ir/wait_table.py).
    """
    parameter = f"{emitter.program.name}_param_{len(emitter.program.params) + 1}"
    return f"""activemask.b32 mask;
mov.u32 x, %lanemask_lt;
and.b32 mask, mask, x;
mov.u32 warp, %tid.x;
shr.u32 warp, warp, 5;
setp.lt.u32 lead, warp, {table.warps};
setp.eq.and.u32 lead, mask, 0, lead;
@!lead bra over;
{cta_number("cta")}
mul.lo.u32 all, nx, ny;
mov.u32 z, %nctaid.z;
mul.lo.u32 all, all, z;
rem.u32 place, cta, {CTAS};
add.u32 cta, cta, 1;
ld.param.u64 table, [{parameter}];
mad.wide.u32 table, place, {table.cta_bytes}, table;
mad.wide.u32 slot, warp, {SLOT_BYTES}, table;
add.u64 slot, slot, {table.slots};
setp.le.u32 other, all, {CTAS};
@other bra own;
ld.volatile.global.v2.b32 {{state, owner}}, [table+{table.slots}];
setp.eq.u32 other, owner, cta;
@other bra own;
setp.eq.u32 other, owner, 0;
@other bra own;
and.b32 state, state, {DONE};
setp.eq.u32 other, state, 0;
@other bra over;
own:"""


@emits("wait_stamp")
def wait_stamp(emitter: Emitter, op: Op):
    table, number = op.attrs["table"], op.attrs["stamp"]
    if op.attrs["state"] == "ends" and op.attrs["lane"] == 0:
        number |= DONE
    ptx(emitter, f"""{{
.reg .b32 number, none;
.reg .b64 now, free;
{_ENTER}
{_find(emitter, table)}
mov.u32 number, {number};
mov.u32 none, 0;
mov.u64 free, 0;
mov.u64 now, %globaltimer;
st.volatile.global.v4.b32 [slot], {{number, cta, none, none}};
st.volatile.global.v2.b64 [slot+16], {{now, free}};
{_LEAVE}
}}""", [], [])


@emits("wait_words")
def wait_words(emitter: Emitter, op: Op):
    """The sync stands between the making of the barriers and the looks at them, which Triton does not see in assembly."""
    table = op.attrs["table"]
    stores = [f"add.u64 address, word, {8 * index};\n"
              f"st.volatile.global.b64 [table+{ROW_BYTES * (op.attrs['first'] + index)}], address;"
              for index in range(op.barriers.type.count)]
    ptx(emitter, "\n".join(["{", ".reg .b64 word, address;", _ENTER, _find(emitter, table),
                            "cvt.u64.u32 word, $0;", f"or.b64 word, word, {MADE};", *stores, _LEAVE, "}"]),
        ["r"], [own_address(emitter, emitter.of(op.barriers))])
    sync(emitter)


@emits("watched_wait")
def watched_wait(emitter: Emitter, op: Op):
    """Wait as PTX ISA, mbarrier.try_wait. The ordinary wait follows for all lanes and gives the order; this one only watches.

    The fence at the end of a look has the stores leave the GPU's caches: without one they do so at some time, or with the kernel.
    """
    table = op.attrs["table"]
    ptx(emitter, f"""{{
.reg .pred done, early;
.reg .b32 number, row;
.reg .b64 began, due, now, what, word, line;
{_ENTER}
setp.eq.s32 done, $2, 0;
@done bra over;
mbarrier.test_wait.parity.shared::cta.b64 done, [$0], $1;
@done bra over;
{_find(emitter, table)}
mov.u64 began, %globaltimer;
add.u64 due, began, {PATIENCE};
again:
mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1, {NAP};
@done bra passed;
mov.u64 now, %globaltimer;
setp.lt.u64 early, now, due;
@early bra again;
mov.u32 number, {op.attrs["stamp"]};
ld.volatile.shared.b64 word, [$0];
st.volatile.global.v2.b64 [slot+16], {{began, word}};
st.volatile.global.v4.b32 [slot], {{number, cta, $1, $0}};
{_copy_words(op)}
membar.sys;
add.u64 due, now, {PERIOD};
bra again;
passed:
add.u64 began, began, {PATIENCE};
setp.eq.u64 early, due, began;
@early bra over;
mov.u32 number, {op.attrs["after"]};
mov.u32 row, 0;
mov.u64 what, 0;
mov.u64 now, %globaltimer;
st.volatile.global.v4.b32 [slot], {{number, cta, row, row}};
st.volatile.global.v2.b64 [slot+16], {{now, what}};
{_LEAVE}
}}""", ["r"] * (3 + len(op.arrays)),
        [own_address(emitter, emitter.of(op.barrier)), emitter.of(op.phase), zero_or_one(emitter, predicate(emitter, op.predicate)),
         *(own_address(emitter, array) for array in emitter.of(op.arrays))])


def _copy_words(op: Op) -> str:
    """PTX that copies the words of the arrays of barriers, assembly operands from $3 on, one loop an array."""
    return "\n".join(f"""mov.u32 number, ${3 + index};
add.u64 line, table, {ROW_BYTES * first};
mov.u32 row, {array.type.count};
next{index}:
ld.volatile.shared.b64 word, [number];
cvt.u64.u32 what, number;
or.b64 what, what, {MADE | LOOKED};
st.volatile.global.v2.b64 [line], {{what, word}};
add.u32 number, number, 8;
add.u64 line, line, {ROW_BYTES};
sub.u32 row, row, 1;
setp.ne.u32 other, row, 0;
@other bra next{index};""" for index, (array, first) in enumerate(zip(op.arrays, op.attrs["rows"])))
