"""Steps that take a tensor from one distribution over a mesh to another: those that leave the GPU apart from those that do
not.

Input: two `ShardingSpec`s, and which axes of their mesh are GPUs. Output: the specs on the way, the last one the wanted one. For
example, on a mesh {"device": 2, "cluster": 4}:

    partial [device, cluster] -> whole        partial [device]: each cluster adds up, then GPUs exchange one sum each; whole
    split [cluster] -> split [device]         split [], then split [device]: no step crosses both
    split [[device, cluster]] -> split []     split []: pieces of both kinds of owners, at once

Shared memory of a cluster is reached in half a microsecond, another GPU over NVLink in several: so a step by itself within the
cluster is worth its barrier. It goes first, unless it makes the tile larger.
"""

from __future__ import annotations

from math import prod

from ..refuse import refuse
from .places import Places
from .sharding import ShardingSpec


def crossed(have: ShardingSpec, want: ShardingSpec) -> tuple[str, ...]:
    """The mesh axes along which the elements of a new shard may lie in another shard."""
    found = [name for name in have.partial if name not in want.partial]
    for axis in range(len(have.split)):
        old, new = have.split[axis], want.split[axis] if axis < len(want.split) else ()
        same = next((at for at, (one, other) in enumerate(zip(old, new)) if one != other), min(len(old), len(new)))
        found += old[same:]
    return tuple(found)


def steps(name: str, have: ShardingSpec, want: ShardingSpec, shape: tuple[int, ...], places: Places) -> list[ShardingSpec]:
    """The distributions that come after `have`, for the word `name`; none if that is `want` already."""
    if _cuts(have) == _cuts(want) and have.partial == want.partial:
        return []
    over = crossed(have, want)
    for axis in over:
        if places.leaves([axis], "outside"):
            refuse(NotImplementedError, f"{name}: axis {axis!r} of {places.mesh!r} counts clusters, and programs of different "
                                        "clusters cannot synchronise; keep the tensor as it is along that axis, or give the mesh "
                                        "no axis of clusters beside the blocks")
    middle = None
    if places.leaves(over, "devices") and places.leaves(over, "inside") and not places.mesh.is_block_mesh:
        local, remote = (_half(have, want, places, first) for first in ("inside", "devices"))
        middle = local if local is not None and _size(local, shape) <= _size(have, shape) else remote
    return [want] if middle in (None, have, want) else [middle, want]


def _half(have: ShardingSpec, want: ShardingSpec, places: Places, kind: str) -> ShardingSpec | None:
    """`have` with the axes of that kind as they are in `want`; None if that cannot be done by itself."""
    def one(names, new: bool) -> tuple[str, ...]:
        return tuple(name for name in names if places.leaves([name], kind) == new)

    split = []
    for axis in range(max(len(have.split), len(want.split))):
        old, new = (spec.split[axis] if axis < len(spec.split) else () for spec in (have, want))
        if one(old, True) != one(new, True) and (one(old, False) or one(new, False)):
            return None         # the pieces of one kind of owners are pieces of the other's
        split.append(one(new, True) if one(old, True) != one(new, True) else old)
    sums = {*one(have.partial, False), *one(want.partial, True)}
    used = [axis for names in split for axis in names]
    if len(used) != len(set(used)) or sums & set(used):
        return None
    return ShardingSpec(have.mesh, tuple(split), tuple(axis for axis in have.mesh.dim_names if axis in sums))


def _size(spec: ShardingSpec, shape: tuple[int, ...]) -> int:
    """Elements of a shard."""
    return prod(shape) // prod(spec.factor(axis) for axis in range(len(shape)))


def _cuts(spec: ShardingSpec) -> tuple:
    """The split without the entries for axes that are whole at its end."""
    cuts = list(spec.split)
    while cuts and not cuts[-1]:
        cuts.pop()
    return tuple(cuts)
