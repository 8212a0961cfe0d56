"""The checks and rewrites between recording and layouts, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..analysis import Remark
from ..errors import RemarkWarning
from ..ir import Op, Program, tell, verify
from ..target import Target
from .accumulate_dots import accumulate_dots
from .check_arrivals import check_arrivals
from .check_async_dot import check_async_dot
from .check_bytes import check_bytes
from .check_cluster import check_cluster
from .check_descriptors import check_descriptors
from .check_exclusive import check_exclusive
from .check_instruction_registers import too_few_registers
from .check_named_barriers import check_named_barriers
from .check_padding import check_padding
from .check_registers import check_registers
from .check_scratch import check_scratch, may_not_fit
from .check_shared import check_shared
from .check_target import check_target
from .check_tasks import check_tasks
from .check_waits import check_waits
from .check_warpgroups import check_warpgroups
from .cut_copies import cut_copies
from .drop_unused import drop_unused
from .fence_barriers import fence_barriers
from .fence_globals import fence_globals
from .fence_handovers import fence_handovers
from .grant_registers import grant_registers
from .join_copies import join_copies
from .keep_loops import keep_loops
from .narrow_releases import narrow_releases
from .place_aliases import check_aliases, place_aliases
from .place_meetings import place_meetings
from .share_captures import share_captures
from .shared_operands import shared_operands
from .shared_pointers import shared_pointers
from .slot_arrays import slot_arrays
from .space_slots import space_slots
from .stamp_time import stamp_time
from .stamp_waits import stamp_waits
from .sync_clusters import sync_clusters

__all__ = [
    "PASSES", "Pass", "Remark", "accumulate_dots", "check_aliases", "check_arrivals", "check_async_dot",
    "check_bytes", "check_cluster", "check_descriptors", "check_exclusive", "check_named_barriers", "check_padding",
    "check_registers", "check_scratch", "check_shared", "check_target", "check_tasks", "check_waits", "check_warpgroups",
    "cut_copies",
    "drop_unused", "fence_barriers", "fence_globals", "fence_handovers", "grant_registers", "join_copies",
    "keep_loops", "may_not_fit", "narrow_releases", "place_aliases", "place_meetings", "remarks", "run_passes",
    "share_captures", "shared_operands", "shared_pointers", "slot_arrays", "space_slots", "stamp_time", "stamp_waits",
    "sync_clusters", "too_few_registers", "warn",
]


@dataclass(frozen=True)
class Pass:
    """One step: a `rewrite`, or a `check` that raises or gives remarks."""

    name: str
    rewrite: Callable[[Program, Target], Program] | None = None
    check: Callable[[Program, Target], Iterable[Remark] | None] | None = None


PASSES: tuple[Pass, ...] = (
    Pass("target", check=check_target),  # first: nothing else matters if the chip lacks the words
    Pass("descriptors", check=check_descriptors),
    Pass("slot_arrays", rewrite=lambda program, target: slot_arrays(program)),
    Pass("shared_pointers", rewrite=lambda program, target: shared_pointers(
        program, target.backend == "cuda")),  # every other pass knows buffers only
    Pass("share_captures", rewrite=lambda program, target: share_captures(program)),  # before the check that refuses them
    Pass("tasks", check=check_tasks),  # before drop_unused: an unused capture is still one that the author wrote
    Pass("cluster", check=check_cluster),  # before drop_unused: nothing uses a remote view
    Pass("exclusive", check=check_exclusive),
    Pass("named_barriers", check=check_named_barriers),
    Pass("drop_unused", rewrite=lambda program, target: drop_unused(program)),  # the counts below are then of what really runs
    Pass("aliases", check=check_aliases),
    Pass("place_aliases", rewrite=lambda program, target: place_aliases(program)),  # sizes of storages are known from here on
    Pass("space_slots", rewrite=space_slots),  # likewise; before anyone adds up shared memory
    Pass("accumulate_dots", rewrite=lambda program, target: accumulate_dots(program)),
    Pass("shared_operands", rewrite=shared_operands),  # after accumulate_dots: the products' sums are in them
    Pass("registers", check=check_registers),
    Pass("shared", check=check_shared),
    Pass("arrivals", check=check_arrivals),
    Pass("bytes", check=check_bytes),
    Pass("waits", check=check_waits),
    Pass("async_dot", check=check_async_dot),
    Pass("warpgroups", check=check_warpgroups),
    Pass("join_copies", rewrite=lambda program, target: join_copies(program)),
    Pass("meetings", rewrite=lambda program, target: place_meetings(program)),
    Pass("sync_clusters", rewrite=lambda program, target: sync_clusters(program)),  # the checks speak of what the author wrote
    Pass("fence_barriers", rewrite=lambda program, target: fence_barriers(program)),
    Pass("fence_globals", rewrite=lambda program, target: fence_globals(program)),
    Pass("fence_handovers", rewrite=lambda program, target: fence_handovers(program)),  # after what puts arrivals in
    Pass("narrow_releases", rewrite=lambda program, target: narrow_releases(program)),
    Pass("keep_loops", rewrite=lambda program, target: keep_loops(program)),  # what the passes above put in counts, too
    Pass("grant_registers", rewrite=grant_registers),  # last: the checks speak of what the author asked for
)


def warn(found: Remark) -> None:
    """A Python warning at the line that a remark is about."""
    tell(RemarkWarning, found.text, found.site)


def remarks(program: Program, target: Target) -> tuple[Remark, ...]:
    """What the checks have to say of a recorded program that they let pass."""
    return (*check_cluster(program, target), *check_aliases(program, target), *check_registers(program, target))


def run_passes(program: Program, target: Target, observer: Callable[[str, Program], None] | None = None,
               remark: Callable[[Remark], None] = warn) -> Program:
    """The program after all passes, verified after each one.

    `observer(name, program)` is called after every pass, for printing. Remarks go to `remark`, by default as Python
    warnings. A check that fails raises the error of its own docstring; a rewrite that breaks the IR raises
    `InvalidProgram`.
    """
    known: set[Op] = set()  # ops that `verify` has seen; most of them outlive most passes
    verify(program, known)
    for step in PASSES:
        if step.rewrite is not None:
            rewritten = step.rewrite(program, target)
            if rewritten is not program:
                verify(rewritten, known)
            program = rewritten
        else:
            for found in step.check(program, target) or ():
                remark(found)
        if observer is not None:
            observer(step.name, program)
    return program
