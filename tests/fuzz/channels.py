"""One tile on its way between tasks: a ring of slots with barriers, a named barrier, or a tle pipe.

Input: the step that makes the tile, and who uses it. Output: the lines that send and receive it, each synchronising one marked for
the mutator. A ring of S slots: the sender waits until a slot has been given back, fills it, says so; a receiver waits, reads,
gives back. Filled by a store, or straight from global memory by TMA, a bulk copy or cp.async.

    wait(free[c % S], (c // S) & 1 ^ 1); fill(slot); arrive(full[c % S]); c += 1
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .elements import ELEMENTS
from .maker import Maker
from .tree import Dot, Line, Mark, Step, Value
from .words.tiles import offsets

FIRST_NAMED, LAST_NAMED = 8, 15


@dataclass
class Channel:
    """`kind`: ring, named, pipe; `fill`: st, tma, cp, bulk, copy; `count`: the text of the number of the transfer."""

    name: str
    value: Value
    kind: str
    fill: str
    slots: int
    writer: object
    readers: list
    count: str
    counted: bool
    transfers: str = ""
    late: bool = False
    warp_full: bool = False
    fenced: bool = False
    descriptor: str = ""
    named: tuple[int, int] = (0, 0)
    field_name: str = "tile"
    second: bool = False  # a pipe with two fields, both of which hold the tile
    once: bool = False  # a one-shot pipe
    perhaps: bool = False  # the copy stands under an `if` that the compiler cannot decide
    covered: bool = False  # an operand, read only after a wait for what its sender sent later
    ended: str = ""  # a pipe that is closed: the output in which its readers say that they saw the end
    multiplied: set[int] = field(default_factory=set)

    @property
    def direct(self) -> bool:
        """Filled from global memory: the sender need not have the tile."""
        return self.fill != "st" and not self.second

    @property
    def slot(self) -> str:
        return "0" if self.slots == 1 else f"({self.count}) % {self.slots}"

    @property
    def phase(self) -> str:
        turn = self.count if self.slots == 1 else f"(({self.count}) // {self.slots})"
        return f"{turn} & 1" if turn.isidentifier() else f"({turn}) & 1"

    def mark(self, role: str) -> Mark:
        return Mark(
            role,
            self.name,
            (
                ("slots", self.slots),
                ("readers", sum(task.replicas for task in self.readers)),
                ("tma", int(self.fill in ("tma", "bulk"))),
            ),
        )

    def declare(self, make: Maker) -> None:
        """Buffers and barriers in the kernel's head."""
        tl_name, shape = ELEMENTS[self.value.element].tl, self.value.shape
        names = [f"{self.name}_buf"]
        readers = sum(task.replicas for task in self.readers)
        if self.kind == "pipe":
            make.head.append(f"{self.name}_buf = tle.gpu.alloc({[self.slots, *shape]}, {tl_name})")
            many = f", readers={tuple(f'r{task.index}' for task in self.readers)}" if len(self.readers) > 1 else ""
            more = ", name='edge', scope='cta'" if make.draws.chance(20) else ""
            more += ", one_shot=True" if self.once else ""
            if self.second:
                make.head.append(f"{self.name}_two = tle.gpu.alloc({[self.slots, *shape]}, {tl_name})")
                more += f", second={self.name}_two"
            make.head.append(
                f"{self.name} = tle.pipe(capacity={self.slots}, {self.field_name}={self.name}_buf{many}{more})"
            )
            return
        make.head.append(f"{self.name}_buf = tlx.local_alloc({shape}, {tl_name}, {self.slots})")
        if self.kind == "ring":
            full = (
                f"tlx.alloc_warp_barrier({self.slots}, {self.writer.warps})"
                if self.warp_full
                else f"tlx.alloc_barriers({self.slots})"
            )
            free = Line(f"{self.name}_free = tlx.alloc_barriers({self.slots}, {readers})", self.mark("free count"))
            make.head += [f"{self.name}_full = {full}", free]
            names += [f"{self.name}_full", f"{self.name}_free"]
        make.captured += names

    def _on(self) -> list[Line]:
        return [Line(f"{self.name} += 1")] if self.counted else []

    # ---- the sender ------------------------------------------------------------------------------------------------------

    def send(self, step: Step) -> list[Line]:
        if self.kind == "pipe":
            return self._send_pipe(step)
        if self.kind == "named":
            threads = 32 * (self.writer.warps + self.readers[0].warps)
            return [
                Line(f"tlx.named_barrier_wait({self.named[1]}, {threads})", self.mark("named free wait")),
                Line(f"tlx.local_store({self.name}_buf[0], {self.value.kernel})"),
                Line(f"tlx.named_barrier_arrive({self.named[0]}, {threads})", self.mark("named")),
            ]
        wait = Line(f"tlx.barrier_wait({self.name}_free[{self.slot}], ({self.phase}) ^ 1)", self.mark("free wait"))
        arrive = Line(f"tlx.barrier_arrive({self.name}_full[{self.slot}])", self.mark("full arrive"))
        what = "covered fence" if self.covered else "slot fence"
        fence = [Line("tlx.fence('async_shared')", self.mark(what))] if self.fenced else []
        return [wait, *self._filled(step, fence, arrive), *self._on()]

    def _filled(self, step: Step, fence: list[Line], arrive: Line) -> list[Line]:
        slot, full = f"{self.name}_buf[{self.slot}]", f"{self.name}_full[{self.slot}]"
        shape, load = self.value.shape, step.load
        if self.fill == "st":
            return [Line(f"tlx.local_store({slot}, {self.value.kernel})"), *fence, arrive]
        if self.fill == "cp":
            size = self.value.size
            return [
                Line(f"{self.name}k = tlx.async_load({load.array} + {load.index} * {size} + {offsets(shape)}, {slot})"),
                Line(f"tlx.async_load_commit_group([{self.name}k])", self.mark("slot commit")),
                Line("tlx.async_load_wait_group(0)", self.mark("slot group")),
                *fence,
                arrive,
            ]
        expect = Line(f"tlx.barrier_expect_bytes({full}, {self.value.bytes})", self.mark("slot expect"))
        if self.fill == "bulk":
            return [
                expect,
                Line(
                    f"tlx.async_load({load.array} + {load.index} * {self.value.size}, {slot}, bulk=True, barrier={full})"
                ),
            ]
        at = f"[{load.index} * {shape[0]}, 0]" if len(shape) == 2 else f"[{load.index} * {shape[0]}]"
        return [expect, Line(f"tlx.async_descriptor_load({self.descriptor}, {slot}, {at}, {full})")]

    def _send_pipe(self, step: Step) -> list[Line]:
        load, shape, target = step.load, list(self.value.shape), f"{self.name}k.{self.field_name}"
        lines = [Line(f"{self.name}k = {self.name}w.acquire({self.count})", self.mark("acquire"))]
        if self.fill == "tma":
            at = f"[{load.index} * {shape[0]}, 0]" if len(shape) == 2 else f"[{load.index} * {shape[0]}]"
            lines += [Line("if flag < 100:")] if self.perhaps else []
            lines.append(Line(f"{'    ' if self.perhaps else ''}tle.gpu.copy({self.descriptor}, {target}, {shape}, {at})"))
        elif self.fill == "copy":
            where = f"{load.array} + {load.index} * {self.value.size} + {offsets(tuple(shape))}"
            lines.append(Line(f"tle.gpu.copy({where}, {target}, {shape})"))
        else:
            lines.append(Line(f"tl.store(tle.gpu.local_ptr({target}), {self.value.kernel})"))
        if self.second:
            lines.append(Line(f"tl.store(tle.gpu.local_ptr({self.name}k.second), {self.value.kernel})"))
        return [*lines, Line(f"{self.name}w.commit({self.count})", self.mark("commit")), *self._on()]

    # ---- the receivers ---------------------------------------------------------------------------------------------------

    def receive(self, task) -> tuple[list[Line], list[Line]]:
        """(lines where the tile is made, lines at the end of that block)."""
        name = self.value.kernel
        if self.kind == "pipe":
            release = [Line(f"{self.name}r.release({self._held()})", self.mark("release"))]
            lines = [
                Line(
                    f"{name} = tl.load(tle.gpu.local_ptr({self.name}r.wait({self.count}).slot.{self.field_of(task)}))",
                    self.mark("pipe wait"),
                )
            ]
            return (lines, []) if self.once else self._released(lines, release)
        if self.kind == "named":
            threads = 32 * (self.writer.warps + task.warps)
            return [
                Line(f"tlx.named_barrier_wait({self.named[0]}, {threads})", self.mark("named")),
                Line(f"{name} = tlx.local_load({self.name}_buf[0])"),
                Line(f"tlx.named_barrier_arrive({self.named[1]}, {threads})", self.mark("named")),
            ], []
        wait = Line(f"tlx.barrier_wait({self.name}_full[{self.slot}], {self.phase})", self.mark("full wait"))
        if task.index in self.multiplied:
            return [Line(wait.text, self.mark("operand wait")) if self.covered else wait], []
        held = self.name + "s"
        lines = [wait, Line(f"{name} = tlx.local_load({self.name}_buf[{self.slot}])")]
        if self.late:
            lines.append(Line(f"{held} = {self.slot}"))
        at = held if self.late else self.slot
        return self._released(lines, [Line(f"tlx.barrier_arrive({self.name}_free[{at}])", self.mark("free arrive"))])

    def field_of(self, task) -> str:
        """The field that a reader looks at."""
        return "second" if self.second and task.index % 2 else self.field_name

    def endpoint(self, task) -> str:
        """What a reader's partition is given; it may be shown only the field that it reads."""
        name = f"'r{task.index}'" if len(self.readers) > 1 else ""
        shown = f"fields=('{self.field_of(task)}',)" if self.second else ""
        return f"{self.name}.reader({', '.join(filter(None, (name, shown)))})"

    def _held(self) -> str:
        return f"{self.name}h" if self.late else self.count

    def _released(self, lines: list[Line], release: list[Line]) -> tuple[list[Line], list[Line]]:
        if not self.late:
            return [*lines, *release, *self._on()], []
        if self.kind == "pipe":
            lines = [*lines, Line(f"{self._held()} = {self.count}")]
        return [*lines, *self._on()], release

    def multiply(self, dot: Dot, other: Channel, task) -> list[Line]:
        """An asynchronous dot from this channel's slot and the other's, which are then given back."""
        name = dot.accumulator
        lines = [
            Line(f"{name} = tlx.async_dot({self.name}_buf[{self.slot}], {other.name}_buf[{other.slot}], {name})"),
            Line(f"{name} = tlx.async_dot_wait(0, {name})", self.mark("dot wait")),
        ]
        for one in (self, other):
            lines += [Line(f"tlx.barrier_arrive({one.name}_free[{one.slot}])", one.mark("free arrive")), *one._on()]
        return lines

    # ---- around a task ---------------------------------------------------------------------------------------------------

    def opening(self, task) -> list[Line]:
        """A receiver gives the one slot of a named channel before it starts."""
        if self.kind == "named" and task in self.readers:
            threads = 32 * (self.writer.warps + task.warps)
            return [Line(f"tlx.named_barrier_arrive({self.named[1]}, {threads})", self.mark("named"))]
        return []

    def closing(self, task) -> list[Line]:
        """The sender takes back the slot that was given last, or closes the pipe; the readers see that."""
        if self.ended and task is self.writer:
            return [Line(f"{self.name}w.close({self.name})", self.mark("close"))]
        if self.ended and task in self.readers:
            place = f"{self.ended} + pid * {len(self.readers)} + {self.readers.index(task)}"
            return [
                Line(f"{self.name}h = {self.name}r.wait({self.name})"),
                Line(f"tl.store({place}, {self.name}h.is_closed.to(tl.int32))"),
                Line(f"{self.name}r.release({self.name})"),
            ]
        if self.kind == "named" and task is self.writer:
            threads = 32 * (self.writer.warps + self.readers[0].warps)
            return [Line(f"tlx.named_barrier_wait({self.named[1]}, {threads})", self.mark("named close"))]
        return []


