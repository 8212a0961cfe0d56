"""The checks and rewrites between recording and layouts, as data, in the order in which they run.

Input: a recorded `Program` and a `Context`. Output: the program that is simulated and lowered, or the error of the first check that
fails. For example:

    run_passes(program, target("sm_90a"))                              all of them
    PASS["drop_unused"](program, Context(target("sm_90a")))            one, by name

A check returns its program, and gives its remarks to the context. A rewrite returns another program, or the same object where it
has nothing to change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ...errors import RemarkWarning
from ...ir import Known, Program, verify, warn_at
from ...target import Target
from ..analysis import Remark
from ..analysis.raw_calls import effects_of
from .accumulate_dots import accumulate_dots
from .align_uniforms import align_uniforms
from .arrive_later import arrive_later
from .await_commits import await_commits, late_commits
from .bytes_by_arrivals import bytes_by_arrivals
from .check_arrivals import check_arrivals
from .check_async_dot import check_async_dot
from .check_buffer_atomics import check_buffer_atomics
from .check_bytes import check_bytes
from .check_cluster import check_cluster
from .check_descriptors import check_descriptors
from .check_elements import check_elements
from .check_exclusive import check_exclusive
from .check_group_barriers import check_group_barriers
from .check_named_barriers import check_named_barriers
from .check_overlap import check_overlap
from .check_pairs import check_pairs
from .check_paths import check_paths
from .check_peers import check_peers
from .check_pipes import check_pipes
from .check_registers import check_registers
from .check_rows import check_rows
from .check_scaled_dots import check_scaled_dots
from .check_shared import check_shared
from .check_spaces import check_spaces
from .check_target import check_target
from .check_tasks import check_tasks
from .check_waits import check_waits
from .check_warp_stages import check_warp_stages
from .check_warpgroups import check_warpgroups
from .copies_by_pointers import copies_by_pointers
from .count_moves import count_moves
from .descriptors_by_pointers import descriptors_by_pointers
from .dots_at_once import dots_at_once
from .double_operands import double_operands
from .drop_proxy_fences import drop_proxy_fences
from .drop_unused import drop_unused
from .expand_dsa import expand_dsa
from .expand_pipes import expand_pipes
from .fence_barriers import fence_barriers
from .fence_deliveries import fence_deliveries
from .fence_globals import fence_globals
from .fence_handovers import fence_handovers
from .fence_pairs import fence_pairs
from .grant_registers import grant_registers
from .join_copies import join_copies
from .keep_loops import keep_loops
from .narrow_releases import narrow_releases
from .order_globals import order_globals
from .pad_fp4 import pad_fp4
from .pair_commits import pair_commits
from .pair_copies import pair_copies
from .pipeline_dsa import pipeline_dsa
from .place_aliases import check_aliases, place_aliases
from .place_group_barriers import place_group_barriers
from .place_lanes import place_lanes
from .place_tensor_memory import place_tensor_memory
from .settle_stages import settle_stages
from .share_captures import share_captures
from .shared_operands import shared_operands
from .shared_pointers import shared_pointers
from .slot_arrays import slot_arrays
from .space_slots import space_slots
from .stage_scales import stage_scales
from .stamp_time import stamp_time
from .stamp_waits import stamp_waits
from .sync_clusters import sync_clusters
from .tile_bytes import tile_bytes
from .trail_dots import trail_dots
from .wait_pairs import wait_pairs


def warn(found: Remark) -> None:
    """A Python warning at the line that a remark is about."""
    warn_at(RemarkWarning, found.text, found.site)


@dataclass(frozen=True)
class Context:
    """The inputs of a pass besides the program: the chip, and the function that receives remarks."""

    target: Target
    remark: Callable[[Remark], None] = warn
    records: int = 1024  # time stamps that a lane may leave

    @property
    def masked_views(self) -> bool:
        """True if the chip can store a whole buffer under a mask."""
        return self.target.assembly == "ptx"


@dataclass(frozen=True)
class Pass:
    """One step. `function` takes the program, then the entries `needs` of the context. `after` are the passes that run before
    this one, for the reason in `doc`; a step that `rewrites` returns a program, any other raises, or returns remarks or
    nothing."""

    name: str
    function: Callable[..., Any]
    doc: str
    rewrites: bool
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def __call__(self, program: Program, context: Context) -> Program:
        """The program after this step."""
        found = self.function(program, *(getattr(context, name) for name in self.needs))
        if self.rewrites:
            return found
        for one in found or ():
            context.remark(one)
        return program


def check(name: str, function: Callable[..., Any], doc: str, after: str = "") -> Pass:
    return Pass(name, function, doc, False, ("target", ), tuple(after.split()))


def rewrite(name: str, function: Callable[..., Program], doc: str, after: str = "", needs: str = "") -> Pass:
    return Pass(name, function, doc, True, tuple(needs.split()), tuple(after.split()))


PASSES: tuple[Pass, ...] = (
    rewrite("pipeline_dsa", pipeline_dsa, "copies of pipelined loops run ahead of their trips, into rings of buffers",
            needs="target"),
    rewrite("expand_dsa", expand_dsa, "local memories of other chips become registers and shared memory on a GPU: no later pass, "
            "no emission knows them there", after="pipeline_dsa", needs="target masked_views"),
    rewrite("descriptors_by_pointers", descriptors_by_pointers, "without TMA, tensor descriptors become those of AMD's data "
            "mover, or pointers in plain kernels: the check of the target would refuse them", needs="target"),
    check("target", check_target, "refuses what the chip cannot do, first: nothing else matters then",
          after="descriptors_by_pointers"),
    check("pipes", check_pipes, "refuses ends of pipes in two tasks, and slots that are released too early"),
    rewrite("bytes_by_arrivals", bytes_by_arrivals, "copies arrive where barriers count no bytes, in front of what makes "
            "others of these copies", after="target", needs="target"),
    rewrite("copies_by_pointers", copies_by_pointers, "copies by descriptors go by pointers where there is no TMA, while a pipe "
            "can still take them into its chunks", after="target bytes_by_arrivals", needs="target"),
    rewrite("expand_pipes", expand_pipes, "pipes become barriers: no later pass, no emission and no simulator knows pipes",
            after="target pipes copies_by_pointers"),
    rewrite("dots_at_once", dots_at_once, "products into registers are done at once where there is no wgmma; the checks "
            "of pipes spoke of what the author wrote", after="target pipes", needs="target"),
    rewrite("drop_proxy_fences", drop_proxy_fences, "fences between proxies go where there are none, those of pipes too",
            after="target expand_pipes", needs="target"),
    check("descriptors", check_descriptors, "refuses tensor descriptors with extents or strides that TMA cannot take"),
    check("rows", check_rows, "refuses copies of picked rows from a column that TMA cannot take"),
    rewrite("slot_arrays", slot_arrays, "makes an array of each buffer that is used slot by slot", after="expand_pipes"),
    rewrite("shared_pointers", shared_pointers, "pointers into shared memory become accesses to buffers: all later passes know "
            "buffers only", after="expand_pipes slot_arrays", needs="masked_views"),
    rewrite("share_captures", share_captures, "hands tiles of the kernel to partitions that use them", after="shared_pointers"),
    check("tasks", check_tasks, "refuses tiles that tasks capture, and too many warps", after="share_captures"),
    check("warp_stages", check_warp_stages, "refuses stages that two halves of the waves cannot run one apart",
          after="target shared_pointers"),
    rewrite("double_operands", double_operands, "operands of 64 rows of pairs of CTAs lie twice in tensor memory, before anything "
            "adds up its columns or looks at parts of it", after="share_captures"),
    check("pairs", check_pairs, "refuses products of pairs of CTAs beside those of one CTA, and clusters without pairs",
          after="double_operands"),
    rewrite("pair_commits", pair_commits, "commits become those of both CTAs of a pair, before anything counts arrivals",
            after="pairs"),
    rewrite("pair_copies", pair_copies, "copies to tensor memory become those of both CTAs of a pair, before anything looks at "
            "what other CTAs do", after="pairs"),
    check("cluster", check_cluster, "refuses CTAs and barriers that a cluster does not have", after="shared_pointers"),
    check("peers", check_peers, "refuses pointers into a peer's memory where this GPU's own are wanted"),
    check("exclusive", check_exclusive, "refuses a second region beside an exclusive one"),
    check("named_barriers", check_named_barriers, "refuses the hardware barriers that the compiler takes itself"),
    check("group_barriers_and_tasks", check_group_barriers, "refuses barriers of the whole work-group beside tasks of gfx9"),
    rewrite("count_moves", count_moves, "waits for tokens of AMD's data mover wait for a number of copies"),
    rewrite("drop_unused", drop_unused, "drops pure ops that nothing uses, so that what follows counts what really runs; captures "
            "and remote views are the author's even if unused", after="tasks cluster"),
    check("aliases", check_aliases, "remarks on storages that no buffer uses", after="drop_unused"),
    rewrite("pad_fp4", pad_fp4, "pads fp4 that is multiplied by fp8, before anything adds up shared memory", after="drop_unused"),
    rewrite("stage_scales", stage_scales, "copies scales to tensor memory, before anything adds up its columns",
            after="drop_unused"),
    rewrite("tile_bytes", tile_bytes, "bytes in tensor memory that are no scales lie as a tile, before anything adds up its "
            "columns", after="drop_unused"),
    rewrite("place_aliases", place_aliases, "gives buffers that share storage their places, and the storage its size",
            after="shared_pointers drop_unused"),
    rewrite("place_tensor_memory", place_tensor_memory, "gives buffers in tensor memory their columns, or refuses too many of them",
            after="place_aliases", needs="target"),
    rewrite("space_slots", space_slots, "puts small buffers that TMA copies far enough apart, before anything adds up shared "
            "memory", after="place_aliases", needs="target"),
    rewrite("accumulate_dots", accumulate_dots, "adds a sum to the product that makes it"),
    rewrite("shared_operands", shared_operands, "products of tiles that lie in shared memory read them there; their sums are in "
            "them by now", after="shared_pointers accumulate_dots", needs="target"),
    rewrite("trail_dots", trail_dots, "one product of a loop whose copies run ahead runs on into the next trip",
            after="pipeline_dsa shared_operands"),
    check("registers", check_registers, "remarks on register requests that are not met"),
    check("elements", check_elements, "refuses arithmetic and conversions that the chip's compiler does not have",
          after="drop_unused expand_dsa"),
    check("buffer_atomics", check_buffer_atomics, "refuses atomics of pairs that the chip does not have, or that a mask cuts",
          after="drop_unused"),
    check("scaled_dots", check_scaled_dots, "refuses scaled products that the tensor cores do not have", after="drop_unused"),
    check("spaces", check_spaces, "refuses more of a memory space than a core has, with its map", after="drop_unused expand_dsa"),
    check("paths", check_paths, "refuses data that no engine of the chip moves, and arithmetic where no unit reaches",
          after="drop_unused expand_dsa"),
    check("overlap", check_overlap, "refuses operations that write a part of what they read", after="drop_unused expand_dsa"),
    check("shared", check_shared, "refuses more shared memory than a CTA has", after="place_aliases space_slots"),
    check("arrivals", check_arrivals, "refuses barriers whose arrivals cannot come", after="drop_unused"),
    check("bytes", check_bytes, "refuses barriers that expect other bytes than copies bring", after="drop_unused"),
    check("waits", check_waits, "refuses copies that no task waits for", after="drop_unused"),
    check("async_dot", check_async_dot, "refuses reads of an asynchronous product that is not done", after="shared_operands"),
    check("warpgroups", check_warpgroups, "refuses asynchronous products in tasks of other than whole warp groups",
          after="shared_operands"),
    rewrite("join_copies", join_copies, "copies that follow each other are waited for together"),
    rewrite("arrive_later", arrive_later, "arrivals for copies by pointers come behind later copies; the checks spoke of what the "
            "author wrote", after="copies_by_pointers expand_pipes arrivals waits join_copies", needs="target"),
    rewrite("group_barriers", place_group_barriers,
            "says what each distributed barrier is made of; the checks spoke of what the author wrote",
            after="cluster arrivals"),
    rewrite("wait_pairs", wait_pairs, "products of pairs, or of odd extents, that their call waits for become commits and waits; "
            "the checks spoke of what the author wrote", after="cluster arrivals"),
    check("late_commits", late_commits, "remarks on commits of pairs for which no task waits",
          after="cluster arrivals pair_commits"),
    rewrite("await_commits", await_commits, "lets pairs end behind their last commits; the checks spoke of what the author wrote",
            after="cluster arrivals wait_pairs late_commits"),
    rewrite("sync_clusters", sync_clusters, "synchronises a cluster at its start and end",
            after="cluster arrivals group_barriers wait_pairs await_commits"),
    rewrite("fence_barriers", fence_barriers, "fences barriers that copies complete, once they are made"),
    rewrite("fence_globals", fence_globals, "makes fences of global memory that copies read ones between proxies, too",
            after="group_barriers"),
    rewrite("fence_pairs", fence_pairs, "fences what a task wrote before a product of a pair of CTAs reads it",
            after="shared_operands"),
    rewrite("fence_deliveries", fence_deliveries, "fences what a task wrote before copies, or products of other tasks, read it; "
            "behind what puts arrivals in", after="join_copies group_barriers sync_clusters"),
    rewrite("fence_handovers", fence_handovers, "fences what a task touched before it lets copies overwrite it; behind what puts "
            "arrivals in", after="join_copies group_barriers sync_clusters fence_deliveries"),
    rewrite("narrow_releases", narrow_releases, "narrows remote arrivals that have nothing to release to their CTA",
            after="group_barriers sync_clusters"),
    rewrite("order_globals", order_globals, "synchronises a task between a write to global memory and another access to it; "
            "behind what makes copies, or accesses by pointers, of others", after="expand_pipes copies_by_pointers drop_unused",
            needs="target"),
    rewrite("keep_loops", keep_loops, "marks loops that must not be pipelined, also for ops of the passes above",
            after="sync_clusters fence_barriers fence_globals fence_deliveries fence_handovers order_globals"),
    rewrite("grant_registers", grant_registers, "writes down what registers to ask for, last: the checks speak of what the author "
            "asked for", after="registers", needs="target"),
    rewrite("place_lanes", place_lanes, "says which elements a reduction over the lanes of a warp takes together, behind all that "
            "layouts depend on", after="shared_operands sync_clusters grant_registers", needs="target"),
    rewrite("align_uniforms", align_uniforms, "says what divides the numbers that assembly returns, for the width of copies",
            after="drop_unused", needs="target"),
    rewrite("settle_stages", settle_stages, "puts what stands between stages where Triton wants it, behind all that puts ops in",
            after="warp_stages join_copies keep_loops"),
)
OPTIONAL: tuple[Pass, ...] = (  # what is asked for by profiles and watchdogs, behind all others
    rewrite("stamp_time", stamp_time, "puts time stamps into each task, for a profile", needs="target records"),
    rewrite("stamp_waits", stamp_waits, "puts stamps around each wait, for a watchdog", needs="target"),
)
PASS = MappingProxyType({step.name: step for step in PASSES})


def remarks(program: Program, target: Target) -> tuple[Remark, ...]:
    """The remarks of the checks on a recorded program that they accept."""
    return (*check_cluster(program, target), *check_aliases(program, target), *check_registers(program, target),
            *late_commits(pair_commits(program), target))


def declared_effects(program: Program) -> tuple[str, ...]:
    """The declared effects of native code in the program, which all checks take as the truth."""
    return tuple(dict.fromkeys(effects_of(op) for op in program.named("raw_call")))


def check_copies(program: Program, target: Target) -> None:
    """Refuse copies by tensor descriptors that the chip's TMA cannot do, with the errors of those checks, also in a kernel
    that no pass of ours rewrites."""
    check_descriptors(program, target)
    check_rows(program, target)


def run_passes(program: Program, target: Target, observer: Callable[[str, Program], None] | None = None,
               remark: Callable[[Remark], None] = warn) -> Program:
    """The program after all passes, verified after each one.

    `observer(name, program)` is called after every pass, for printing. Remarks go to `remark`, by default as Python
    warnings. A check that fails raises the error of its own docstring; a rewrite that breaks the IR raises
    `InvalidProgram`.
    """
    context = Context(target, remark)
    known = Known()     # most ops outlive most passes
    verify(program, known)
    for step in PASSES:
        after = step(program, context)
        if after is not program:
            verify(after, known)
        program = after
        if observer is not None:
            observer(step.name, program)
    return program
