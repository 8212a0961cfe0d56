"""Launch keywords of a kernel: clusters, grids and numbers of warps, and the checks that refuse bad ones beforehand.

Input: a launch's keywords, its grid, and the chip. Output: the cluster's shape as (x, y, z), or a `LaunchError`. For
example:

    canonical_keywords({"cluster_dims": (2, ), "num_warps": 4})     {"num_warps": 4, "ctas_per_cga": (2, 1, 1)}
    check_grid((3, ), (2, 1, 1))                                    LaunchError: clusters of 2 do not divide 3 CTAs
    check_numbers({"num_warps": 3})                                 LaunchError: a power of two, 1 or more

The grid stays the number of CTAs. The hardware groups neighbouring ones into clusters of the given shape, whose CTAs
run at the same time and reach each other's shared memory; every CTA is a program instance of its own (CUDA C++
Programming Guide, "Thread Block Clusters").
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from difflib import get_close_matches
from math import prod
from operator import index
from typing import Any

from ..errors import LaunchError, TargetError
from ..ir import ALONE
from ..ir.site import site_of
from ..target import Target

KEYWORDS = ("ctas_per_cga", "cluster_dims", "preferred_ctas_per_cga", "launch_cluster")

CLUSTERS = ("ctas_per_cga", "preferred_ctas_per_cga")     # those that are left of them: each must divide the grid

Shape = tuple[int, int, int]

# Triton's launch options that are numbers: what they count, the least, and a usual one. Triton takes them as they come, and
# Python or the assembler then complains of something else.
_NUMBERS = {"num_warps": ("warps, a power of two", 1, 4), "num_stages": ("stages of loops", 0, 3),
            "num_ctas": ("CTAs a program", 1, 1), "maxnreg": ("registers a thread", 1, 128)}
_SWITCHES = ("enable_fp_fusion", "debug", "sanitize_overflow", "launch_cooperative_grid", "launch_pdl")


def cluster_shape(value: Any, keyword: str = "ctas_per_cga") -> Shape | None:
    """`value`, 1 to 3 positive ints with x first, as (x, y, z); None for None. LaunchError otherwise."""
    if value is None:
        return None
    extents = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    whole = all(hasattr(extent, "__index__") and not isinstance(extent, bool) and extent > 0 for extent in extents)
    if not 1 <= len(extents) <= 3 or not whole:
        raise LaunchError(f"{keyword} should be the cluster's shape in CTAs, 1 to 3 positive ints such as (2, 1, 1), not {value!r}")
    x, y, z = (*map(int, extents), 1, 1)[:3]
    return x, y, z


def canonical_keywords(keywords: Mapping[str, Any], own: Container[str] = ()) -> dict[str, Any]:
    """Launch keywords with at most `ctas_per_cga` and `preferred_ctas_per_cga` of ours, as (x, y, z), and only if given.

    `own` are the kernel's parameters: a keyword of that name is the kernel's. `launch_cluster` says nothing that the shape
    does not. LaunchError if `ctas_per_cga` and `cluster_dims` contradict each other.
    """
    ours = {name: value for name, value in keywords.items() if name in KEYWORDS and name not in own}
    if not ours:
        return dict(keywords)
    rest = {name: value for name, value in keywords.items() if name not in ours}
    shape, synonym = (cluster_shape(ours.get(name), name) for name in ("ctas_per_cga", "cluster_dims"))
    if None not in (shape, synonym) and shape != synonym:
        raise LaunchError(f"ctas_per_cga={shape} and cluster_dims={synonym} contradict each other; they are two names of one thing",
                          hint="give one of them")
    preferred = cluster_shape(ours.get("preferred_ctas_per_cga"), "preferred_ctas_per_cga")
    found = {"ctas_per_cga": shape or synonym, "preferred_ctas_per_cga": preferred}
    return rest | {name: value for name, value in found.items() if value is not None}


def check_numbers(options: Mapping[str, Any], own: Container[str] = ()) -> None:
    """Raise LaunchError for a launch option of Triton's that is no number of its unit, or no truth value. None is the
    default; `own` are the kernel's parameters, whose names are not options."""
    for name, value in options.items():
        if name in own or value is None:
            continue
        if name in _SWITCHES and (not hasattr(value, "__index__") or index(value) not in (0, 1)):
            raise LaunchError(f"{name} is {value!r}; it may be True or False")
        if name not in _NUMBERS:
            continue
        what, least, usual = _NUMBERS[name]
        whole = hasattr(value, "__index__") and not isinstance(value, bool)
        if not whole or index(value) < least or name == "num_warps" and index(value).bit_count() != 1:
            raise LaunchError(f"{name} is {value!r}; it is a number of {what}, {least} or more, such as {name}={usual}")


def check_cluster_target(shape: Shape | None, preferred: Shape | None, target: Target) -> None:
    """Refuse a cluster that the chip cannot run, and a preferred one below sm_100."""
    size = prod(shape or ALONE)
    if size > target.max_cluster:
        what = f"at most {target.max_cluster} CTAs a cluster" if target.max_cluster > 1 else "no clusters"
        raise TargetError(f"ctas_per_cga={shape} asks for clusters of {size} CTAs; {target} has {what}")
    if preferred is not None and not target.has("preferred_cluster"):
        raise LaunchError(f"preferred_ctas_per_cga={preferred} needs sm_100 or newer; this kernel is compiled for {target}",
                          hint="give ctas_per_cga alone")
    if preferred is not None:
        _check_preferred(preferred, shape or ALONE, target)


