"""`vprintf` of raw bodies: each thread that comes calls the function of CUDA's runtime behind `printf`, with its own numbers.

Input: a `print_lanes`. Output: assembly that puts a thread's numbers into its local memory, and a call. For example:

    .global .align 1 .b8 format[..] = {..}; .local .align 8 .b8 place[16]; st.local.b32 [place], $4;
    call (..), vprintf, (format, place)         of the empty format in threads that do not come

The format lies in global memory, where the host finds it (CUDA C++ Programming Guide, "Formatted Output").
"""

from __future__ import annotations

from ....errors import KernelError, TargetError
from ....ir import I32, I64, Op, Scalar, Tensor
from ..asm import ptx, registers_of, thread_in_task
from ..emitter import Emitter, emits

_KINDS = {"i32": ("r", "b32", 4), "i64": ("l", "b64", 8), "fp64": ("d", "f64", 8)}     # what C's varargs are


@emits("print_lanes")
def print_lanes(emitter: Emitter, op: Op) -> None:
    if emitter.target.assembly != "ptx":
        raise TargetError(f"{op.site}: vprintf in a raw body is not available on {emitter.target}")
    if emitter.program.named("print"):
        raise KernelError("vprintf of a raw body and tl.device_print are in one kernel: Triton declares the function behind both "
                          "in another way.", op.site, hint="print with one of the two")
    builder, lane = emitter.builder, emitter.operand(op, "lane")
    held, (extent, ) = registers_of(emitter, lane), op.lane.type.shape

    def tile(element: Scalar):
        return emitter.types.tensor(Tensor(element, (extent, )), emitter.wanted(op, "lane"))

    mask = [] if op.mask is None else [builder.create_int_cast(emitter.operand(op, "mask"), tile(I32), False)]
    formats = ptx(emitter, _formats(op.format, held, extent, bool(mask)), ["=l"] * held + ["r"] * (1 + held * len(mask)),
                  [thread_in_task(emitter), *mask], tile(I64))
    kinds = [_KINDS[str(value.type.element)] for value in op.values]
    constraints = ["=&l"] * held + [kind for kind, _, _ in kinds for _ in range(held)]
    places = ptx(emitter, _places(kinds, held), constraints, emitter.operands(op, "values"), tile(I64))
    builder.create_extern_elementwise("", "", "vprintf", [formats, places], tile(I32), False)


def _formats(text: str, held: int, extent: int, masked: bool) -> str:
    """The address of the format for each element that the thread prints, of an empty one for the others."""
    written = (*text.encode(), 0)
    lines = ["{", ".reg .pred on;", ".reg .b64 shown, empty;",
             f".global .align 1 .b8 format[{len(written)}] = {{{', '.join(map(str, written))}}};",
             ".global .align 1 .b8 nothing[1] = {0};", "cvta.global.u64 shown, format;", "cvta.global.u64 empty, nothing;"]
    for element in range(held):
        lines.append(f"setp.lt.u32 on, ${held}, {extent};")
        if masked:
            lines.append(f"setp.ne.and.s32 on, ${held + 1 + element}, 0, on;")
        lines.append(f"selp.b64 ${element}, shown, empty, on;")
    return "\n".join([*lines, "}"])


def _places(kinds: list[tuple[str, str, int]], held: int) -> str:
    """The address of each element's numbers, one after the other as C aligns them."""
    offsets, end = [], 0
    for _, _, size in kinds:
        offsets.append(-(-end // size) * size)
        end = offsets[-1] + size
    lines = ["{"]
    for element in range(held):
        lines.append(f".local .align 8 .b8 place{element}[{max(8, end)}];")
        lines += [f"st.local.{type_} [place{element}+{offset}], ${held * (1 + number) + element};"
                  for number, ((_, type_, _), offset) in enumerate(zip(kinds, offsets))]
        lines.append(f"cvta.local.u64 ${element}, place{element};")
    return "\n".join([*lines, "}"])
