"""The types of MLIR that raw bodies and their annotations name, as plain values.

Input: a text of MLIR, or a call as the MLIR bindings have it. Output: a frozen value that prints as MLIR writes it. For example:

    parse("memref<?xf32, 3>")               MemRefType((None, ), FloatType("f32"), 3)
    IntegerType.get_signless(32)            i32
    RankedTensorType.get([1024], F32Type.get())     tensor<1024xf32>
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import triton.language.core as tl

DYNAMIC = -(1 << 63)            # what MLIR's bindings write for an extent that is only known at run time
WORKGROUP, GLOBAL = 3, 1        # address spaces: shared memory, global memory


class Type:
    """Base of all types."""

    @classmethod
    def parse(cls, text: str, context=None) -> Type:
        """The type that MLIR writes so. ValueError if it is none that raw bodies have."""
        return parse(text)


@dataclass(frozen=True)
class IntegerType(Type):
    """A number of `width` bits; the op says whether it has a sign."""

    width: int

    @classmethod
    def get_signless(cls, width: int, context=None) -> IntegerType:
        return _integer(width)

    get = get_signed = get_unsigned = get_signless

    def __str__(self) -> str:
        return f"i{self.width}"


@dataclass(frozen=True)
class IndexType(Type):
    """A number that counts elements: 64 bits, as MLIR lowers it for GPUs."""

    @classmethod
    def get(cls, context=None) -> IndexType:
        return cls()

    def __str__(self) -> str:
        return "index"


@dataclass(frozen=True)
class FloatType(Type):
    """A floating-point number."""

    name: str

    def __str__(self) -> str:
        return self.name


def _float(name: str):
    """The class of one floating-point type as the bindings have it, of which only `get` is ever used."""
    return type(f"{name.upper()}Type", (Type, ), {"get": classmethod(lambda cls, context=None: FloatType(name)),
                                                  "__doc__": f"`get()` gives {name}."})


F16Type, BF16Type, F32Type, F64Type = map(_float, ("f16", "bf16", "f32", "f64"))


@dataclass(frozen=True)
class PointerType(Type):
    """An address; the op names the type of the data at it."""

    space: int = 0

    @classmethod
    def get(cls, address_space: int = 0, context=None) -> PointerType:
        return cls(address_space or 0)

    def __str__(self) -> str:
        return f"!llvm.ptr<{self.space}>" if self.space else "!llvm.ptr"


@dataclass(frozen=True)
class _Shaped(Type):
    """Elements of one type; an extent of None is only known at run time."""

    shape: tuple[int | None, ...]
    element_type: Type

    @property
    def rank(self) -> int:
        return len(self.shape)

    def _elements(self) -> str:
        return "".join(f"{'?' if extent is None else extent}x" for extent in self.shape) + str(self.element_type)


@dataclass(frozen=True)
class MemRefType(_Shaped):
    """Elements in memory."""

    memory_space: int = 0

    @classmethod
    def get(cls, shape, element_type, layout=None, memory_space=None, loc=None) -> MemRefType:
        return cls(_extents(shape), element_type, int(memory_space or 0))

    def __str__(self) -> str:
        return f"memref<{self._elements()}{f', {self.memory_space}' if self.memory_space else ''}>"


@dataclass(frozen=True)
class RankedTensorType(_Shaped):
    """Elements as one value."""

    @classmethod
    def get(cls, shape, element_type, encoding=None, loc=None) -> RankedTensorType:
        return cls(_extents(shape), element_type)

    def __str__(self) -> str:
        return f"tensor<{self._elements()}>"


@dataclass(frozen=True)
class VectorType(_Shaped):
    """A few elements of one thread."""

    @classmethod
    def get(cls, shape, element_type, loc=None, **scalable) -> VectorType:
        return cls(_extents(shape), element_type)

    def __str__(self) -> str:
        return f"vector<{self._elements()}>"


_DTYPES = {"i1": tl.int1, "i8": tl.int8, "i16": tl.int16, "i32": tl.int32, "i64": tl.int64, "index": tl.int64, "f16": tl.float16,
           "bf16": tl.bfloat16, "f32": tl.float32, "f64": tl.float64}
_NAMES = {str(dtype): name for name, dtype in _DTYPES.items() if name != "index"} | {f"uint{n}": f"i{n}" for n in (8, 16, 32, 64)}


def dtype_of(type_: Type) -> tl.dtype:
    """Triton's dtype of a number of this type."""
    return _DTYPES[str(type_)]


def type_of(dtype: tl.dtype) -> Type:
    """MLIR's type of a number of this dtype. ValueError if raw bodies have none."""
    if str(dtype) not in _NAMES:
        raise ValueError(f"raw MLIR bodies have no numbers of the type {dtype}")
    return parse(_NAMES[str(dtype)])


def is_float(type_: Type) -> bool:
    return isinstance(type_, FloatType)


def is_integer(type_: Type) -> bool:
    """True of an iN and of an index."""
    return isinstance(type_, (IntegerType, IndexType))


def width(type_: Type) -> int:
    """Bits of a number."""
    return dtype_of(type_).primitive_bitwidth


_SPACES = {"#gpu.address_space<workgroup>": WORKGROUP, "#gpu.address_space<global>": GLOBAL, "#gpu.address_space<private>": 5}
_SHAPED = re.compile(r"(memref|tensor|vector)<\s*((?:(?:\?|\d+)\s*x\s*)*)([a-z]+\d+|index)\s*((?:,[^<>]*(?:<[^<>]*>[^<>]*)?)*)>")


def parse(text: str) -> Type:
    """The type that MLIR writes so. ValueError if it is none that raw bodies have."""
    text = text.strip()
    if text == "index":
        return IndexType()
    if found := re.fullmatch(r"[su]?i(\d+)", text):
        return _integer(int(found[1]))
    if text in _DTYPES:
        return FloatType(text)
    if found := re.fullmatch(r"!llvm\.ptr(?:<(\d+)>)?", text):
        return PointerType(int(found[1] or 0))
    found = _SHAPED.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no type of raw bodies; they have numbers such as i32, f32 and index, memref<?xf32, 3>, "
                         "tensor<1024xf32>, vector<4xf32> and !llvm.ptr<1>")
    shape = tuple(None if extent == "?" else int(extent) for extent in re.findall(r"\?|\d+", found[2]))
    element, rest = parse(found[3]), [part.strip() for part in found[4].split(",")[1:]]
    if found[1] != "memref":
        return (RankedTensorType if found[1] == "tensor" else VectorType)(shape, element)
    space = rest[-1] if rest and not rest[-1].startswith(("strided", "affine_map", "offset")) else "0"
    if not space.isdecimal() and space not in _SPACES:
        raise ValueError(f"{text!r} has no known memory space: 3 is shared memory, 1 global memory")
    return MemRefType(shape, element, _SPACES.get(space) or int(space))


def _integer(bits: int) -> IntegerType:
    if f"i{bits}" not in _DTYPES:
        raise ValueError(f"raw bodies have integers of 1, 8, 16, 32 and 64 bits, not of {bits}")
    return IntegerType(bits)


def _extents(shape) -> tuple[int | None, ...]:
    return tuple(None if extent is None or extent == DYNAMIC else int(extent) for extent in shape)
