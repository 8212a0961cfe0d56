"""`tle.reshard`: the same tensor, spread over its mesh in another way.

Input: a `ShardedTensor` and the `ShardingSpec` that the author wants. Output: a `ShardedTensor` in registers, and the
ops that bring the elements. For example, an all-gather over a mesh axis x of a cluster, and over one of GPUs:

    tle.reshard(t, tle.sharding(mesh))      t split [x]: local_alloc, local_ptr, store; distributed_barrier;
                                            local_ptr, remote_ptr, load; distributed_barrier
    tle.reshard(t, tle.sharding(bound))     world_scratch, store; world_barrier; peer_pointer, load; world_barrier

Every shard puts its elements where its peers reach them, all meet, and every shard reads the elements of its new piece from
their owners: one access is enough, because a pointer into another CTA carries the rank with the position, and one into another
GPU is an address. Within a cluster that place is shared memory, between GPUs and in a grid the workspace of the symmetric heap.
What changes along axes of both kinds goes in two steps, where each can be done by itself. Partial sums are added in the order of
the ranks, so all shards get the same bits.
"""

from __future__ import annotations

from itertools import product
from math import gcd, prod

import triton.language.core as tl

from ..core import unwrap, word
from ..described import described
from ..refuse import refuse
from ..tlx import types as tlx
from .bound_mesh import bound_spec
from .distributed import meet
from .gpu.memory import alloc
from .gpu.pointers import local_ptr
from .launch import use_mesh
from .places import Places
from .remote import remote_pointer, shard_pointers, tensor_coordinate
from .sharding import ShardedTensor, ShardingSpec, check_split, check_tile
from .steps import crossed, steps
from .workspace import Workspace

_NAME = "tle.reshard"


@word
def reshard(tensor, spec, _semantic=None) -> ShardedTensor:
    """`tensor` distributed by `spec`, over the same mesh. All CTAs of the mesh call it, on all its GPUs.

    args:      tensor - ShardedTensor whose handle is this shard in registers, a buffer, pointers to it, or a pointer to the whole
                        row-major tensor in global memory, of which this shard is loaded
               spec   - ShardingSpec; along each mesh axis

                        from    to      what happens
                        S       B       all-gather
                        B       S       each takes its slice; nobody is waited for
                        P       B       all-reduce: the sum
                        P       S       reduce-scatter
                        S       S       of another tensor axis: all-to-all
                        P       P       stays a partial sum
                        B, S    P       ValueError
    returns:   ShardedTensor of the same logical shape; its handle is this shard in registers. Of a part of a mesh, made with [],
               programs that are not in it may call, too: they meet nobody, and what they get is of no use
    orders:    the call itself, before and after: no barrier is needed around it. Sums are in the order of the ranks, in fp32 for
               narrow floats: all shards get the same bits
    errors:    TypeError: no ShardedTensor, no spec. ValueError: another mesh, a mesh of blocks that is not bound to GPUs, a row
               that the table refuses, an extent that the new split does not divide. NotImplementedError: along an axis that counts
               clusters, along blocks in a part of a grid
    not:       in several tasks of one program at a time; in two launches on one world at a time
    lowers to: tle.gpu.alloc, tle.distributed_barrier, PTX ld.shared::cluster. Of a mesh that is bound to GPUs, along axes of
               devices or blocks: ordinary stores into the rank's own workspace, a barrier, loads from the peers', a barrier
    example:   whole = tle.reshard(product, tle.sharding(mesh))
    """
    spec = unwrap(spec)
    if not isinstance(tensor, ShardedTensor):
        refuse(TypeError, f"{_NAME}: takes a ShardedTensor of tle.make_sharded_tensor, got {described(tensor)}")
    if isinstance(spec, bound_spec):
        if tensor.bound is None:
            refuse(ValueError, f"{_NAME}: the spec is of a mesh that is bound to GPUs, and the tensor's is not; make the tensor's "
                               "sharding of the bound mesh, too")
        spec = spec.spec
    if not isinstance(spec, ShardingSpec):
        refuse(TypeError, f"{_NAME}: `spec` must be a ShardingSpec of tle.sharding, got {described(spec)}")
    return resharded(_NAME, tensor, spec, _semantic)


