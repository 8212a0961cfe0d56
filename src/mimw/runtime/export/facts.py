"""What a launcher has to know of a compiled kernel: its symbol, its threads, its memory, how the driver is asked to start it.

Input: a compiled kernel for an NVIDIA chip. Output: its `Facts`, or an error that says why it cannot be exported:

    facts_of(compiled, "gemm").threads         256
    facts_of(compiled_for_amd, "gemm")         TargetError: gfx942 has no cubin
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import Any

from ...errors import LaunchError, TargetError

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OVERSIZED = 228 * 1024     # above that launches need an attribute of drivers that no chip of ours has


@dataclass(frozen=True)
class Facts:
    """One kernel in a binary.

    args:      name        of the exported functions
               symbol      of the kernel in the binary
               chip        "sm_90a"
               threads     of a CTA; `shared` its dynamic shared memory in bytes
               ctas        that each unit of the grid stands for along x: 1, or a cluster's if the grid counts clusters
               cluster     the shape of clusters in CTAs; `portable` if any chip with clusters runs such ones
               cooperative all CTAs run at the same time; `early` if the kernel may start before the one ahead of it ends
               scratch     bytes of workspace, in global memory, that each CTA needs, at a multiple of `scratch_align`
    """

    name: str
    symbol: str
    chip: str
    threads: int
    shared: int
    ctas: int
    cluster: tuple[int, int, int]
    portable: bool
    cooperative: bool
    early: bool
    scratch: int
    scratch_align: int


def facts_of(compiled: Any, name: str | None = None) -> Facts:
    """The facts of a compiled kernel, whose functions are to be called `name`, by default as the kernel.

    errors:    TargetError for a chip without cubins; LaunchError for a name that C does not take, and for kernels with time stamps
    """
    told, chip = compiled.metadata, compiled.target
    if "cubin" not in compiled.stages:
        instead = f"`mimw compile --emit hsaco` writes the binary for {chip}, which hipModuleLaunchKernel starts"
        if not chip.binary:
            instead = f"{chip} is a target of the simulator, for which nothing here makes a binary"
        raise TargetError(f"{chip} has no cubin: an export is a cubin with a launcher for CUDA's driver. {instead}")
    name = name or told.name
    if not _IDENTIFIER.fullmatch(name):
        raise LaunchError(f"{name!r} cannot be the name of functions in C", hint="name them by --name, in letters, digits and _")
    if told.profile_scratch_size:
        raise LaunchError(f"{name} was compiled with time stamps, whose memory no launcher in C gives it",
                          hint="compile without time_stamps and wait_stamps")
    if told.shared > _OVERSIZED:
        raise LaunchError(f"{name} needs {told.shared} bytes of shared memory; the launcher asks for {_OVERSIZED} at most")
    shape = tuple(told.cluster_dims)
    by_clusters = told.ctas_per_cga is None and shape != (1, 1, 1)
    return Facts(name, told.name, chip.name, told.num_warps * told.warp_size, told.shared,
                 shape[0] if by_clusters else told.num_ctas, shape, prod(shape) <= chip.portable_cluster,
                 bool(told.launch_cooperative_grid), bool(told.launch_pdl), told.global_scratch_size, told.global_scratch_align)
