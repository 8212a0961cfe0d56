"""Calls of CUDA C++, PTX and LLVM IR: the function's instructions in place, as inline assembly of each thread.

Input: a `raw_call` of such a function. Output: one block of assembly. For `scale(float *x, float f)` of a pointer and a number:

    { .reg .b32 raw_a0; mov.b32 raw_a0, $0; .. cvta.shared.u64 raw_g0, raw_g0; { .. mov.b64 %rd1, raw_g0; .. } }

A memref is handed over as its descriptor: the allocated and the aligned pointer, an offset, extents, strides, all 64 bits wide; or,
where the function has one parameter for it, as its address, generic in 64 bits or of shared memory in 32. In a kernel with tasks
`%tid.x`, `%ntid.x` and `bar.sync 0` mean the threads of the task.
"""

from __future__ import annotations

from ....errors import RawCodeError
from ....ir import I32, I64, Op, Scalar, Site
from ....ir.raw_code import Form, RawCode, forms_of
from ...native import Unit, unit_of_code
from ..asm import ptx, thread_in_task
from ..emitter import Emitter
from .raw import calls

_BITS = {"r": 32, "l": 64, "f": 32, "d": 64, "h": 16}      # of the registers of each constraint
_BARRIER, _FIRST_WORKER = 0, 2      # hardware barriers that Triton gives to the default task and to the workers
_KINDS = {"i32": "r", "i64": "l", "fp32": "f", "fp64": "d", "fp16": "h", "bf16": "h"}
_SCOPES = ("warp", "block", "cluster", "grid")
_POINTERS = 2       # allocated and aligned, the first parameters of a descriptor


@calls("cuda", "ptx", "llvm", "mlir")
def call_native(emitter: Emitter, op: Op, code: RawCode):
    unit = unit_of_code(code, emitter.target, op.site)
    return _Call(emitter, op, code, unit).emit()


