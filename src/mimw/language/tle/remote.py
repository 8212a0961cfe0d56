"""`tle.remote`: another CTA's copy of a buffer, the elements that a pointer names there, another shard of a tensor.

Input: a buffer, shared pointers or a `ShardedTensor` of a kernel's call, and a shard id. Output: a `remote_buffer`, or
the op `remote_ptr`; for a tensor in global memory, pointers to the shard. For example, with `row` of 64 fp16:

    there = tle.remote(row, 1, scope=mesh)          the buffer of rank 1, no op but its rank
    tl.load(tle.gpu.local_ptr(there))               %p = remote_ptr %15, %there_1 : cluster *fp16[64]
                                                    %v = load %p, ..         with %15 = local_ptr %row, ..
"""

from __future__ import annotations

from math import prod

import triton.language.core as tl

from ..core import unwrap, word
from ..described import described
from ..refuse import refuse
from ..tlx import types as tlx
from ..tlx.world import peer_pointer
from .bound_mesh import bound_mesh, has_programs
from .choice import chosen
from .launch import checked_mesh, use_mesh
from .mesh import device_mesh
from .numbers import along, picked, product, total
from .places import Places
from .remote_buffer import remote_buffer
from .sharding import ShardedTensor, ShardingSpec, check_tile

_NAME = "tle.remote"


@word
def remote(tensor, shard_id, scope=None, _semantic=None):
    """`tensor` as it lies in another shard; loads, stores and atomics through the result go there.

    args:      tensor   - a buffer: the result is one for `local_ptr` only, of the same shape and dtype
                          a pointer or a tile of pointers into shared memory: pointers of that shape; arithmetic goes on
                          a pointer or a tile of pointers into a symmetric array in global memory, with a `scope` bound to GPUs
                          a tuple of descriptors of one type that the host has made, one of each GPU's array in the order of
                          such a `scope`: the result is that of the shard's GPU
                          a ShardedTensor whose handle is one of these: the same; or a pointer to the whole, row-major tensor in
                          global memory: a tile of pointers to the elements of that shard. Of a mesh that is bound to GPUs the
                          pointer leads to what this GPU has, in a symmetric array, and the result to what the shard's GPU has
               shard_id - the CTA's rank in the cluster, or its number in `scope`, row-major: an int or an i32 scalar;
                          or its coordinates in `scope`, a tuple of these
               scope    - (opt) the mesh; the launch is then made of its clusters. Of a ShardedTensor by default its own. One whose
                          device axes are GPUs is made by `bind_mesh`
    returns:   what `tensor` is, remote. Pointers that are remote come back as they are for shard 0.
    orders:    nothing: the owner writes, all pass a distributed_barrier, others read, all pass another before the owner writes
               again
    not:       checked at run time: a rank that the cluster has not is undefined (the simulator refuses it)
    errors:    TypeError: a tensor, mesh or shard id of another type, a run-time shard id that is not i32. ValueError: a negative
               int, one that the mesh has not, an empty tuple, one without `scope` or of another rank, a run-time shard id that is
               no scalar, a tensor that is remote, a bound scope with several programs on a GPU, or not one descriptor a GPU.
               NotImplementedError: a single descriptor, which has one array's address in it
    lowers to: PTX mapa, ld/st/atom.shared::cluster; integer atomics of 64 bits are a loop of atom.cas.b64, since ptxas has a load
               and a store for them in another CTA's memory. Of other GPUs: two loads from the table of this rank, and an addition
    example:   there = tl.load(tle.gpu.local_ptr(tle.remote(tile, 1), [0, 0]))
    """
    shard_id = unwrap(shard_id)
    if isinstance(tensor, ShardedTensor) and (tensor.bound is not None or isinstance(scope, bound_mesh)):
        return _shard_on_gpu(tensor, shard_id, scope, _semantic)
    if isinstance(scope, bound_mesh):
        if _is_pointer(tensor, "global"):
            return _on_gpu(tensor, shard_id, scope, _semantic)
        if isinstance(tensor, tl.tensor) and not tensor.dtype.is_ptr():
            refuse(TypeError, f"{_NAME}: takes a pointer, a tuple of descriptors or a ShardedTensor; got {described(tensor)}, "
                              "which is in the registers of its program, out of reach of others")
        if isinstance(tensor, tl.tensor_descriptor_base):
            refuse(NotImplementedError, f"{_NAME}: the descriptor of one array leads nowhere else; give a tuple of descriptors, "
                                        "one of each GPU's array, or take the peer's pointer, "
                                        "tle.remote(pointer, shard, scope=mesh), and make a descriptor of that by "
                                        "tl.make_tensor_descriptor")
        if isinstance(tensor, tuple):
            return _descriptor(tensor, shard_id, scope, _semantic)
        if not has_programs(scope.mesh):
            refuse(TypeError, f"{_NAME}: {described(tensor)} is not in global memory, and {scope} has no axis but GPUs, which "
                              "reach each other's global memory only")
        scope = scope.mesh
    scope = None if unwrap(scope) is None else checked_mesh(_NAME, scope, "scope")
    if isinstance(tensor, ShardedTensor):
        return _shard(tensor, shard_id, scope, _semantic)
    if isinstance(tensor, remote_buffer):
        refuse(ValueError, f"{_NAME}: {described(tensor)} is remote already; take the buffer itself")
    if _is_pointer(tensor, "cluster"):
        _rank(shard_id, scope, _semantic)
        if shard_id == 0 and not isinstance(shard_id, (tl.tensor, bool)):
            return tensor
        refuse(ValueError, f"{_NAME}: the pointer is remote already; take the pointer into this CTA's buffer")
    is_local = getattr(tensor, "is_local_memory", False)     # a buffer of tle.dsa
    if not isinstance(tensor, tlx.buffered_tensor) and not is_local and not _is_pointer(tensor, "shared"):
        to_gpus = "; a pointer into global memory leads to other GPUs with a `scope` that tle.bind_mesh has bound to the world"
        refuse(TypeError, f"{_NAME}: takes a buffer in shared memory, a pointer into one, or a ShardedTensor; got "
                          f"{described(tensor)}{to_gpus if _is_pointer(tensor, 'global') else ''}")
    if isinstance(tensor, tlx.buffered_tensor) and tensor.type.storage is not tlx.storage_kind.smem:
        refuse(TypeError, f"{_NAME}: the buffer is in {tensor.type.storage.value}; shards reach each other's shared memory only")
    rank = _rank(shard_id, scope, _semantic)
    if is_local or isinstance(tensor, tlx.buffered_tensor):
        return remote_buffer(tensor, rank)
    return remote_pointer(tensor, rank, _semantic)


