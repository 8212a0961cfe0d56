"""`tle.device_mesh`: named axes over the CTAs that work together, and the launch that such a mesh means.

Input: a topology, level name -> size or (axis name, size) pairs. Output: an immutable host object. For example:

    mesh = tle.device_mesh({"grid": [("cluster_x", 2), ("cluster_y", 4)]})
    mesh.launch_size, mesh.is_block_mesh        8, False: clusters of 8 CTAs
    mesh[:, 1].ranks()                          (1, 5)

Kernels receive a mesh as a compile-time value, so a mesh is compared by content, and is part of every cache key by
content: `repr` is short by contract, `str` and `cache_key` differ between sub-meshes.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Any

import triton.language.core as tl

from ..core import unwrap
from ..displays import Display
from ..refuse import refuse
from .compile_time import CompileTimeValue


def _in_kernels(method):
    """A method that kernels may call: Triton refuses functions that are not marked."""
    setattr(method, tl.TRITON_BUILTIN, True)
    return method


class device_mesh(CompileTimeValue):
    """A grid of CTAs (or, past one GPU, of devices) with a name for each axis.

    args:      topology - level name -> description, outermost first. A description is a positive int, one axis named after the
                          level, or a non-empty list of (axis name, size) pairs.
    errors:    TypeError: not a mapping; a description or a size of another type. ValueError: an empty topology or level, a
               malformed pair, a size below 1, a name that is empty, no string, or given twice.

    `mesh[key]` takes ints (the axis goes), slices and one `...`, as numpy does, and gives the mesh of what is selected.
    Sub-meshes keep the shape and the names of the mesh that they come from, `launch_shape` and `launch_dim_names`: a launch
    is described by the root. `physical_ids` are the selected positions in it, row-major.

    In a launch, the axes whose names contain "cluster" decide; if there are none, those with "block"; else all. Axes with
    "block" mean the CTAs of the whole grid, the others those of one cluster. Axes "node" and "device" of a mesh that has
    neither clusters nor blocks are CTAs of a cluster too: one GPU runs them side by side.
    example:   PAIR = tle.device_mesh({"block_cluster": [("x", 2)]})
    """

    def __init__(self, topology: Mapping[str, Any]) -> None:
        super().__init__()
        axes = _axes(unwrap(topology))
        self._set([size for _, size in axes], [name for name, _ in axes], None)

    def _set(self, shape, names, ids, launch=None) -> device_mesh:
        self.shape, self.dim_names = tuple(shape), tuple(names)
        self.physical_ids = tuple(range(prod(self.shape))) if ids is None else tuple(ids)
        self.launch_shape, self.launch_dim_names = launch or (self.shape, self.dim_names)
        return self

    def _derived(self, shape, names, ids) -> device_mesh:
        launch = self.launch_shape, self.launch_dim_names
        return device_mesh.__new__(device_mesh)._set(shape, names, ids, launch)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @_in_kernels
    def flatten(self) -> device_mesh:
        """The same CTAs along one axis named "flat"."""
        return self.reshape(self.size)

    @_in_kernels
    def reshape(self, *sizes) -> device_mesh:
        """The same CTAs in the same order under another shape, given as ints or one tuple. Names stay if the rank does."""
        sizes = unwrap(sizes)
        sizes = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes
        if any(isinstance(size, bool) or not isinstance(size, int) for size in sizes):
            refuse(TypeError, f"device_mesh.reshape: sizes must be ints, got {sizes}")
        if not sizes or min(sizes) < 1 or prod(sizes) != self.size:
            refuse(ValueError, f"device_mesh.reshape: {sizes} does not hold the {self.size} elements of {self!r}")
        names = self.dim_names if len(sizes) == self.ndim else ("flat", ) if len(sizes) == 1 else tuple(
            f"dim{axis}" for axis in range(len(sizes)))
        return self._derived(sizes, names, self.physical_ids)

    @_in_kernels
    def __getitem__(self, key) -> device_mesh:
        selected = [self._selected(axis, entry) for axis, entry in enumerate(_full_key(key, self.ndim))]
        for axis, indices in enumerate(selected):
            if isinstance(indices, range) and not indices:
                refuse(ValueError, f"device_mesh[...]: the slice of axis {self.dim_names[axis]!r} selects nothing")
        kept = [(len(indices), name) for indices, name in zip(selected, self.dim_names) if isinstance(indices, range)]
        strides = [prod(self.shape[axis + 1:]) for axis in range(self.ndim)]
        places = product(*(indices if isinstance(indices, range) else (indices, ) for indices in selected))
        ids = [self.physical_ids[sum(at * stride for at, stride in zip(place, strides))] for place in places]
        return self._derived([size for size, _ in kept], [name for _, name in kept], ids)

    def _selected(self, axis: int, entry) -> int | range:
        """The part of its axis that one entry of a key selects: an index, which removes the axis, or a range of indices."""
        extent = self.shape[axis]
        if isinstance(entry, (slice, tl.slice)):
            return range(*slice(*(unwrap(bound) for bound in (entry.start, entry.stop, entry.step))).indices(extent))
        if isinstance(entry, bool) or not isinstance(entry, int):
            refuse(TypeError, f"device_mesh[...]: axis {self.dim_names[axis]!r} takes an int or a slice, not {entry!r}")
        if not -extent <= entry < extent:
            refuse(IndexError, f"device_mesh[...]: index {entry} of axis {self.dim_names[axis]!r}, which has {extent}")
        return entry % extent

    # ---- what it means for a launch ----------------------------------------------------------------------------------

    @property
    def _decides(self) -> str:
        """The word in the names of the axes that decide the launch, or "" for all axes."""
        return next((word for word in ("cluster", "block") if any(word in name for name in self.launch_dim_names)), "")

    @property
    def is_block_mesh(self) -> bool:
        """True for the CTAs of a whole grid, False for those of one cluster."""
        return self._decides == "block"

    @property
    def launch_axes(self) -> tuple[tuple[str, int], ...]:
        """The axes of the root mesh that decide the launch, as (name, extent), outermost first."""
        return tuple((name, size) for name, size in zip(self.launch_dim_names, self.launch_shape) if self._decides in name)

    @property
    def launch_size(self) -> int:
        """CTAs in a cluster, or in the whole grid of a block mesh."""
        return prod(size for _, size in self.launch_axes)

    def ranks(self) -> tuple[int, ...]:
        """The ranks in the cluster, or in the grid, of this mesh's elements, each once, in order."""
        names = [name for name, _ in self.launch_axes]
        found = (place_of(names, self.launch_axes, self._coordinates(number)) for number in self.physical_ids)
        return tuple(dict.fromkeys(found))

    def _coordinates(self, physical_id: int) -> dict[str, int]:
        coordinates = {}
        for name, size in zip(reversed(self.launch_dim_names), reversed(self.launch_shape)):
            physical_id, coordinates[name] = divmod(physical_id, size)
        return coordinates

    # ---- identity ----------------------------------------------------------------------------------------------------

    @property
    def cache_key(self) -> str:
        """A text that differs between meshes, which `repr` need not."""
        content = self.shape, self.dim_names, self.physical_ids, self.launch_shape, self.launch_dim_names
        return f"device_mesh{content}"

    def described(self) -> str:
        """`repr`, and of a part of a mesh, which part."""
        whole = self.physical_ids == tuple(range(prod(self.launch_shape)))
        return repr(self) if whole else f"{self!r} of places {self.physical_ids}"

    def __repr__(self) -> str:
        return f"DeviceMesh(shape={self.shape}, names={self.dim_names})"


