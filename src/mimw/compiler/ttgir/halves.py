"""Readers of what two halves of AMD's waves do apart: stages of Gluon's, and the barriers for one half that stock Triton places.

Input: stages that `triton.warp_pipeline` names, `amdg.cond_barrier` with what says for whom it is. Output: ours. For example:

    scf.for { scf.execute_region { A } {.. stage = "read"} .. }       halves_part, for { stage_start A stage_end .. }, halves_meet
    amdg.cond_barrier %second, scf.for { A  ttg.barrier local  B  rocdl.s.barrier }, amdg.cond_barrier %first
                                                                      halves_part, for { A stage_start B stage_start }, halves_meet

In front of the loop one half waits at a barrier to which only it comes, so from there on it is one barrier behind the other half:
what stands between two barriers is a stage. Behind the loop the other half does the same, and both are together again. A barrier
for one half that the other one does not make up for is a mistake: at the next barrier they do not meet, or one of them hangs.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import BarrierMisuse, DataRace
from ...ir import Op
from ..analysis.warp_stages import HALF, waits_for_own
from ..triton_port.mlir_tree import Block as Nodes
from ..triton_port.mlir_tree import Node
from .reading import Here, reads

PIPELINED, STAGE, PRIORITY = (f"triton.warp_pipeline.{word}" for word in ("pipelined_for", "stage", "priority"))
_BARRIERS = "ttg.barrier", "gpu.barrier"
_ACCESSES = "ttg.local_", "ttg.async_copy", "amdg.buffer_load_to_local"
_FIRST = {"eq": True, "ne": False}      # of a wave's number through the waves of a half, compared with 0


def in_stages(here: Here, loop: Op) -> Op | list[Op]:
    """A loop, whose halves part and meet around it if its body is in stages."""
    if not here.has(PIPELINED):
        return loop
    if here.reader.notes["num_warps"] != 2 * HALF:
        raise here.unreadable(f"stages of halves that are not {HALF} waves each are not read")
    return [here.op("halves_part", results=()), loop, here.op("halves_meet", results=())]


def one_stage(here: Here, ops: list[Op]) -> list[Op]:
    """The ops of a region, as a stage if it is one."""
    label = here.string(STAGE)
    if not label:
        return ops
    met = next((inner for op in ops for inner in op.walk() if inner.row.needs_all_threads and not inner.row.barrier and
                "sync" in inner.row.effects and not waits_for_own(inner.row)), None)
    if met is not None:
        raise BarrierMisuse("a barrier of all waves stands in a stage, and half of them are in another one", met.site, here.site,
                            hint="put it in front of the loop or behind it")
    priority = here.integer(PRIORITY, -1)
    return [here.op("stage_start", results=()), *ops,
            here.op("stage_end", label, None if priority < 0 else priority, results=())]


def border(here: Here, bare: bool = False) -> Op | None:
    """A barrier of all waves while halves are apart: the next stage begins. None while they run together."""
    return here.op("stage_start", results=(), **({"bare": True} if bare else {})) if here.reader.notes.get("apart") else None


@reads("rocdl.s.barrier")
def met_alone(here: Here):
    """A barrier in front of which nobody waits for his own accesses to LDS."""
    return border(here, bare=True) or here.op("barrier")


@reads("rocdl.workitem.id.x", one_cta=True)
def thread(here: Here):
    return here.op("thread_id", 0)


@reads("amdg.cond_barrier", one_cta=True)
def met_by_half(here: Here):
    first, apart = _half(here), here.reader.notes.get("apart")
    if apart is None:
        if id(here.node) in here.reader.notes["unmet"]:
            raise DataRace(f"the {_name(not first)} half of the waves goes on here, while accesses to shared memory of the "
                           f"{_name(first)} half may still be under way: no barrier of all waves stands behind them", here.site,
                           hint="ttg.barrier local in front of it")
        here.reader.notes["apart"] = first, here.site
        return here.op("halves_part")
    if apart[0] is first:
        raise BarrierMisuse(f"the {_name(first)} half of the waves waits here for the second time, and the {_name(not first)} half "
                            "comes to neither barrier", here.site, apart[1],
                            hint="let the halves take turns: one waits in front of the loop, the other one behind it")
    here.reader.notes["apart"] = None
    return here.op("halves_meet")


def unmet(block: Nodes) -> set[int]:
    """The barriers for one half, by identity, behind accesses to shared memory that no barrier of all waves ends."""
    found, accessed = set(), False
    for node in block.nodes:
        if node.name in _BARRIERS:
            accessed = False
        elif node.name == "amdg.cond_barrier":
            found |= {id(node)} if accessed else set()
        accessed |= bool(node.regions) or node.name.startswith(_ACCESSES) and bool(node.operands)
        for region in node.regions:
            found |= unmet(region)
    return found


def _name(first: bool) -> str:
    return "first" if first else "second"


def _half(here: Here) -> bool:
    """True of the first half, by how its barrier's condition is computed: `workitem.id.x / lanes of a half`, compared with 0."""
    made = _made_by(here, here.node)
    word = made.text.partition("arith.cmpi ")[2].partition(",")[0] if made else ""
    quotient = _made_by(here, made) if word in _FIRST else None
    who = _made_by(here, quotient) if quotient and quotient.name in ("arith.divsi", "arith.divui") else None
    if who is None or who.name != "rocdl.workitem.id.x" or _constant(here, made) != 0 or \
            _constant(here, quotient) != HALF * here.reader.warp_size or here.reader.notes["num_warps"] != 2 * HALF:
        raise here.unreadable(f"a barrier for others than one half of the waves, {HALF} of {2 * HALF}, is not read")
    return _FIRST[word]


def _made_by(here: Here, node: Node) -> Node | None:
    return here.reader.made_by.get(node.operands[0])


def _constant(here: Here, node: Node) -> int | float | None:
    return here.known(here.reader.values[node.operands[1]])


def check_halves(ops: Iterable[Op], around: Op | None = None) -> None:
    """BarrierMisuse where halves part in one block and meet in another one, or never."""
    apart = None
    for op in ops:
        if op.name == "halves_part":
            apart = op
        elif op.name == "halves_meet":
            if apart is None:
                raise _never("meet", op, around, "where they have not parted")
            apart = None
        for block in op.blocks:
            check_halves(block.ops, op)
    if apart is not None:
        raise _never("part", apart, around, "and never meet again")


def _never(what: str, op: Op, around: Op | None, why: str) -> BarrierMisuse:
    where = f" in the block of `{around.name}`" if around is not None else ""
    return BarrierMisuse(f"the halves of the waves {what} here{where}, {why}", op.site,
                         hint="a barrier for the one half in front of the loop, and one for the other half behind it")
