"""`tle.shard_id`: where in the mesh this program runs.

Input: a mesh and one of its axes, by name or number. Output: arithmetic on the program id. For example, on a mesh of 2
CTAs:

    me = tle.shard_id(mesh, "cluster_x")        %18 = get_program_id axis=0; %me = srem %18, %19      with %19 = 2
"""

from __future__ import annotations

from math import prod

import triton.language.core as tl

from ..core import unwrap, word
from ..refuse import refuse
from .bound_mesh import bound_mesh, device_axes
from .launch import checked_mesh, use_mesh


@word
def shard_id(mesh, axis, _semantic=None) -> tl.tensor:
    """This program's coordinate along `axis` of the mesh that the launch is described by, an i32 scalar.

    args:      mesh - a device_mesh, or one bound to GPUs by `bind_mesh`; of a sub-mesh, the axes are those of the mesh that it
                      comes from
               axis - its name or number, negative ones from the end
    errors:    TypeError: no mesh, an axis that is neither name nor number. ValueError: no axis of that name. IndexError: no such
               number. NotImplementedError: an axis of nodes or devices beside clusters or blocks, which would be other GPUs, of a
               mesh that is not bound
    not:       without effect on the launch: with a mesh of cluster axes it starts clusters, and its grid counts them
    lowers to: arithmetic on tl.program_id(0)

    The ranks of a cluster's CTAs, program_id(0) % size, go through the cluster axes row-major; other axes count clusters.
    example:   rank = tle.shard_id(mesh, "x")
    """
    bound, axis = mesh if isinstance(mesh, bound_mesh) else None, unwrap(axis)
    mesh = checked_mesh("tle.shard_id", mesh if bound is None else bound.mesh)
    name = _axis_name(mesh, axis)
    if bound is not None and name in dict(device_axes(mesh)):
        return _coordinate(bound.rank(_semantic), device_axes(mesh), name, _semantic)
    use_mesh("tle.shard_id", mesh, _semantic)
    inside = [one for one, _ in mesh.launch_axes]
    outside = [(one, size) for one, size in zip(mesh.launch_dim_names, mesh.launch_shape) if one not in inside]
    number = tl.program_id(0, _semantic=_semantic)
    if name in inside:
        return _coordinate(number, mesh.launch_axes, name, _semantic)
    extent = dict(outside)[name]
    if extent > 1 and any(kind in name for kind in ("node", "device")):
        refuse(NotImplementedError, f"tle.shard_id: axis {name!r} of {mesh!r} numbers other GPUs; bind the mesh to the table "
                                    "of this rank by tle.bind_mesh(mesh, world)")
    number = _semantic.floordiv(number, _semantic.to_tensor(mesh.launch_size))
    return _coordinate(number, outside, name, _semantic)


def _axis_name(mesh, axis) -> str:
    names = mesh.launch_dim_names
    if isinstance(axis, bool) or not isinstance(axis, (str, int)):
        refuse(TypeError, f"tle.shard_id: axis must be a name or an int, got {axis!r}")
    if isinstance(axis, str):
        if axis not in names:
            refuse(ValueError, f"tle.shard_id: no axis is named {axis!r}; the mesh was made with {names}")
        return axis
    if not -len(names) <= axis < len(names):
        refuse(IndexError, f"tle.shard_id: axis {axis} of a mesh of {len(names)} axes {names}")
    return names[axis]


def _coordinate(number: tl.tensor, axes, name: str, semantic) -> tl.tensor:
    """The coordinate along `name` of the element with that row-major number."""
    names, sizes = [one for one, _ in axes], [size for _, size in axes]
    at = names.index(name)
    stride, around = prod(sizes[at + 1:]), prod(sizes[at:])
    if sizes[at] == 1:
        return semantic.to_tensor(0)
    number = semantic.mod(number, semantic.to_tensor(around))
    return number if stride == 1 else semantic.floordiv(number, semantic.to_tensor(stride))
