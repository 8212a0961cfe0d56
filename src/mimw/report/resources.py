"""The resource table: resources and work of every task, and the use of the shared memory.

Input: a program after the passes, and the chip. Output: tables as text, of tasks, buffers, tensor memory, pipes, barriers and
shared memory:

      task      role      warps   registers   buffers   waits for   arrives at   copies   dots
      default   compute       4         256   tile      full        -                 0      0
"""

from __future__ import annotations

from pathlib import PurePath

from ..compiler.analysis import (
    BarrierArray,
    PipeResources,
    Remark,
    barrier_arrays,
    counter_bytes,
    pipe_resources,
    register_remarks,
    registers_stay,
    task_resources,
    total_warps,
)
from ..compiler.storage import shared_plan, use_of
from ..ir import Program
from ..target import Target
from ..target.spaces import SHARED
from .table import Table
from .tensor_memory import column_parts


def resource_table(program: Program, target: Target, shared_total: int | None = None) -> str:
    """Tasks, buffers, columns of tensor memory, pipes, barriers of the author's own and the shared memory of one CTA, as text.

    `shared_total` is the number of bytes that the compiled kernel takes, scratch and padding included; without it the
    buffers and barriers are shown as they are planned.
    """
    return "\n\n".join(map(str, resource_parts(program, target, shared_total))) + "\n"


def resource_parts(program: Program, target: Target, shared_total: int | None = None) -> list[Table | str]:
    """The same as tables and lines of text."""
    warps = total_warps(program)
    parts: list[Table | str] = [f"{program.name} on {target}: {warps} warps, {warps * target.warp_size} threads a CTA",
                                _tasks(program, target)]
    parts += filter(None, (registers_stay(program, target), *map(_remark, register_remarks(program, target))))
    plan = shared_plan(program)
    buffers = [entry for entry in plan.entries if entry.kind == "buffer"]
    if buffers:
        rows = [(entry.name, f"{entry.element}{list(entry.shape)}", entry.count, entry.bytes) for entry in buffers]
        parts.append(Table(("buffer", "tile", "count", "bytes"), tuple(rows), ("count", "bytes")))
    parts += column_parts(program, target)
    if pipes := pipe_resources(program):
        parts.append(Table(("pipe", "slots", "fields", "bytes a chunk", "bytes", "barriers", "written by", "read by"),
                           tuple(map(_pipe, pipes)), ("slots", "bytes a chunk", "bytes", "barriers")))
    arrays = [array for array in barrier_arrays(program) if array.pipe is None]
    if arrays:
        parts.append(Table(("barriers", "count", "arrivals", "bytes a phase"), tuple(map(_barriers, arrays)),
                           ("count", "arrivals", "bytes a phase")))
    parts += filter(None, (_cluster_barriers(program), _other_gpus(program)))
    return [*parts, _shared(program, plan.total, shared_total, target)]


def _cluster_barriers(program: Program) -> str:
    """A text with the number of cluster barriers in the kernel, and the number of those that the compiler put in."""
    regions = [op for op in program.walk() if op.name == "warp_specialize" and op.attrs.get("internal")]
    repeated = {inner for region in regions for block in region.blocks[1:] for inner in block.ops}
    met = [op for op in program.walk() if op.name == "cluster_barrier" and op not in repeated]
    made = sum(op.site is program.site for op in met)
    if not met:
        return ""
    by = f", {made} of them put in by the compiler, where CTAs start and where they leave" if made else ""
    return f"cluster barriers: {len(met)}{by}"


def _other_gpus(program: Program) -> str:
    """A text with the counts of the kernel's ops that concern other GPUs; "" if there are none."""
    ops = [op for op in program.walk() if "world" in op.row.places or op.row.blocks == "poll"]
    if not any("world" in op.row.places for op in ops):
        return ""
    counts = {"pointers to a peer": sum(bool(op.row.pointer_of) for op in ops), "waits for signals": sum(
        op.row.blocks == "poll" for op in ops), "barriers": sum(op.row.blocks == "rendezvous" for op in ops)}
    return "other GPUs: " + ", ".join(f"{what} {count}" for what, count in counts.items())


def _remark(remark: Remark) -> str:
    return f"remark at {PurePath(remark.site.file).name}:{remark.site.line}: {remark.text}"


def _tasks(program: Program, target: Target) -> Table:
    rows = []
    for task in task_resources(program, target):
        asked = "" if task.requested in (None, task.registers) else f" (asked {task.requested})"
        rows.append((task.name, task.role, task.num_warps, f"{task.registers}{asked}", _names(task.buffers), _names(task.waits),
                     _names(task.arrives), task.copies, task.dots))
    return Table(("task", "role", "warps", "registers", "buffers", "waits for", "arrives at", "copies", "dots"), tuple(rows),
                 ("warps", "registers", "copies", "dots"))


def _pipe(pipe: PipeResources) -> tuple:
    name = f"{pipe.name} over {pipe.over}" if pipe.over else pipe.name
    return (name, pipe.slots, _names(pipe.fields), pipe.chunk_bytes, pipe.bytes or "-", pipe.barriers, _names(pipe.writers),
            _names(pipe.readers))


def _barriers(array: BarrierArray) -> tuple[str, int, int, str]:
    sizes = {expect.bytes for expect in array.of_kind("expect")}
    return array.name, max(1, array.count), array.arrive_count, "-" if not sizes else " or ".join(
        "?" if size is None else str(size) for size in sorted(sizes, key=lambda size: size or 0))


def _shared(program: Program, sizes: int, compiled: int | None, target: Target) -> str:
    """The line on shared memory; `sizes` is what buffers and barriers have, without the space between them."""
    counters = counter_bytes(program, target)
    if compiled is None:
        taken, why = use_of(program, target.spaces[SHARED]).end, ", as planned: scratch of the compiled kernel is not known here"
    else:
        taken, why = compiled, f", {compiled - sizes} of them padding and scratch" if compiled > sizes else ""
    why += f"; besides {counters} of counters, for which no launch asks" if counters else ""
    return f"shared memory: {taken} of {target.shared_bytes} bytes ({100 * taken / target.shared_bytes:.1f} %){why}"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "-"
