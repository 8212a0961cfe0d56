"""Accesses to the memory of all GPUs at once.

Input: an op of `ir/ops/multimem.py`. Output: PTX that each thread runs for the elements that it holds, neighbours together:

    multimem_load_reduce %p None 'add' 'relaxed' 8      multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 {..}, [$p];
    multimem_store %p %v None 'relaxed' 4               multimem.st.relaxed.sys.global.v4.f32 [$p], {..};

The layout rule `run` gives a thread `vector` neighbours, then those of a whole round of threads later. Threads beyond the end of a
tile hold copies of what others hold, and neither store nor reduce. Elements of 16 bits go by pairs: PTX has no others.
"""

from __future__ import annotations

from ....ir import I32, I64, Op, Scalar, like
from ...triton_port.builder import mlir
from ..asm import ptx, registers_of, sync, thread_in_task
from ..emitter import Emitter, emits
from .elements import as_registers, packed

_TABLE = """{
.reg .pred none;
.reg .b64 here, size, all;
ld.global.b64 here, [$1];
ld.global.b64 size, [$1+8];
mad.lo.u64 all, size, 8, $1;
ld.global.b64 all, [all+24];
setp.eq.u64 none, all, 0;
@none trap;
mad.lo.u64 here, here, 8, $1;
ld.global.b64 here, [here+24];
sub.u64 $0, all, here;
}"""
_ALIGNED = 256      # bytes; of each heap, and of the address of all of them


