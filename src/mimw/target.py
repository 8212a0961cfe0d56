"""What each chip has, as frozen data, so that a kernel can be refused or planned on a machine without that chip.

Sources of the numbers:
* NVIDIA: CUDA C++ Programming Guide, "Compute Capabilities", technical specifications: shared memory per block (what a
  kernel gets after opting in: 163 KB, 227 KB, 99 KB), 1024 threads per block, 64K 32-bit registers per block, 255 per
  thread; 2^31 - 1 thread blocks of a grid along x, 65535 along y and z. Tensor memory: PTX ISA, "Tensor Memory" (512 columns
  of 128 lanes x 32 bits per CTA).
* AMD: LLVM's AMDGPU target (addressable local memory size: 64, 160 and 320 KiB; unified vector registers of one wave:
  512, or 1024 on gfx1250) and the CDNA ISA documents (four SIMDs per compute unit, 1024 work-items per work-group).
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import TargetError


@dataclass(frozen=True)
class Target:
    """One chip. Sizes are per CTA (a work-group on AMD), shared memory in bytes, registers are 32 bits wide.

    `arch` is what Triton's `GPUTarget` calls it: the capability as an int, or the gfx name. `register_unit` is the step
    in which a thread's registers are allotted and requested. `max_cluster` is the most CTAs of a cluster,
    `portable_cluster` the most that a launch can have without asking the driver for a size that not every chip of the family
    has. `max_grid` is the most CTAs of a launch along x, y and z (on AMD, what Triton's launcher can pass).
    The flags say which words work here: `has_tasks` (`async_tasks`), `has_mbarrier` (barriers in shared memory that
    also count bytes), `has_tma`, `has_wgmma` (`async_dot` into registers).
    """

    name: str
    backend: str
    arch: int | str
    warp_size: int
    shared_bytes: int
    registers_per_cta: int = 65536
    max_warps: int = 32
    max_registers_per_thread: int = 255
    register_unit: int = 8
    tensor_memory_columns: int = 0
    max_cluster: int = 1
    portable_cluster: int = 8
    max_grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    has_tasks: bool = False
    has_mbarrier: bool = False
    has_tma: bool = False
    has_wgmma: bool = False

    @property
    def max_threads(self) -> int:
        """Threads that one CTA may have."""
        return self.max_warps * self.warp_size

    def __str__(self) -> str:
        return self.name


def _nvidia(name: str, arch: int, shared_kib: int, **facts) -> Target:
    return Target(name, "cuda", arch, warp_size=32, shared_bytes=shared_kib * 1024, **facts)


def _amd(name: str, shared_kib: int, **facts) -> Target:
    return Target(name, "hip", name, shared_bytes=shared_kib * 1024, registers_per_cta=131072, max_grid=(2**31 - 1, ) * 3,
                  **facts)


_SM_90_UP = {"max_cluster": 16, "has_tasks": True, "has_mbarrier": True, "has_tma": True}

TARGETS: dict[str, Target] = {target.name: target for target in (
    _nvidia("sm_80", 80, 163),
    _nvidia("sm_90a", 90, 227, has_wgmma=True, **_SM_90_UP),
    _nvidia("sm_100a", 100, 227, tensor_memory_columns=512, **_SM_90_UP),
    _nvidia("sm_103a", 103, 227, tensor_memory_columns=512, **_SM_90_UP),
    _nvidia("sm_120a", 120, 99, **_SM_90_UP | {"max_cluster": 8}),
    _amd("gfx942", 64, warp_size=64, max_warps=16, max_registers_per_thread=512),
    _amd("gfx950", 160, warp_size=64, max_warps=16, max_registers_per_thread=512),
    _amd("gfx1250", 320, warp_size=32, max_warps=32, max_registers_per_thread=1024),
)}


def target(name: str | Target) -> Target:
    """The chip of that name: `sm_90a`, `sm_90`, `sm90`, `cuda:90`, `gfx942`, `hip:gfx942`, `gfx942:sramecc+:xnack-`.

    An unknown name raises `TargetError` with the names that are known.
    """
    if isinstance(name, Target):
        return name
    text = name.strip().lower()
    backend, _, rest = text.partition(":")
    plain = rest if backend in ("cuda", "hip") else backend
    digits = plain.removeprefix("sm").removeprefix("_").removesuffix("a")
    for known in TARGETS.values():
        if plain == known.name or (known.backend == "cuda" and digits == str(known.arch)):
            if backend not in ("cuda", "hip") or backend == known.backend:
                return known
    raise TargetError(f"no target is named {name!r}; known are {', '.join(TARGETS)}")
