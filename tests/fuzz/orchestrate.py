"""Spread a sequential block over tasks, and carry its tiles between them.

Input: a block of the tree. Output: the kernel lines of each task. A step runs in one task; steps that touch one state run in the
same. Every task keeps the loops and branches that hold a step of its own or bring it a tile. A tile that another task uses is
sent where it is made and received at that very place, so each channel carries the tiles in one order, and since all tasks keep
the order of the sequential block, one slot is always enough to go on:

    v0 = load        task 0: v0 = load; send v0        task 1: receive v0; store v0
    store v0
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from .channels import Channel, choose
from .maker import Maker
from .printer import branch_lines, counters, loop_lines
from .tree import Branch, Line, Loop, Mark, Step


@dataclass
class Task:
    """`steps`: numbers of the steps that it runs."""

    index: int
    steps: set[int] = field(default_factory=set)
    warps: int = 4
    replicas: int = 1
    registers: int = 0


@dataclass
class Plan:
    """Who does what: step -> task, tile -> channel."""

    tasks: list[Task]
    owner: dict[int, int]
    channels: dict[str, Channel]
    local: dict[int, set[str]] = field(default_factory=dict)  # task -> tiles that its own steps use


def walk(nodes):
    """All steps of a block with the loops around each, and how many conditions."""

    def go(block, loops, conditions):
        for node in block:
            if isinstance(node, Step):
                yield node, loops, conditions
            elif isinstance(node, Loop):
                yield from go(node.body, (*loops, node), conditions)
            else:
                yield from go(node.then, loops, conditions + 1)
                yield from go(node.else_, loops, conditions + 1)

    yield from go(nodes, (), 0)


def plan(make: Maker, nodes, count: int, pipes: bool, default: int = 0) -> Plan | None:
    """Assign steps to `count` tasks, or None if the tiles between them find no room. `default`: the warps of the default task, if
    they are settled."""
    steps = list(walk(nodes))
    count = min(count, 1 + (warps_of(make) - default) // 4)
    owner = _owners(make, [step for step, _, _ in steps], count)
    used = sorted(set(owner.values()))
    names = {old: new for new, old in enumerate(used)}
    owner = {step: names[task] for step, task in owner.items()}
    tasks = [Task(index) for index in range(len(used))]
    for step, task in owner.items():
        tasks[task].steps.add(step)
    made = {step.makes.kernel: (step, loops, conditions) for step, loops, conditions in steps if step.makes is not None}
    readers: dict[str, set[int]] = {}
    for step, _, _ in steps:
        for name in step.uses:
            if name in made and owner[made[name][0].number] != owner[step.number]:
                readers.setdefault(name, set()).add(owner[step.number])
    _warps(make, tasks, [step for step, _, _ in steps], owner, pipes, default)
    channels = {}
    for name in sorted(readers, key=lambda one: made[one][0].number):
        step, loops, conditions = made[name]
        channel = choose(
            make,
            step,
            loops,
            conditions,
            tasks[owner[step.number]],
            [tasks[one] for one in sorted(readers[name])],
            pipes,
        )
        if channel is None:
            return None
        channels[name] = channel
    if not pipes:
        _dots(make, nodes, owner, tasks, channels)
    for channel in channels.values():
        channel.declare(make)
    return Plan(tasks, owner, channels)


def _owners(make: Maker, steps: list[Step], count: int) -> dict[int, int]:
    """A task for each step: one for each set of steps that share a state, and rather the one that made what it uses."""
    group: dict[str, str] = {}

    def find(name: str) -> str:
        while group.setdefault(name, name) != name:
            name = group[name]
        return name

    for step in steps:
        for state in step.states:
            group[find(state)] = find(next(iter(sorted(step.states))))
    owner, by_state, makers = {}, {}, {}
    for step in steps:
        root = find(sorted(step.states)[0]) if step.states else ""
        if root in by_state:
            task = by_state[root]
        else:
            near = [makers[name] for name in sorted(step.uses) if name in makers]
            task = near[0] if near and make.draws.chance(55) else make.draws.integer(0, count - 1)
            if root:
                by_state[root] = task
        owner[step.number] = task
        if step.makes is not None:
            makers[step.makes.kernel] = task
    return owner


def warps_of(make: Maker) -> int:
    """How many warps all tasks together may have; more than so many AMD's chips of 64 lanes do not run."""
    return 16 if make.amd else 24


