"""Programs by hand, for the tests of analysis, passes and report: every op on a source line of the test's choice."""

from contextlib import contextmanager

from mimw.frontend.drafts import DraftBlock, Location
from mimw.frontend.recorder import Recorder
from mimw.ir import Barrier, Buffer, Descriptor, Pointer, Scalar, Site, Task, Tensor, verify

BF16, F32, I1, I32 = Scalar("bf16"), Scalar("fp32"), Scalar("i1"), Scalar("i32")
BLOCK = Descriptor(BF16, (128, 64))  # 16384 bytes
ACC = Tensor(F32, (128, 128))


class Kernel:
    """A recorder with names and lines. Ops give their only result; `at` sets the line of what follows."""

    def __init__(self, warps: int = 4):
        self.recorder, self.warps, self.params, self.tasks = Recorder(), warps, [], []
        self.at(1)

    def at(self, line: int) -> "Kernel":
        self.recorder.set_loc(Location(self.site(line)))
        return self

    @staticmethod
    def site(line: int) -> Site:
        return Site("kernel.py", line)

    def param(self, name: str, type_=I32):
        handle = self.recorder.entry.add_argument(type_)
        handle.name = name
        self.params.append((handle, name, (len(self.params), ), ()))
        return handle

    def op(self, name: str, *args, named: str = "", regions: int = 0, **attrs):
        op = self.recorder.record(name, *args, regions=regions, **attrs)
        for result in op.results:
            result.name = named
        return op.results[0] if len(op.results) == 1 else tuple(op.results) or op

    def number(self, value: int, type_=I32):
        return self.op("constant", value, type_)

    def tile(self, type_=ACC, named: str = ""):
        return self.op("constant", 0.0, type_, named=named)

    def barriers(self, name: str, count: int, arrive_count: int = 1):
        return self.op("alloc_barriers", count, arrive_count, named=name)

    def buffers(self, name: str, count: int, shape=(128, 64), element=BF16, space="smem"):
        return self.op("local_alloc", Buffer(element, shape, count, space), named=name, layout=None)

    def one(self, array, index):
        """One barrier or buffer of an array."""
        index = self.number(index) if isinstance(index, int) else index
        return self.op("barrier_index" if isinstance(array.type, Barrier) else "buffer_index", array, index)

    def wait(self, barrier, phase, predicate=None):
        self.op("barrier_wait", barrier, self.number(phase) if isinstance(phase, int) else phase, predicate)

    def expect(self, barrier, size: int, predicate=None):
        self.op("barrier_expect", barrier, size, predicate)

    def arrive(self, barrier, count: int = 1, predicate=None):
        self.op("barrier_arrive", barrier, count, predicate)

    def load(self, descriptor, barrier, buffer, predicate=None):
        zero = self.number(0)
        self.op("tma_load", descriptor, (zero, zero), barrier, buffer, predicate, None)

    @contextmanager
    def loop(self, end, inits=(), start=0, step=1):
        """A `for`; gives (round, carried values); `self.carry(...)` ends it, and `self.results` are what it leaves."""
        bounds = [self.number(bound) if isinstance(bound, int) else bound for bound in (start, end, step)]
        op = self.recorder.create_for_op(*bounds, list(inits))
        outside, self._carried = self.recorder.get_insertion_block(), ()
        body = op.get_body(0)
        self.recorder.set_insertion_point_to_end(body)
        yield body.args[0], body.args[1:]
        self.op("yield", tuple(self._carried))
        self._carried = ()
        self.recorder.set_insertion_point_to_end(outside)
        self.results = op.results

    def carry(self, *values):
        self._carried = values

    @contextmanager
    def when(self, condition):
        """An `if` without results; its else block is empty."""
        op = self.recorder.create_if_op([], condition, True)
        outside = self.recorder.get_insertion_block()
        self.recorder.set_insertion_point_to_end(op.get_then_block())
        yield
        self.op("yield", ())
        self.recorder.set_insertion_point_to_end(op.get_else_block())
        self.op("yield", ())
        self.recorder.set_insertion_point_to_end(outside)

    @contextmanager
    def task(self, name: str, warps: int = 4, registers=None, default: bool = False, replica: int = 0, replicas: int = 1):
        outside, block = self.recorder.get_insertion_block(), DraftBlock()
        site = self.recorder.site
        self.recorder.set_insertion_point_to_end(block)
        yield
        self.recorder.set_insertion_point_to_end(outside)
        self.tasks.append((Task(name, warps, default, registers, replica, replicas, site), block))

    def start_tasks(self):
        """The region of all tasks recorded since the last one."""
        if not any(task.is_default for task, _ in self.tasks):
            self.tasks.insert(0, (Task("default", self.warps, True), DraftBlock()))
        self.tasks.sort(key=lambda entry: not entry[0].is_default)
        self.recorder.record_tasks([task for task, _ in self.tasks], [block for _, block in self.tasks])
        self.tasks = []

    def program(self, name: str = "kernel"):
        if self.tasks:
            self.start_tasks()
        self.recorder.entry.args.clear()
        program = self.recorder.finish(name, self.params, self.warps, self.site(1))
        verify(program)
        return program


def ring_copy(arrive_count: int = 1, stages: int = 4, expected: int = 16384) -> Kernel:
    """A producer and a consumer around a ring of `stages` tiles; the usual `it % stages` and `(it // stages) & 1`."""
    k = Kernel()
    n, source = k.param("n"), k.param("source", BLOCK)
    tiles = k.at(2).buffers("tiles", stages)
    full = k.at(3).barriers("full", stages, arrive_count)
    free = k.at(4).barriers("free", stages)

    def slot_and_phase(it):
        ring = k.number(stages)
        return k.op("srem", it, ring), k.op("and", k.op("sdiv", it, ring), k.number(1))

    with k.at(10).task("load", warps=1):
        with k.at(11).loop(n, [k.number(0)]) as (_, (it, )):
            slot, phase = slot_and_phase(it)
            k.at(12).wait(k.one(free, slot), k.op("xor", phase, k.number(1)))
            k.at(13).expect(k.one(full, slot), expected)
            k.at(14).load(source, k.one(full, slot), k.one(tiles, slot))
            k.carry(k.op("add", it, k.number(1)))
    with k.at(20).task("mma", warps=4):
        with k.at(21).loop(n, [k.number(0)]) as (_, (it, )):
            slot, phase = slot_and_phase(it)
            k.at(22).wait(k.one(full, slot), phase)
            k.at(23).op("local_load", k.one(tiles, slot), None)
            k.at(24).arrive(k.one(free, slot))
            k.carry(k.op("add", it, k.number(1)))
    return k


__all__ = ["ACC", "BF16", "BLOCK", "F32", "I1", "I32", "Kernel", "Pointer", "Tensor", "ring_copy"]
