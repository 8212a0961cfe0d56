"""Where a tensor descriptor lies in memory, for the instructions that name it there.

Triton's assembly takes no descriptor as an operand. One from the host is a parameter of the kernel, which PTX can name (PTX
ISA, "Kernel Function Parameters": an entry's are called `<kernel>_param_<n>`). One made in the kernel lies in a slot; where an
instruction needs its address, the slot is one of ours, so that lowering knows where it is.

Input: a descriptor. Output: lines of PTX that leave its generic address in a register:

    point_at(emitter, op.descriptor, "map", inputs)        mov.b64 map, kernel_param_0;  cvta.param.u64 map, map;
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir import Op, Program, Value
from ..emitter import Emitter

# Ops whose instruction takes the address of the descriptor, and ops that make a descriptor.
_NAMING = ("tma_load_multicast", "tma_load_pair", "tma_prefetch", "prefetch_descriptor", "tma_gather", "tma_fetch_rows",
           "tma_scatter", "descriptor_gather", "descriptor_scatter")
_MADE = ("make_tensor_descriptor", "fill_descriptor_slot")
HINTED = ("evict_first", "evict_last")


def named_in_memory(program: Program) -> frozenset[Value]:
    """The descriptors whose address some instruction takes."""
    return frozenset(op.descriptor for op in program.walk() if op.name in _NAMING or is_hinted_reduction(op))


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
        """How the assembly names a new operand."""
        self.values.append(value)
        self.kinds.append(kind)
        return f"${len(self.values) - 1}"


def point_at(emitter: Emitter, descriptor: Value, register: str, inputs: Inputs) -> list[str] | None:
    """Lines that put the generic address of a descriptor into a 64-bit register; None where control flow has handed it on."""
    for number, param in enumerate(emitter.program.params):
        if param.value is descriptor:
            return [f"mov.b64 {register}, {emitter.program.name}_param_{number};", f"cvta.param.u64 {register}, {register};"]
    if descriptor in emitter.addresses:
        return [f"mov.b64 {register}, {inputs.add(emitter.addresses[descriptor], 'l')};"]
    return None
