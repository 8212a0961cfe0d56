"""Barriers and fences that a task has for itself: they change no number, and stand in the way of whoever moves effects about."""

from __future__ import annotations

from ..maker import Maker
from ..tree import Line, Mark
from . import word
from .copies import round_of


@word("barriers", 2)
def own_barrier(make: Maker):
    """Arrive, then wait: one round of a barrier of the task's own."""
    bars, count = make.name("bar"), make.draws.integer(1, 2)
    if count > 1 and not make.amd:
        make.skips["gfx"] = "an arrival there counts one"
    make.head.append(f"{bars} = tlx.alloc_barriers(2, {count})" if count > 1 else f"{bars} = tlx.alloc_barriers(2)")
    make.captured.append(bars)
    phase, counted = round_of(make, bars)
    channel = f"o{bars}"
    arrivals = [
        Line(f"tlx.barrier_arrive({bars}[1]{more})", Mark("own arrive", channel))
        for more in (
            ["", ""]
            if count == 2 and (make.amd or make.draws.chance(50))
            else [", 2"]
            if count == 2
            else [make.draws.pick(["", ", pred=flag < 100"])]
        )
    ]
    make.step(
        [*arrivals, f"tlx.barrier_wait({bars}[1], {phase})", *counted],
        [f"seen('{channel}')"],
        states=(bars,),
        private=True,
    )


@word("barriers", 1)
def own_warp_barrier(make: Maker):
    bars = make.name("bar")
    make.head.append(f"{bars} = tlx.alloc_warp_barrier(1, __warps_{bars}__, 1)")
    make.captured.append(bars)
    phase, counted = round_of(make, bars)
    channel = f"o{bars}"
    make.step(
        [
            f"# warps of {bars}",
            Line(f"tlx.barrier_arrive({bars}[0])", Mark("own arrive", channel)),
            f"tlx.barrier_wait({bars}[0], {phase})",
            *counted,
        ],
        [f"seen('{channel}')"],
        states=(bars,),
        private=True,
    )


@word("barriers", 1.5)
def fences(make: Maker):
    text = make.draws.pick(
        [
            "tlx.fence('gpu')",
            "tlx.fence('sys')",
            "tlx.fence('async_shared')",
            "tlx.fence_async_shared()",
            "tl.debug_barrier()",
            *([] if make.amd else ["tlx.fence_mbarrier_init_cluster()"]),
        ]
    )
    make.step([text], ["pass"])


@word("fences", 1)
def plain_fences(make: Maker):
    make.step([make.draws.pick(["tlx.fence('gpu')", "tlx.fence('sys')", "tl.debug_barrier()"])], ["pass"])


@word("barriers", 0.5)
def no_bytes(make: Maker):
    """An expect of nothing is an arrival."""
    bars = make.name("bar")
    make.head.append(f"{bars} = tlx.alloc_barriers(1)")
    make.captured.append(bars)
    phase, counted = round_of(make, bars)
    make.step(
        [f"tlx.barrier_expect_bytes({bars}[0], 0)", f"tlx.barrier_wait({bars}[0], {phase})", *counted],
        ["pass"],
        states=(bars,),
        private=True,
    )