def _on_gpu(pointer: tl.tensor, shard_id, scope: bound_mesh, semantic) -> tl.tensor:
    """The same elements of a symmetric array on the GPU of that number, or of those coordinates, in `scope`."""
    number, gpus = _one_gpu(shard_id, scope, semantic)
    return peer_pointer(pointer, picked(gpus, number, semantic), scope.world, _semantic=semantic)


def _one_gpu(shard_id, scope: bound_mesh, semantic) -> tuple:
    """The number in `scope` that the author names, and the ranks of its GPUs; ValueError unless each place is one GPU."""
    if not scope.is_of_devices:
        refuse(ValueError, f"{_NAME}: {scope} has several programs on each GPU, and global memory is one GPU's; take the part of "
                           "it with one program each, such as mesh[..., 0]")
    number = _number(shard_id, scope.mesh, semantic)
    gpus = scope.gpus()
    _check_static(number, len(gpus), str(scope))
    return number, gpus


def _descriptor(descriptors: tuple, shard_id, scope: bound_mesh, semantic):
    """The descriptor of the GPU with that number, or at those coordinates, in `scope`."""
    number, gpus = _one_gpu(shard_id, scope, semantic)
    types = {str(one.type) for one in descriptors if isinstance(one, tl.tensor_descriptor_base)}
    if len(types) != 1 or not all(isinstance(one, tl.tensor_descriptor_base) for one in descriptors):
        refuse(TypeError, f"{_NAME}: a tuple of descriptors of one type is wanted, got "
                          f"{[str(getattr(one, 'type', one)) for one in descriptors]}")
    if len(descriptors) != len(gpus):
        refuse(ValueError, f"{_NAME}: {len(descriptors)} descriptors for the {len(gpus)} GPUs of {scope}; give one of each, in "
                           "order")
    return chosen(descriptors, number, semantic)


def remote_pointer(pointer: tl.tensor, rank: tl.tensor, semantic, **known) -> tl.tensor:
    """The same elements of CTA `rank`'s buffer; `known` are the known facts of the pointers (attrs of `remote_ptr`)."""
    handle = semantic.builder.record("remote_ptr", pointer.handle, rank.handle, **known).results[0]
    there = tl.pointer_type(pointer.dtype.element_ty, "cluster")
    return tl.tensor(handle, tl.block_type(there, list(pointer.type.shape)) if pointer.type.is_block() else there)


def _is_pointer(value, space: str) -> bool:
    return isinstance(value, tl.tensor) and value.dtype.is_ptr() and value.dtype.address_space == space


# ---- whose -----------------------------------------------------------------------------------------------------------


