"""How many slots the pipes of a written plan had better have: as many as fit, and as its launch can fill.

Input: a `Written`. Output: the number to try next, or 0 where its own is right; and bytes of shared memory that are too many. For
example:

    fewer_slots(one)        6: of 8 slots two do not fit beside the scratch of a store by pointers
    beyond(one)             4,096: of the programs that a multiprocessor is to hold, each takes so much too much

What a pipe's slots leave of shared memory is known at once (`compiler.orchestrate.rings`); what scratch the compiler takes for
conversions of layouts only once the kernel goes through it. And a launch that never fills a pipe shows nothing of what happens when
it is full, so that nothing would be proved.
"""

from __future__ import annotations

from typing import Any

from ...compiler.orchestrate.residency import shared_bytes
from ...compiler.triton_port.codegen import CompilationError
from ...errors import MimwError, OutOfSharedMemory
from ...runtime.fits import as_compiled, check_fits
from ..trials import most_rounds
from .loaded import most_counted
from .tiles import each_alone


def fewer_slots(one: Any, fits: bool = True) -> int:
    """The number of slots to try in place of those of a `Written`; 0 where these are right, and where there is one alone. Without
    `fits` nobody goes through the compiler for its scratch."""
    rings = [ring for ring in one.made.rings.roots if not ring.fixed and not ring.made]
    stages = max((ring.stages for ring in rings), default=1)
    if stages == 1:
        return 0
    try:
        launch = each_alone(one)
        rounds = most_rounds(launch)
        rounds = most_counted(one, stages) if rounds is None else rounds * one.plan.together
        if 1 < rounds <= stages:
            return rounds - 1
        if not fits:
            return 0
        check_fits(launch.specialisation, launch.program)
        if more := beyond(one):
            return max(1, stages - -(-more // sum(ring.bytes for ring in rings)))
    except OutOfSharedMemory as error:
        more = (error.required or 0) - (error.limit or 0)
        return max(1, stages - max(1, -(-more // sum(ring.bytes for ring in rings))))
    except (MimwError, CompilationError):       # whoever compiles it says so
        pass
    return 0


def beyond(one: Any) -> int:
    """Bytes of shared memory that the compiled kernel takes more than a program may have, if a multiprocessor is to hold as many as
    the plan says; 0 if they fit, and of a plan that says nothing of it."""
    if not one.plan.programs:
        return 0
    launch = one.launch()
    memory = as_compiled(launch.specialisation, launch.program)
    return 0 if memory is None else max(0, memory.total - shared_bytes(one.plan.programs, one.plain.chip))
