"""`tle.distributed_barrier`: a barrier among the CTAs of a mesh.

Input: the mesh of a kernel's call, or None. Output: the op `distributed_barrier`, and for a mesh a note in the launch
facts:

    tle.distributed_barrier(mesh)           a cluster's mesh       distributed_barrier grid=False
    tle.distributed_barrier(mesh[::2])      half of a mesh of 4    distributed_barrier grid=False ranks=[0, 2]
    tle.distributed_barrier(blocks)         a mesh of blocks       distributed_barrier grid=True
    tle.distributed_barrier(bound)          a mesh of 2 GPUs       world_barrier %world gpus=(0, 1)
    tle.distributed_barrier(bound[:, 3])    CTA 3 of each          if program_id % size == 3: world_barrier %world gpus=(0, 1)

The pass `place_group_barriers` then picks the barrier of the hardware for each op.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..core import unwrap, word
from ..refuse import refuse
from .bound_mesh import bound_mesh, device_axes, has_programs
from .launch import checked_mesh, one_cta_a_program, use_mesh
from .places import Places


@word
def distributed_barrier(mesh=None, _semantic=None) -> None:
    """Wait until all CTAs of `mesh` are here, with all their threads.

    args:      mesh - None: the CTAs of this cluster; without one, the threads of this CTA
                      a cluster mesh: the same, and the launch is made of such clusters
                      a part of it, made with []: only the CTAs in it; for the others nothing happens, whether they come here or not
                      a mesh of blocks: all CTAs of the grid, which must fit on the device at once; the launch becomes cooperative
               a mesh that is bound to GPUs (`bind_mesh`), or a part of it: of device axes alone, the programs with this program's
               id on each GPU; of device axes and clusters or blocks, the CTAs in it on each of its GPUs: of a cluster any, of a
               grid all or one
    orders:    all that any of these CTAs did before, also to other CTAs' shared memory and in global memory -> what they do after
    errors:    TypeError: no mesh. ValueError: a mesh larger than the cluster; a mesh of blocks where another mesh is a cluster's;
               num_ctas > 1. NotImplementedError: several but not all blocks of a grid, programs of several clusters on a GPU,
               other CTAs on one GPU than on another
    not:       inside tasks of a cluster launch. All members come here equally often.
    lowers to: PTX barrier.cluster; for a part of the cluster, an mbarrier in each member on which all members arrive; for a grid,
               the counter that the driver gives to cooperative launches; among GPUs, one thread for each peer: atom.cas.release.sys
               on the peer's signal pad, atom.cas.acquire.sys on this one's
    example:   tle.distributed_barrier(mesh)
    """
    word_name = "tle.distributed_barrier"
    one_cta_a_program(word_name, _semantic)
    if isinstance(mesh, bound_mesh):
        _among_gpus(word_name, mesh, _semantic)
        return
    if unwrap(mesh) is None:
        _semantic.builder.record("distributed_barrier", grid=False, ranks=None)
        return
    mesh = checked_mesh(word_name, mesh)
    if mesh.is_block_mesh:
        _whole_grid(word_name, mesh, _semantic)
        return
    use_mesh(word_name, mesh, _semantic)
    if mesh.size > mesh.launch_size:
        gpus = any(size > 1 for _, size in device_axes(mesh))
        refuse(ValueError, f"{word_name}: {mesh!r} has {mesh.size} elements, and the clusters of the launch have "
                           f"{mesh.launch_size} CTAs",
               mend="bind the mesh to the table of this rank: tle.bind_mesh(mesh, world)" if gpus else
                    "give the part of the mesh that is one cluster")
    ranks = tuple(sorted(mesh.ranks()))
    _semantic.builder.record("distributed_barrier", grid=False, ranks=None if len(ranks) == mesh.launch_size else ranks)


def _among_gpus(word_name: str, mesh: bound_mesh, semantic) -> None:
    """Synchronise the CTAs of each GPU, then each CTA with its counterparts on the other GPUs: this synchronises all with all."""
    local, gpus = mesh.mesh, mesh.gpus()
    if not has_programs(local):
        semantic.builder.record("world_barrier", mesh.world.handle, tuple(sorted(gpus)))
        return
    places = Places(local, mesh, semantic)
    ctas = _on_every_gpu(word_name, mesh, places)
    if local.is_block_mesh:
        if len(ctas) > 1:
            _whole_grid(word_name, local, semantic)
    else:
        use_mesh(word_name, local, semantic)
    with _members(places, semantic):
        if not local.is_block_mesh:
            semantic.builder.record("distributed_barrier", grid=False, ranks=None if len(ctas) == local.launch_size else ctas)
        semantic.builder.record("world_barrier", mesh.world.handle, tuple(sorted(gpus)))


def _on_every_gpu(word_name: str, mesh: bound_mesh, places: Places) -> tuple[int, ...]:
    """The CTAs of the mesh on each of its GPUs, by their ranks in the cluster or in the grid; NotImplementedError if they are not
    the same ones on every GPU, or in several clusters."""
    if len(set(places.outside)) > 1:
        refuse(NotImplementedError, f"{word_name}: {mesh} has programs of {len(set(places.outside))} clusters on each GPU, and "
                                    "programs of different clusters cannot synchronise; take the part with one, such "
                                    "as mesh[..., 0]")
    found = set(zip(places.gpus, places.ctas))
    ctas = tuple(sorted(set(places.ctas)))
    if len(found) != len(set(places.gpus)) * len(ctas):
        refuse(NotImplementedError, f"{word_name}: {mesh} does not have the same CTAs on each of its GPUs; synchronise "
                                    "two parts, each with the same CTAs on all GPUs")
    return ctas


@contextmanager
def _members(places: Places, semantic) -> Iterator[None]:
    """Record the ops within for the CTAs and clusters of the mesh only; other programs skip them, and no program waits for
    those."""
    conditions = places.conditions()
    if not conditions:
        yield
        return
    builder, here = semantic.builder, conditions[0]
    for one in conditions[1:]:
        here = semantic.and_(here, one)
    op = builder.create_if_op([], here.handle, True)
    builder.set_insertion_point_to_start(op.get_else_block())
    builder.create_yield_op([])
    builder.set_insertion_point_to_start(op.get_then_block())
    yield
    builder.create_yield_op([])
    builder.set_insertion_point_after(op)


def meet(word_name: str, places: Places, semantic, inside: bool = False, devices: bool = False) -> None:
    """Synchronise the programs that exchange data along axes inside a cluster or grid, along axes of devices, or along both:
    then first the CTAs of each GPU."""
    mesh = places.mesh
    if inside and mesh.is_block_mesh:
        _whole_grid(word_name, mesh, semantic)
    elif inside:
        ranks = tuple(sorted(set(places.ctas)))
        semantic.builder.record("distributed_barrier", grid=False, ranks=None if len(ranks) == mesh.launch_size else ranks)
    if devices:
        with _members(places, semantic):
            semantic.builder.record("world_barrier", places.bound.world.handle, tuple(sorted(set(places.gpus))))


def _whole_grid(word_name: str, mesh, semantic) -> None:
    if semantic.builder.launch_facts.mesh_size is not None:
        refuse(ValueError, f"{word_name}: {mesh!r} is the whole grid's, and another mesh of this kernel is a "
                           f"cluster's; a kernel is "
                           "launched in one of the two ways")
    if len(mesh.ranks()) != mesh.launch_size:
        refuse(NotImplementedError, f"{word_name}: {mesh!r} is a part of the grid {dict(mesh.launch_axes)}; parts of clusters can "
                                    "synchronise, parts of grids cannot")
    semantic.builder.launch_facts = semantic.builder.launch_facts.with_grid_barrier()
    semantic.builder.record("distributed_barrier", grid=True, ranks=None)