def _check_preferred(preferred: Shape, shape: Shape, target: Target) -> None:
    """Refuse a preferred cluster that the driver does not take: it is a multiple of the regular one, no larger than a cluster
    may be (CUDA driver API, CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION).

    A preference that is kept to that changes nothing: Triton's launcher passes no such attribute, and the PTX says by
    `.reqnctapercluster` how many CTAs a cluster has, which ranks and cluster barriers are compiled for. The hardware may launch
    regular clusters at any time, so such a launch is possible for any kernel.
    """
    if any(wide % extent for wide, extent in zip(preferred, shape)):
        raise LaunchError(f"preferred_ctas_per_cga={preferred} is no multiple of ctas_per_cga={shape}, whose clusters it would put "
                          "together", hint="give a multiple in every dimension, or ctas_per_cga alone")
    if prod(preferred) > target.max_cluster:
        raise TargetError(f"preferred_ctas_per_cga={preferred} asks for clusters of {prod(preferred)} CTAs; {target} has at most "
                          f"{target.max_cluster} CTAs a cluster")


def check_mesh_target(size: int, target: Target) -> None:
    """Refuse clusters of a mesh that the chip cannot run."""
    if size > target.max_cluster:
        what = f"at most {target.max_cluster} CTAs a cluster" if target.max_cluster > 1 else "no clusters"
        raise TargetError(f"the kernel's mesh asks for clusters of {size} CTAs; {target} has {what}")


def grid_extents(grid: Any, limit: Shape | None = None) -> tuple[int, ...]:
    """The extents of a grid, 1 to 3 whole numbers (one may be given as it is), none above `limit`. LaunchError otherwise."""
    extents = tuple(grid) if isinstance(grid, Iterable) and not isinstance(grid, str) else (grid, )
    for extent in extents:
        if not hasattr(extent, "__index__"):
            if extent is None:
                raise LaunchError("the grid is None, or a function that returned None",
                                  hint="write `kernel[(n, )](...)`; a function returns a tuple: `lambda meta: (n, )`")
            raise LaunchError(f"an extent of the grid is {extent}, a {type(extent).__name__}; numbers of CTAs are whole",
                              hint="divide by triton.cdiv(n, BLOCK), or by //")
    extents = tuple(map(index, extents))
    if not 1 <= len(extents) <= 3 or min(extents) < 0:
        raise LaunchError(f"the grid {extents} should be 1 to 3 numbers of CTAs, none negative")
    for axis, extent, most in zip("xyz", extents, limit or ()):
        if extent > most:
            raise LaunchError(f"the grid {extents} has {extent:,} CTAs along {axis}; a launch may have {most:,} there",
                              hint="let each CTA do more, in a loop over tile ids that begins at tl.program_id(0)" if axis == "x"
                              else "put the larger extent first, or count along x alone and divide in the kernel")
    return extents


def check_grid(grid: Sequence[int], shape: Shape | None, keyword: str = "ctas_per_cga") -> None:
    """LaunchError unless the cluster that the launch's `keyword` asks for divides the grid in every dimension."""
    sizes = (*grid_extents(grid), 1, 1)[:3]
    for axis, size, extent in zip("xyz", sizes, shape or ALONE):
        if size % extent:
            raise LaunchError(f"the grid {tuple(grid)} has {size} CTAs along {axis}, which clusters of {keyword}={shape} do "
                              f"not divide: {size} % {extent} = {size % extent}",
                              hint="round the grid up and let the CTAs that are too many do nothing")


def divided_grid(grid: Sequence[int] | Callable, shapes: Mapping[str, Shape]) -> Sequence[int] | Callable:
    """The `grid`, checked against the clusters of the keywords; for a function of the arguments, a function that checks its
    result."""
    if callable(grid):
        def checked(arguments):
            found = grid(arguments)
            divided_grid(found, shapes)
            return found
        return checked
    for keyword, shape in shapes.items():
        check_grid(grid, shape, keyword)
    return grid


def extents_of(grid: Any, arguments: Mapping[str, Any]) -> Any:
    """The extents that `grid`, numbers or a function of the arguments, says. LaunchError for a function that cannot be asked so."""
    if not callable(grid):
        return grid
    try:
        return grid(arguments)
    except KeyError as error:
        asked = next(iter(error.args), None)
        if not isinstance(asked, str) or asked in arguments:
            raise
        close = get_close_matches(asked, list(arguments), n=1)
        refusal = LaunchError(f"the grid is a function that asks for {asked!r}, and the launch has {', '.join(arguments)}",
                              hint=f"did you mean {close[0]!r}?" if close else f"give `{asked}=` at the launch, or ask for another")
        cause = error
    except TypeError as error:
        if _takes_one(grid):
            raise
        refusal = LaunchError("the grid is a function that cannot be called with one argument, the launch's arguments by name",
                              hint="write `lambda meta: (triton.cdiv(n, meta['BLOCK']), )`")
        cause = error
    refusal.sites = (site_of(grid), ) if hasattr(grid, "__code__") else ()
    raise refusal from cause


def _takes_one(function: Any) -> bool:
    try:
        inspect.signature(function).bind({})
    except TypeError:
        return False
    except ValueError:      # of a function in C, which says nothing of its parameters
        return True
    return True