def _warps(make: Maker, tasks: list[Task], steps: list[Step], owner: dict[int, int], pipes: bool, default: int) -> None:
    """Warps, replicas and registers of each task."""
    draws, left = make.draws, warps_of(make)
    for task in tasks:
        mine = [step for step in steps if owner[step.number] == task.index]
        allowed = [
            count for count in ((4, 8, 2, 1) if task.index else (4, 8)) if all(count in step.warps for step in mine)
        ]
        largest = max([step.makes.size for step in mine if step.makes is not None], default=1)
        allowed = [count for count in allowed if count >= 4 or largest <= 1024 * count] or [4]
        allowed = [count for count in allowed if count <= left - 4 * (len(tasks) - task.index - 1)] or [4]
        task.warps = default or draws.pick(allowed) if task.index == 0 else draws.pick(allowed)
        lone = all(
            not step.private
            and (
                step.makes is None
                or not any(step.makes.kernel in other.uses for other in steps if owner[other.number] != task.index)
            )
            for step in mine
        )
        shares = any(state[0] in "bgwzs" for step in mine for state in step.states)
        if not pipes and task.index and lone and not shares and task.warps <= 4 and left > 12 and draws.chance(25):
            task.replicas = 2
        left -= task.warps * task.replicas
    if draws.chance(25) and len(tasks) > 1 and all(step.warps == (1, 2, 4, 8) for step in steps):
        for task in tasks[1:]:
            task.registers = draws.pick([80, 96, 64, 104])


def _dots(make: Maker, nodes, owner, tasks, channels: dict[str, Channel]) -> None:
    """Where both operands of a dot come through channels and nothing else of the task uses them: multiply from the slots."""
    steps = list(walk(nodes))
    for step, loops, conditions in steps:
        if step.dot is None or step.dot.a == step.dot.b:
            continue
        task, pair = tasks[owner[step.number]], []
        for name in (step.dot.a, step.dot.b):
            channel = channels.get(name)
            users = [other for other, _, _ in steps if name in other.uses and owner[other.number] == task.index]
            at = next(
                ((ls, cs) for other, ls, cs in steps if other.makes is not None and other.makes.kernel == name), None
            )
            if (
                channel is None
                or channel.kind != "ring"
                or len(users) != 1
                or at != (loops, conditions)
                or task not in channel.readers
            ):
                break
            pair.append(channel)
        if len(pair) < 2 or task.replicas > 1 or conditions:
            continue
        (m, k), (_, n) = pair[0].value.shape, pair[1].value.shape
        if (
            m < 64
            or task.warps not in (4, 8)
            or m < 16 * task.warps
            or k < 16
            or n % 8
            or pair[0].value.element not in ("f16", "bf16")
        ):
            continue
        if not make.draws.chance(80):
            continue
        make.skips["compile sm_100a"] = "there an asynchronous dot writes tensor memory, which is not offered yet"
        order = list(channels.values())
        min(pair, key=order.index).covered = True
        max(pair, key=order.index).covered = len(channels) > 2
        for channel in pair:
            channel.multiplied.add(task.index)
            channel.fenced = True


def token_lines(lines: list[Line], task: Task) -> list[Line]:
    """Fill in the tokens that depend on the task: its warps, its replica."""
    filled = []
    for line in lines:
        text = line.text.replace("__layout256__", layout_text(task.warps))
        filled.append(Line(text, line.mark))
    return filled


def layout_text(warps: int) -> str:
    """A layout of 256 elements over the threads of so many warps: neighbours in neighbouring lanes."""
    each = 256 // (32 * warps)
    return f"tlx.layout(((32, {warps}), ({each},)), ((1, 32), ({32 * warps},)))"


