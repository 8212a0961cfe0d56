"""Distribution of a tensor over a mesh: `S`, `P`, `B`, `sharding`, `make_sharded_tensor`. Annotations; they emit nothing.

Input: a mesh and marks for its axes. Output: a `ShardingSpec`, and a `ShardedTensor` that carries the spec. For
example:

    spec = tle.sharding(mesh, ["cluster_x", tle.B], partial="cluster_y")
    spec.split, spec.partial                                        (('cluster_x',), ()), ('cluster_y',)
    tle.make_sharded_tensor(tile, spec, (64, 32)).shard_shape       (32, 32), for a cluster_x of 2
"""

from __future__ import annotations

from math import prod
from typing import Any

import triton.language.core as tl

from ..composite import CompositeType
from ..core import identifier, unwrap
from ..described import described
from ..refuse import refuse
from .bound_mesh import bound_mesh, bound_spec
from .compile_time import CompileTimeValue
from .mesh import device_mesh


class _Axes(CompileTimeValue):
    """A mark with the mesh axis, or the group of them, that it is about."""

    def __init__(self, axis) -> None:
        super().__init__()
        axis = unwrap(axis)
        self.axis = tuple(axis) if isinstance(axis, list) else axis
        for name in _names(type(self).__name__, axis):
            if not name:
                refuse(ValueError, f"tle.{type(self).__name__}: an axis name is empty")

    @property
    def cache_key(self) -> str:
        """A text that differs between marks, for the key of a kernel."""
        return repr(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.axis!r})"


class S(_Axes):
    """Split over the mesh axis `axis`, a name or a group of names, the first outermost.

    example:   rows = tle.sharding(mesh, [tle.S("x"), tle.B])
    """


class P(_Axes):
    """Partial over `axis`: the shards along it add up to the value.

    example:   total = tle.sharding(mesh, [None], partial=[tle.P("x")])
    """


class _Broadcast(CompileTimeValue):
    """The class of `B`, which stands in lists of a kernel as it does on the host."""

    cache_key = "B"

    def __repr__(self) -> str:
        return "B"

    def __reduce__(self):
        return "B"

    def __deepcopy__(self, memo):
        return self

    def __copy__(self):
        return self


B = _Broadcast()


class ShardingSpec(CompileTimeValue):
    """The distribution of a tensor over a mesh.

    `split`: per tensor axis, the mesh axes that cut it, outermost first; `partial`: the mesh axes whose shards add up;
    `broadcast`: the mesh axes along which all shards are equal.

    example:   rows = tle.sharding(mesh, [tle.S("x"), None])
    """

    def __init__(self, mesh: device_mesh, split: tuple[tuple[str, ...], ...], partial: tuple[str, ...]) -> None:
        super().__init__()
        self.mesh, self.split, self.partial = mesh, split, partial

    @property
    def broadcast(self) -> tuple[str, ...]:
        return tuple(name for name in self.mesh.dim_names if self.axis_state(name) == "B")

    def axis_state(self, name: str) -> str:
        """ "S", "P" or "B" for a mesh axis; "B" for a name that the mesh has not."""
        name = unwrap(name)
        return "S" if any(name in names for names in self.split) else "P" if name in self.partial else "B"

    def factor(self, axis: int) -> int:
        """The number of pieces into which tensor axis `axis` is cut."""
        return prod(self.extent(name) for name in self.split[axis]) if axis < len(self.split) else 1

    def extent(self, name: str) -> int:
        """The size of a mesh axis."""
        return self.mesh.shape[self.mesh.dim_names.index(name)]

    @property
    def cache_key(self) -> str:
        """A text that differs between specs, which `repr` need not."""
        return f"sharding({self.mesh.cache_key}, {self.split}, {self.partial})"

    def __repr__(self) -> str:
        return f"ShardingSpec(mesh={self.mesh!r}, split={self.split}, partial={self.partial})"


