"""`tle.distributed_dot`: a matrix product of tensors that are spread over a cluster, over GPUs, or over both.

Input: two `ShardedTensor`s of a kernel's call, and one to add to. Output: the ops of `tle.reshard` for an operand that
has to move, one `tl.dot` of each CTA's shards, and the product as a `ShardedTensor`. `plan` picks the operand that
moves. For example:

    a split [x, None], b split [None, x]        b is gathered, split (); the product is split [x, None]
    a split [None, z], b split [z, None]        nothing moves; the product is partial [z]
"""

from __future__ import annotations

import triton.language.core as tl

from ..core import word
from ..described import described
from ..refuse import refuse
from .reshard import own_shard, resharded
from .sharding import ShardedTensor, ShardingSpec

_NAME = "tle.distributed_dot"


@word
def distributed_dot(a, b, c=None, _semantic=None) -> ShardedTensor:
    """`a` [M, K] times `b` [K, N], plus `c` if it is given; each program of the mesh makes one piece. All of them call it.

    args:      a, b - ShardedTensors on the same mesh, of a cluster or bound to GPUs; handles as for `tle.reshard`
               c    - (opt) ShardedTensor with the result's distribution and dtype
    returns:   ShardedTensor [M, N] with an accumulator for a handle, distributed as follows

               M of `a` split over x, N of `b` over y        split [x, y]
               K split over z in both, or in one of them     partial [z]: the other one takes its slice
               one axis x splits M of `a` and N of `b`       split [x, None]; the shards of `b` are gathered
               one axis splits M of `a` and K of `b`         split by M; `b` is gathered. K of `a` and N of `b`: `a` is gathered
               partial [z] in one, and whole there in the other    partial [z]
    errors:    TypeError: not sharded tensors. ValueError: other meshes, K of different extents, operands that are partial along one
               axis or where the other is not whole, no rank 2, another `c`. NotImplementedError: an operand that has to move along
               an axis that counts clusters
    lowers to: what tle.reshard does for an operand that has to move, then tl.dot
    example:   c = tle.distributed_dot(tle.make_sharded_tensor(a, rows, [M, K]), tle.make_sharded_tensor(b, columns, [K, N]))
    """
    for name, operand in (("a", a), ("b", b)):
        if not isinstance(operand, ShardedTensor):
            refuse(TypeError, f"{_NAME}: `{name}` must be a ShardedTensor of tle.make_sharded_tensor, got {described(operand)}")
    if c is not None and not isinstance(c, ShardedTensor):
        refuse(TypeError, f"{_NAME}: `c` must be a ShardedTensor of tle.make_sharded_tensor, got {described(c)}")
    if (a.bound is None) != (b.bound is None):
        refuse(ValueError, f"{_NAME}: the mesh of one operand is bound to GPUs, and that of the other is not")
    if a.spec.mesh != b.spec.mesh:
        refuse(ValueError, f"{_NAME}: `a` is spread over {a.spec.mesh!r} and `b` over another mesh {b.spec.mesh!r}")
    mesh, (want_a, want_b) = a.spec.mesh, plan(a.spec, b.spec)
    a, b = (_with_shape(name, operand) for name, operand in (("a", a), ("b", b)))
    if a.shape[1] != b.shape[0]:
        refuse(ValueError, f"{_NAME}: K is {a.shape[1]} in `a` {a.shape} and {b.shape[0]} in `b` {b.shape}")
    shape = a.shape[0], b.shape[1]
    partial = tuple(name for name in mesh.dim_names if name in (*want_a.split[1], *want_a.partial, *want_b.partial))
    result = ShardingSpec(mesh, (want_a.split[0], want_b.split[1]), partial)
    if c is not None:
        _check_c(c, result, shape, a)
    a, b = (resharded(_NAME, operand, spec, _semantic) for operand, spec in ((a, want_a), (b, want_b)))
    kind = tl.int32 if a.handle.dtype.is_int() else tl.float32
    start = None if c is None else own_shard(_NAME, c, _semantic)
    if start is not None and start.dtype != kind:
        refuse(ValueError, f"{_NAME}: `c` must accumulate in {kind}, got {start.dtype}")
    local = tl.dot(a.handle, b.handle, start, out_dtype=kind, _semantic=_semantic)
    return ShardedTensor(local, result, shape, a.bound)


def plan(a: ShardingSpec, b: ShardingSpec) -> tuple[ShardingSpec, ShardingSpec]:
    """The distributions of the operands with which each CTA can multiply its shards."""
    (rows, inner), (other_inner, columns) = (_pair(spec) for spec in (a, b))
    for one, other in ((a, b), (b, a)):
        for name in one.partial:
            if other.axis_state(name) != "B":
                refuse(ValueError, f"{_NAME}: an operand is partial along {name!r}, where the other one is not whole; "
                                   "reshard it first")
    inner = tuple(name for name in inner if name not in columns)
    columns = tuple(name for name in columns if name not in rows)
    other_inner = tuple(name for name in other_inner if name not in rows)
    both = inner or other_inner
    return ShardingSpec(a.mesh, (rows, both), a.partial), ShardingSpec(b.mesh, (both, columns), b.partial)


def _pair(spec: ShardingSpec) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if len(spec.split) > 2:
        refuse(ValueError, f"{_NAME}: takes matrices, and a split has {len(spec.split)} entries")
    return (*spec.split, (), ())[:2]


def _with_shape(name: str, operand: ShardedTensor) -> ShardedTensor:
    """The operand with its logical shape, which follows from the tile or buffer of its shard."""
    shape, handle = operand.shape, operand.handle
    if shape is None:
        local = tuple(getattr(handle, "shape", ()))
        shape = tuple(int(extent) * operand.spec.factor(axis) for axis, extent in enumerate(local))
    if len(shape) != 2:
        refuse(ValueError, f"{_NAME}: `{name}` must be a matrix, its shape is {shape}")
    return ShardedTensor(handle, operand.spec, shape, operand.bound)


def _check_c(c: ShardedTensor, result: ShardingSpec, shape: tuple[int, int], a: ShardedTensor) -> None:
    have = c.spec
    if have.mesh != result.mesh or _pair(have) != result.split or have.partial != result.partial:
        refuse(ValueError, f"{_NAME}: `c` must be distributed as the result, {result!r}; it is {have!r}")
    if c.shape is not None and c.shape != shape:
        refuse(ValueError, f"{_NAME}: `c` has the shape {c.shape}, and the result {shape}")
    local = tuple(extent // result.factor(axis) for axis, extent in enumerate(shape))
    if tuple(getattr(c.handle, "shape", ())) not in ((), local):
        refuse(ValueError, f"{_NAME}: a shard of `c` must be {local}, and its handle has the shape {tuple(c.handle.shape)}")
