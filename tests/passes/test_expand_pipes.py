"""What pipes become: the barriers, the waits and the copies, one program a case; what is refused is in `tests/tle`."""

from types import MappingProxyType

import pytest
import triton.language as tl

import mimw.tle as tle
from mimw import ir
from mimw.compiler.analysis.pipes import pipe_label, pipes_of
from mimw.compiler.passes import check_pipes, drop_unused, expand_pipes
from mimw.errors import KernelError, ProtocolError, TaskError
from mimw.ir import Barrier, Block, Op, Pipe, Program, Task, Value, parse_program, print_program, verify
from mimw.ir.types import I1, I32, Buffer, Scalar, Tensor
from mimw.target import target
from tests.language.harness import Kernel

SM90 = target("sm_90a")


class Ring:
    """A pipe of tiles, its two ends, and descriptors to fill it."""

    def __init__(self, capacity=2, fields=("x", ), dtype=tl.float16, **keywords):
        self.kernel = Kernel()
        buffers = {name: self.kernel(tle.gpu.alloc, [capacity, 16, 32], dtype) for name in fields}
        self.pipe = self.kernel(tle.pipe, capacity=capacity, name="p", **keywords, **buffers)
        self.writer = self.kernel(self.pipe.writer)
        self.source = self.kernel.descriptor("source", dtype, 16, 32)

    def reader(self, *name):
        return self.kernel(self.pipe.reader, *name)

    def __call__(self, word, *args):
        return self.kernel(word, *args)

    def load(self, buffer):
        self.kernel(tle.gpu.copy, self.source, buffer, [16, 32], [0, 0])

    def program(self):
        program = drop_unused(expand_pipes(self.kernel.program()))
        verify(program)
        assert not any(isinstance(value.type, Pipe) for op in program.walk() for value in (*op.operands, *op.results))
        return program

    def names(self, *wanted):
        return [op.name for op in self.program().walk() if op.name in wanted or not wanted]


SYNC = ("barrier_expect", "barrier_bytes", "barrier_arrive", "barrier_wait", "tma_load", "tma_fetch", "fence", "async_commit",
        "async_wait", "async_load")


def test_a_program_without_pipes_stays_itself():
    program = Kernel().program()
    assert expand_pipes(program) is program


def test_bytes_are_expected_in_front_of_the_first_copy():
    ring = Ring(fields=("x", "y"))
    slot = ring(ring.writer.acquire, 0)
    ring.load(slot.fields["x"])
    ring.load(slot.fields["y"])
    ring(ring.writer.commit, 0)
    assert ring.names(*SYNC) == ["barrier_wait", "barrier_expect", "tma_load", "tma_load"]
    expect = next(op for op in ring.program().walk() if op.name == "barrier_expect")
    assert expect.bytes == 2 * 16 * 32 * 2 and expect.attrs["method"] == "commit"


def test_anything_between_the_copies_puts_the_arrival_behind():
    ring = Ring(fields=("x", "y"))
    slot = ring(ring.writer.acquire, 0)
    ring.load(slot.fields["x"])
    ring(tl.store, ring(tle.gpu.local_ptr, slot.fields["y"]), 0.0)
    ring(ring.writer.commit, 0)
    assert ring.names(*SYNC) == ["barrier_wait", "tma_load", "fence", "barrier_expect"]


def test_copies_outside_of_acquire_and_commit_finish_by_themselves():
    ring = Ring(fields=("x", ))
    slot = ring(ring.writer.acquire, 0)
    ring(ring.writer.commit, 0)
    ring.load(slot.fields["x"])
    assert ring.names(*SYNC) == ["barrier_wait", "fence", "barrier_arrive", "tma_fetch"]


def test_copies_by_threads_are_waited_for_by_the_commit():
    ring = Ring(fields=("x", "y"))
    for chunk in range(2):
        slot = ring(ring.writer.acquire, chunk)
        if chunk == 1:
            pointers = ring.kernel.tensor("from", tl.pointer_type(tl.float16), 16, 32)
            ring(tle.gpu.copy, pointers, slot.fields["x"], [16, 32])
        ring(ring.writer.commit, chunk)
    assert ring.names(*SYNC) == ["barrier_wait", "fence", "barrier_arrive", "barrier_wait", "async_load", "async_commit",
                                 "async_wait", "fence", "barrier_arrive"]
    assert not any("of_copy" in op.attrs for op in ring.program().walk())