@emits("multicast_pointer")
def multicast_pointer(emitter: Emitter, op: Op):
    """The pointer moved by the distance of the address of all heaps from this rank's; no such address is a trap."""
    builder, type_ = emitter.builder, op.result.type
    element = getattr(type_, "element", type_)
    apart = ptx(emitter, _TABLE, ["=l", "l"], [emitter.of(op.world)], builder.get_int64_ty())
    apart = builder.create_ashr(apart, builder.get_int64(element.pointee.bytes.bit_length() - 1))
    apart.set_attr("tt.divisibility", mlir.make_attr([_ALIGNED // element.pointee.bytes], apart.get_context()))
    if hasattr(type_, "shape"):
        apart = builder.create_splat(emitter.types.tensor(like(type_, I64), emitter.layouts.registers[op.result]), apart)
    return builder.create_addptr(emitter.operand(op, "pointer"), apart)


class _Groups:
    """The assembly of an op: a thread's instructions for each group of neighbours that it holds."""

    def __init__(self, emitter: Emitter, op: Op, results: int = 0):
        self.emitter, self.op = emitter, op
        self.element = op.pointer.type.element.pointee
        self.kind = "l" if self.element.bytes == 8 else "r"
        self.constraints, self.operands = [f"=&{self.kind}"] * results, []
        self.lines = [".reg .pred on, mine;"]
        self.pointers = self.add(emitter.operand(op, "pointer"), "l")
        self.each, self.shares = op.vector, False
        self.flags = self._flags()

    def add(self, value, kind: str) -> list[str]:
        """The names of the registers that a thread holds of a tile."""
        first, count = len(self.constraints), registers_of(self.emitter, value)
        self.operands.append(value)
        self.constraints += [kind] * count
        return [f"${first + index}" for index in range(count)]

    def _flags(self) -> list[str] | None:
        mask = self.op.mask
        if mask is None:
            return None
        type_ = self.emitter.types.tensor(like(mask.type, I32), self.emitter.wanted(self.op, "mask"))
        return self.add(self.emitter.builder.create_int_cast(self.emitter.operand(self.op, "mask"), type_, False), "r")

    def alone(self) -> None:
        """Define `mine`, true in a thread before the tile's end, if the other threads hold copies."""
        (extent, ) = self.op.pointer.type.shape
        self.shares = extent // self.each < self.emitter.threads
        if self.shares:
            self.operands.append(thread_in_task(self.emitter))
            self.constraints.append("r")
            self.lines.append(f"setp.lt.u32 mine, ${len(self.constraints) - 1}, {extent // self.each};")

    def guard(self, at: int) -> str:
        """The predicate of an access for the group that begins with register `at`."""
        if self.flags is None:
            return "@mine " if self.shares else ""
        both = f"setp.ne.and.u32 on, {self.flags[at]}, 0, mine;"
        self.lines.append(both if self.shares else f"setp.ne.u32 on, {self.flags[at]}, 0;")
        return "@on "

    def emit(self, result=None):
        return ptx(self.emitter, "{\n" + "\n".join(self.lines) + "\n}", self.constraints, self.operands, result)


def _typed(element: Scalar, each: int, reduction: str, wide: str = "") -> str:
    """`op.vec.type` of a reduction of `each` neighbours, with `wide` for sums of 16 bits."""
    sign, name = ("u", reduction[1:]) if reduction.startswith("u") else ("s", reduction)
    if element.is_float:
        words = each * element.bytes // 4 if element.bytes < 4 else each
        wide = wide if element.bytes == 2 and name == "add" else ""
        vector = f".v{words}" if words > 1 else ""
        kind = {"fp16": "f16x2", "bf16": "bf16x2", "fp32": "f32", "fp64": "f64"}[element.name]
        return f"{name}{wide}{vector}.{kind}"
    kind = {"add": "u", "min": sign, "max": sign}.get(name, "b")
    return f"{name}.{kind}{element.bits}"


def _operand(names: list[str]) -> str:
    return "{" + ", ".join(names) + "}" if len(names) > 1 else names[0]


@emits("multimem_load_reduce")
def multimem_load_reduce(emitter: Emitter, op: Op):
    held = registers_of(emitter, emitter.operand(op, "pointer"))
    groups = _Groups(emitter, op, results=held)
    element, each = groups.element, groups.each
    kind = _typed(element, each, op.reduction, ".acc::f32")
    for at in range(0, held, each):
        results = [f"${index}" for index in range(at, at + each)]
        words = results
        if element.bytes == 2:
            words = [f"w{at}_{index}" for index in range(each // 2)]
            groups.lines.append(f".reg .b32 {', '.join(words)};")
        if groups.flags is not None:
            groups.lines += [f"mov.b{64 if element.bytes == 8 else 32} {name}, 0;" for name in words]
        groups.lines.append(f"{groups.guard(at)}multimem.ld_reduce.{op.sem}.sys.global.{kind} {_operand(words)}, "
                            f"[{groups.pointers[at]}];")
        if element.bytes == 2:
            groups.lines += [f"bfe.u32 {name}, {words[index // 2]}, {index % 2 * 16}, 16;" for index, name in enumerate(results)]
    bits = groups.emit(_integers(emitter, op))
    if op.sem == "acquire":
        sync(emitter)
    return _as_elements(emitter, op, bits)


@emits("multimem_store")
def multimem_store(emitter: Emitter, op: Op):
    _changed(emitter, op, "st", lambda element, each: "")


@emits("multimem_reduce")
def multimem_reduce(emitter: Emitter, op: Op):
    _changed(emitter, op, "red", lambda element, each: f".{_typed(element, each, op.reduction)}")


def _changed(emitter: Emitter, op: Op, instruction: str, typed) -> None:
    if op.sem == "release":
        sync(emitter)
    groups = _Groups(emitter, op)
    element, each = groups.element, groups.each
    values = groups.add(as_registers(emitter, op, "value"), groups.kind)
    groups.alone()
    for at in range(0, len(groups.pointers), each):
        packing, stored, words = packed(values[at:at + each], element.bytes, f"w{at}_")
        kind = typed(element, each) or (stored.replace(".b32", ".f32") if ".v" in stored else stored)
        groups.lines += packing
        groups.lines.append(f"{groups.guard(at)}multimem.{instruction}.{op.sem}.sys.global{kind} [{groups.pointers[at]}], {words};")
    groups.emit()


def _integers(emitter: Emitter, op: Op):
    """The type of the result as integers of one register each."""
    wide = I64 if op.result.type.element.bytes == 8 else I32
    return emitter.types.tensor(like(op.result.type, wide), emitter.layouts.registers[op.result])


def _as_elements(emitter: Emitter, op: Op, bits):
    type_, layout = op.result.type, emitter.layouts.registers[op.result]
    if type_.element.bits < 32:
        narrow = emitter.types.tensor(like(type_, Scalar(f"i{type_.element.bits}")), layout)
        bits = emitter.builder.create_int_cast(bits, narrow, False)
    return emitter.builder.create_bitcast(bits, emitter.mlir_type(op.result)) if type_.element.is_float else bits
