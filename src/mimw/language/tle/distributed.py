"""`tle.distributed_barrier`: a barrier among the CTAs of a mesh.

Input: the mesh of a kernel's call, or None. Output: the op `distributed_barrier`, and for a mesh a note in the launch
facts:

    tle.distributed_barrier(mesh)           a cluster's mesh       distributed_barrier grid=False
    tle.distributed_barrier(mesh[::2])      half of a mesh of 4    distributed_barrier grid=False ranks=[0, 2]
    tle.distributed_barrier(blocks)         a mesh of blocks       distributed_barrier grid=True
    tle.distributed_barrier(bound)          a mesh of 2 GPUs       world_barrier %world gpus=(0, 1)

The pass `place_meetings` then picks the barrier of the hardware for each op.
"""

from __future__ import annotations

from ..core import unwrap, word
from ..refuse import refuse
from .bound_mesh import bound_mesh, has_programs
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
               id on each GPU; of device axes and clusters, their whole clusters; of device axes and blocks, their whole grids
    orders:    all that any of these CTAs did before, also to other CTAs' shared memory and in global memory -> what they do after
    errors:    TypeError: no mesh. ValueError: a mesh larger than the cluster; a mesh of blocks where another mesh is a cluster's;
               num_ctas > 1. NotImplementedError: a part of a mesh of blocks, parts of
               clusters on several GPUs
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
        refuse(ValueError, f"{word_name}: {mesh!r} has {mesh.size} elements, and the clusters of the launch have "
                           f"{mesh.launch_size} CTAs")
    ranks = tuple(sorted(mesh.ranks()))
    _semantic.builder.record("distributed_barrier", grid=False, ranks=None if len(ranks) == mesh.launch_size else ranks)


def _among_gpus(word_name: str, mesh: bound_mesh, semantic) -> None:
    """First the CTAs of each GPU meet, then each with its like on the others: so everyone has met everyone."""
    local, gpus = mesh.mesh, mesh.gpus()
    if has_programs(local):
        whole = local.launch_size * len(gpus)
        if local.size != whole or len(local.ranks()) != local.launch_size:
            refuse(NotImplementedError, f"{word_name}: {mesh} has {local.size} of {whole} CTAs of its GPUs; whole clusters and "
                                        "grids of several GPUs can meet, parts of them cannot")
        if local.is_block_mesh:
            _whole_grid(word_name, local, semantic)
        else:
            use_mesh(word_name, local, semantic)
            semantic.builder.record("distributed_barrier", grid=False, ranks=None)
    semantic.builder.record("world_barrier", mesh.world.handle, tuple(sorted(gpus)))


def meet(word_name: str, places: Places, semantic, inside: bool = False, devices: bool = False) -> None:
    """Those meet who exchange something along axes inside a cluster or grid, along axes of devices, or along both: then first the
    CTAs of each GPU."""
    mesh = places.mesh
    if inside and mesh.is_block_mesh:
        _whole_grid(word_name, mesh, semantic)
    elif inside:
        ranks = tuple(sorted(set(places.ctas)))
        semantic.builder.record("distributed_barrier", grid=False, ranks=None if len(ranks) == mesh.launch_size else ranks)
    if devices:
        semantic.builder.record("world_barrier", places.bound.world.handle, tuple(sorted(set(places.gpus))))


def _whole_grid(word_name: str, mesh, semantic) -> None:
    if semantic.builder.launch_facts.mesh_size is not None:
        refuse(ValueError, f"{word_name}: {mesh!r} is the whole grid's, and another mesh of this kernel is a "
                           f"cluster's; a kernel is "
                           "launched in one of the two ways")
    if len(mesh.ranks()) != mesh.launch_size:
        refuse(NotImplementedError, f"{word_name}: {mesh!r} is a part of the grid {dict(mesh.launch_axes)}; parts of clusters can "
                                    "meet, parts of grids cannot")
    semantic.builder.launch_facts = semantic.builder.launch_facts.with_grid_barrier()
    semantic.builder.record("distributed_barrier", grid=True, ranks=None)
