"""`tle.struct`: what its values hold, where they go, and what is refused, with the line and the mend."""

import copy
import pickle
import re
from typing import Any, NamedTuple

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw import errors
from mimw.compiler.frontend.seen import look
from mimw.compiler.frontend.words import uses_words
from mimw.runtime.compile_kernel import compile_kernel
from tests.every import every

TARGETS = ("sm_80", "sm_90a", "sm_100a", "gfx942", "gfx950")


# ---- fields, methods, control flow: kernels without a word of ours besides ----------------------------------------------


@tle.struct
class Rows:
    """Rows of BLOCK floats."""
    x: tl.tensor
    n: Any
    BLOCK: tl.constexpr = 32

    @mimw.jit
    def at(self, row=0):
        return row * self.BLOCK + tl.arange(0, self.BLOCK)

    @triton.jit
    def load(self, row, bias=None):
        tile = tl.load(self.x + self.at(row), row < self.n)
        return tile if bias is None else tile + bias

    @triton.constexpr_function
    def half(self):
        return self.BLOCK.value // 2


@tle.struct
class Sum:
    total: tl.tensor
    count: tl.tensor = 0

    @triton.jit
    def __add__(self, other):
        return Sum(self.total + other.total, self.count + other.count)


@tle.struct
class Named(Sum):
    rows: Rows | None = None
    scale: tl.constexpr = 2

    @mimw.jit
    def value(self):
        return self.total * self.scale


@triton.jit
def at_row(rows, row):
    return Sum(total=rows.load(row, bias=1), count=1)


@triton.jit
def either(rows, n):
    if n > 2:
        return at_row(rows, 0)
    return at_row(rows, 1)


@mimw.jit
def sums(x, y, n):
    rows = Rows(x, n)
    found = Sum(tl.zeros((rows.BLOCK, ), tl.float32))
    for row in range(n):
        found = found + at_row(rows, row)
    pair = (found, either(rows, n))
    if n > 2:
        found = pair[0] + pair[1]
    named = Named(found.total, found.count, rows)
    while named.count < 100:
        named = named.replace(count=named.count * 2)
    where = y + named.rows.at()
    tl.store(where, named.value() + named.count + named.rows.half())


def summed(x, n):
    total, count = (x[:n] + 1).sum(0), n
    if n > 2:
        total, count = total + x[0] + 1, count + 1
    while count < 100:
        count *= 2
    return total * 2 + count + 16


def test_values_go_through_helpers_loops_and_branches():
    x = np.arange(8 * 32, dtype=np.float32).reshape(8, 32)
    for n in (1, 2, 5):
        y = np.zeros(32, np.float32)
        mimw.simulate(sums, (1, ), x, y, n)
        assert (y == summed(x, n)).all(), n


@every(TARGETS)
def test_they_compile_for(target):
    assert compile_kernel(sums, dict(x="*fp32", y="*fp32", n="i32"), {}, target).ttgir


def test_a_kernel_that_has_no_word_besides_is_tritons():
    assert not uses_words(sums)
    assert uses_words(filled)


def test_keys_know_all_of_a_struct():
    """Its methods and defaults among it, and nothing of Triton's class around them."""
    seen = look([sums])
    assert not seen.unknown and {"Named.scale", "Rows.BLOCK"} <= seen.shown.keys()
    assert any(line.startswith("Rows.half") for line in seen.lines) and "_flatten_ir" not in "".join(seen.lines)


@mimw.jit
def by_hand(x, y, n, BLOCK: tl.constexpr):
    total, count = tl.zeros((BLOCK, ), tl.float32), 0
    for row in range(n):
        total, count = total + tl.load(x + (row * BLOCK + tl.arange(0, BLOCK)), row < n), count + 1
    tl.store(y + tl.arange(0, BLOCK), total * count)


@mimw.jit
def in_structs(x, y, n, BLOCK: tl.constexpr):
    rows, found = Rows(x, n, BLOCK), Sum(tl.zeros((BLOCK, ), tl.float32))
    for row in range(n):
        found = Sum(found.total + rows.load(row), found.count + 1)
    tl.store(y + tl.arange(0, BLOCK), found.total * found.count)


