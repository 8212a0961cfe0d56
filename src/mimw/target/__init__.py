"""Facts of each chip, as frozen data, so that a kernel can be refused or planned on a machine without that chip.

Input: the name of a chip, or none for the one that is wanted here. Output: a `Target` with its numbers, the space that a kernel
gets on it, and its features. An example:

    target("sm_90a").has("tma")                  True
    target("gfx942").warp_size                   64
    target("sm_120a").space("tmem")              0: Blackwell, too, but without tensor memory
    target("ascend_910b").spaces["ub"]           the unified buffer of a vector core, with its paths (spaces.py)
    wanted()                                     what MIMW_TARGET says, or sm_90a

Sources of the numbers:
* NVIDIA: CUDA C++ Programming Guide, "Compute Capabilities", technical specifications: shared memory per block (what a
  kernel gets after opting in: 163 KB, 227 KB, 99 KB), 1024 threads per block, 64K 32-bit registers per block, 255 per
  thread; 2^31 - 1 thread blocks of a grid along x, 65535 along y and z. Tensor memory: PTX ISA, "Tensor Memory" (512 columns
  of 128 lanes x 32 bits per CTA).
* AMD: LLVM's AMDGPU target (addressable local memory size: 64, 160 and 320 KiB; unified vector registers of one wave:
  512, or 1024 on gfx1250; global_load_lds_dword, dwordx3 and dwordx4; gfx1250's asynchronous loads to LDS) and the CDNA ISA
  documents (four SIMDs per compute unit, 1024 work-items per work-group).
* Multiprocessors: the data sheets of the A100, the H100 SXM, the DGX B200, the RTX 5090, the MI300X and the MI355X; of the B300 as
  of the B200, since its data sheet gives no number.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from ..errors import TargetError
from .spaces import ASCEND_220X, DSA, GLOBAL, SHARED, TENSOR, TITLES, Path, Space, gpu_spaces

__all__ = ["DSA", "FEATURES", "GLOBAL", "NVIDIA_WARP", "Path", "SHARED", "Space", "TARGETS", "TENSOR", "TITLES", "Target", "asked",
           "asking", "target", "wanted"]

FEATURES: dict[str, str] = {
    "tasks": "tasks on warps of their own",
    "register_moves": "registers that move from one task to another",
    "barriers": "barriers with phases in shared memory",
    "mbarrier": "barriers in shared memory that count bytes",
    "tma": "TMA",
    "tdm": "tensor data mover (TDM)",
    "descriptors": "engine that copies by tensor descriptors",
    "bulk": "bulk copies",
    "clusters": "clusters",
    "grid_barrier": "barrier among all CTAs of a grid",
    "dependent_launch": "programmatic dependent launch",
    "proxies": "asynchronous proxy to fence",
    "wgmma": "asynchronous dots into registers (wgmma)",
    "tensor_memory": "tensor memory",
    "preferred_cluster": "preferred size of clusters",
    "launch_control": "cluster launch control",
    "stochastic_rounding": "conversions that round by random bits",
    "float_redux": "reductions of floats by one instruction a warp",
    "zero_fill": "asynchronous copies that fill what they do not read with zeros",
    "gather4": "TMA copies of four rows at a time",
    "peers": "memory of other GPUs that its loads and stores reach",
    "register_slices": "slices of tiles within registers",
    "native": "compiler of GPU code (PTX, LLVM IR, CUDA C++)",
    "buffer_words": "buffer loads and stores",
    "buffer_atomics": "buffer atomics",
    "buffer_atomics_bf16": "buffer atomics on pairs of bf16",
    "multimem": "instructions on the memory of all GPUs at once (multimem)",
    "stages": "warp pipeline, in which two halves of the waves run the stages of a loop one apart",
    "scheduling": "barrier to the scheduling of instructions",
}
"""The features of chips, each with the name that it has in an error for a chip without it. A row of the op table names the feature
that its op needs (`needs`)."""

NVIDIA_WARP = 32  # lanes, on every chip of NVIDIA: for words that only these have
_TENSOR_COLUMN_BYTES = 128 * 4  # PTX ISA, "Tensor Memory": lanes x 32 bits


@dataclass(frozen=True)
class Target:
    """One chip. Sizes are per CTA (a work-group on AMD), shared memory in bytes, registers are 32 bits wide.

    `arch` is what Triton's `GPUTarget` calls it: the capability as an int, or the gfx name. `assembly` is the language of the
    instructions that lowering writes itself: "ptx", "gfx9" (CDNA 3 and 4) or "gfx12". `mma` is the family of its matrix
    instructions: "mma" (registers in and out), "wgmma", "tcgen05" (accumulators in tensor memory), "mfma" or "wmma";
    `mma_version` is AMD's of it, as layouts of authors name it. `warp_size` is the number of lanes that run together (a wave on
    AMD). `register_unit` is the step in which a thread's registers are allotted and requested. `max_cluster` is the most CTAs of a
    cluster, `portable_cluster` the most that a launch can have without asking the driver for a size that not every chip of the
    family has. `max_grid` is the most CTAs of a launch along x, y and z (on AMD, what Triton's launcher can pass).
    `multiprocessors` are those of the device that the family is known by (compute units on AMD, cube cores on Ascend), 0 where
    nothing is published. `copy_pieces` are the bytes that one thread copies at once into shared memory, past the registers.
    `features` are some of `FEATURES`; `mapped` are those that the chip lacks and whose words become others there (`becomes` in the
    op table; docs/AMD.md).

    `own_spaces` are the memory spaces of a chip that is no GPU: it has no shared memory, no warps and no registers to count
    (these are 0 or 1), `assembly` is "", and nothing here makes a binary for it (`binary` is False).
    """

    name: str
    backend: str
    arch: int | str
    warp_size: int
    shared_bytes: int
    assembly: str
    mma: str
    mma_version: int = 0
    registers_per_cta: int = 65536
    max_warps: int = 32
    max_registers_per_thread: int = 255
    register_unit: int = 8
    tensor_memory_columns: int = 0
    max_cluster: int = 1
    portable_cluster: int = 8
    max_grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    multiprocessors: int = 0
    copy_pieces: tuple[int, ...] = (4, 8, 16)
    features: frozenset[str] = frozenset()
    mapped: frozenset[str] = frozenset()
    own_spaces: tuple[Space, ...] = ()

    def has(self, feature: str) -> bool:
        """True if the chip has that one of `FEATURES`."""
        if feature not in FEATURES:
            raise ValueError(f"no feature is named {feature!r}; there are {', '.join(FEATURES)}")
        return feature in self.features

    @property
    def spaces(self) -> Mapping[str, Space]:
        """The memory spaces that the chip has, by name."""
        return _spaces(self)

    def space(self, name: str) -> int:
        """The bytes that a unit (a CTA, a core) may have of the on-chip space of that name, one of those of `Buffer.space`: 0
        where the chip does not have it. Its other facts are in `spaces[name]`."""
        if name not in (SHARED, TENSOR, *DSA):
            raise KeyError(name)
        return self.spaces[name].bytes if name in self.spaces else 0

    def lies_in(self, name: str) -> Space | None:
        """The space in which a buffer of the space `name` lies: that space, if the chip has it; shared memory for a space of
        `tle.dsa` on a GPU. None if the chip has no place for it."""
        return self.spaces.get(name) or (self.spaces.get(SHARED) if name in DSA else None)

    @property
    def binary(self) -> bool:
        """True if a kernel can be compiled to a binary for it; else it can be simulated, checked, explained and predicted."""
        return not self.own_spaces

    @property
    def max_threads(self) -> int:
        """Threads that one CTA may have."""
        return self.max_warps * self.warp_size

    def __str__(self) -> str:
        return self.name


@cache
def _spaces(chip: Target) -> Mapping[str, Space]:
    tensor_bytes = _TENSOR_COLUMN_BYTES * chip.tensor_memory_columns
    found = chip.own_spaces or gpu_spaces(chip.shared_bytes, tensor_bytes, 4 * chip.registers_per_cta, chip.has("tma"),
                                          chip.mma in _FROM_SHARED)
    return MappingProxyType({space.name: space for space in found})


def _nvidia(name: str, arch: int, shared_kib: int, mma: str, features: frozenset[str], **facts) -> Target:
    return Target(name, "cuda", arch, warp_size=NVIDIA_WARP, shared_bytes=shared_kib * 1024, assembly="ptx", mma=mma,
                  features=_EVERY_GPU | _EVERY_NVIDIA | features, **facts)


def _amd(name: str, shared_kib: int, assembly: str, mma: str, features: frozenset[str], **facts) -> Target:
    return Target(name, "hip", name, features=_EVERY_GPU | _EVERY_AMD | features, mapped=_MAPPED - features,
                  shared_bytes=shared_kib * 1024, registers_per_cta=131072, max_grid=(2**31 - 1, ) * 3, assembly=assembly, mma=mma,
                  **facts)


_FROM_SHARED = ("wgmma", "tcgen05")         # families of matrix instructions with operands in shared memory
_EVERY_GPU = frozenset(("peers", "native"))
_EVERY_NVIDIA = frozenset(("zero_fill", ))
_EVERY_AMD = frozenset(("tasks", "barriers", "stages", "scheduling", "buffer_words", "register_slices"))
_CDNA3_UP = frozenset(("buffer_atomics", ))
_CDNA4_UP = _CDNA3_UP | {"buffer_atomics_bf16"}
_MOVER = frozenset(("tdm", "descriptors"))
_MAPPED = frozenset(("mbarrier", "tma", "descriptors", "wgmma", "proxies"))
_HOPPER_UP = frozenset(("tasks", "register_moves", "barriers", "mbarrier", "tma", "descriptors", "bulk", "clusters", "grid_barrier",
                        "dependent_launch", "proxies", "multimem"))
_BLACKWELL_UP = _HOPPER_UP | {"preferred_cluster", "launch_control"}
_BLACKWELL_SERVER = _BLACKWELL_UP | {"tensor_memory", "gather4", "stochastic_rounding", "float_redux"}

TARGETS: dict[str, Target] = {target.name: target for target in (
    _nvidia("sm_80", 80, 163, "mma", frozenset(), multiprocessors=108),
    _nvidia("sm_90a", 90, 227, "wgmma", _HOPPER_UP | {"wgmma"}, max_cluster=16, multiprocessors=132),
    _nvidia("sm_100a", 100, 227, "tcgen05", _BLACKWELL_SERVER, max_cluster=16, tensor_memory_columns=512,
            multiprocessors=148),
    _nvidia("sm_103a", 103, 227, "tcgen05", _BLACKWELL_SERVER, max_cluster=16, tensor_memory_columns=512,
            multiprocessors=148),
    _nvidia("sm_120a", 120, 99, "mma", _BLACKWELL_UP, max_cluster=8, multiprocessors=170),
    _amd("gfx942", 64, "gfx9", "mfma", _CDNA3_UP, mma_version=3, warp_size=64, max_warps=16, max_registers_per_thread=512,
         multiprocessors=304, copy_pieces=(4, )),
    _amd("gfx950", 160, "gfx9", "mfma", _CDNA4_UP, mma_version=4, warp_size=64, max_warps=16, max_registers_per_thread=512,
         multiprocessors=256, copy_pieces=(4, 12, 16)),
    _amd("gfx1250", 320, "gfx12", "wmma", _MOVER, mma_version=3, warp_size=32, max_warps=32, max_registers_per_thread=1024),
    # Ascend C, "Kernel launch": at most 65535 blocks. Tiles lie in spaces, so that threads and registers limit nothing.
    Target("ascend_910b", "ascend", "ascend_910b", warp_size=1, shared_bytes=0, assembly="", mma="cube", registers_per_cta=0,
           max_warps=1024, max_registers_per_thread=0, max_grid=(65535, ) * 3, multiprocessors=24, own_spaces=ASCEND_220X),
)}


# What GPUs are sold as, for who asks by that name: CUDA's and ROCm's tables of GPUs and their architectures.
SOLD = {"a100": "sm_80", "h100": "sm_90a", "h200": "sm_90a", "h800": "sm_90a", "gh200": "sm_90a", "hopper": "sm_90a",
        "b200": "sm_100a", "gb200": "sm_100a", "blackwell": "sm_100a", "b300": "sm_103a", "gb300": "sm_103a", "rtx50": "sm_120a",
        "mi300": "gfx942", "mi325": "gfx942", "mi350": "gfx950", "mi355": "gfx950", "ascend": "ascend_910b"}


def target(name: str | Target) -> Target:
    """The chip of that name: `sm_90a`, `sm_90`, `sm90`, `cuda:90`, `gfx942`, `hip:gfx942`, `gfx942:sramecc+:xnack-`,
    `ascend_910b`, `ascend910b`, `ascend:ascend_910b`.

    An unknown name raises `TargetError` with the names that are known.
    """
    if isinstance(name, Target):
        return name
    if not isinstance(name, str):
        raise TargetError(f"target is {name!r}; it may be the name of one: {', '.join(TARGETS)}")
    text = name.strip().lower()
    backend, _, rest = text.partition(":")
    backends = {known.backend for known in TARGETS.values()}
    plain = rest if backend in backends else backend
    digits = plain.removeprefix("sm").removeprefix("_").removesuffix("a")
    for known in TARGETS.values():
        if plain == known.name or (known.backend == "cuda" and digits == str(known.arch)) or (
                not known.binary and plain == known.name.replace("_", "")):
            if backend not in backends or backend == known.backend:
                return known
    meant = next((chip for sold, chip in SOLD.items() if plain.replace("-", "").replace(" ", "").startswith(sold)), None)
    told = f"{name!r} is {meant} here" if meant else f"no target is named {name!r}"
    raise TargetError(f"{told}; known are {', '.join(TARGETS)}")


_DEFAULT = "sm_90a"
_ASKED: ContextVar[Target | None] = ContextVar("mimw_target", default=None)


def wanted(name: str | Target | None = None) -> Target:
    """The chip of that name. Without a name that of the launch or compilation under way (`asking`), else MIMW_TARGET's, else
    sm_90a."""
    if name is not None:
        return target(name)
    return _ASKED.get() or target(os.environ.get("MIMW_TARGET") or _DEFAULT)


@contextmanager
def asking(chip: Target) -> Iterator[None]:
    """Inside, `chip` is what is wanted: host code that a launch or a compilation calls sees it, whatever MIMW_TARGET says."""
    before = _ASKED.set(chip)
    try:
        yield
    finally:
        _ASKED.reset(before)


def asked() -> Target | None:
    """The chip of the launch or compilation under way; None if none has asked for one."""
    return _ASKED.get()
