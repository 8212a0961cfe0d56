"""Conflicts of layouts: the smallest set of lines that disagree, each with the layouts that it takes.

Input: the requirements on a buffer, and the layouts that were tried. Output: an error:

    no layout of buffer 'tile' suits these uses:
      kernel.py:7 tma_load wants nvmma(128): its descriptor is ...
      kernel.py:9 remote_store wants swizzled(1, 1, 1): stores to another CTA compute addresses from plain rows
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import PurePath

from ...errors import LayoutConflict
from ...ir.layouts import SharedLayout
from ...ir.site import Site
from .requirements import Requirement


def at(site: Site) -> str:
    """`file:line` with the file's name alone."""
    return f"{PurePath(site.file).name}:{site.line}"


def smallest_disagreement(requirements: Sequence[Requirement],
                          layouts: Sequence[SharedLayout]) -> tuple[Requirement, ...]:
    """The first smallest subset that none of `layouts` satisfies; empty if one satisfies all.

    Requirements that accept the same layouts count once, the first in program order speaking for them.
    """
    distinct: dict[tuple[bool, ...], Requirement] = {}
    for requirement in requirements:
        distinct.setdefault(tuple(requirement.layouts.accepts(layout) for layout in layouts), requirement)
    for size in range(1, len(distinct) + 1):
        for subset in combinations(distinct.items(), size):
            if not any(all(column) for column in zip(*(accepted for accepted, _ in subset))):
                return tuple(requirement for _, requirement in subset)
    return ()


def conflict(name: str, disagreement: Sequence[Requirement]) -> LayoutConflict:
    """The error for a buffer whose requirements disagree."""
    lines = "\n".join(f"  {at(requirement.site)} {requirement}" for requirement in disagreement)
    uses = "these uses" if len(disagreement) > 1 else "this use"
    return LayoutConflict(f"no layout of buffer {name!r} suits {uses}:\n{lines}",
                          *(requirement.site for requirement in disagreement),
                          hint="give the uses buffers of their own, or make the layouts that they name agree.")
