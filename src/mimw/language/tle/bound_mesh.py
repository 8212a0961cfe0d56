"""`tle.bind_mesh`: a mesh whose device axes are GPUs, of which this program knows its own.

Input: a mesh and the pointer to this rank's table. Output: a value that `shard_id`, `remote`, `distributed_barrier` and `sharding`
take in place of a mesh. For example, with NODES = tle.device_mesh({"node": 2, "device": 4}) and a kernel parameter `world`:

    mesh = tle.bind_mesh(NODES, world)
    tle.shard_id(mesh, "device")                     rank % 4: a load from the table
    tle.remote(x_ptr, (1, 2), scope=mesh)            peer_pointer %x_ptr %world %c6
    tle.distributed_barrier(mesh[0])                 world_barrier %world gpus=(0, 1, 2, 3)

An axis is one of devices if its name has neither "cluster" nor "block" in it. The others mean the CTAs of each GPU, as in a mesh
that is not bound: the launch is then made of such clusters, or its barriers are of the whole grid. Which GPU has which rank is
row-major over the device axes. TLE as published says how a kernel names GPUs, and leaves to its runtime how a kernel learns of
them; here that is an argument.
"""

from __future__ import annotations

from math import prod

import triton.language.core as tl

from ..composite import CompositeType
from ..core import unwrap, word
from ..refuse import refuse
from ..tlx.world import checked_world, field
from .launch import checked_mesh
from .mesh import _in_kernels, device_mesh, place_of

_RANK = 0       # what the table of a rank begins with


@word
def bind_mesh(mesh, world, _semantic=None):
    """The mesh with GPUs for its device axes.

    args:      mesh  - a device_mesh with one or more axes whose names have neither "cluster" nor "block" in them
               world - the pointer to this rank's table, of int64 (docs/DISTRIBUTED.md)
    returns:   a bound mesh: `[...]`, `flatten`, `reshape` and the attributes of a mesh
    errors:    TypeError for another mesh or table; ValueError for a mesh without such an axis
    example:   mesh = tle.bind_mesh(NODES, world)
    """
    mesh = checked_mesh("tle.bind_mesh", mesh)
    checked_world("tle.bind_mesh", world)
    if not device_axes(mesh):
        refuse(ValueError, f"tle.bind_mesh: {mesh!r} has no axis of devices: all of {mesh.launch_dim_names} are clusters or blocks")
    return bound_mesh(mesh, world)


class bound_mesh(tl.base_value):
    """A `device_mesh` and the table of this rank."""

    def __init__(self, mesh: device_mesh, world: tl.tensor) -> None:
        super().__init__()
        self.mesh, self.world = mesh, world

    @property
    def type(self) -> bound_mesh_type:
        return bound_mesh_type(self.mesh, self.world.type)

    shape = property(lambda self: self.mesh.shape)
    ndim = property(lambda self: self.mesh.ndim)
    size = property(lambda self: self.mesh.size)
    dim_names = property(lambda self: self.mesh.dim_names)

    @_in_kernels
    def __getitem__(self, key) -> bound_mesh:
        return bound_mesh(self.mesh[key], self.world)

    @_in_kernels
    def flatten(self) -> bound_mesh:
        """The same programs along one axis."""
        return bound_mesh(self.mesh.flatten(), self.world)

    @_in_kernels
    def reshape(self, *sizes) -> bound_mesh:
        """The same programs in the same order under another shape."""
        return bound_mesh(self.mesh.reshape(*unwrap(sizes)), self.world)

    def gpus(self) -> tuple[int, ...]:
        """The ranks of the GPUs that this mesh's elements are on, each once, in order."""
        axes = device_axes(self.mesh)
        names = [name for name, _ in axes]
        return tuple(dict.fromkeys(place_of(names, axes, self.mesh._coordinates(number)) for number in self.mesh.physical_ids))

    @property
    def is_of_devices(self) -> bool:
        """True if each element is a GPU of its own."""
        return len(self.gpus()) == self.mesh.size

    def rank(self, semantic) -> tl.tensor:
        """The rank of this GPU, an i32 scalar."""
        return field("tle.shard_id", self.world, _RANK, semantic)

    def _flatten_ir(self, handles: list) -> None:
        self.world._flatten_ir(handles)

    def _set_name(self, builder, name: str) -> None:
        """The table keeps the name that it has."""

    def __eq__(self, other) -> bool:
        """The same places; there is one table."""
        return self.mesh == other.mesh if isinstance(other, bound_mesh) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.mesh)

    def __repr__(self) -> str:
        return f"bound {self.mesh!r}"

    __str__ = __repr__


class bound_spec(tl.base_value):
    """The distribution of a tensor over a bound mesh: `spec`, known at compile time, with the attributes of a `ShardingSpec`."""

    def __init__(self, spec, mesh: bound_mesh) -> None:
        super().__init__()
        self.spec, self.mesh = spec, mesh

    @property
    def type(self) -> bound_spec_type:
        return bound_spec_type(self.spec, self.mesh.type)

    split = property(lambda self: self.spec.split)
    partial = property(lambda self: self.spec.partial)
    broadcast = property(lambda self: self.spec.broadcast)

    @_in_kernels
    def axis_state(self, name: str) -> str:
        """ "S", "P" or "B" for a mesh axis."""
        return self.spec.axis_state(name)

    def _flatten_ir(self, handles: list) -> None:
        self.mesh._flatten_ir(handles)

    def _set_name(self, builder, name: str) -> None:
        """The table keeps the name that it has."""

    def __eq__(self, other) -> bool:
        """The same distribution, also of the mesh that is not bound."""
        return self.spec == (other.spec if isinstance(other, bound_spec) else other)

    def __hash__(self) -> int:
        return hash(self.spec)

    def __repr__(self) -> str:
        return f"bound {self.spec!r}"

    __str__ = __repr__


class bound_spec_type(CompositeType):
    """The type of a `bound_spec`: the distribution, and the type of the bound mesh."""

    def __init__(self, spec, mesh: bound_mesh_type) -> None:
        self.spec, self.mesh = spec, mesh

    @property
    def parts(self) -> tuple[tl.base_type, ...]:
        return (self.mesh, )

    def of(self, values: list) -> bound_spec:
        return bound_spec(self.spec, *values)

    def mangle(self) -> str:
        return f"{self.mesh.mangle()}_{self.spec.type.mangle()}"

    def __str__(self) -> str:
        return f"bound {self.spec!r}"


class bound_mesh_type(CompositeType):
    """The type of a `bound_mesh`: the mesh, which is known at compile time, and a pointer."""

    def __init__(self, mesh: device_mesh, world: tl.dtype) -> None:
        self.mesh, self.world = mesh, world

    @property
    def parts(self) -> tuple[tl.base_type, ...]:
        return (self.world, )

    def of(self, values: list) -> bound_mesh:
        return bound_mesh(self.mesh, *values)

    def mangle(self) -> str:
        return f"bound_{self.mesh.type.mangle()}"

    def __str__(self) -> str:
        return f"bound {self.mesh.type}"


def device_axes(mesh: device_mesh) -> tuple[tuple[str, int], ...]:
    """The axes of the root mesh that are GPUs once it is bound, as (name, extent), outermost first."""
    return tuple((name, size) for name, size in zip(mesh.launch_dim_names, mesh.launch_shape)
                 if "cluster" not in name and "block" not in name)


def has_programs(mesh: device_mesh) -> bool:
    """True if a bound mesh has axes of clusters or blocks, too."""
    return prod(mesh.launch_shape) > prod(size for _, size in device_axes(mesh))