def _rank(shard_id, scope: device_mesh | None, semantic) -> tl.tensor:
    """The rank in the cluster, an i32 scalar."""
    number = _number(shard_id, scope, semantic)
    if scope is None:
        _check_static(number, semantic.builder.launch_facts.cluster_size, "the cluster")
        return semantic.to_tensor(number)
    use_mesh(_NAME, scope, semantic)
    if scope.is_block_mesh:
        refuse(ValueError, f"{_NAME}: {scope!r} is the whole grid's; only the CTAs of a cluster reach each other's shared memory")
    ranks = scope.ranks()
    if isinstance(shard_id, (tuple, list)) and len(ranks) < scope.size:
        refuse(ValueError, f"{_NAME}: {scope!r} has {scope.size} places, and the shared memory of only {len(ranks)} CTAs is within "
                           "reach, those of this cluster; give the part of the mesh that is one cluster, such as "
                           f"mesh[{_one_cluster(scope)}], and coordinates in it")
    _check_static(number, len(ranks), repr(scope))
    return semantic.to_tensor(picked(ranks, number, semantic))


def _one_cluster(scope: device_mesh) -> str:
    """The key that leaves one cluster of a mesh."""
    inside = [name for name, _ in scope.launch_axes]
    return ", ".join(":" if name in inside else "0" for name in scope.dim_names)


def _check_static(number, size: int, where: str) -> None:
    if isinstance(number, int) and size > 1 and number >= size:
        refuse(ValueError, f"{_NAME}: shard {number} of {where}, which has {size}")


def _number(shard_id, scope: device_mesh | None, semantic) -> int | tl.tensor:
    """The number of the shard in `scope`, row-major."""
    if not isinstance(shard_id, (tuple, list)):
        return _checked(shard_id)
    if not shard_id:
        refuse(ValueError, f"{_NAME}: the shard id is an empty tuple")
    if scope is None:
        refuse(ValueError, f"{_NAME}: coordinates {_shown(shard_id)} need `scope`, the mesh that they are of")
    if len(shard_id) != scope.ndim:
        refuse(ValueError, f"{_NAME}: {len(shard_id)} coordinates {_shown(shard_id)} for the {scope.ndim} axes of {scope!r}")
    number: int | tl.tensor = 0
    for name, extent, coordinate in zip(scope.dim_names, scope.shape, shard_id):
        coordinate = _checked(coordinate)
        if isinstance(coordinate, int) and coordinate >= extent:
            refuse(ValueError, f"{_NAME}: coordinate {coordinate} of axis {name!r}, which has {extent}")
        number = total(product(number, extent, semantic), coordinate, semantic)
    return number


def _checked(shard_id) -> int | tl.tensor:
    """One number: an int that is not negative, or an i32 scalar."""
    if isinstance(shard_id, tl.tensor):
        if shard_id.type.is_block():
            refuse(ValueError, f"{_NAME}: a shard id is one number, not a {shard_id.type}")
        if shard_id.dtype != tl.int32:
            refuse(TypeError, f"{_NAME}: a run-time shard id is an int32, not a {shard_id.dtype}")
        return shard_id
    if isinstance(shard_id, bool) or not isinstance(shard_id, int):
        refuse(TypeError, f"{_NAME}: a shard id is an int, a scalar int32, or a tuple of them; got {shard_id!r}")
    if shard_id < 0:
        refuse(ValueError, f"{_NAME}: shard id {shard_id} is negative")
    return shard_id


def _shown(shard_id) -> tuple:
    return tuple(entry if isinstance(entry, int) else "?" for entry in shard_id)


# ---- shards ----------------------------------------------------------------------------------------------------------


def _shard(sharded: ShardedTensor, shard_id, scope: device_mesh | None, semantic):
    """Another shard's handle, or pointers to the elements that it owns."""
    handle, spec = sharded.handle, sharded.spec
    scope = spec.mesh if scope is None else scope
    if isinstance(handle, tlx.buffered_tensor) or _is_pointer(handle, "shared"):
        return remote(handle, shard_id, scope, _semantic=semantic)
    if _is_pointer(handle, "global") and not handle.type.is_block():
        return shard_pointers(_NAME, sharded, _coordinates(shard_id, scope, semantic), semantic)
    _refuse_registers()


