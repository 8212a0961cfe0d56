"""A plan carried out with as many slots as fit beside what the compiled kernel takes for itself.

Input: a `Plain` launch and a `Plan` without a depth. Output: a `Written`, whose plan says its depth if that had to be smaller.
For example:

    fitted(plain, Plan(consumers=2)).plan.stages        3, where 4 slots and the scratch of a conversion of layouts were too much

Only finished layouts determine that scratch (`passes/check_scratch.py`), so the kernel is lowered, once for each depth that is
tried, and only
where it may not fit. A plan that names its depth is carried out as it is.
"""

from __future__ import annotations

from dataclasses import replace

from ...compiler.orchestrate.plan import Plan
from ...errors import MimwError, OutOfSharedMemory
from ...runtime.fits import check_fits
from .plain import Plain
from .written import Written, written


def fitted(plain: Plain, plan: Plan) -> Written:
    """The plan carried out; one that does not fit with a single slot is as `written` gives it."""
    one = first = written(plain, plan)
    slots = max((ring.stages for ring in one.made.rings.roots if not ring.once), default=1)
    while plan.stages is None and _is_too_large(one):
        slots -= 1
        if not slots:
            return first
        one = written(plain, replace(plan, stages=slots))
    return one


def _is_too_large(one: Written) -> bool:
    if one.kernel is None:
        return one.refused.startswith(OutOfSharedMemory.__name__)
    launch = one.launch()
    try:
        check_fits(launch.specialisation, launch.program)
    except OutOfSharedMemory:
        return True
    except MimwError:       # what else is wrong with it, compiling says
        return False
    return False
