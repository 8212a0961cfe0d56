"""What the simulator says of a launch that hangs on a GPU: the same kernel, grid and arguments.

Input: a `Launch`, copies of its arguments, a time limit, and the CTAs that are known to hang. Output: one paragraph.

    The simulator, on the same launch: BytesNeverSent at gemm.py:22: ...

Where no CTA can change what another cluster sees, only the cluster of the first hung CTA is simulated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import islice

from ...compiler.analysis import makes_pointers
from ...errors import MimwError, OutOfBounds
from ...ir import Program
from ...simulator import Hooks, clusters, run
from ..simulate import prepare

_LIMITS = 10.0, 120.0       # seconds that are spent at least and at most


def verdict(launch, arguments: Callable[[], Sequence], limit: float, hung: Sequence[tuple[int, int, int]], target: str) -> str:
    """`arguments()` gives the copies or raises; it runs under the time limit, too."""
    found: list[str] = []
    limit = min(max(limit, _LIMITS[0]), _LIMITS[1])
    thread = threading.Thread(target=lambda: found.append(_simulated(launch, arguments, hung, target)), daemon=True)
    thread.start()
    thread.join(limit)
    if not found:
        return f"The simulator has not finished the same launch within {limit:g} s: no verdict."
    return found[0]


def _simulated(launch, arguments, hung, target: str) -> str:
    try:
        args = arguments()
    except Exception as error:
        return f"No verdict of the simulator: the arguments could not be copied ({error})."
    made = None
    try:
        made = prepare(launch.fn, launch.grid, args, dict(launch.meta), target)
        only = _cluster_of(made.program, made.grid, hung[0]) if hung and _on_its_own(made.program) else None
        what = "the same launch" if only is None else f"cluster {only[0]} of the same launch" if len(only) > 1 else \
            f"CTA {only[0]} of the same launch"
        run(made.program, made.grid, made.values, hooks=Hooks(clusters=[only] if only else ()))
    except MimwError as error:
        if isinstance(error, OutOfBounds) and made is not None and makes_pointers(made.program):
            return ("No verdict of the simulator: the kernel follows addresses of the GPU's memory, which is not here "
                    f"({error.message}).")
        return f"The simulator, on the same launch: {error}"
    except Exception as error:
        return f"No verdict: the simulator ended with {type(error).__name__}: {error}"
    return (f"The simulator runs {what} to its end, with the arguments as they are now. `mimw check` tries other interleavings; "
            "it does not see what only a GPU does (registers, memory past an array, code in assembly).")


def _on_its_own(program: Program) -> bool:
    """True if no cluster waits for another: nothing waits for the whole grid, and no loop looks at memory."""
    return not program.cooperative and all(op.name != "while" and op.row.blocks != "poll" for op in program.walk())


def _cluster_of(program: Program, grid: Sequence[int], index: tuple[int, int, int]) -> list[tuple[int, int, int]] | None:
    found = (cluster for cluster in clusters((*grid, 1, 1)[:3], program.cluster) if index in cluster)
    return next(islice(found, 1), None)