def project(made: Plan, nodes, task: Task) -> list[Line]:
    """The task's lines of a block."""
    lines: list[Line] = []
    ends: list[Line] = []
    for node in nodes:
        if isinstance(node, Step):
            channel = made.channels.get(node.makes.kernel) if node.makes is not None else None
            if made.owner[node.number] == task.index:
                lines += _own(made, node, channel, task)
            elif channel is not None and task in channel.readers:
                now, later = channel.receive(task)
                lines += now
                ends += later
        elif isinstance(node, Loop):
            body = project(made, node.body, task)
            lines += loop_lines(node, body) if body else []
        elif isinstance(node, Branch):
            lines += branch_lines(node, project(made, node.then, task), project(made, node.else_, task))
    return [*lines, *ends]


def _own(made: Plan, step: Step, channel: Channel | None, task: Task) -> list[Line]:
    lines = list(step.kernel)
    if step.dot is not None:
        pair = [made.channels.get(name) for name in (step.dot.a, step.dot.b)]
        if all(one is not None and task.index in one.multiplied for one in pair):
            lines = pair[0].multiply(step.dot, pair[1], task)
    if channel is None:
        return lines
    if channel.direct:
        kept = step.makes.kernel in made.local.get(task.index, ())
        return [*(lines if kept else []), *channel.send(step)]
    return [*lines, *channel.send(step)]


def finished(made: Plan, nodes, make: Maker) -> list[list[Line]]:
    """The lines of every task, with what they count declared before."""
    local: dict[int, set[str]] = {}
    for step, _, _ in walk(nodes):
        local.setdefault(made.owner[step.number], set()).update(step.uses)
    made.local = local
    result = []
    asking = [task for task in made.tasks if task.replicas == 1][-1]  # one request a phase, so no task with replicas
    for task in made.tasks:
        lines = token_lines(project(made, nodes, task), task)
        lines = claimed(make, lines, asks=task is asking) if make.claims else lines
        around = [line for channel in made.channels.values() for line in channel.opening(task)]
        closing = [line for channel in made.channels.values() for line in channel.closing(task)]
        result.append([*counters(lines), *around, *lines, *closing] or [Line("pass")])
    _warp_barriers(made, make, result)
    return [replica_tokens(make, lines, task) for lines, task in zip(result, made.tasks)]


def claimed(make: Maker, lines: list[Line], asks: bool) -> list[Line]:
    """A task's lines for its own program, and for each whose work the CTA takes over; `asks`: this task requests it."""
    claim = Line(f"tlx.clc_producer({make.claims}, (taken & 1) ^ 1)", Mark("claim", make.claims))
    ends = [Line(f"pid = tlx.clc_consumer({make.claims}, taken & 1)"), Line("taken += 1")]
    inside = [*([claim] if asks else []), *lines, *ends]
    return [Line("taken = 0"), Line("while pid != -1:"), *(Line("    " + line.text, line.mark) for line in inside)]


def _warp_barriers(made: Plan, make: Maker, result: list[list[Line]]) -> None:
    for task, lines in zip(made.tasks, result):
        for line in lines:
            if (text := line.text.strip()).startswith("# warps of "):
                fill_warps(make, text.removeprefix("# warps of "), task.warps)


def fill_warps(make: Maker, bars: str, warps: int) -> None:
    make.head[:] = [one if isinstance(one, Line) else one.replace(f"__warps_{bars}__", str(warps)) for one in make.head]


def replica_tokens(make: Maker, lines: list[Line], task: Task) -> list[Line]:
    """What a replica adds to the places of its outputs."""
    filled = []
    for line in lines:
        text = line.text
        for name in dict.fromkeys(re.findall(r"__(y\d+)r?s?__", text)):
            one = make.arguments[name]
            if task.replicas > 1 and one.copies == 1:
                one = make.arguments[name] = replace(
                    one, copies=task.replicas, shape=(one.shape[0] * task.replicas, *one.shape[1:])
                )
            rows = one.shape[0] // one.copies
            total = rows * (one.shape[1] if len(one.shape) == 2 else 1)
            at = "tlx.async_task_replica_id() * " if task.replicas > 1 else ""
            text = text.replace(f"__{name}__", f"{at}{total} + " if at else "").replace(
                f"__{name}r__", f"{at}{rows} + " if at else ""
            )
            text = text.replace(f"__{name}s__", str(list(one.shape)))
        filled.append(Line(text, line.mark))
    return filled