def sharding(mesh, split=None, partial=None) -> ShardingSpec | bound_spec:
    """The distribution of a tensor over `mesh`.

    args:      mesh    - a device_mesh; in kernels also one that `bind_mesh` has bound to GPUs
               split   - list or tuple with an entry for each tensor axis: a mesh axis name, several of them (the first outermost),
                         S(...), or B, None or [] for not split. Tensor axes behind its end are not split; None or [] for the
                         whole: replicated.
               partial - list or tuple of names or P(...), or one of them: shards along these axes add up
    errors:    TypeError: `mesh` is no device_mesh, a list or an entry has another type. ValueError: an axis that the mesh has not,
               an empty name, an axis that is used twice.
    example:   rows = tle.sharding(mesh, [tle.S("x"), None])
    """
    mesh, split, partial = unwrap(mesh), unwrap(split), unwrap(partial)
    if isinstance(mesh, bound_mesh):
        return bound_spec(sharding(mesh.mesh, split, partial), mesh)
    if not isinstance(mesh, device_mesh):
        refuse(TypeError, "tle.sharding: the first argument is the mesh, sharding(mesh, split=None, partial=None); got "
                          f"{described(mesh)}. Annotate a tensor with tle.make_sharded_tensor(tensor, spec)")
    if split is not None and not isinstance(split, (list, tuple)):
        refuse(TypeError, f"tle.sharding: split must be a list or tuple with an entry for each tensor axis, got {split!r}")
    if isinstance(partial, (str, P)):
        partial = (partial, )
    if partial is not None and not isinstance(partial, (list, tuple)):
        refuse(TypeError, f"tle.sharding: partial must be a list or tuple of axis names, got {partial!r}")
    cuts = tuple(_names("split", entry, S) for entry in split or ())
    sums = [name for entry in partial or () for name in _names("partial", entry, P)]
    _check(mesh, "split", [name for names in cuts for name in names])
    _check(mesh, "partial", sums)
    for name in sums:
        if any(name in names for names in cuts):
            refuse(ValueError, f"tle.sharding: axis {name!r} is both split and partial")
    return ShardingSpec(mesh, cuts, tuple(name for name in mesh.dim_names if name in sums))


def _names(what: str, entry, mark: type = _Axes) -> tuple[str, ...]:
    """The axis names of one entry of a list, as a tuple."""
    if mark is S and (entry is None or entry is B):
        return ()
    if isinstance(entry, mark):
        entry = entry.axis
    if isinstance(entry, str):
        return (entry, )
    if isinstance(entry, (list, tuple)) and all(isinstance(name, str) for name in entry):
        return tuple(entry)
    refuse(TypeError, f"tle.sharding: an entry of `{what}` is an axis name or a list of them, got {entry!r}")


def _check(mesh: device_mesh, what: str, names: list[str]) -> None:
    for name in names:
        if not name:
            refuse(ValueError, f"tle.sharding: an axis name in {what} is empty")
        if name not in mesh.dim_names:
            refuse(ValueError, f"tle.sharding: {what} names the axis {name!r}; {mesh!r} has no axis of that name")
        if names.count(name) > 1:
            refuse(ValueError, f"tle.sharding: {what} uses axis {name!r} {names.count(name)} times")