def stripped(ttgir: str) -> str:
    """Without locations, and with values named by their order: equal for kernels that compile to the same."""
    text = re.sub(r"\s*loc\([^()]*(\([^()]*\))*[^()]*\)", "", re.sub(r"(?m)^#loc.*\n", "", ttgir))
    names: dict[str, str] = {}
    return re.sub(r"%[\w.]+", lambda found: names.setdefault(found[0], f"%{len(names)}"), re.sub(r"@\w+", "@kernel", text))


def test_a_struct_costs_nothing_in_the_compiled_kernel():
    signature = dict(x="*fp32", y="*fp32", n="i32")
    ones = [compile_kernel(kernel, signature, dict(BLOCK=64)).ttgir for kernel in (by_hand, in_structs)]
    assert stripped(ones[0]) == stripped(ones[1])


# ---- our values as fields, tasks, pipes ---------------------------------------------------------------------------------


@tle.struct
class Stage:
    x: tle.gpu.buffered_tensor
    w: "tle.gpu.buffered_tensor"
    N: tl.constexpr

    @mimw.jit
    def fill(self, desc, i):
        tle.gpu.copy(desc, self.x, [self.N, 32], [i * self.N, 0])
        tle.gpu.copy(desc, self.w, [self.N, 32], [i * self.N, 0])

    @mimw.jit
    def read(self):
        return tl.load(tle.gpu.local_ptr(self.x)) + tl.load(tle.gpu.local_ptr(self.w))


@tle.struct
class Producer:
    writer: tle.pipe_writer
    desc: tl.tensor_descriptor


@tle.struct
class Output:
    y: tl.tensor
    N: tl.constexpr

    @mimw.jit
    def store(self, i, tile):
        at = tl.arange(0, self.N)[:, None] * 32 + tl.arange(0, 32)[None, :]
        tl.store(self.y + i * self.N * 32 + at, tile)


@tle.struct
class Consumer:
    reader: tle.pipe_reader
    out: Output


@mimw.jit
def load(producer, steps):
    for i in range(steps):
        producer.writer.acquire(i).fill(producer.desc, i)
        producer.writer.commit(i)


@mimw.jit
def add(consumer, steps):
    for i in range(steps):
        stage: Stage = consumer.reader.wait(i).slot
        tile = stage.read()
        consumer.reader.release(i)
        consumer.out.store(i, tile)


@mimw.jit
def filled(desc, y, steps, N: tl.constexpr, PARTITIONS: tl.constexpr):
    stages = Stage(tle.gpu.alloc([2, N, 32], tl.float32), tle.gpu.alloc([2, N, 32], tl.float32), N)
    pipe = tle.pipe(stages, capacity=2)
    consumer, producer = Consumer(pipe.reader(), Output(y, N)), Producer(pipe.writer(), desc)
    if PARTITIONS:
        tle.gpu.warp_specialize([(add, (consumer, steps)), (load, (producer, steps))], [1], [24])
    else:
        with tlx.async_tasks():
            with tlx.async_task("default"):
                add(consumer, steps)
            with tlx.async_task(num_warps=1):
                load(producer, steps)


@triton.jit
def load_named(writer, desc, steps, N: tl.constexpr):
    for i in range(steps):
        slot = writer.acquire(i)
        tle.gpu.copy(desc, slot.x, [N, 32], [i * N, 0])
        tle.gpu.copy(desc, slot.w, [N, 32], [i * N, 0])
        writer.commit(i)


@triton.jit
def add_named(reader, y, steps, N: tl.constexpr):
    for i in range(steps):
        slot = reader.wait(i).slot
        tile = tl.load(tle.gpu.local_ptr(slot.x)) + tl.load(tle.gpu.local_ptr(slot.w))
        reader.release(i)
        at = tl.arange(0, N)[:, None] * 32 + tl.arange(0, 32)[None, :]
        tl.store(y + i * N * 32 + at, tile)


