"""`tle.reshard`: the same tensor, spread over its mesh in another way.

Input: a `ShardedTensor` and the `ShardingSpec` that the author wants. Output: a `ShardedTensor` in registers, and the
ops that bring the elements. For example, an all-gather over a mesh axis x:

    tle.reshard(t, tle.sharding(mesh))      t split [x]: local_alloc, local_ptr, store; distributed_barrier;
                                            local_ptr, remote_ptr, load; distributed_barrier

Every shard puts its elements into shared memory, all meet, and every shard reads the elements of its new piece from
their owners: one access is enough, because a pointer into another CTA carries the rank with the position. Partial sums
are added in the order of the ranks, so all shards get the same bits.
"""

from __future__ import annotations

from itertools import product
from math import gcd, prod

import triton.language.core as tl

from ..core import unwrap, word
from ..refuse import refuse
from ..tlx import types as tlx
from .distributed import distributed_barrier
from .gpu.memory import alloc
from .gpu.pointers import local_ptr
from .launch import use_mesh
from .mesh import device_mesh
from .remote import remote_pointer, shard_pointers, tensor_coordinate
from .sharding import ShardedTensor, ShardingSpec, check_split

_NAME = "tle.reshard"


@word
def reshard(tensor, spec, _semantic=None) -> ShardedTensor:
    """`tensor` distributed by `spec`, over the same mesh. All CTAs of the mesh call it.

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
    returns:   ShardedTensor of the same logical shape; its handle is this shard in registers
    orders:    the call itself, before and after: no barrier is needed around it
    errors:    TypeError: no ShardedTensor, no spec. ValueError: another mesh, a mesh of blocks, a row that the table refuses, an
               extent that the new split does not divide
    lowers to: tle.gpu.alloc, tle.distributed_barrier, PTX ld.shared::cluster
    """
    spec = unwrap(spec)
    if not isinstance(tensor, ShardedTensor):
        refuse(TypeError, f"{_NAME}: takes a ShardedTensor of tle.make_sharded_tensor, got {tensor}")
    if not isinstance(spec, ShardingSpec):
        refuse(TypeError, f"{_NAME}: `spec` must be a ShardingSpec of tle.sharding, got {spec!r}")
    return resharded(_NAME, tensor, spec, _semantic)


def resharded(name: str, tensor: ShardedTensor, spec: ShardingSpec, semantic) -> ShardedTensor:
    """What `reshard` does, for the word `name`."""
    have, mesh = tensor.sharding, tensor.sharding.mesh
    check_transition(name, have, spec)
    if mesh.is_block_mesh:
        refuse(ValueError, f"{name}: {mesh!r} is the whole grid's; shards reach each other within a cluster only")
    use_mesh(name, mesh, semantic)
    tile = own_shard(name, tensor, semantic)
    extents = tuple(tile.type.shape) if tile.type.is_block() else ()
    shape = tensor.shape or tuple(extent * have.factor(axis) for axis, extent in enumerate(extents))
    check_split(name, spec, shape)
    if _cuts(have) == _cuts(spec) and have.partial == spec.partial:
        return ShardedTensor(tile, spec, shape)
    return ShardedTensor(_Exchange(tile, have, spec, shape, semantic).result(), spec, shape)


def check_transition(name: str, have: ShardingSpec, want: ShardingSpec) -> None:
    """ValueError for another mesh, and for a value that would have to become partial."""
    if have.mesh != want.mesh:
        refuse(ValueError, f"{name}: the tensor is spread over {have.mesh!r}, and the spec is of another mesh {want.mesh!r}")
    for axis in want.partial:
        if axis not in have.partial:
            state = have.axis_state(axis)
            what = "split" if state == "S" else "whole"
            refuse(ValueError, f"{name}: {state} -> P along {axis!r}: a value that is {what} does not become a partial sum")


def _cuts(spec: ShardingSpec) -> tuple:
    """The split without the entries for axes that are whole at its end."""
    cuts = list(spec.split)
    while cuts and not cuts[-1]:
        cuts.pop()
    return tuple(cuts)


def own_shard(name: str, tensor: ShardedTensor, semantic) -> tl.tensor:
    """This CTA's shard in registers; ValueError if it has not the shape that it should have."""
    handle, wanted = tensor.handle, tensor.shard_shape
    if isinstance(handle, tlx.buffered_tensor):
        handle = tl.load(local_ptr(handle, _semantic=semantic), _semantic=semantic)
    elif not isinstance(handle, tl.tensor):
        refuse(TypeError, f"{name}: the handle of a ShardedTensor is a tensor, a pointer or a buffer, got {handle}")
    elif handle.dtype.is_ptr():
        if not handle.type.is_block() and handle.dtype.address_space == "global":
            number = own_number(tensor.sharding.mesh, semantic)
            handle = shard_pointers(tensor, number, tensor.sharding.mesh, semantic)
        handle = tl.load(handle, _semantic=semantic)
    found = tuple(handle.type.shape) if handle.type.is_block() else ()
    if wanted is not None and found != wanted:
        refuse(ValueError, f"{name}: a shard of {tensor.shape} split over {tensor.sharding.split} is {wanted}, and the "
                           f"handle has the shape {found}")
    return handle