class ShardedTensor(tl.base_value):
    """A tensor spread over a mesh: `handle` is this CTA's shard (or a pointer to all of it), `sharding` says how, `shape` is
    the shape of the whole, or None. Made by `make_sharded_tensor`. `spec` is the sharding without this rank's table, which `bound`
    has: the mesh, if its devices are GPUs.

    example:   x = tle.make_sharded_tensor(tl.load(x_ptr + at), tle.sharding(mesh, [tle.S("x")]), [2 * N])
    """

    def __init__(self, handle, sharding: ShardingSpec, shape: tuple[int, ...] | None, bound: bound_mesh | None = None) -> None:
        super().__init__()
        self.handle, self.spec, self.shape, self.bound = handle, sharding, shape, bound

    @property
    def sharding(self) -> ShardingSpec | bound_spec:
        """The result of `tle.sharding`: for a mesh that is bound to GPUs, with the table."""
        return self.spec if self.bound is None else bound_spec(self.spec, self.bound)

    @property
    def type(self) -> ShardedTensorType:
        return ShardedTensorType(tl.constexpr(self.handle).type if _is_plain(self.handle) else self.handle.type, self.spec,
                                 self.shape, None if self.bound is None else self.bound.type)

    def _flatten_ir(self, handles: list) -> None:
        if not _is_plain(self.handle):
            self.handle._flatten_ir(handles)
        if self.bound is not None:
            self.bound._flatten_ir(handles)

    def _set_name(self, builder, name: str) -> None:
        if hasattr(self.handle, "_set_name"):
            self.handle._set_name(builder, name)

    @property
    def shard_shape(self) -> tuple[int, ...] | None:
        """The shape of one shard."""
        return None if self.shape is None else tuple(
            extent // self.spec.factor(axis) for axis, extent in enumerate(self.shape))

    def __repr__(self) -> str:
        return f"ShardedTensor(shape={self.shape}, sharding={self.spec!r})"

    __str__ = __repr__


class ShardedTensorType(CompositeType):
    """The type of a `ShardedTensor` in a kernel: its handle's, with the distribution and the shape."""

    def __init__(self, handle, spec: ShardingSpec, shape, bound=None) -> None:
        self.handle, self.spec, self.shape, self.bound = handle, spec, shape, bound

    @property
    def parts(self) -> tuple[tl.base_type, ...]:
        return (self.handle, ) if self.bound is None else (self.handle, self.bound)

    def of(self, values: list) -> ShardedTensor:
        handle, *bound = values
        return ShardedTensor(handle, self.spec, self.shape, *bound)

    def mangle(self) -> str:
        bound = "" if self.bound is None else f"_{self.bound.mangle()}"
        return f"SHARDED_{self.handle.mangle()}_{self.spec.type.mangle()}_{identifier(self.shape)}{bound}"

    def __eq__(self, other) -> bool:
        return type(other) is type(self) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> tuple:
        return self.handle, self.spec, self.shape, self.bound

    def __str__(self) -> str:
        cuts = f"{self.handle} of {self.shape}, split={self.spec.split}, partial={self.spec.partial}"
        return f"sharded<{cuts}, over {self.spec.mesh.type if self.bound is None else self.bound}>"


def _is_plain(value: Any) -> bool:
    return not isinstance(value, tl.base_value)


def make_sharded_tensor(handle, sharding, shape=None) -> ShardedTensor:
    """`handle` seen as a shard of a tensor of the logical `shape`, distributed by `sharding`.

    args:      handle   - in kernels a register tensor, buffer or shared pointer, this CTA's shard; or a pointer to the whole tensor
                          in global memory, row-major. Of a mesh that is bound to GPUs: to what this GPU has of it, the pieces of
                          its CTAs, row-major; in a symmetric array, so that `tle.remote` finds other GPUs' pieces
               sharding - of `tle.sharding`
               shape    - the shape of the whole tensor
    errors:    TypeError: `sharding` is no ShardingSpec, `shape` no list or tuple. ValueError: more split entries than extents (of
               fewer, the rest is not split); an extent that its split factor does not divide
    example:   x = tle.make_sharded_tensor(tl.load(x_ptr + at), tle.sharding(mesh, [tle.S("x")]), [2 * N])
    """
    spec, shape = unwrap(sharding), unwrap(shape)
    spec, bound = (spec.spec, spec.mesh) if isinstance(spec, bound_spec) else (spec, None)
    if not isinstance(spec, ShardingSpec):
        refuse(TypeError, f"tle.make_sharded_tensor: sharding must be a ShardingSpec made by tle.sharding, got {described(spec)}")
    if shape is not None and not isinstance(shape, (list, tuple)):
        refuse(TypeError, f"tle.make_sharded_tensor: shape must be a list or tuple, got {shape!r}")
    shape = None if shape is None else tuple(shape)
    if shape is not None:
        check_split("tle.make_sharded_tensor", spec, shape)
    return ShardedTensor(handle, spec, shape, bound)


def check_split(name: str, spec: ShardingSpec, shape: tuple[int, ...]) -> None:
    """ValueError, in the word `name`, if a tensor of the logical `shape` cannot be spread so."""
    if len(spec.split) > len(shape):
        refuse(ValueError, f"{name}: the split has {len(spec.split)} entries and the shape {shape} has {len(shape)}")
    for axis, extent in enumerate(shape):
        factor = spec.factor(axis)
        if extent % factor:
            refuse(ValueError, f"{name}: axis {axis} has {extent} elements, which its split over {spec.split[axis]} "
                               f"does not divide: "
                               f"{extent} % {factor} = {extent % factor}")


def check_tile(name: str, what: str, extents: tuple[int, ...]) -> None:
    """ValueError, in the word `name`, if `what` of these extents cannot be a tile."""
    odd = next((extent for extent in extents if extent & (extent - 1)), None)
    if odd is not None:
        refuse(ValueError, f"{name}: {what} has the extents {tuple(extents)}, and a tile's are powers of two, which {odd} is not; "
                           "fill the tensor up to such extents, or cut it into pieces that have them")


for _function in (sharding, make_sharded_tensor):
    setattr(_function, tl.TRITON_BUILTIN, True)