def test_what_reports_know():
    ring = Ring(capacity=2, readers=("left", "right"))
    right = ring.reader("right")
    ring(ring.writer.acquire, 5)
    ring(right.wait, ring.kernel.tensor("k", tl.int32))
    ring(right.release, 3)
    program = ring.program()
    full, free = (op for op in program.walk() if op.name == "alloc_barriers")
    assert (full.attrs["pipe"], full.attrs["side"], full.arrive_count) == ("p", "full", 1)
    assert (free.attrs["side"], free.attrs["readers"], free.arrive_count) == ("free", ("left", "right"), 2)
    acquire, wait = (op for op in program.walk() if op.name == "barrier_wait")
    assert (acquire.attrs["method"], acquire.chunk) == ("acquire", 5)
    assert (wait.attrs["method"], wait.attrs["reader"], wait.chunk) == ("wait", "right", program.params[-1].value)
    assert next(op.attrs["reader"] for op in program.walk() if op.name == "barrier_arrive") == "right"
    assert next(op.chunk for op in program.walk() if op.name == "barrier_arrive") == 3
    assert (full.attrs["fields"], full.attrs["chunk_bytes"]) == (("x", ), 16 * 32 * 2) and "fields" not in free.attrs


@pytest.mark.parametrize("between", [False, True])
def test_a_commit_says_which_chunk(between):
    """The chunk that was acquired, whose barrier it takes: its number is known in front of the copies, where the bytes are."""
    ring = Ring()
    number = ring.kernel.tensor("k", tl.int32)
    slot = ring(ring.writer.acquire, number)
    ring.load(slot.fields["x"])
    if between:
        ring(tl.debug_barrier)
    ring(ring.writer.commit, number)
    ring(ring.writer.close, 7)
    program = ring.program()
    arrivals = [op for op in program.walk() if op.name in ("barrier_expect", "barrier_arrive")]
    assert [(op.attrs["method"], op.chunk) for op in arrivals] == [("commit", program.params[-1].value), ("close", 7)]


def test_a_pipe_over_another_says_so():
    ring = Ring()
    above = ring.kernel(tle.pipe, capacity=2, over=ring.pipe, name="o", x=ring.pipe.fields["x"])
    ring(ring(above.reader).release, 1)
    arrays = [op.attrs for op in ring.program().walk() if op.name == "alloc_barriers"]
    assert [(attrs["pipe"], attrs["side"], attrs.get("over")) for attrs in arrays] == [
        ("p", "full", None), ("p", "free", None), ("o", "full", "p")]


@pytest.mark.parametrize("dtype, ops", [
    (tl.int32, ["srem", "sdiv", "and"]), (tl.int64, ["srem", "sdiv", "int_cast", "and", "int_cast"]),
    (tl.uint32, ["urem", "udiv", "int_cast", "and", "int_cast"]), (tl.int16, ["int_cast", "srem", "sdiv", "and"])])
@pytest.mark.parametrize("capacity", [1, 3])
def test_slot_and_parity(dtype, ops, capacity):
    ring = Ring(capacity)
    ring(ring.reader().wait, ring.kernel.tensor("k", dtype))
    arithmetic = [name for name in ring.names() if name in ("srem", "sdiv", "urem", "udiv", "and", "int_cast")]
    alone = [name for name in ops if name not in ("srem", "sdiv", "urem", "udiv")]
    assert arithmetic == (ops if capacity > 1 else alone[:1] if dtype == tl.int32 else alone[-2:])


def made(name, args, results=(), blocks=(), **attrs):
    return Op(name, args, results, blocks, MappingProxyType(attrs))


def carried() -> Program:
    """A pipe that goes through an `if`, a `for` and a `while` before it is used."""
    buffer, flag, one = Value(Buffer(Scalar("fp16"), (2, 64))), Value(I1), Value(I32)
    type_ = Pipe(2, (Buffer(Scalar("fp16"), (64, )), ))
    pipe, chosen, turned, argument, last = (Value(type_, name) for name in ("p", "", "", "", ""))
    before, after, counter = Value(type_), Value(type_), Value(I32)
    sum_, inner = Value(I32), Value(I32)
    body = Block((), (
        made("local_alloc", (buffer.type, None), (buffer, ), layout=None), made("constant", (1, I32), (one, )),
        made("constant", (True, I1), (flag, )),
        made("pipe_make", ((buffer, ), 2), (pipe, ), names=("x", )),
        made("if", (flag, (type_, )), (chosen, ), tuple(Block((), (made("yield", ((pipe, ), )), )) for _ in range(2))),
        made("for", (one, one, one, (one, chosen)), (sum_, turned), (Block((counter, inner, argument), (
            made("pipe_release", (argument, 0)), made("yield", ((inner, argument), )))), )),
        made("while", ((turned, ), ), (last, ), (Block((before, ), (made("condition", (flag, (before, ))), )),
                                                Block((after, ), (made("yield", ((after, ), )), )))),
        made("pipe_close", (last, 1))))
    return Program("carried", (), body, 4)


def test_pipes_through_control_flow():
    program = carried()
    verify(program)
    assert {pipe_label(make) for make in pipes_of(program).values()} == {"pipe 'p'"} and len(pipes_of(program)) == 7
    result = expand_pipes(program)
    verify(result)
    names = [op.name for op in result.walk()]
    assert names.count("alloc_barriers") == 2 and names.count("barrier_arrive") == 2 and "pipe_close" not in names
    assert not any(isinstance(value.type, (Pipe, Barrier)) for op in result.walk() if op.blocks for value in op.results)
    loop = next(op for op in result.walk() if op.name == "for")
    assert len(loop.results) == 1 and len(loop.blocks[0].args) == 2