class _Call:
    """One call on its way to assembly: operands, the registers that it declares, and the instructions ahead of the function's."""

    def __init__(self, emitter: Emitter, op: Op, code: RawCode, unit: Unit):
        self.emitter, self.op, self.code, self.unit = emitter, op, code, unit
        self.forms = forms_of(op)
        self.constraints: list[str] = []
        self.operands: list = []
        self.ahead: list[str] = []
        self.behind: list[str] = []
        self.addresses: list[tuple[str, int]] = []      # of each memref that may be written: its pointer, and how wide that is
        self.first = len(op.results)

    def emit(self):
        arguments = self._arguments()
        results = [self._result()] if self.op.results else []
        words = self._words()
        words["result"] = "raw_result"
        if results:
            bits = _BITS[results[0][0][-1]]
            self.ahead.append(f".reg .b{bits} raw_result;")
            self.behind.append(f"mov.b{bits} $0, raw_result;")
        self._check_pieces()
        self._check_scope()
        text = "{ " + " ".join([*self.ahead, self.unit.call(arguments, words), *self.behind]) + " }"
        made = ptx(self.emitter, text, [*(constraint for constraint, _ in results), *self.constraints], self.operands,
                   results[0][1] if results else None)
        return [self._narrowed(made)] if results else []

    def _arguments(self) -> list[str]:
        """The texts that replace the parameters of the function, in their order."""
        widths = self.unit.widths
        whole = sum(_parameters(form) for form in self.forms)
        bare = len(widths) == len(self.forms) and whole != len(widths)
        if len(widths) != whole and not bare:
            self._refuse(f"the function has {len(widths)} parameters, and the declaration gives {whole}: "
                         + "; ".join(f"{form.kind} {_parameters(form)}" for form in self.forms) +
                         ". A memref is its descriptor (2 pointers, an offset, extents, strides) or one pointer")
        found: list[str] = []
        for value, form in zip(self.emitter.operands(self.op, "values"), self.forms):
            taken = widths[len(found):len(found) + (1 if bare else _parameters(form))]
            found += self._memref(value, form, taken) if form.kind == "memref" else [self._single(value, form, taken[0])]
        return found

    def _memref(self, value, form: Form, widths: tuple[int, ...]) -> list[str]:
        pointers = [self._address(value, width) for width in widths[:1 if len(widths) == 1 else _POINTERS]]
        numbers = [] if len(widths) == 1 else [0, *form.shape, *form.strides]
        for width in widths[_POINTERS:]:
            if width != 64:
                self._refuse(f"a descriptor's offset, extents and strides are 64 bits wide, and a parameter has {width}")
        if form.writes and self.unit.result_bytes:
            self.addresses.append((pointers[-1], widths[len(pointers) - 1]))
        return [*pointers, *map(str, numbers)]

    def _single(self, value, form: Form, width: int) -> str:
        if form.kind == "barrier":
            return self._address(value, width)
        bits = 64 if form.kind == "pointer" else max(32, Scalar(form.element).bits) if form.element.startswith("i") else \
            Scalar(form.element).bits
        if width != bits:
            self._refuse(f"a {form.kind} of {form.element} is {bits} bits wide, and the function's parameter has {width}")
        return self._operand("l" if form.kind == "pointer" else _KINDS["i32" if bits == 32 and form.element.startswith("i") else
                                                                       form.element], self._widened(value, form))

    def _widened(self, value, form: Form):
        """A number as assembly takes it: small integers in 32 bits, floats of 16 bits as integers."""
        builder = self.emitter.builder
        if form.kind == "value" and form.element.startswith("i") and Scalar(form.element).bits < 32:
            return builder.create_int_cast(value, builder.get_int32_ty(), form.element != "i1")
        return builder.create_bitcast(value, builder.get_int16_ty()) if form.element in ("fp16", "bf16") and form.kind == "value" \
            else value

    def _address(self, value, width: int) -> str:
        """A place in shared memory: 32 bits as it is, 64 as a generic address."""
        operand = self._operand("r", value)
        if width == 32:
            return operand
        if width != 64:
            self._refuse(f"an address is 32 or 64 bits wide, and the function's parameter has {width}")
        name = f"raw_g{operand.removeprefix('raw_a')}"
        if f".reg .b64 {name};" not in self.ahead:
            self.ahead += [f".reg .b64 {name};", f"cvt.u64.u32 {name}, {operand};", f"cvta.shared.u64 {name}, {name};"]
        return name

    def _operand(self, constraint: str, value) -> str:
        """A register of ours with the value: in the function's block its own registers hide those of the kernel."""
        for number, known in enumerate(self.operands):
            if known is value:
                return f"raw_a{number}"
        name = f"raw_a{len(self.operands)}"
        bits, place = _BITS[constraint], self.first + len(self.operands)
        self.ahead += [f".reg .b{bits} {name};", f"mov.b{bits} {name}, ${place};"]
        self.constraints.append(constraint)
        self.operands.append(value)
        return name

    def _result(self) -> tuple[str, object]:
        element = self.op.results[0].type
        bits = max(32, element.bits) if not element.is_float else element.bits
        if self.unit.returns != bits:
            self._refuse(f"the declared result is {element}, {bits} bits, and the function returns "
                         f"{f'{self.unit.returns} bits' if self.unit.returns else 'none'}")
        kept = element if element.is_float and bits > 16 else I64 if bits == 64 else Scalar("i16") if bits == 16 else I32
        return f"=&{'h' if bits == 16 else _KINDS[kept.name]}", self.emitter.types.element(kept)

    def _narrowed(self, made):
        """The result in its own type."""
        element, builder = self.op.results[0].type, self.emitter.builder
        type_ = self.emitter.types.element(element)
        if element.is_float:
            return made if element.bits > 16 else builder.create_bitcast(made, type_)
        return made if element.bits >= 32 else builder.create_int_cast(made, type_, False)

    def _words(self) -> dict[str, str]:
        """The threads that run the code, and their barrier."""
        emitter, threads = self.emitter, self.emitter.threads
        regions = emitter.program.named("warp_specialize")
        if not regions:
            return {"tid": "%tid.x", "ntid": str(threads), "sync": "bar.sync 0"}
        taken = _FIRST_WORKER + max(len(region.blocks) - 1 for region in regions)
        if self.unit.barriers and self.unit.barriers[0] < taken:
            self._refuse(f"hardware barrier {self.unit.barriers[0]} is the compiler's here: it takes 0 to {taken - 1} for tasks",
                         f"use {max(8, taken)} to 15")
        if self.unit.cta_wide:
            self._refuse(f"`{self.unit.cta_wide[0]}` is about all threads of a CTA, and only some of them run a task",
                         "take the thread's number and barriers in the function that is called, not in one that it calls; only x "
                         "of threadIdx and blockDim, and __syncthreads(), are those of the task")
        if emitter.partition is None:
            sync = f"bar.sync {_BARRIER}, {threads}"
        else:
            sync = f"bar.sync {_FIRST_WORKER + emitter.partition}, {threads}" if emitter.num_warps > 1 else "bar.warp.sync -1"
        body = self.unit.body or ""
        number = self._operand("r", thread_in_task(emitter)) if "\x01tid\x02" in body else ""
        return {"tid": number, "ntid": str(threads), "sync": sync}

    def _check_pieces(self) -> None:
        """Check that the structure that is returned is the descriptors of the buffers written: the code traps if a descriptor
        points elsewhere."""
        if not self.unit.result_bytes:
            return
        written = [form for form in self.forms if form.kind == "memref" and form.writes]
        sizes = [8 * _parameters(form) for form in written]
        if self.unit.result_bytes != sum(sizes):
            self._refuse(f"the function returns a structure of {self.unit.result_bytes} bytes, and the descriptors of the "
                         f"{len(written)} memrefs that it may write have {sum(sizes)}")
        self.ahead += [f".reg .b64 raw_piece{offset};" for offset in self.unit.pieces]
        self.ahead.append(".reg .pred raw_moved; .reg .b32 raw_low;")
        at = 0
        for (address, width), size in zip(self.addresses, sizes):
            piece = f"raw_piece{at + 8}"
            if width == 32:     # a pointer into shared memory, in the lower half
                self.behind.append(f"cvt.u32.u64 raw_low, {piece};")
                piece = "raw_low"
            self.behind += [f"setp.ne.u{width} raw_moved, {piece}, {address};", "@raw_moved trap;"]
            at += size

    def _check_scope(self) -> None:
        """Refuse synchronisation that is wider than declared."""
        declared = self.op.attrs.get("sync_scope")
        if declared in _SCOPES and _SCOPES.index(self.unit.scope) > _SCOPES.index(declared):
            self._refuse(f"the declared sync_scope is {declared!r}, and the code has a barrier of the {self.unit.scope}",
                         f"hardware_constraint(sync_scope={self.unit.scope!r})")

    def _refuse(self, message: str, mend: str = ""):
        raise RawCodeError(f"{self.code.name} ({self.code.dialect}): {message}.", self.op.site,
                           Site(self.code.file, self.code.line), hint=mend)


def _parameters(form: Form) -> int:
    """The number of parameters of a function that a whole operand takes."""
    return 3 + 2 * len(form.shape) if form.kind == "memref" else 1
