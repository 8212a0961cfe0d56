"""Addresses of tensor descriptors in memory, for the instructions that take such an address.

Triton's assembly takes no descriptor as an operand. One from the host is a parameter of the kernel, which PTX can name (PTX
ISA, "Kernel Function Parameters": an entry's are called `<kernel>_param_<n>`). One made in the kernel lies in a slot; where an
instruction needs its address, the slot is one of ours, so that lowering knows where it is. Where an `if` or a loop hands such a
descriptor on, its address goes along as one more value (`going_along`, `came_along`).

Input: a descriptor. Output: lines of PTX that leave its generic address in a register:

    point_at(emitter, op.descriptor, "map", inputs)        mov.b64 map, kernel_param_0;  cvta.param.u64 map, map;
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ....ir import Descriptor, Op, Program, Value
from ....ir.extents import is_odd
from ....ir.flow import all_carries
from ..emitter import Emitter

# Ops whose instruction takes the address of the descriptor, and ops that make a descriptor.
_NAMING = ("tma_load_multicast", "tma_load_pair", "tma_load_pair_multicast", "tma_prefetch", "prefetch_descriptor", "tma_gather",
           "tma_fetch_rows", "tma_scatter", "descriptor_gather", "descriptor_scatter")
_MADE = ("make_tensor_descriptor", "fill_descriptor_slot")
HINTED = ("evict_first", "evict_last")


def named_in_memory(program: Program) -> frozenset[Value]:
    """The descriptors whose address some instruction takes, also under another name: after an `if` or in a loop."""
    return program.kept(_named_in_memory)


def _named_in_memory(program: Program) -> frozenset[Value]:
    found = {op.descriptor for op in program.walk() if op.name in _NAMING or is_hinted_reduction(op) or _is_odd_copy(op)}
    handed = [(carry.source, carry.target) for carry in all_carries(program) if isinstance(carry.target.type, Descriptor)]
    before = -1
    while len(found) != before:
        before = len(found)
        for pair in handed:
            if not found.isdisjoint(pair):
                found.update(pair)
    return frozenset(found)


def _is_odd_copy(op: Op) -> bool:
    """True of a copy of blocks with extents that are no powers of two, for which Triton has no op."""
    return op.name in ("tma_load", "tma_fetch", "tma_store") and is_odd(op.descriptor.type.shape)


def is_hinted_reduction(op: Op) -> bool:
    """True for a TMA reduction with an eviction policy, for which Triton has no op."""
    return op.name == "tma_store" and bool(op.reduce) and eviction(op.cache_policy) in HINTED


def eviction(policy) -> str:
    """The eviction policy of a recorded cache hint."""
    return (policy or ("cache", "none", "evict_normal"))[2] or "evict_normal"


def needs_slots(program: Program) -> bool:
    """True if the module will hold stand-ins for slots of descriptors."""
    named = named_in_memory(program)
    return any(op.name == "descriptor_slots" or op.name in _MADE and op.result in named for op in program.walk())


@dataclass
class Inputs:
    """The operands of one piece of assembly, numbered from 0, with their kinds of register."""

    values: list = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)

    def add(self, value, kind: str = "r") -> str:
        """Add an operand to the assembly; return its name there."""
        self.values.append(value)
        self.kinds.append(kind)
        return f"${len(self.values) - 1}"


def point_at(emitter: Emitter, descriptor: Value, register: str, inputs: Inputs) -> list[str]:
    """Lines that put the generic address of a descriptor into a 64-bit register."""
    if descriptor in emitter.addresses:
        return [f"mov.b64 {register}, {inputs.add(emitter.addresses[descriptor], 'l')};"]
    return _parameter(emitter, descriptor, register)


def going_along(emitter: Emitter, values: tuple[Value, ...]) -> list:
    """The addresses that an `if` or a loop passes on with these of its values."""
    return [_address(emitter, value) for value in _in_memory(emitter, values)]


def address_types(emitter: Emitter, values: tuple[Value, ...]) -> list:
    """The MLIR types of the addresses that come along with these values."""
    return [emitter.types.slots() for _ in _in_memory(emitter, values)]


def came_along(emitter: Emitter, values: tuple[Value, ...], addresses: list) -> None:
    """Note the addresses that an `if` or a loop has handed on with these values, its results or the arguments of a block."""
    emitter.addresses.update(zip(_in_memory(emitter, values), addresses, strict=True))


def _in_memory(emitter: Emitter, values: tuple[Value, ...]) -> list[Value]:
    named = named_in_memory(emitter.program)
    return [value for value in values if value in named]


def _address(emitter: Emitter, descriptor: Value):
    """The generic address of a descriptor as an MLIR value, of the type that slots have."""
    if descriptor in emitter.addresses:
        return emitter.addresses[descriptor]
    return emitter.builder.create_threadwise_inline_asm("\n".join(_parameter(emitter, descriptor, "$0")), "=l", [],
                                                        [emitter.types.slots()], True).get_result(0)


def _parameter(emitter: Emitter, descriptor: Value, register: str) -> list[str]:
    (number, ) = (number for number, param in enumerate(emitter.program.params) if param.value is descriptor)
    return [f"mov.b64 {register}, {emitter.program.name}_param_{number};", f"cvta.param.u64 {register}, {register};"]