def test_a_field_is_filled_in_one_way():
    ring = Ring()
    slot = ring(ring.writer.acquire, 0)
    ring.load(slot.fields["x"])
    ring(tle.gpu.copy, ring.kernel.tensor("from", tl.pointer_type(tl.float16), 16, 32), slot.fields["x"], [16, 32])
    with pytest.raises(KernelError, match="pipe 'p': field 'x' is filled by TMA and by pointers in one chunk"):
        ring.program()


# ---- check_pipes ----------------------------------------------------------------------------------------------------------


def two_tasks(same: bool) -> Program:
    """A writer in one task, or in two."""
    buffer = Value(Buffer(Scalar("fp16"), (2, 64)))
    pipe = Value(Pipe(2, (Buffer(Scalar("fp16"), (64, )), )), "p")
    commit = made("pipe_commit", (pipe, 0))
    blocks = (Block((), (commit, )), Block((), (commit if same else made("pipe_release", (pipe, 0)), )))
    body = Block((), (made("local_alloc", (buffer.type, None), (buffer, ), layout=None),
                      made("pipe_make", ((buffer, ), 2), (pipe, ), names=("x", )),
                      *(made("warp_specialize", (), (), blocks, tasks=(Task("a", 4, True), Task("b", 4))) for _ in range(2))))
    return Program("tasks", (), body, 4)


def test_an_end_is_of_one_task():
    check_pipes(two_tasks(False), SM90)
    with pytest.raises(TaskError, match="pipe 'p': the writer is used in two partitions, 'a' and 'b'"):
        check_pipes(two_tasks(True), SM90)


@pytest.mark.parametrize("pending, capacity, chunk, right", [
    (0, 2, 0, True), (1, 2, 0, False), (1, 2, 1, True), (1, 2, 2, False), (1, 1, 7, False)])
def test_a_slot_is_released_behind_its_products(pending, capacity, chunk, right):
    """The product of chunk 0, then a wait that leaves `pending` products under way, then a release of `chunk`."""
    ring = Ring(capacity)
    slot = ring(ring.reader().wait, 0)
    acc = ring.kernel.tensor("acc", tl.float32, 16, 16)
    builder = ring.kernel.builder
    view = slot.slot.fields["x"].handle
    dot = builder.record("async_dot", view, view, acc.handle, None, 0, type=acc.handle.get_type())
    builder.record("async_dot_wait", pending, dot.results[0])
    ring(ring.reader().release, chunk)
    program = ring.kernel.program()
    if right:
        check_pipes(program, SM90)
    else:
        with pytest.raises(ProtocolError, match="pipe 'p' is released while the async_dot of line 7 may still read") as caught:
            check_pipes(program, SM90)
        assert "async_dot_wait in between" in caught.value.hint


def test_a_product_of_the_round_before_may_be_under_way():
    """The release stands in front of the product in the body: only the next round shows it, and only for one slot."""
    for capacity, right in ((1, False), (2, True)):
        counter, closed, tile = Value(I32), Value(I1), Value(Tensor(Scalar("fp32"), (16, 16)))
        slot = Value(Buffer(Scalar("fp16"), (16, 16)))
        buffer = Value(Buffer(Scalar("fp16"), (capacity, 16, 16)))
        pipe, one, result = Value(Pipe(capacity, (slot.type, )), "p"), Value(I32), Value(tile.type)
        loop = Block((counter, ), (made("pipe_release", (pipe, counter)), made("pipe_wait", (pipe, counter), (slot, closed)),
                                   made("async_dot", (slot, slot, tile, None, 0), (result, ))))
        body = Block((), (made("local_alloc", (buffer.type, None), (buffer, ), layout=None), made("constant", (1, I32), (one, )),
                          made("constant", (0.0, tile.type), (tile, )),
                          made("pipe_make", ((buffer, ), capacity), (pipe, ), names=("x", )),
                          made("for", (one, one, one, ()), (), (loop, ))))
        program = Program("rounds", (), body, 4)
        if right:
            check_pipes(program, SM90)
        else:
            with pytest.raises(ProtocolError):
                check_pipes(program, SM90)


def test_the_text_of_a_pipe():
    ring = Ring(capacity=2, readers=("a", ))
    ring(ring.writer.acquire, 3)
    assert ring.kernel.text()[1:] == [
        "%p = pipe_make [%'p.x'], capacity=2 names=['x'] readers=['a'] : pipe<2 x (buffer<fp16[16, 32]>)>",
        "%7 = pipe_acquire %p, chunk=3 : buffer<fp16[16, 32]>"]
    text = print_program(ring.kernel.program())
    assert print_program(parse_program(text)) == text
    assert ir.OPS["pipe_acquire"].end == "writer"