def own_number(mesh: device_mesh, semantic) -> tl.tensor:
    """The row-major number in `mesh` of this CTA, an i32 scalar."""
    ranks = mesh.ranks()
    rank = semantic.mod(tl.program_id(0, _semantic=semantic), semantic.to_tensor(mesh.launch_size))
    if ranks == tuple(range(mesh.launch_size)):
        return rank
    found = semantic.to_tensor(0)
    for number, one in enumerate(ranks[1:], 1):
        found = semantic.where(semantic.equal(rank, semantic.to_tensor(one)), semantic.to_tensor(number), found)
    return found


class _Exchange:
    """One change of distribution: what each element of the new shard is, in terms of who has it and where."""

    def __init__(self, tile: tl.tensor, have: ShardingSpec, want: ShardingSpec, shape: tuple[int, ...], semantic):
        self.tile, self.have, self.want, self.shape, self.semantic = tile, have, want, shape, semantic
        self.mesh = have.mesh
        self.old = tuple(extent // have.factor(axis) for axis, extent in enumerate(shape))
        self.new = tuple(extent // want.factor(axis) for axis, extent in enumerate(shape))
        self.summed = tuple(name for name in have.partial if name not in want.partial)

    def result(self) -> tl.tensor:
        semantic, mesh = self.semantic, self.mesh
        scratch = alloc(list(self.old), self.tile.dtype, _semantic=semantic)
        tl.store(local_ptr(scratch, _semantic=semantic), self.tile, _semantic=semantic)
        alone = self._is_local()
        if not alone:
            distributed_barrier(mesh, _semantic=semantic)
        owners, positions = self._sources()
        first = local_ptr(scratch, [0] * len(self.old), _semantic=semantic)
        pointers = semantic.add(first, positions, False)
        if alone:
            return tl.load(pointers, _semantic=semantic)
        total = None
        for coordinates in product(*(range(self.have.extent(name)) for name in self.summed)):
            rank = self._rank({**owners, **dict(zip(self.summed, coordinates))})
            there = remote_pointer(pointers, rank, semantic, run=self._run())
            part = self._wide(tl.load(there, _semantic=semantic))
            total = part if total is None else semantic.add(total, part, False)
        distributed_barrier(mesh, _semantic=semantic)
        return semantic.cast(total, self.tile.dtype)

    def _wide(self, part: tl.tensor) -> tl.tensor:
        """Sums of narrow floats are kept in fp32."""
        narrow = self.summed and part.dtype.is_floating() and part.dtype.primitive_bitwidth < 32
        return self.semantic.cast(part, tl.float32) if narrow else part

    def _is_local(self) -> bool:
        """True if every CTA has already all that it is to have: each axis is cut as before, and then further."""
        before, after = (tuple(spec.split) + ((), ) * (len(self.shape) - len(spec.split)) for spec in (self.have, self.want))
        return not self.summed and all(new[:len(old)] == old for old, new in zip(before, after))

    def _run(self) -> int:
        """Neighbours that one CTA has one after the other."""
        whole = gcd(self.old[-1], self.new[-1])
        return whole & -whole

    def _sources(self) -> tuple[dict, tl.tensor]:
        """For each element of the new shard: the mesh coordinates of its owner, and its position in the owner's shard."""
        semantic = self.semantic
        mine = self._own_coordinates()
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
                owners[name] = semantic.mod(piece, extent)
                piece = semantic.floordiv(piece, extent)
            step = semantic.mul(inside, semantic.to_tensor(prod(self.old[axis + 1:])), False)
            position = step if position is None else semantic.add(position, step, False)
        return owners, position

    def _own_coordinates(self) -> dict:
        number, found = own_number(self.mesh, self.semantic), {}
        for name, extent in zip(reversed(self.mesh.dim_names), reversed(self.mesh.shape)):
            found[name] = self.semantic.mod(number, self.semantic.to_tensor(extent))
            number = self.semantic.floordiv(number, self.semantic.to_tensor(extent))
        return found

    def _rank(self, coordinates: dict) -> tl.tensor:
        """The rank in the cluster of the owner of each element: a scalar, or a tile of the new shard's shape."""
        semantic, number = self.semantic, self.semantic.to_tensor(0)
        for name, extent in zip(self.mesh.dim_names, self.mesh.shape):
            number = semantic.mul(number, semantic.to_tensor(extent), False)
            number = semantic.add(number, semantic.to_tensor(coordinates[name]), False)
        ranks = self.mesh.ranks()
        if ranks != tuple(range(len(ranks))):
            found = semantic.to_tensor(ranks[0])
            for index, rank in enumerate(ranks[1:], 1):
                found = semantic.where(semantic.equal(number, semantic.to_tensor(index)), semantic.to_tensor(rank), found)
            number = found
        return semantic.broadcast_impl_shape(number, list(self.new)) if number.type.is_block() else number