@mimw.jit
def filled_by_name(desc, y, steps, N: tl.constexpr):
    pipe = tle.pipe(capacity=2, x=tle.gpu.alloc([2, N, 32], tl.float32), w=tle.gpu.alloc([2, N, 32], tl.float32))
    tle.gpu.warp_specialize([(add_named, (pipe.reader(), y, steps, N)), (load_named, (pipe.writer(), desc, steps, N))], [1], [24])


@pytest.mark.parametrize("partitions", [True, False])
def test_a_pipe_carries_a_struct_of_buffers(partitions):
    x = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)
    y = np.zeros_like(x)
    mimw.simulate(filled, (1, ), mimw.TensorDescriptor.from_tensor(x, [16, 32]), y, 4, 16, partitions, races=True)
    assert (y == 2 * x).all()


@mimw.jit
def part_of_a_slot(y, N: tl.constexpr):
    pipe = tle.pipe(Stage(tle.gpu.alloc([1, N, 32], tl.float32), tle.gpu.alloc([1, N, 32], tl.float32), N), capacity=1)
    writer, reader = pipe.writer(), pipe.reader(fields=("w", ))
    tl.store(tle.gpu.local_ptr(writer.acquire(0).w), tl.full((N, 32), 3.0, tl.float32))
    writer.commit(0)
    found = reader.wait(0)
    Output(y, N).store(0, tl.load(tle.gpu.local_ptr(found.slot.w)))
    reader.release(0)
    tl.static_assert(not hasattr(found.slot, "x"))


def test_a_reader_of_some_fields_sees_those():
    y = np.zeros((16, 32), np.float32)
    mimw.simulate(part_of_a_slot, (1, ), y, 16)
    assert (y == 3).all()


def test_a_pipe_of_a_struct_is_the_pipe_of_its_fields():
    signature = dict(desc="tensordesc<fp32[16,32]>", y="*fp32", steps="i32")
    ones = [compile_kernel(filled, signature, dict(N=16, PARTITIONS=True)).ttgir,
            compile_kernel(filled_by_name, signature, dict(N=16)).ttgir]
    assert stripped(ones[0]) == stripped(ones[1])


def test_reports_name_buffers_by_the_fields():
    x = np.zeros((64, 32), np.float32)
    told = str(mimw.explain(filled, (1, ), mimw.TensorDescriptor.from_tensor(x, [16, 32]), x, 4, 16, True))
    assert "stages.x" in told and "stages.w" in told and "pipe 'pipe'" in told


@tle.struct
class Ring:
    tiles: tlx.buffered_tensor
    full: tlx.mbarrier
    size: tl.constexpr

    @mimw.jit
    def put(self, i, value):
        tlx.local_store(self.tiles[i % self.size], value)
        tlx.barrier_arrive(self.full[i % self.size])


@mimw.jit
def captured(y, n):
    ring = Ring(tlx.local_alloc((32, ), tl.int32, 2), tlx.alloc_barriers(2), 2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 32)
            for i in range(2):
                tlx.barrier_wait(ring.full[i], 0)
                tl.store(y + i * 32 + at, tlx.local_load(ring.tiles[i]))
        with tlx.async_task(num_warps=1):
            for i in tl.static_range(ring.size):
                ring.put(i, tl.arange(0, 32) * (i + n))


def test_tasks_capture_structs_of_buffers_and_barriers():
    y = np.zeros(64, np.int32)
    assert mimw.check(captured, (1, ), y, 5, seeds=3).ok
    mimw.simulate(captured, (1, ), y, 5)
    assert y.tolist() == [*np.arange(32) * 5, *np.arange(32) * 6]


# ---- constants ----------------------------------------------------------------------------------------------------------


@tle.struct
class Tiles:
    M: tl.constexpr
    N: tl.constexpr = 32

    @mimw.jit
    def size(self):
        return self.M * self.N


SMALL = Tiles(2, N=4)


@mimw.jit
def of_constants(y, tiles: tl.constexpr):
    at = tl.arange(0, tiles.size())
    tl.store(y + at, at * 0 + SMALL.size() + tiles.N)


