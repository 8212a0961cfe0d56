"""Memory spaces as data: how much there is of each, whose it is, where its data may go by which engine, and who computes on it.

Input: the numbers of a chip. Output: frozen values, which `Target.spaces` keeps by name. For example:

    target("ascend_910b").spaces["ub"].bytes                     196608, of each vector core
    target("ascend_910b").spaces["l1"].engine("l0a")             "MTE1"
    target("ascend_910b").spaces["ub"].engine("l1")              None: there is no such path

The names are those of `Buffer.space` in the IR: "smem" and "tmem" are TLX's and TLE's, "ub", "l1", "l0a", "l0b" and "l0c" those of
`tle.dsa`; "global" and "registers" are where copies and arithmetic begin and end. docs/SPACES.md shows all of them as tables made
from these values.

Sources:
* NVIDIA: PTX ISA, "State Spaces", "cp.async" (shared addresses are multiples of 16 bytes), "cp.async.bulk.tensor" (of 128),
  "ldmatrix", "tcgen05.cp", "tcgen05.ld", "tcgen05.st"; columns of tensor memory are 128 lanes of 32 bits ("Tensor Memory").
* AMD: the CDNA 3 ISA document, "LDS" (ds_read and ds_write, buffer_load ... lds).
* Ascend: Ascend C, "Hardware Architecture / Storage Units", tables 1 and 2 (which engine moves what: MTE1 L1 to L0A and L0B; MTE2
  global memory to L1, L0A, L0B and UB; MTE3 UB to global memory; FixPipe L0C to global memory and L1, with a change of format or
  type on the way); "NPU Architecture Version 220x" (vector units compute on UB, cube units on L0A, L0B and L0C; vector and cube
  cores exchange data through global memory; alignments of 32, 32, 512, 512 and 64 bytes); DataCopy's compatibility samples (L1 to
  global memory, which later chips have lost). Sizes: CANN's platform configuration of the Ascend 910B family (ub_size, l1_size,
  l0_a_size, l0_b_size, l0_c_size).
"""

from __future__ import annotations

from dataclasses import dataclass

GLOBAL, REGISTERS, SHARED, TENSOR = "global", "registers", "smem", "tmem"
UB, L1, L0A, L0B, L0C = "ub", "l1", "l0a", "l0b", "l0c"
DSA = (UB, L1, L0A, L0B, L0C)
"""The spaces that `tle.dsa.ascend` names, in capital letters there."""

TITLES = {
    GLOBAL: "global memory", REGISTERS: "registers", SHARED: "shared memory", TENSOR: "tensor memory",
    UB: "the unified buffer (UB)", L1: "the L1 buffer", L0A: "the L0A buffer", L0B: "the L0B buffer", L0C: "the L0C buffer",
}
"""What each space is called in messages and tables."""


@dataclass(frozen=True)
class Path:
    """A copy that the chip can make: `to` names the space where it ends, `engine` what moves the data."""

    to: str
    engine: str


@dataclass(frozen=True)
class Space:
    """One memory space of one chip.

    name        as in `Buffer.space`
    bytes       of each unit; 0 where the chip itself sets no limit (global memory)
    unit        what has so many bytes for itself: "CTA", "vector core", "cube core", "device"
    alignment   the multiple of bytes at which a buffer starts
    copies      the paths out of it
    computes    the units that take operands from it or leave results in it
    """

    name: str
    bytes: int
    unit: str
    alignment: int
    copies: tuple[Path, ...] = ()
    computes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The name of the space in messages and tables."""
        return TITLES[self.name]

    def engine(self, to: str) -> str | None:
        """The engine that moves data from this space to the space `to`; None if none does."""
        return next((path.engine for path in self.copies if path.to == to), None)

    def aligned(self, size: int) -> int:
        """The bytes that a buffer of `size` bytes takes here."""
        return -(-size // self.alignment) * self.alignment

    def __str__(self) -> str:
        return self.name


def paths(text: str) -> tuple[Path, ...]:
    """`"l0a:MTE1 l0b:MTE1"` as paths."""
    return tuple(Path(*one.split(":")) for one in text.split())


def gpu_spaces(shared_bytes: int, tensor_bytes: int, register_bytes: int, tma: bool, shared_operands: bool) -> tuple[Space, ...]:
    """The spaces of a CTA on a GPU (a work-group on AMD), and those around it. `shared_operands`: its matrix units read shared
    memory themselves."""
    bulk = "TMA" if tma else "asynchronous copies"
    back, (stored, copied) = (Path(GLOBAL, "TMA"), ) if tma else (), (
        ((Path(TENSOR, "tcgen05.st"), ), (Path(TENSOR, "tcgen05.cp"), )) if tensor_bytes else ((), ()))
    found = (
        Space(GLOBAL, 0, "device", 1, (Path(SHARED, bulk), Path(REGISTERS, "loads"))),
        Space(REGISTERS, register_bytes, "CTA", 4, (Path(GLOBAL, "stores"), Path(SHARED, "shared stores"), *stored),
              ("arithmetic", "matrix units")),
        Space(SHARED, shared_bytes, "CTA", 128 if tma else 16, (Path(REGISTERS, "shared loads"), *back, *copied),
              ("matrix units", "atomics") if shared_operands else ("atomics", )))
    tensor = Space(TENSOR, tensor_bytes, "CTA", 512, (Path(REGISTERS, "tcgen05.ld"), ), ("matrix units", ))
    return (*found, tensor) if tensor_bytes else found


ASCEND_220X = (
    Space(GLOBAL, 0, "device", 1, paths("ub:MTE2 l1:MTE2 l0a:MTE2 l0b:MTE2")),
    Space(UB, 192 * 1024, "vector core", 32, paths("global:MTE3"), ("Vector", "Scalar")),
    Space(L1, 512 * 1024, "cube core", 32, paths("l0a:MTE1 l0b:MTE1 global:MTE3")),
    Space(L0A, 64 * 1024, "cube core", 512, (), ("Cube", )),
    Space(L0B, 64 * 1024, "cube core", 512, (), ("Cube", )),
    Space(L0C, 128 * 1024, "cube core", 64, paths("global:FixPipe l1:FixPipe"), ("Cube", )),
)
"""The spaces of an Ascend AI core of architecture 220x, whose cube and vector cores are apart."""
