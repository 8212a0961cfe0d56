"""Products of wgmma with as many columns as the author has them, and as deep: any multiple of 8 columns, of one instruction's
depth.

Input: an `async_dot` with the attribute `exact`, whose accumulator is a tile of powers of two. Output: assembly that names only the
registers of the author's columns:

    fp32[64, 256] %acc of 176 columns       wgmma.mma_async.sync.aligned.m64n176k16.f32.f16.f16 {$0, .., $87}, da, db, 1, 1, 1, 0,
    0;

PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions": N is any multiple of 8 up to 256. The registers
of a narrower accumulator are the first ones of a wider: register 4 j + 2 h + e of a thread holds row lane / 4 + 8 h and column 8
j + 2 (lane % 4) + e of its warp's 16 rows. So those of 176 columns are the first 88 of the 128 of a tile of 256, for each 64
rows; the others are idle, and no instruction touches them.

Triton does not see what assembly reads. An operand that threads of the task have written, and not fenced
(`passes.fence_products`), is fenced here, as Triton's own pass does it for its own products: each thread's writes by a proxy fence,
then all threads of the task by a barrier.

A from registers (`fragments`) has the order of such sums if its elements have 16 bits: weights that are computed from sums are an
operand where they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....errors import KernelError
from ....ir import Buffer, Op, Tensor, Value
from ....ir.extents import padded
from ....ir.layouts import NvmmaShared
from ..asm import sync, thread_in_task
from ..emitter import Emitter
from .fragments import Fragments, fragments

_ROWS = 64
_GROUP = 128        # threads of a warpgroup
_DEPTH_BYTES = 32   # of K in one instruction
_KINDS = {"fp16": "f32.f16.f16", "bf16": "f32.bf16.bf16", "fp32": "f32.tf32.tf32", "fp8e4nv": "f32.e4m3.e4m3",
          "fp8e5": "f32.e5m2.e5m2", "i8": "s32.s8.s8"}
_SWIZZLES = {128: 1, 64: 2, 32: 3}      # PTX ISA, "Matrix Descriptor Format": the swizzling mode


@dataclass(frozen=True)
class Operand:
    """One operand in shared memory: its matrix descriptor but for the address, and the way of its steps along K, in units of 16
    bytes.

    `stripes` is how many steps of K lie in one stripe of the swizzle, each `step` behind the other, and `next` how far the
    stripes are apart. `block` leads from 64 rows of A to the next 64.
    """

    descriptor: int
    step: int
    stripes: int
    next: int
    block: int = 0
    across: bool = False    # the operand lies along M or N, not along K

    def at(self, number: int) -> int:
        """The distance of step `number` from the first."""
        return number // self.stripes * self.next + number % self.stripes * self.step


def operand_of(type_: Buffer, around: Buffer, layout: NvmmaShared, index: int, op: Op) -> Operand:
    """Operand `index`, 0 for A (M, K) and 1 for B (K, N), of the author's extents `type_`, cut from a tile of the extents `around`.
    Triton calls a layout transposed whose first dimension lies together: that of K for B."""
    swizzle, size = layout.swizzle, type_.element.bytes
    if swizzle not in _SWIZZLES:
        raise KernelError(f"an operand of async_dot with odd extents is swizzled, and {type_} is not.", op.site,
                          hint="make its rows a multiple of 32 bytes.")
    mode = _SWIZZLES[swizzle] << 62
    depth, width = reversed(around.shape) if index == 0 else around.shape
    if layout.transposed == bool(index):
        descriptor = mode | (8 * swizzle // 16) << 32 | 1 << 16
        return Operand(descriptor, _DEPTH_BYTES // 16, swizzle // _DEPTH_BYTES, width * swizzle // 16, _ROWS * swizzle // 16)
    if size != 2:
        raise KernelError(f"{type_} lies along its columns; wgmma reads such operands of 16 bits only.", op.site,
                          hint="store its transpose, and pass tlx.local_trans of it.")
    step = _DEPTH_BYTES // size * swizzle // 16
    descriptor = mode | (8 * swizzle // 16) << 32 | (depth * swizzle // 16) << 16
    return Operand(descriptor, step, depth * size // _DEPTH_BYTES, 0, _ROWS * size * depth // 16, True)


def start(emitter: Emitter, op: Op):
    """Start the product; the accumulator's registers are not the author's until it is waited for."""
    a_type, b_type, result = op.attrs["exact"]
    b = _operand(emitter, op, op.b, b_type, 1)
    if op.attrs.get("written"):
        emitter.builder.create_fence_async_shared(False)
        sync(emitter)
    width = _registers(emitter, op.result)
    tied = width if op.acc is not None else 0
    first = width + tied
    if isinstance(a_type, Buffer):
        a, given, count = _operand(emitter, op, op.a, a_type, 0), [emitter.of(op.a), thread_in_task(emitter)], 2
    else:
        a, tile, count = fragments(emitter, op, first + 1)
        given = [tile]
    assembly = _assembly(a, b, a_type, result, width, first, bool(tied) and not op.attrs.get("fresh"))
    register = "r" if result.element.name == "i32" else "f"
    taken = a.constraint if isinstance(a, Fragments) else "r"
    constraints = [f"={register}"] * width + [str(number) for number in range(tied)] + ["r", *[taken] * count, "~{memory}"]
    values = [*([emitter.operand(op, "acc")] if tied else []), emitter.of(op.b), *given]
    type_ = emitter.mlir_type(op.result)
    return emitter.builder.create_threadwise_inline_asm(assembly, ",".join(constraints), values, [type_], False).get_result(0)


def wait(emitter: Emitter, op: Op):
    """Wait until all but `pending` products are done. The ties keep what reads the sums behind the wait."""
    width = _registers(emitter, op.result)
    register = "r" if op.result.type.element.name == "i32" else "f"
    constraints = [f"={register}"] * width + [str(number) for number in range(width)] + ["~{memory}"]
    made = emitter.builder.create_threadwise_inline_asm(f"wgmma.wait_group.sync.aligned {op.pending};", ",".join(constraints),
                                                        [emitter.operand(op, "value")], [emitter.mlir_type(op.result)], False)
    if op.attrs.get("meets"):
        sync(emitter)
    return made.get_result(0)


def _registers(emitter: Emitter, value: Value) -> int:
    return emitter.builder.get_total_elems_per_thread(emitter.mlir_type(value))


def _operand(emitter: Emitter, op: Op, buffer: Value, type_: Buffer, index: int) -> Operand:
    placed = emitter.placed[buffer]
    around = Buffer(type_.element, placed.allocated)    # of a slice, the tile that it is cut from
    return operand_of(type_, around, placed.layout, index, op)


def _assembly(a: Operand | Fragments, b: Operand, a_type: Buffer | Tensor, result: Tensor, width: int, first: int,
              adds: bool) -> str:
    """The assembly; operand `first` is the address of B, behind it are that of A and the thread's number in its task, or the
    registers of A."""
    (rows, columns), kind = result.shape, _KINDS[a_type.element.name]
    depth = a_type.shape[1] * a_type.element.bytes // _DEPTH_BYTES
    blocks = width * _GROUP // (padded((columns, ))[0] * _ROWS)
    step, groups = 256 // a_type.element.bits, rows // _ROWS // blocks     # warpgroups, which take 64 rows in turn
    lines = [".reg .b32 t, g;", ".reg .b64 a0, b0, da, db, x;", *_descriptor("b0", first, b.descriptor)]
    if isinstance(a, Operand):
        lines += _address_of_a(a, first + 1, groups)
    else:
        lines += a.declared(blocks, depth)
        lines += [line for block in range(blocks) for number in range(depth) for line in a.packed(block, number)]
    orders = [*([a.across] if isinstance(a, Operand) else []), b.across] if a_type.element.bits == 16 else []
    signs = [] if kind.startswith("s32") else [1, 1]
    lines.append("wgmma.fence.sync.aligned;")
    for block in range(blocks):
        begin = block * padded((columns, ))[0] // 2
        registers = ", ".join(f"${begin + number}" for number in range(columns // 2))
        for number in range(depth):
            if isinstance(a, Operand):
                lines.append(f"add.s64 da, a0, {block * groups * a.block + a.at(number)};")
            left = "da" if isinstance(a, Operand) else a.at(block, number)
            flags = ", ".join(map(str, map(int, (adds or number > 0, *signs, *orders))))
            lines += [f"add.s64 db, b0, {b.at(number)};",
                      f"wgmma.mma_async.sync.aligned.m64n{columns}k{step}.{kind} {{{registers}}}, {left}, db, {flags};"]
    return "{\n" + "\n".join([*lines, "wgmma.commit_group.sync.aligned;"]) + "\n}"


def _address_of_a(a: Operand, operand: int, groups: int) -> list[str]:
    """The descriptor of the first rows of A that this thread's warpgroup, one of `groups`, multiplies."""
    lines = _descriptor("a0", operand, a.descriptor)
    if groups > 1:
        lines += [f"shr.u32 g, ${operand + 1}, 7;", f"mul.lo.u32 g, g, {a.block};", "cvt.u64.u32 x, g;",
                  "add.s64 a0, a0, x;"]
    return lines


def _descriptor(name: str, operand: int, bits: int) -> list[str]:
    return [f"bfe.u32 t, ${operand}, 4, 14;", "cvt.u64.u32 x, t;", f"or.b64 {name}, x, {bits};"]