@mimw.jit
def of_a_struct(y, tiles):
    tl.store(y, tiles.M)


def test_a_struct_of_constants_is_a_constant():
    """It stands at the module's level, and is given for a `tl.constexpr` parameter."""
    y = np.zeros(32, np.int32)
    mimw.simulate(of_constants, (1, ), y, Tiles(4, 8))
    assert (y == 16).all()
    frozen = of_constants.freeze((1, ), y, Tiles(8, 4))
    frozen()
    assert (y == 12).all()
    assert str(SMALL) == repr(Tiles(2, 4)) == "Tiles(M=2, N=4)"     # keys of launches are made of it


def test_structs_of_constants_are_equal_by_their_fields():
    """In dictionaries, copied and from another process; two values of a run are one only if they are the same."""
    assert {Tiles(2, 4): 1}[SMALL] == 1 and Tiles(2, 4) == SMALL and Tiles(2, 8) != SMALL and SMALL != (2, 4)
    again = pickle.loads(pickle.dumps(SMALL))
    assert again == copy.deepcopy(SMALL) == SMALL and again is not SMALL and again.M.value == 2
    widths = Tiles((64, 32), 4)
    assert pickle.loads(pickle.dumps(widths)) == widths != Tiles((64, 16), 4)
    tile = tl.tensor(None, tl.float32)
    one, other = Sum(tile, tile), Sum(tile, tile)
    assert one == one and one != other and len({one, other}) == 2


LAUNCHES = {"simulate": lambda y: mimw.simulate(of_a_struct, (1, ), y, SMALL),
            "check": lambda y: mimw.check(of_a_struct, (1, ), y, SMALL),
            "compile": lambda y: mimw.compile(of_a_struct, (1, ), y, tiles=SMALL, target="sm_90a"),
            "launch": lambda y: of_a_struct[(1, )](y, SMALL),
            "warmup": lambda y: of_a_struct.warmup(y, tiles=SMALL, grid=(1, )),
            "freeze": lambda y: of_a_struct.freeze((1, ), y, SMALL)}


@every(LAUNCHES)
def test_a_launch_takes_no_struct(way):
    with pytest.raises(errors.LaunchError, match="the argument 'tiles' is a Tiles") as found:
        LAUNCHES[way](np.zeros(1, np.int32))
    assert "Mend: give the fields as arguments, and call Tiles(..) in the kernel" in str(found.value)


def test_values_of_a_run_are_made_in_kernels():
    with pytest.raises(errors.StructError, match="outside of one") as found:
        Sum(3)
    assert "call Sum(..) in the kernel" in found.value.hint


@mimw.jit
def kinds(x, y, n):
    counted, given = Sum(tl.load(x), n), Rows(x, n)
    for _ in range(3):
        counted = Sum(counted.total, counted.count + 1)
    tl.static_assert(given.n == 1)
    tl.store(y, counted.count)


def test_a_number_is_a_value_of_the_run_for_tensors_and_stays_a_constant_for_any():
    """The argument 1 is a constant, as of any kernel."""
    y = np.zeros(1, np.int32)
    mimw.simulate(kinds, (1, ), np.zeros(4, np.float32), y, 1)
    assert y[0] == 4


# ---- what is refused ----------------------------------------------------------------------------------------------------


@tle.struct
class Pair:
    first: tl.tensor
    size: tl.constexpr = 4