def resharded(name: str, tensor: ShardedTensor, spec: ShardingSpec, semantic) -> ShardedTensor:
    """What `reshard` does, for the word `name`."""
    have, mesh, bound = tensor.spec, tensor.spec.mesh, tensor.bound
    check_transition(name, have, spec)
    places = Places(mesh, bound, semantic)
    if bound is None and mesh.is_block_mesh:
        refuse(ValueError, f"{name}: {mesh!r} is the whole grid's; shards reach each other within a cluster only, or through the "
                           "workspace of a world, with a mesh that tle.bind_mesh has bound to one")
    if places.has_clusters:
        use_mesh(name, mesh, semantic)
    tile = own_shard(name, tensor, semantic, places)
    extents = tuple(tile.type.shape) if tile.type.is_block() else ()
    shape = tensor.shape or tuple(extent * have.factor(axis) for axis, extent in enumerate(extents))
    check_split(name, spec, shape)
    check_tile(name, "the new shard", tuple(extent // spec.factor(axis) for axis, extent in enumerate(shape)))
    for step in steps(name, have, spec, shape, places):
        tile = _Exchange(name, tile, have, step, shape, places, semantic).result()
        have = step
    return ShardedTensor(tile, spec, shape, bound)


def check_transition(name: str, have: ShardingSpec, want: ShardingSpec) -> None:
    """ValueError for another mesh, and for a value that would have to become partial."""
    if have.mesh != want.mesh:
        refuse(ValueError, f"{name}: the tensor is spread over {have.mesh!r}, and the spec is of another mesh {want.mesh!r}")
    for axis in want.partial:
        if axis not in have.partial:
            state = have.axis_state(axis)
            what = "split" if state == "S" else "whole"
            refuse(ValueError, f"{name}: {state} -> P along {axis!r}: a value that is {what} does not become a partial sum")


def own_shard(name: str, tensor: ShardedTensor, semantic, places: Places | None = None) -> tl.tensor:
    """This program's shard in registers; ValueError if it has not the shape that it should have."""
    handle, wanted = tensor.handle, tensor.shard_shape
    if isinstance(handle, tlx.buffered_tensor):
        check_tile(name, "the buffer of this shard", tuple(handle.shape))
        handle = tl.load(local_ptr(handle, _semantic=semantic), _semantic=semantic)
    elif not isinstance(handle, tl.tensor):
        refuse(TypeError, f"{name}: the handle of a ShardedTensor is a tensor, a pointer or a buffer, got {described(handle)}")
    elif handle.dtype.is_ptr():
        if not handle.type.is_block() and handle.dtype.address_space == "global" and wanted != ():
            places = places or Places(tensor.spec.mesh, tensor.bound, semantic)
            handle = shard_pointers(name, tensor, places.own, semantic)
        handle = tl.load(handle, _semantic=semantic)
    found = tuple(handle.type.shape) if handle.type.is_block() else ()
    if wanted is not None and found != wanted:
        refuse(ValueError, f"{name}: a shard of {tensor.shape} split over {tensor.spec.split} is {wanted}, and the "
                           f"handle has the shape {found}")
    return handle


class _Exchange:
    """One change of distribution: what each element of the new shard is, in terms of who has it and where."""

    def __init__(self, name: str, tile: tl.tensor, have: ShardingSpec, want: ShardingSpec, shape: tuple[int, ...], places: Places,
                 semantic):
        self.name, self.tile, self.have, self.want, self.shape = name, tile, have, want, shape
        self.places, self.semantic = places, semantic
        self.old = tuple(extent // have.factor(axis) for axis, extent in enumerate(shape))
        self.new = tuple(extent // want.factor(axis) for axis, extent in enumerate(shape))
        self.summed = tuple(name for name in have.partial if name not in want.partial)
        self.crossed = crossed(have, want)

    def result(self) -> tl.tensor:
        places = self.places
        devices, inside = (places.leaves(self.crossed, kind) for kind in ("devices", "inside"))
        if devices or inside and places.mesh.is_block_mesh:
            return self._by_workspace(devices, inside)
        return self._by_shared_memory(inside)

    def _by_shared_memory(self, inside: bool) -> tl.tensor:
        semantic = self.semantic
        passed = alloc(list(self.old), self.tile.dtype, _semantic=semantic)
        tl.store(local_ptr(passed, _semantic=semantic), self.tile, _semantic=semantic)
        if inside:
            meet(self.name, self.places, semantic, inside=True)
        owners, positions = self._sources()
        first = local_ptr(passed, [0] * len(self.old), _semantic=semantic)
        pointers = first if positions is None else semantic.add(first, positions, False)
        if not inside:
            return tl.load(pointers, _semantic=semantic)

        def there(coordinates):
            rank = self.places.cta(coordinates)
            rank = semantic.to_tensor(rank)
            rank = semantic.broadcast_impl_shape(rank, list(self.new)) if rank.type.is_block() else rank
            return remote_pointer(pointers, rank, semantic, **self._run())

        total = self._total(owners, there)
        meet(self.name, self.places, semantic, inside=True)
        return semantic.cast(total, self.tile.dtype)

    def _by_workspace(self, devices: bool, inside: bool) -> tl.tensor:
        workspace = Workspace(self.tile, self.places, self.semantic)
        workspace.put(self.tile)
        meet(self.name, self.places, self.semantic, inside, devices)
        owners, positions = self._sources()
        total = self._total(owners, lambda coordinates: workspace.pointer(coordinates, positions, inside))
        meet(self.name, self.places, self.semantic, inside, devices)
        return self.semantic.cast(total, self.tile.dtype)

    def _total(self, owners: dict, there) -> tl.tensor:
        """The elements at the owners, or the sum over those of the coordinates along which they are partial, in order."""
        total = None
        for coordinates in product(*(range(self.have.extent(name)) for name in self.summed)):
            pointers = there({**owners, **dict(zip(self.summed, coordinates))})
            part = self._wide(self._loaded(pointers))
            total = part if total is None else self.semantic.add(total, part, False)
        return total

    def _loaded(self, pointers: tl.tensor) -> tl.tensor:
        """What lies there. A program that is not in the mesh has met nobody, so it reads nothing."""
        semantic, mask = self.semantic, self.places.is_member
        if mask is None:
            return tl.load(pointers, _semantic=semantic)
        mask = semantic.broadcast_impl_shape(mask, list(pointers.type.shape)) if pointers.type.is_block() else mask
        return tl.load(pointers, mask=mask, other=0, _semantic=semantic)

    def _wide(self, part: tl.tensor) -> tl.tensor:
        """Sums of narrow floats are kept in fp32."""
        narrow = self.summed and part.dtype.is_floating() and part.dtype.primitive_bitwidth < 32
        return self.semantic.cast(part, tl.float32) if narrow else part

    def _run(self) -> dict[str, int]:
        """Neighbours that one CTA has one after the other, as an attribute of pointers."""
        if not self.new:
            return {}
        whole = gcd(self.old[-1], self.new[-1])
        return {"run": whole & -whole}

    def _sources(self) -> tuple[dict, tl.tensor | None]:
        """For each element of the new shard: the mesh coordinates of its owner, and its position in the owner's shard."""
        semantic = self.semantic
        mine = self.places.own
        owners, position = dict(mine), None
        for axis, (old, new) in enumerate(zip(self.old, self.new)):
            at = tl.arange(0, new, _semantic=semantic)
            for other in range(len(self.new)):
                at = at if other == axis else semantic.expand_dims(at, other)
            start = tensor_coordinate(self.want, axis, mine, semantic)
            start = semantic.mul(semantic.to_tensor(start), semantic.to_tensor(new), False)
            if old % new == 0:     # the new piece lies within an old one
                piece = semantic.floordiv(start, semantic.to_tensor(old))
                inside = semantic.add(at, semantic.mod(start, semantic.to_tensor(old)), False)
            else:
                element = semantic.add(at, start, False)
                piece = semantic.floordiv(element, semantic.to_tensor(old))
                inside = semantic.mod(element, semantic.to_tensor(old))
            for name in reversed(self.have.split[axis] if axis < len(self.have.split) else ()):
                extent = semantic.to_tensor(self.have.extent(name))
                if name in self.crossed:
                    owners[name] = semantic.mod(piece, extent)
                piece = semantic.floordiv(piece, extent)
            step = semantic.mul(inside, semantic.to_tensor(prod(self.old[axis + 1:])), False)
            position = step if position is None else semantic.add(position, step, False)
        return owners, position
