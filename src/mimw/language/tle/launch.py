"""The launch that a mesh asks for, noted while the kernel that uses the mesh is recorded.

Input: the word in the author's kernel and its mesh. Output: new `launch_facts` of the recording, or a ValueError. For
example:

    use_mesh("tle.remote", mesh, semantic)      a mesh of 2 CTAs: launch_facts.cluster == (2, 1, 1), .mesh_size == 2
                                                a mesh of 32 CTAs: ValueError, the hardware has clusters of up to 16

The file exists because `shard_id`, `remote`, `reshard` and `distributed_barrier` have to ask for one and the same
launch.
"""

from __future__ import annotations

from typing import Any

from ...ir import ALONE
from ..core import unwrap
from ..described import described
from ..refuse import refuse
from .mesh import device_mesh

MOST = 16  # CTAs of a cluster: 8 on every chip that has clusters, up to 16 on some


def checked_mesh(word: str, mesh: Any, parameter: str = "mesh") -> device_mesh:
    """`mesh` unwrapped; TypeError if it is none."""
    mesh = unwrap(mesh)
    if not isinstance(mesh, device_mesh):
        refuse(TypeError, f"{word}: `{parameter}` must be a tle.device_mesh, got {described(mesh)}")
    return mesh


def use_mesh(word: str, mesh: device_mesh, semantic: Any) -> None:
    """Make the kernel a launch on `mesh`: of clusters, unless its CTAs are those of the whole grid."""
    one_cta_a_program(word, semantic)
    facts, size = semantic.builder.launch_facts, mesh.launch_size
    if mesh.is_block_mesh:
        return
    if size > MOST:
        refuse(ValueError, f"{word}: the axes {dict(mesh.launch_axes)} of {mesh!r} make clusters of {size} CTAs; "
                           f"the hardware has clusters of up to {MOST}")
    if facts.grid_meets:
        refuse(ValueError, f"{word}: {mesh!r} is a cluster's, and a distributed_barrier of this kernel is the whole "
                           f"grid's; a kernel "
                           "is launched in one of the two ways")
    if facts.mesh_size not in (None, size):
        refuse(ValueError, f"{word}: {mesh!r} means clusters of {size} CTAs, and another mesh of this kernel means clusters of "
                           f"{facts.mesh_size}; all meshes of a kernel agree")
    if facts.cluster not in (ALONE, (size, 1, 1)):
        refuse(ValueError, f"{word}: {mesh!r} means clusters of {(size, 1, 1)}, and the launch asks for "
                           f"ctas_per_cga={facts.cluster}")
    semantic.builder.launch_facts = facts.with_mesh(size)


def one_cta_a_program(word: str, semantic: Any) -> None:
    """ValueError if the launch spreads one program over several CTAs."""
    num_ctas = getattr(semantic.builder.options, "num_ctas", 1)
    if num_ctas != 1:
        refuse(ValueError, f"{word}: needs num_ctas=1, every CTA a program of its own, but the launch has num_ctas={num_ctas}")