@mimw.jit
def wrong(y, WHICH: tl.constexpr, WORD: tl.constexpr = False):
    if WORD:
        tlx.fence("gpu")
    p = Pair(tl.load(y), 3)
    if WHICH == "unknown":
        tl.store(y, p.frist)  # unknown
    if WHICH == "unknown method":
        tl.store(y, p.total())  # unknown method
    if WHICH == "assigned":
        p.first += 1  # assigned
    if WHICH == "assigned, unknown":
        p.frist = 1  # assigned, unknown
    if WHICH == "missing":
        p = Pair(size=3)  # missing
    if WHICH == "nothing":
        p = Pair(None)  # nothing
    if WHICH == "class":
        p = Pair(p)  # class
    if WHICH == "run time":
        p = Pair(y, tl.load(y))  # run time
    if WHICH == "too many":
        p = Pair(y, 2, 3)  # too many
    if WHICH == "unknown in a call":
        p = Pair(y, sizes=3)  # unknown in a call
    if WHICH == "twice":
        p = Pair(y, first=y)  # twice
    if WHICH == "unknown in a copy":
        p = p.replace(sise=4)  # unknown in a copy
    if WHICH == "loop":
        for _ in range(4):  # loop
            p = Pair(p.first, 5)
    if WHICH == "branch":
        if tl.load(y) > 3:  # branch
            p = Pair(p.first, 5)
    tl.store(y, p.first)


MISTAKES = {
    "unknown": ("Pair has no field or method 'frist'; it has first, size", "write .first"),
    "unknown method": ("Pair has no field or method 'total'", "declare the field in the class"),
    "assigned": ("field 'first' of Pair is assigned", "replace(first=..)"),
    "assigned, unknown": ("Pair has no field or method 'frist'", "write .first"),
    "missing": ("Pair is made without first", "write first=.. in the call"),
    "nothing": ("field 'first' of Pair is tl.tensor, got the constant None", "`first: tl.tensor | None`"),
    "class": ("field 'first' of Pair is tl.tensor, got a Pair", "annotate the field with what it is to hold"),
    "run time": ("field 'size' of Pair is tl.constexpr, got a tensor, fp32", "`size: tl.tensor | tl.constexpr`"),
    "too many": ("Pair has 2 fields, first, size, and is given 3 values", "leave the last ones out"),
    "unknown in a call": ("Pair has no field 'sizes'", "write size=.."),
    "twice": ("field 'first' of Pair is given twice", "give it once"),
    "unknown in a copy": ("Pair has no field 'sise'", "write size=.."),
    "loop": ("the loop gives 'p' another type: field 'size' of Pair is the constant 3 before, and the constant 5 behind",
             "annotate `size: tl.tensor`"),
    "branch": ("one branch gives 'p' another type: field 'size'", "annotate `size: tl.tensor`"),
}


def line_of(mark: str) -> int:
    lines = open(__file__).read().splitlines()
    (found, ) = [index for index, line in enumerate(lines, 1) if line.endswith(f"# {mark}")]
    return found


@every(MISTAKES)
def test_a_mistake_is_told_with_its_line_and_mend(name):
    """By the simulator, and by the compiler, for a kernel that is Triton's alone and for one of ours."""
    y = np.zeros(4, np.float32)
    ways = (lambda: mimw.simulate(wrong, (1, ), y, name), lambda: mimw.compile(wrong, (1, ), y, name, target="sm_90a"),
            lambda: mimw.compile(wrong, (1, ), y, name, True, target="sm_90a"))
    message, mend = MISTAKES[name]
    for way in ways:
        with pytest.raises(errors.StructError) as found:
            way()
        assert message in str(found.value) and mend in found.value.hint
        assert [site.line for site in found.value.sites] == [line_of(name)]


def _no_annotation():
    @tle.struct
    class Wrong:
        first: tl.tensor
        second = 3  # no annotation


def _no_fields():
    @tle.struct
    class Wrong:  # no fields
        """Nothing."""


def _not_of_a_kernel():
    @tle.struct
    class Wrong:
        first: tl.tensor
        size: int  # not of a kernel


def _no_class():
    @tle.struct
    class Wrong:
        ring: tle.pipe  # no class


def _not_defined():
    @tle.struct
    class Wrong:
        first: "Undefined"  # noqa: F821  # not defined


def _plain_method():
    @tle.struct
    class Wrong:
        first: tl.tensor

        def method(self):  # plain method
            return self.first


def _initialiser():
    @tle.struct
    class Wrong:
        first: tl.tensor

        def __init__(self, first):  # initialiser
            self.first = first


def _order():
    @tle.struct
    class Wrong:
        first: tl.tensor = 3
        second: tl.tensor  # order