def place_of(names: list[str], axes: tuple[tuple[str, int], ...], coordinates: Mapping[str, int]) -> int:
    """The row-major number of `coordinates` over those `axes` that `names` lists."""
    number = 0
    for name, size in axes:
        if name in names:
            number = number * size + coordinates[name]
    return number


def _axes(topology) -> list[tuple[str, int]]:
    if isinstance(topology, Display):     # {..} in a kernel
        topology = {unwrap(level): unwrap(description) for level, description in topology.pairs}
    if not isinstance(topology, Mapping):
        refuse(TypeError, f"device_mesh: topology must be a mapping of level names to descriptions, got {type(topology).__name__}")
    if not topology:
        refuse(ValueError, "device_mesh: topology is empty")
    axes = [axis for level, description in topology.items() for axis in _level(level, unwrap(description))]
    names = [name for name, _ in axes]
    for name in names:
        if names.count(name) > 1:
            refuse(ValueError, f"device_mesh: axis name {name!r} is given {names.count(name)} times; names are unique "
                               f"over the mesh")
    return axes


def _level(level, description) -> list[tuple[str, int]]:
    _check_name(level, "level")
    if isinstance(description, int) and not isinstance(description, bool):
        return [(level, _size(level, description))]
    if not isinstance(description, (list, tuple)):
        refuse(TypeError, f"device_mesh: level {level!r} must be an int or a list of (name, size) pairs, got {description!r}")
    if not description:
        refuse(ValueError, f"device_mesh: level {level!r} has no axes")
    axes = []
    for pair in description:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            refuse(ValueError, f"device_mesh: level {level!r} holds {pair!r}, which is no (name, size) pair")
        name, size = unwrap(pair)
        _check_name(name, "axis")
        axes.append((name, _size(name, size)))
    return axes


def _check_name(name, what: str) -> None:
    if not isinstance(name, str) or not name:
        refuse(ValueError, f"device_mesh: {what} names are non-empty strings, got {name!r}")


def _size(name: str, size) -> int:
    if isinstance(size, bool) or not isinstance(size, int):
        refuse(TypeError, f"device_mesh: the size of {name!r} must be an int, got {size!r}")
    if size < 1:
        refuse(ValueError, f"device_mesh: the size of {name!r} must be at least 1, got {size}")
    return size


def _full_key(key, ndim: int) -> list:
    """One entry for each axis: `...` and missing trailing axes filled with full slices."""
    key = unwrap(key)
    entries = list(key) if isinstance(key, tuple) else [key]
    dots = sum(entry is Ellipsis for entry in entries)
    if dots > 1:
        refuse(IndexError, "device_mesh[...]: only one `...` may be given")
    if len(entries) - dots > ndim:
        refuse(IndexError, f"device_mesh[...]: {len(entries) - dots} indices for {ndim} axes")
    at = entries.index(Ellipsis) if dots else len(entries)
    return [*entries[:at], *[slice(None)] * (ndim - len(entries) + dots), *entries[at + dots:]]
