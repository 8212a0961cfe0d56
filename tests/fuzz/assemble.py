"""From segments to a `Program`: tasks are chosen, both sides are printed.

assemble("stream", 3, make, grid=(2,), segments=[nodes], tasks=3)
"""

from __future__ import annotations

from .maker import Maker
from .orchestrate import Task, claimed, fill_warps, finished, plan, replica_tokens, token_lines, walk
from .printer import counters, indented, kernel_source, reading_lines, reading_source, serial
from .tree import Line, Program


def assemble(
    name: str, seed: int, make: Maker, grid, segments: list[tuple], tasks: int = 0, pipes: bool = False
) -> Program:
    """Print the segments, each over `tasks` tasks (0: none)."""
    body: list[Line] = []
    functions: list[list[Line]] = []
    reading: list[str] = []
    steps = [step for nodes in segments for step, _, _ in walk(nodes)]
    warps = make.meta.setdefault(
        "num_warps",
        make.draws.pick(
            [count for count in ((4, 8) if tasks else (4, 8, 2, 1)) if all(count in one.warps for one in steps)]
        ),
    )
    for number, nodes in enumerate(segments):
        made = plan(make, nodes, tasks, pipes, warps if number else 0) if tasks and number % 2 == 0 else None
        if made is None or len(made.tasks) < 2 and pipes:
            default = Task(0, warps=warps)
            lines = token_lines(serial(nodes), default)
            if make.claims:
                make.head.append(f"{make.claims} = tlx.clc_create_context(1)")
                lines = claimed(make, lines, asks=True)
            for line in lines:
                if line.text.strip().startswith("# warps of "):
                    fill_warps(make, line.text.strip().removeprefix("# warps of "), warps)
            lines = replica_tokens(make, lines, default)
            body += [*counters(lines), *lines]
            transfers: dict[str, str] = {}
            ends: list[str] = []
        else:
            if number == 0:
                warps = make.meta["num_warps"] = made.tasks[0].warps
            texts = finished(made, nodes, make)
            if make.claims:
                readers = sum(task.replicas for task in made.tasks)
                make.head.append(f"{make.claims} = tlx.clc_create_context({readers})")
            body += region(made, texts) if not pipes else partitions(make, made, texts, functions, number)
            transfers = {value: channel.name for value, channel in made.channels.items()}
            ends = [f"{one.ended}.reshape({make.programs}, -1)[pid] = 1" for one in made.channels.values() if one.ended]
        reading += [*reading_lines(nodes, transfers), *ends]
    source, marks = kernel_source(make, functions, body, len(grid))
    make.meta.setdefault("enable_fp_fusion", False)
    return Program(
        name,
        seed,
        source,
        reading_source(make, reading),
        tuple(make.arguments.values()),
        grid,
        dict(make.meta),
        make.cluster,
        make.meshed,
        make.whole_grid,
        dict(make.skips),
        marks,
        make.chip,
    )


def region(made, texts: list[list[Line]]) -> list[Line]:
    """`with tlx.async_tasks()` around the tasks."""
    lines = []
    for task, text in zip(made.tasks, texts):
        regs = f", {'num_regs' if task.registers % 16 else 'registers'}={task.registers}" if task.registers else ""
        replicas = f", replicate={task.replicas}" if task.replicas > 1 else ""
        head = (
            'with tlx.async_task("default"):'
            if task.index == 0
            else f"with tlx.async_task(num_warps={task.warps}{regs}{replicas}):"
        )
        lines += [Line(head), *indented(text or [Line("pass")])]
    return [Line("with tlx.async_tasks():"), *indented(lines)]


def partitions(make: Maker, made, texts, functions, number: int) -> list[Line]:
    """tle.gpu.warp_specialize: each task a function of the module."""
    plain = [one for one in make.arguments.values()]
    calls, counts = [], []
    for task, text in zip(made.tasks, texts):
        ends = [f"{channel.name}w" for channel in made.channels.values() if channel.writer is task]
        given = [f"{channel.name}.writer()" for channel in made.channels.values() if channel.writer is task]
        for channel in made.channels.values():
            if task in channel.readers:
                ends.append(f"{channel.name}r")
                given.append(channel.endpoint(task))
        captured = [one for one in dict.fromkeys(make.captured)]
        parameters = [
            *(one.name for one in plain if one.kind != "constant"),
            "pid",
            "flag",
            *captured,
            *ends,
            *(f"{one.name}: tl.constexpr" for one in plain if one.kind == "constant"),
        ]
        passed = [
            *(one.name for one in plain if one.kind != "constant"),
            "pid",
            "flag",
            *captured,
            *given,
            *(one.name for one in plain if one.kind == "constant"),
        ]
        name = f"part{number}_{task.index}"
        functions.append(
            [Line("@mimw.jit"), Line(f"def {name}({', '.join(parameters)}):"), *indented(text or [Line("pass")])]
        )
        calls.append(f"({name}, ({', '.join(passed)},))")
        if task.index:
            counts.append(task.warps)
    registers = [task.registers or 96 for task in made.tasks[1:]]
    return [Line(f"tle.gpu.warp_specialize([{', '.join(calls)}], {counts}, {registers})")]