def _taken_name():
    @tle.struct
    class Wrong:
        type: tl.tensor  # taken name


def _base():
    class Base:
        first: tl.tensor

    @tle.struct
    class Wrong(Base):  # base
        second: tl.tensor


DECLARATIONS = {
    "no annotation": (_no_annotation, "'second' of Wrong has a value and no annotation", "tl.constexpr (known when compiling)"),
    "no fields": (_no_fields, "Wrong has no fields", "a field is an annotated name"),
    "not of a kernel": (_not_of_a_kernel, "field 'size' of Wrong is annotated int", "tl.constexpr"),
    "no class": (_no_class, "field 'ring' of Wrong is annotated <function pipe", "a class of values"),
    "not defined": (_not_defined, "name 'Undefined' is not defined", "define it above the class"),
    "plain method": (_plain_method, "'method' of Wrong is a plain Python method", "@mimw.jit"),
    "initialiser": (_initialiser, "Wrong has an __init__", "a jit function that returns the struct"),
    "order": (_order, "field 'second' of Wrong has no default and stands behind 'first'", "put fields with defaults last"),
    "taken name": (_taken_name, "cannot be called 'type'", "another name"),
    "base": (_base, "Base, its base, is none", "decorate Base with @tle.struct"),
}


@every(DECLARATIONS)
def test_a_class_that_is_no_struct_is_refused(name):
    declare, message, mend = DECLARATIONS[name]
    with pytest.raises(errors.StructError) as found:
        declare()
    assert message in str(found.value) and mend in found.value.hint
    assert [site.line for site in found.value.sites] == [line_of(name)]


def test_what_is_no_class_is_refused():
    with pytest.raises(errors.StructError, match="which is no class"):
        tle.struct(3)


@mimw.jit
def wrong_pipe(y, WHICH: tl.constexpr):
    tile = tle.gpu.alloc([2, 32], tl.float32)
    if WHICH == 0:
        tle.pipe(Ring(tlx.local_alloc((32, ), tl.int32, 2), tlx.alloc_barriers(2), 2), capacity=2)
    if WHICH == 1:
        tle.pipe(tile, capacity=2)
    if WHICH == 2:
        tle.pipe(Stage(tile, tile, 2), capacity=2, more=tile)


@pytest.mark.parametrize("which, message", [
    (0, "field 'tiles' must be a buffer of tle.gpu.alloc"), (1, "all of them as one struct"), (2, "and more")])
def test_a_pipe_takes_a_struct_of_buffers_alone(which, message):
    with pytest.raises(triton.CompilationError, match=message):
        mimw.simulate(wrong_pipe, (1, ), np.zeros(4, np.float32), which)


# ---- beside Triton's own ------------------------------------------------------------------------------------------------


@triton.aggregate
class Theirs:
    pair: Pair
    factor: tl.constexpr

    @triton.constexpr_function
    def __init__(self, pair, factor):
        self.pair = pair
        self.factor = tl.constexpr(factor)


class Both(NamedTuple):
    pair: Any
    other: Any


@mimw.jit
def mixed(x, y):
    theirs = Theirs(Pair(tl.load(x)), 3)
    both = Both(theirs.pair, tl.aggregate_replace(theirs.pair, first=tl.load(x + 1)))
    tl.store(y, (both.pair.first + both.other.first) * theirs.factor + both.other.size)


def test_aggregates_and_named_tuples_hold_structs():
    y = np.zeros(1, np.float32)
    mimw.simulate(mixed, (1, ), np.array([2, 5], np.float32), y)
    assert y[0] == 25


@triton.jit
def stock(x, y):
    pair = Pair(tl.load(x))
    tl.store(y, pair.first * pair.size)


def test_a_kernel_of_triton_may_use_a_struct():
    from mimw.compiler.pipeline import gpu_target
    from mimw.target import target
    source = triton.compiler.ASTSource(stock, dict(x="*fp32", y="*fp32"))
    assert "tt.store" in triton.compile(source, target=gpu_target(target("sm_90a"))).asm["ttgir"]