def _shard_on_gpu(sharded: ShardedTensor, shard_id, scope, semantic):
    """Pointers to the elements of a shard on the GPU of those coordinates."""
    handle, bound = sharded.handle, sharded.bound
    if bound is None:
        refuse(ValueError, f"{_NAME}: {scope} is bound to GPUs, and the tensor's mesh is not; make the tensor's sharding of the "
                           "bound mesh: tle.sharding(mesh, ...)")
    if scope is not None and not isinstance(scope, bound_mesh):
        scope = bound_mesh(checked_mesh(_NAME, scope, "scope"), bound.world)
    scope = bound if scope is None else scope
    places = Places(scope.mesh, scope, semantic)
    if isinstance(handle, tlx.buffered_tensor) or _is_pointer(handle, "shared"):
        if len(set(places.gpus)) > 1:
            refuse(TypeError, f"{_NAME}: the shard is in shared memory, which other GPUs do not reach; put it in a symmetric array "
                              "and make its pointer the handle, or use tle.reshard")
        return remote(handle, shard_id, scope.mesh, _semantic=semantic)
    if not _is_pointer(handle, "global"):
        _refuse_registers()
    coordinates = _coordinates(shard_id, scope.mesh, semantic)
    there = peer_pointer(handle, places.gpu(coordinates), bound.world, _semantic=semantic)
    if handle.type.is_block() or sharded.shape == ():
        return there
    return shard_pointers(_NAME, ShardedTensor(there, sharded.spec, sharded.shape, bound), coordinates, semantic)


def _refuse_registers() -> None:
    refuse(TypeError, f"{_NAME}: the shard is in the registers of its CTA, out of reach of others; store it in a buffer of "
                      "tle.gpu.alloc and make that the handle, or use tle.reshard")


def shard_pointers(name: str, sharded: ShardedTensor, coordinates: dict, semantic) -> tl.tensor:
    """Pointers to the elements that a shard owns of a tensor in global memory, for the word `name`: of the whole tensor, or
    of one GPU's part of it."""
    spec, shape = sharded.spec, sharded.shape
    if shape is None:
        refuse(ValueError, f"{name}: the ShardedTensor has a pointer for a handle and no shape; give make_sharded_tensor the shape")
    for axis in dict.fromkeys(axis for names in spec.split for axis in names):
        if axis not in coordinates:
            refuse(ValueError, f"{name}: the tensor is split over {axis!r}, for which the scope gives no coordinate: it has axes "
                               f"{tuple(coordinates)}")
    split = _on_one_gpu(name, sharded, semantic)
    extents, held = sharded.shard_shape, []
    check_tile(name, "a shard", extents)
    for axis, extent in enumerate(extents):
        pieces = prod(spec.extent(one) for one in split[axis]) if axis < len(split) else 1
        held.append(extent * pieces)
    here, place = ShardingSpec(spec.mesh, split, spec.partial), None
    for axis, extent in enumerate(extents):
        at = tl.arange(0, extent, _semantic=semantic)
        start = product(tensor_coordinate(here, axis, coordinates, semantic), extent, semantic)
        at = semantic.add(at, semantic.to_tensor(start), False)
        at = product(at, prod(held[axis + 1:]), semantic)
        for other in range(len(extents)):
            at = at if other == axis else semantic.expand_dims(at, other)
        place = at if place is None else semantic.add(place, at, False)
    return semantic.add(sharded.handle, place, False)


def _on_one_gpu(name: str, sharded: ShardedTensor, semantic) -> tuple[tuple[str, ...], ...]:
    """The split of one GPU's part: without the axes of devices."""
    spec = sharded.spec
    if sharded.bound is None:
        return spec.split
    places = Places(spec.mesh, sharded.bound, semantic)
    for names in spec.split:
        for axis in names:
            if places.leaves([axis], "devices") and (places.leaves([axis], "inside") or places.leaves([axis], "outside")):
                refuse(ValueError, f"{name}: axis {axis!r} of {spec.mesh!r} counts GPUs and CTAs in one; of a tensor in global "
                                   "memory each axis has to be of one kind")
    return tuple(tuple(axis for axis in names if not places.leaves([axis], "devices")) for names in spec.split)


def tensor_coordinate(spec: ShardingSpec, axis: int, coordinates: dict, semantic):
    """The piece of tensor axis `axis` that belongs to the shard at those mesh coordinates: an int or an i32 scalar."""
    number: int | tl.tensor = 0
    for name in spec.split[axis] if axis < len(spec.split) else ():
        number = total(product(number, spec.extent(name), semantic), coordinates[name], semantic)
    return number


def _coordinates(shard_id, scope: device_mesh, semantic) -> dict:
    """Coordinates by axis name of the shard that the author names by its number in `scope`, or by its coordinates."""
    number = _number(shard_id, scope, semantic)
    if isinstance(shard_id, (tuple, list)):
        return dict(zip(scope.dim_names, shard_id))
    _check_static(number, scope.size, repr(scope))
    if isinstance(number, tl.tensor):
        return along(number, scope.dim_names, scope.shape, semantic)
    return {name: number // prod(scope.shape[axis + 1:]) % scope.shape[axis] for axis, name in enumerate(scope.dim_names)}