def choose(make: Maker, step: Step, loops, conditions: int, writer, readers, pipes: bool) -> Channel | None:
    """A channel for the tile that the step makes, or None if it does not fit into shared memory."""
    value, draws = step.makes, make.draws
    fills = ["st"]
    wide = value.shape[-1] * ELEMENTS[value.element].bytes >= 16 and max(value.shape) <= 256
    if step.load is not None and writer.replicas == 1:
        if wide:
            fills += ["tma", "tma"]
        if pipes:
            fills += ["copy"]
        elif (
            ELEMENTS[value.element].bytes == 4
            or ELEMENTS[value.element].bytes == 2
            and value.shape[-1] >= 32
            and value.size >= 256 * writer.warps
        ):
            fills.append("cp")
        if not pipes and not make.amd and len(value.shape) == 1 and value.bytes % 16 == 0:
            fills.append("bulk")
    fill = draws.pick(fills)
    closed = all(loop.plain and loop.trips for loop in loops) and not conditions and not make.claims
    counted = not closed or draws.chance(35)
    name = make.name("c")
    count = name if counted else _closed_count(make, loops)
    total = 1
    for loop in loops:
        total *= loop.trips
    kind = "pipe" if pipes else "ring"
    taken = make.counts.get("named", 0)
    if (
        not pipes
        and fill == "st"
        and len(readers) == 1
        and readers[0].replicas == 1
        and FIRST_NAMED + 2 * taken + 1 <= LAST_NAMED
        and draws.chance(12)
    ):
        kind = "named"
        make.counts["named"] = taken + 1
    slots = 1 if kind == "named" else draws.pick([2, 1, 3, 4])
    while not make.shared(slots * max(value.bytes, 128) + 16 * slots):
        if slots == 1:
            return None
        slots -= 1
    channel = Channel(
        name,
        value,
        kind,
        fill,
        slots,
        writer,
        readers,
        count,
        counted and kind != "named",
        late=draws.chance(30),
        field_name=draws.pick(["tile", "payload"]),
    )
    if pipes:
        channel.perhaps = draws.chance(15)
        channel.second = draws.chance(20) and make.shared(slots * max(value.bytes, 128))
        channel.once = slots == 1 and not loops and not conditions and draws.chance(50)
        if channel.once:
            channel.counted, channel.count = False, "0"
        if channel.counted and draws.chance(20):
            channel.ended = make.array("i32", (make.programs * len(readers),), ("zeros",), output=True)
    channel.warp_full = kind == "ring" and fill == "st" and draws.chance(12)
    channel.named = (FIRST_NAMED + 2 * taken, FIRST_NAMED + 2 * taken + 1)
    if fill == "tma":
        channel.descriptor = make.descriptor(step.load.array, value.shape)
    return channel


def _closed_count(make: Maker, loops) -> str:
    """The number of the transfer from the loops' variables."""
    text = "0"
    for number, loop in enumerate(loops):
        text = loop.variable if number == 0 else f"({text} * {make.extent(loop)} + {loop.variable})"
    return text
