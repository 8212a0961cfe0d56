"""The types of IR values. None of them has a layout: where elements live is solved later.

Input: elements, shapes and counts. Output: frozen values that print as IR text writes them:

    Scalar      one number                        i32, bf16, fp8e4nv
    Pointer     an address in global memory       *bf16                         or shared *bf16
    Tensor      a tile of scalars or pointers     bf16[128, 64]
    Buffer      tiles in on-chip memory           buffer<bf16[128, 64] x 4>     count 0 = a single one
    Barrier     mbarriers in shared memory        barrier<x 4>                  or barrier<x 4> per thread; count 0 = a single one
    Pipe        a ring of slots, each a buffer a field   pipe<4 x (buffer<bf16[128, 64]>)>
    Descriptor  a TMA descriptor of a block       desc<bf16[128, 64]>
    Slots       memory for TMA descriptors        slots<x 4>                    count 0 = a single one
    Token       an order between async copies     token
    Storage     memory that buffer arrays share   storage
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

_BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i128": 128, "fp16": 16, "bf16": 16, "fp32": 32, "fp64": 64,
         "fp8e5": 8, "fp8e4nv": 8, "fp8e4b8": 8, "fp8e5b16": 8, "fp8e4b15": 8}


class Type:
    """Base of all IR types."""


@dataclass(frozen=True)
class Scalar(Type):
    """A number, named as Triton names it in a signature. Integers have no sign: the op decides."""

    name: str

    @property
    def bits(self) -> int:
        return _BITS[self.name]

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory; an i1 takes a whole byte."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return not self.name.startswith("i")

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Pointer(Type):
    """An address of `pointee` in global memory (or `constant`, for arguments that are never written).

    `shared` is an element of a buffer, `cluster` one of the same buffer in a CTA of the cluster; such a pointer lives until the
    pass `shared_pointers` makes it an offset.
    """

    pointee: Scalar | Pointer
    space: str = "global"

    bits = 64
    bytes = 8
    is_float = False

    def __str__(self) -> str:
        return f"{'' if self.space == 'global' else f'{self.space} '}*{self.pointee}"


Element = Scalar | Pointer


@dataclass(frozen=True)
class Tensor(Type):
    """A tile of elements, held in the registers of a task's warps."""

    element: Element
    shape: tuple[int, ...]

    @property
    def numel(self) -> int:
        return prod(self.shape)

    def __str__(self) -> str:
        return f"{self.element}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Buffer(Type):
    """`count` equally shaped tiles in on-chip memory, contiguous; `count == 0` is one tile (a view of an array)."""

    element: Element
    shape: tuple[int, ...]
    count: int = 0
    space: str = "smem"

    @property
    def tile_bytes(self) -> int:
        return prod(self.shape) * self.element.bytes

    @property
    def bytes(self) -> int:
        return self.tile_bytes * max(1, self.count)

    def single(self) -> Buffer:
        return Buffer(self.element, self.shape, 0, self.space)

    def slot(self) -> Buffer:
        """One buffer of an array, or one step along the leading dimension of a single buffer."""
        return self.single() if self.count else Buffer(self.element, self.shape[1:] or (1, ), 0, self.space)

    def __str__(self) -> str:
        array = f" x {self.count}" if self.count else ""
        space = "" if self.space == "smem" else f" in {self.space}"
        return f"buffer<{self.element}[{', '.join(map(str, self.shape))}]{array}{space}>"


@dataclass(frozen=True)
class Barrier(Type):
    """`count` mbarriers of 8 bytes; `count == 0` is a single one. On `per_thread` ones every thread arrives for itself."""

    MOST_BYTES = (1 << 20) - 1  # that a phase can wait for: PTX, mbarrier tx-count
    MOST_ARRIVALS = (1 << 20) - 1  # of a phase: PTX, mbarrier pending count

    count: int = 0
    per_thread: bool = False

    def __str__(self) -> str:
        array = f"<x {self.count}>" if self.count else ""
        return f"barrier{array}{' per thread' if self.per_thread else ''}"


@dataclass(frozen=True)
class Pipe(Type):
    """A ring of `capacity` slots, each with a buffer of these types for every field."""

    capacity: int
    slots: tuple[Buffer, ...]

    def __str__(self) -> str:
        return f"pipe<{self.capacity} x ({', '.join(map(str, self.slots))})>"


@dataclass(frozen=True)
class Descriptor(Type):
    """A tensor in global memory seen in blocks of `shape`; `signed` matters for TMA's integer reductions, and floats always are.
    With `pixels` (im2col mode) a block is so many pixels of images by so many of their channels; the tensor has more dimensions."""

    element: Scalar
    shape: tuple[int, ...]
    signed: bool = True
    pixels: bool = False

    def __post_init__(self):
        object.__setattr__(self, "signed", self.signed or self.element.is_float)

    @property
    def block_bytes(self) -> int:
        return prod(self.shape) * self.element.bytes

    def __str__(self) -> str:
        return f"desc<{self.element}[{', '.join(map(str, self.shape))}]{'' if self.signed else ' unsigned'}" \
            f"{' pixels' if self.pixels else ''}>"


@dataclass(frozen=True)
class DescriptorSlots(Type):
    """`count` places of 128 bytes in global memory, private to the CTA, for TMA descriptors; `count == 0` is a single one."""

    count: int = 0

    def __str__(self) -> str:
        return f"slots<x {self.count}>" if self.count else "slot"


@dataclass(frozen=True)
class Token(Type):
    """The result of an async copy, commit or wait; it has no value at run time."""

    def __str__(self) -> str:
        return "token"


@dataclass(frozen=True)
class Storage(Type):
    """On-chip memory that several buffer arrays share; `limit` is the most bytes that the author allows it, or None."""

    space: str = "smem"
    limit: int | None = None

    def __str__(self) -> str:
        limit = () if self.limit is None else (f"at most {self.limit} bytes", )
        space = () if self.space == "smem" else (f"in {self.space}", )
        return f"storage<{' '.join((*limit, *space))}>" if limit or space else "storage"


I1, I8, I16, I32, I64 = (Scalar(name) for name in ("i1", "i8", "i16", "i32", "i64"))
TOKEN = Token()


def is_scalar_name(name: str) -> bool:
    """True if a scalar type has that name."""
    return name in _BITS


def element_of(type_: Type) -> Type:
    """The element of a tile, or the type itself when it is a scalar."""
    return type_.element if isinstance(type_, Tensor) else type_


def like(type_: Type, element: Element) -> Type:
    """`type_` with another element: a tile stays a tile of the same shape."""
    return Tensor(element, type_.shape) if isinstance(type_, Tensor) else element


def padded(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Extents rounded up to powers of two (`ir.extents`)."""
    return tuple(1 << (extent - 1).bit_length() for extent in shape)
