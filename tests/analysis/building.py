"""Programs by hand, for the tests of analysis, passes and report: tasks, barriers and copies, on lines of the test's choice."""

from contextlib import contextmanager

from mimw.ir import I32, Barrier, Buffer, Descriptor, Pointer, Scalar, Task, Tensor
from tests import building

BF16, F32, I1 = Scalar("bf16"), Scalar("fp32"), Scalar("i1")
BLOCK = Descriptor(BF16, (128, 64))  # 16384 bytes
ACC = Tensor(F32, (128, 128))


class Kernel(building.Kernel):
    """Tasks are written one after the other; `program` starts them in one region."""

    def __init__(self, warps: int = 4):
        super().__init__(warps)
        self.tasks, self.results = [], ()

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
        op, self._carried = self.regions("for", *bounds, tuple(inits)), ()
        with self.inside(op, (bounds[0].type, *(init.type for init in inits))) as (index, *carried):
            yield index, carried
            self.op("yield", tuple(self._carried))
        self._carried, self.results = (), op.results

    def carry(self, *values):
        self._carried = values

    @contextmanager
    def when(self, condition):
        """An `if` without results; its else block is empty."""
        op = self.regions("if", condition, ())
        with self.inside(op):
            yield
            self.op("yield", ())
        self.block(op, lambda: ())

    @contextmanager
    def task(self, name: str, warps: int = 4, registers=None, default: bool = False, replica: int = 0, replicas: int = 1):
        site, outside = self.site, self.open()
        yield
        self.tasks.append((Task(name, warps, default, registers, replica, replicas, site), self.close(outside)))

    def start_tasks(self, **attrs):
        """The region of all tasks written since the last one."""
        if not any(task.is_default for task, _ in self.tasks):
            self.tasks.insert(0, (Task("default", self.warps, True), ()))
        self.tasks.sort(key=lambda entry: not entry[0].is_default)
        op = self.regions("warp_specialize", tasks=tuple(task for task, _ in self.tasks), **attrs)
        for _, ops in self.tasks:
            with self.inside(op):
                self.ops += ops
        self.tasks = []

    def program(self, name: str = "kernel"):
        if self.tasks:
            self.start_tasks()
        return super().program(name)


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
