"""What a watchdog says of a launch that does not come back.

Input: a `Launch` (launch.py), its compiled program and the table of its stamps. Output: a text as the simulator's of a deadlock:
who waits at which line for which phase of which barrier, what could have come from where, the words of all barriers.

    BytesNeverSent: no task of CTA (0, 0, 0) and 131 others can go on.
      task 'consumer' of CTA (0, 0, 0) waits at gemm.py:22 for parity 0 of 'full'[0]: it is in a phase of parity 0 with 1 of 1 ...
"""

from __future__ import annotations

from math import prod

import numpy as np

from ...compiler.analysis import pipe_sides
from ...compiler.analysis.barrier_ops import signals
from ...compiler.analysis.barrier_ops import waits as barrier_waits
from ...errors import Deadlock, excerpt
from ...ir import Program, Site
from ...simulator.machine.deadlock import cause, waiting_lines
from .hung import Hung
from .table import SeenCta, clusters_of, index_of, seen

GROUPS = 4      # of clusters in one state that are told; the others are counted


def places(program: Program, grid: tuple[int, int, int], data: np.ndarray) -> str:
    """The lines at which a hung launch of a stamped program stands, CTA by CTA."""
    found = seen(program, data, prod(grid))
    if not found:
        return "No CTA has left a stamp: the kernel has not begun, all its CTAs have ended, or their stamps have not arrived."
    groups: dict[tuple, list[list[SeenCta]]] = {}
    for cluster in clusters_of(found, grid, program.cluster):
        groups.setdefault(tuple(cta.shape() for cta in cluster), []).append(cluster)
    able, sites, lines = signals(program), [], []
    for clusters in list(groups.values())[:GROUPS]:
        text, where = _group(program, clusters, grid, able)
        lines += text
        sites += where
    if len(groups) > GROUPS:
        rest = sum(len(cluster) for clusters in list(groups.values())[GROUPS:] for cluster in clusters)
        lines.append(f"and {rest} CTAs in {len(groups) - GROUPS} other states")
    lines.append(f"{len(found)} of {prod(grid)} CTAs have begun and not ended.")
    return "\n".join([*lines, *dict.fromkeys(excerpt(site) for site in dict.fromkeys(sites))])


def _group(program: Program, clusters: list[list[SeenCta]], grid: tuple[int, int, int], able) -> tuple[list[str], list[Site]]:
    """Clusters whose CTAs all stand alike: the first one, in full."""
    hung = Hung(program, clusters[0], grid)
    stuck = hung.blocked
    running = [task for task in hung.tasks if task.wait is None and not task.finished]
    names = _names(clusters, grid)
    kind, culprit = cause(stuck, able) if not running else (Deadlock, None)
    if running:
        lines = [f"Some tasks of {names} wait, and others run." if stuck else f"The tasks of {names} run."]
    else:
        lines = [f"{kind.__name__}: no task of {names} can go on."]
    for task in hung.tasks:
        if task.wait is not None:
            lines += waiting_lines(task, able)
        elif task in running:
            lines.append(f"  {task.where} " + (f"runs in the loop at {task.loop.site}" if task.loop else "runs, and does not wait"))
    for cta in hung.ctas:
        lines += _words(cta, len(hung.ctas) > 1)
    first = [culprit.wait.op.site] if culprit else []
    return lines, first + [task.wait.op.site for task in stuck] + [task.loop.site for task in running if task.loop]


def _names(clusters: list[list[SeenCta]], grid: tuple[int, int, int]) -> str:
    ctas = sum(map(len, clusters))
    first = ", ".join(str(index_of(cta.number, grid)) for cta in clusters[0])
    rest = ctas - len(clusters[0])
    return f"CTA{'s' * (len(clusters[0]) > 1)} {first}" + (f" and {rest} others in the same state" if rest else "")


def _words(cta, named: bool) -> list[str]:
    """The words of a CTA's barriers that somebody has looked at."""
    rows = [(barrier, word) for barrier, word in zip(cta.barriers, cta.seen.words) if word is not None]
    if not rows:
        return []
    wide = max(len(barrier.name) for barrier, _ in rows)
    whose = f" of CTA {cta.index}" if named else ""
    title = f"  the barriers{whose} when last seen: parity of the phase, arrivals, bytes pending, raw value"
    return [title, *(f"    {barrier.name:<{wide}}  {barrier.phase & 1}  {barrier.arrived} of {barrier.count}  "
                     f"{barrier.pending_bytes}  {word:#018x}" for barrier, word in rows)]


def lines_that_wait(program: Program) -> str:
    """The lines at which any launch of a program may wait: all that can be said without stamps."""
    about = {one.op: one for one in barrier_waits(program)}
    lines = []
    for op in program.walk():
        if op in about:
            one = about[op]
            pipe = pipe_sides(program).get(one.barrier.root)
            word, name = ("barrier_wait", repr(one.barrier.root.name or "a barrier"))
            if pipe is not None:
                word, name = pipe.verb(op), pipe.pipe
            lines.append(f"  {op.site}: {word} on {name}" + (f", in task {one.task!r}" if one.task else ""))
        elif op.row.blocks:
            lines.append(f"  {op.site}: {op.name}")
        elif op.name == "while":
            lines.append(f"  {op.site}: a loop without a bound")
    if not lines:
        return "It has no wait and no loop without a bound."
    return "\n".join(["It may wait at", *dict.fromkeys(lines)])
