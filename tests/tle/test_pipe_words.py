"""What pipes record and refuse."""

import re
from pathlib import Path

import pytest
import triton
import triton.language as tl

import mimw
import mimw.language.tle
import mimw.tle as tle
import mimw.tlx as tlx
from mimw import errors
from mimw.compiler.analysis import pipe_resources, task_resources
from mimw.compiler.passes import check_pipes, drop_unused, expand_pipes
from mimw.report import barrier_graph, resource_table
from mimw.target import target
from mimw.tools.explain.conflicts import conflict_text
from tests.kernels import pipes
from tests.language.harness import USER_LINE, Kernel


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


def buffer(kernel, *shape, dtype=tl.float16):
    return kernel(tle.gpu.alloc, list(shape), dtype)


def pipe(kernel, capacity=2, **keywords):
    return kernel(tle.pipe, capacity=capacity, x=buffer(kernel, capacity, 64), y=buffer(kernel, capacity, 16, 32), **keywords)


@pytest.mark.parametrize("keywords, text", [
    (dict(capacity=0), "capacity must be a compile-time int >= 1, got 0"), (dict(capacity=True), "capacity must be"),
    (dict(capacity=2.0), "capacity must be"), (dict(scope="cluster"), "scope must be"),
    (dict(name=3), "name must be None or a str"), (dict(one_shot=1), "one_shot must be a compile-time bool"),
    (dict(readers="left"), "non-empty tuple or list of names, got 'left'"), (dict(readers=()), "non-empty tuple or list"),
    (dict(readers=("a", "a")), "must be unique"), (dict(readers=("a", 3)), "no legal reader name"),
    (dict(readers=("_a", )), "no legal reader name"), (dict(readers=("fields", )), "no legal reader name"),
    (dict(readers=("a b", )), "no legal reader name")])
def test_arguments(kernel, keywords, text):
    with pytest.raises(ValueError, match=text):
        kernel(tle.pipe, **{"capacity": 2, "x": buffer(kernel, 2, 64), **keywords})


def test_fields(kernel):
    good = buffer(kernel, 2, 64)
    for fields, text in [({}, "at least one field"), ({"x": 3}, "must be a buffer of tle.gpu.alloc"),
                         ({"x": buffer(kernel, 64)}, "must have rank 2 or more"),
                         ({"x": buffer(kernel, 4, 64)}, "first extent of 2"),
                         ({"_x": good}, "no legal field name"), ({"fields": good}, "no legal field name"),
                         ({"x": kernel(tlx.local_alloc, (64, ), tl.float16, 2)}, "must be a buffer of tle.gpu.alloc")]:
        with pytest.raises(ValueError, match=text):
            kernel(tle.pipe, capacity=2, **fields)
    with pytest.raises(ValueError, match="must be a constexpr"):
        kernel(tle.pipe, capacity=kernel.tensor("n", tl.int32), x=good)
    with pytest.raises(TypeError, match="tle.pipe"):
        kernel(tle.pipe, 2, x=good)


def test_what_values_tell(kernel):
    p = pipe(kernel, name="kv", readers=["a", "b"])
    assert (p.capacity, p.scope, p.name, p.readers, p.one_shot, list(p.fields)) == (2, "cta", "kv", ("a", "b"), False, ["x", "y"])
    reader, writer = kernel(p.reader, "a", fields=("y", )), kernel(p.writer)
    assert (reader.capacity, reader.scope, reader.name, list(reader.fields)) == (2, "cta", "kv", ["y"])
    assert list(writer.fields) == ["x", "y"] and writer.fields["x"] is p.fields["x"]
    slot = kernel(writer.acquire, 0)
    assert list(slot.fields) == ["x", "y"] and tuple(slot.fields["y"].shape) == (16, 32)
    result = kernel(reader.wait, 0)
    assert list(result.slot.fields) == ["y"] and result.is_closed.dtype == tl.int1
    assert isinstance(p, tle.pipe_value) and isinstance(reader, tle.pipe_reader) and isinstance(writer, tle.pipe_writer)
    assert isinstance(slot, tle.pipe_slot) and isinstance(result, tle.pipe_wait_result)
    assert kernel(p.reader, "b").type != reader.type != kernel(p.reader, "a").type
    assert pipe(kernel).type != pipe(kernel).type


def test_endpoints(kernel):
    alone, several = pipe(kernel), pipe(kernel, readers=("a", ))
    for call, text in [((alone.reader, "a"), "declares no readers"), ((several.reader, ), r"has the readers \['a'\]; got None"),
                       ((several.reader, "b"), "has the readers"), ((alone.reader, None, "x"), "non-empty tuple or list"),
                       ((alone.reader, None, ()), "non-empty"),
                       ((alone.reader, None, ("z", )), r"has the fields \['x', 'y'\]; got \['z'\]"),
                       ((alone.reader, None, ("x", "x")), "unique")]:
        with pytest.raises(ValueError, match=text):
            kernel(*call)
    with pytest.raises(ValueError, match="another kernel"):
        Kernel()(alone.writer)


@pytest.mark.parametrize("number", [-1, True, 1.5, None])
def test_chunk_numbers(kernel, number):
    writer, reader = kernel(pipe(kernel).writer), kernel(pipe(kernel).reader)
    for call in (writer.acquire, writer.commit, writer.close, reader.wait, reader.release):
        with pytest.raises(ValueError, match="`iter`"):
            kernel(call, number)


def test_one_shot_has_one_barrier_and_no_end(kernel):
    p = pipe(kernel, 1, one_shot=True)
    writer, reader = kernel(p.writer), kernel(p.reader)
    kernel(writer.acquire, 0)
    kernel(writer.commit, 0)
    kernel(reader.wait, 0)
    kernel(reader.release, 0)
    with pytest.raises(ValueError, match="never closed"):
        kernel(writer.close, 0)
    assert names(kernel).count("alloc_barriers") == 1 and names(kernel).count("barrier_wait") == 1


def expanded(kernel):
    """The ops that the pipes of the kernel become."""
    return drop_unused(expand_pipes(kernel.program())).body.ops


def names(kernel):
    return [op.name for op in expanded(kernel)]


def test_words_record_ops_of_pipes_and_nothing_else(kernel):
    p = pipe(kernel, name="kv", readers=("a", ))
    writer, reader = kernel(p.writer), kernel(p.reader, "a")
    kernel(writer.acquire, kernel.tensor("k", tl.int32))
    kernel(writer.commit, 1)
    kernel(writer.close, kernel.tensor("n", tl.uint32))
    kernel(reader.wait, kernel.tensor("m", tl.int64))
    kernel(reader.release, kernel.tensor("s", tl.int16))
    program = kernel.program()
    made, acquire, commit, close, wait, cast, release = (op for op in program.body.ops if op.name != "local_alloc")
    assert [op.name for op in (made, acquire, commit, close, wait, release)] == [
        "pipe_make", "pipe_acquire", "pipe_commit", "pipe_close", "pipe_wait", "pipe_release"]
    assert made.attrs == {"names": ("x", "y"), "readers": ("a", )} and made.result.name == "kv" and cast.name == "int_cast"
    assert all(op.pipe is made.result for op in (acquire, commit, close, wait, release))
    assert acquire.chunk is program.params[0].value and commit.chunk == 1 and close.attrs == {"unsigned": True}
    assert wait.attrs == release.attrs == {"reader": "a"} and release.chunk is cast.result
    assert [str(value.type) for value in wait.results] == ["buffer<fp16[64]>", "buffer<fp16[16, 32]>", "i1"]


@pytest.mark.parametrize("close", [False, True])
def test_end_markers_cost_only_where_one_is_written(kernel, close):
    p = pipe(kernel)
    writer, reader = kernel(p.writer), kernel(p.reader)
    kernel(writer.acquire, 0)
    kernel(writer.commit, 0)
    if close:
        kernel(writer.close, 1)
    kernel(reader.wait, 0)
    assert ("local_store" in names(kernel)) == ("local_load" in names(kernel)) == close
    assert names(kernel).count("local_alloc") == 2 + close
    assert names(kernel).count("pipe_close") == 0


def test_one_barrier_pair_a_pipe(kernel):
    first, second = pipe(kernel, readers=("a", "b", "c")), pipe(kernel)
    counts = [op.args for op in expanded(kernel) if op.name == "alloc_barriers"]
    assert counts == [(2, 1), (2, 3), (2, 1), (2, 1)] and first.type != second.type


def descriptor_copy(kernel, slot):
    kernel(tle.gpu.copy, kernel.descriptor("d", tl.float16, 16, 32), slot.fields["y"], [16, 32], [0, 0])


def test_tma_alone_is_expected_before_it_starts(kernel):
    writer = kernel(pipe(kernel).writer)
    slot = kernel(writer.acquire, 0)
    descriptor_copy(kernel, slot)
    kernel(writer.commit, 0)
    found = [name for name in names(kernel) if name.startswith(("barrier_e", "barrier_b", "barrier_a", "tma", "fence"))]
    assert found == ["barrier_expect", "tma_load"]


def test_mixed_chunks_arrive_behind_everything(kernel):
    writer = kernel(pipe(kernel).writer)
    slot = kernel(writer.acquire, 0)
    descriptor_copy(kernel, slot)
    kernel(tl.store, kernel(tle.gpu.local_ptr, slot.fields["x"]), 0.0)
    kernel(writer.commit, 0)
    found = [name for name in names(kernel) if name.startswith(("barrier_e", "barrier_b", "barrier_ar", "tma", "fence", "store"))]
    assert found == ["tma_load", "store", "fence", "barrier_expect"]


@pytest.mark.parametrize("pointers, text", [(True, "by pointers in one chunk"), (False, "touched through local_ptr")])
def test_two_means_for_one_field(kernel, pointers, text):
    writer = kernel(pipe(kernel).writer)
    slot = kernel(writer.acquire, 0)
    descriptor_copy(kernel, slot)
    if pointers:
        kernel(tle.gpu.copy, kernel.tensor("p", tl.pointer_type(tl.float16), 16, 32), slot.fields["y"], [16, 32])
    else:
        kernel(tl.store, kernel(tle.gpu.local_ptr, slot.fields["y"]), 0.0)
    kernel(writer.commit, 0)
    with pytest.raises(errors.KernelError, match=f"field 'y' is filled by TMA and {text}") as caught:
        expand_pipes(kernel.program())
    assert caught.value.hint == "fill a field in one way." and caught.value.sites


@mimw.jit
def shared_end(x_desc, y_ptr, steps, WRITERS: tl.constexpr):
    p = tle.pipe(capacity=2, name="one", x=tle.gpu.alloc([2, 32, 64], tl.float32))
    if WRITERS:
        tle.gpu.warp_specialize([(pipes.take, (p.reader(), y_ptr, steps, 32, 64)),
                                 (pipes.give, (p.writer(), x_desc, steps, 32, 64)),
                                 (pipes.give, (p.writer(), x_desc, steps, 32, 64))], [1, 1], [24, 24])
    else:
        tle.gpu.warp_specialize([(pipes.take, (p.reader(), y_ptr, steps, 32, 64)),
                                 (pipes.take, (p.reader(), y_ptr, steps, 32, 64))], [4], [24])


@pytest.mark.parametrize("writers, text", [(True, "the writer is used in two partitions, 'give' and 'give'"),
                                           (False, "the reader is used in two partitions, 'take' and 'take'")])
def test_an_end_belongs_to_one_partition(writers, text):
    with pytest.raises(triton.CompilationError, match=f"pipe 'one': {text}"):
        mimw.compile.compile_kernel(shared_end, {"x_desc": "tensordesc<fp32[32,64]>", "y_ptr": "*fp32", "steps": "i32"},
                                    dict(WRITERS=writers))


@mimw.jit
def early(a_desc, b_desc, c_ptr, steps, LATER: tl.constexpr):
    """Products left under way; a slot goes back at once, or one step later."""
    p = tle.pipe(capacity=3, a=tle.gpu.alloc([3, 64, 64], tl.float16), b=tle.gpu.alloc([3, 64, 64], tl.float16))
    writer, reader, acc = p.writer(), p.reader(), tl.zeros((64, 64), tl.float32)
    for k in range(steps):
        slot = writer.acquire(k)
        tle.gpu.copy(a_desc, slot.a, [64, 64], [0, k * 64])
        tle.gpu.copy(b_desc, slot.b, [64, 64], [k * 64, 0])
        writer.commit(k)
        slot = reader.wait(k).slot
        acc = tlx.async_dot(slot.a, slot.b, acc)
        acc = tlx.async_dot_wait(1, acc)
        if LATER:
            reader.release(tl.maximum(k, 1) - 1)
        else:
            reader.release(k)
    acc = tlx.async_dot_wait(0, acc)
    tl.store(c_ptr + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], acc)


def test_release_waits_for_products():
    signature = {"a_desc": "tensordesc<fp16[64,64]>", "b_desc": "tensordesc<fp16[64,64]>", "c_ptr": "*fp32", "steps": "i32"}
    with pytest.raises(triton.CompilationError, match="released while the async_dot of line .* may still read the slot"):
        mimw.compile.compile_kernel(early, signature, dict(LATER=False))
    mimw.compile.compile_kernel(early, signature, dict(LATER=True))


def test_reports_know_pipes():
    compiled = mimw.compile.compile_kernel(
        pipes.fan_out, {"x_desc": "tensordesc<fp32[16,32]>", "x_ptr": "*fp32", "y_ptr": "*fp32", "z_ptr": "*fp32", "steps": "i32"},
        dict(N=16, M=32, WIDE=False))
    assert barrier_graph(compiled.program) == """\
spread --pipe 'fan' commit[2]--> read_left (expect 2048 B + TMA)
spread --pipe 'fan' commit[2]--> read_right (expect 2048 B + TMA)
read_left --pipe 'fan' release[2]--> spread (2 arrivals a phase)
read_right --pipe 'fan' release[2]--> spread (2 arrivals a phase)
"""
    assert "fan.tiles" in conflict_text(compiled)
    explained = resource_table(compiled.program, compiled.target)
    shown = [line.split() for line in explained.splitlines()]
    assert ["pipe", "slots", "fields", "bytes", "a", "chunk", "bytes", "barriers", "written", "by", "read", "by"] in shown
    assert ["fan", "2", "tiles,", "copies,", "numbers", "4160", "8320", "4", "spread", "read_left", "(left),", "read_right",
            "(right)"] in shown
    assert not any(line[:1] == ["barriers"] for line in shown) and "fan.full" not in explained and "fan.free" not in explained
    spread, left = (next(row for row in task_resources(compiled.program, compiled.target) if row.name == name)
                    for name in ("spread", "read_left"))
    assert (spread.waits, spread.arrives) == (("fan release", ), ("fan commit", ))
    assert (left.waits, left.arrives) == (("fan commit", ), ("fan release", ))


def test_pipes_as_their_author_thinks_of_them(kernel):
    below = pipe(kernel, readers=("load", ("first", "second")))
    kernel(kernel(below.writer).acquire, 0)
    kernel(kernel(below.reader, "load").wait, 0)
    alone = kernel(tle.pipe, capacity=1, one_shot=True, z=buffer(kernel, 1, 64))
    kernel(kernel(alone.reader).wait, 0)
    first = pipe(kernel, name="q")
    kernel(tle.pipe, capacity=2, over=first, name="o", o=first.fields["x"])
    first, over = pipe_resources(expand_pipes(kernel.program()))[2:]
    assert (over.name, over.over, over.bytes, over.barriers, over.readers) == ("o", "q", 0, 2, ())
    assert (first.name, first.fields, first.chunk_bytes, first.bytes, first.barriers) == ("q", ("x", "y"), 1152, 2304, 4)
    unnamed, alone = pipe_resources(expand_pipes(kernel.program()))[:2]
    assert unnamed.name.startswith("line ") and unnamed.writers == ("kernel", ) and unnamed.readers == ("kernel (load)", )
    assert (alone.slots, alone.barriers, alone.writers, alone.readers) == (1, 1, (), ("kernel", ))
    assert pipe_resources(kernel.program()) == ()


def test_readers_that_share_a_seat(kernel):
    p = pipe(kernel, readers=("load", ("first", "second")))
    assert p.readers == ("load", ("first", "second"))
    for name in ("load", "first", "second"):
        kernel(kernel(p.reader, name).release, 0)
    free = next(op for op in expanded(kernel) if op.attrs.get("side") == "free")
    assert free.arrive_count == 2 and free.attrs["readers"] == ("load", ("first", "second"))
    with pytest.raises(ValueError, match="must be unique"):
        pipe(kernel, readers=("first", ("first", "second")))


def test_a_slot_that_is_held_costs_no_wait(kernel):
    reader = kernel(pipe(kernel).reader)
    kernel(reader.wait, 3)
    slot = kernel(reader.held, 3)
    kernel(tlx.local_store, slot.fields["x"], kernel.tensor("tile", tl.float16, 64))
    assert list(slot.fields) == ["x", "y"] and names(kernel).count("barrier_wait") == 1
    store = next(op for op in expanded(kernel) if op.name == "local_store")
    assert store.buffer.type.shape == (64, )


def test_a_release_under_a_predicate(kernel):
    reader, when = kernel(pipe(kernel).reader), kernel.tensor("when", tl.int1)
    kernel(reader.release, kernel.tensor("k", tl.int32), when)
    ops = expanded(kernel)
    arrive = next(op for op in ops if op.name == "barrier_arrive")
    assert arrive.predicate is not None and arrive.attrs["method"] == "release"
    assert [op.name for op in ops if op.name in ("add", "srem")] == ["add", "srem"]     # chunk -1 has a slot, too


def test_a_pipe_over_another(kernel):
    below = pipe(kernel, name="q")
    above = kernel(tle.pipe, capacity=2, over=below, name="o", o=below.fields["x"])
    kernel(kernel(below.writer).acquire, 0)
    kernel(kernel(above.writer).acquire, 0)
    kernel(kernel(above.reader).release, 1)
    ops = expanded(kernel)
    made = [(op.attrs["pipe"], op.attrs["side"], op.result) for op in ops if op.name == "alloc_barriers"]
    assert [one[:2] for one in made] == [("q", "full"), ("q", "free"), ("o", "full")]
    assert [op.name for op in ops if op.name in ("barrier_wait", "barrier_arrive")] == ["barrier_wait", "barrier_arrive"]
    arrive = next(op for op in ops if op.name == "barrier_arrive")
    assert next(op for op in ops if arrive.barrier in op.results).barrier is made[1][2]
    with pytest.raises(ValueError, match="written over the chunks of another pipe"):
        kernel(kernel(above.writer).close, 1)
    with pytest.raises(ValueError, match="must have its capacity, 2, got 3"):
        kernel(tle.pipe, capacity=3, over=below, o=buffer(kernel, 3, 64))
    with pytest.raises(ValueError, match="one seat"):
        kernel(tle.pipe, capacity=2, over=below, readers=("a", "b"), o=below.fields["x"])
    with pytest.raises(ValueError, match="over must be a pipe"):
        kernel(tle.pipe, capacity=2, over=3, o=below.fields["x"])
    kernel(kernel(below.reader).release, 0)
    with pytest.raises(errors.ProtocolError, match="pipe 'q' is released by its own reader, though pipe 'o' is written over"):
        check_pipes(kernel.program(), target("sm_90a"))


def _over(kernel, **keywords):
    below = pipe(kernel, name="below")
    return kernel(tle.pipe, **{"capacity": 2, "over": below, "o": below.fields["x"], **keywords})


REFUSED = {
    "capacity": (lambda k: k(tle.pipe, capacity=0, x=buffer(k, 2, 64)), "write the number of slots"),
    "scope": (lambda k: pipe(k, scope="cluster"), "leave `scope` out"),
    "name": (lambda k: pipe(k, name=3), 'write `name="kv"`'),
    "one_shot": (lambda k: pipe(k, one_shot=1), "write `one_shot=True`"),
    "no field": (lambda k: k(tle.pipe, capacity=2), "among the arguments"),
    "no struct": (lambda k: k(tle.pipe, buffer(k, 2, 64), capacity=2), "declare a @tle.struct of buffers"),
    "no buffer": (lambda k: k(tle.pipe, capacity=2, x=3), "write `x=tle.gpu.alloc([2, ...], dtype)`"),
    "extent": (lambda k: k(tle.pipe, capacity=2, x=buffer(k, 4, 64)), "one slot a chunk"),
    "readers": (lambda k: pipe(k, readers=()), 'write `readers=("first", )`'),
    "legal name": (lambda k: pipe(k, readers=("_a", )), "take an identifier"),
    "unique": (lambda k: pipe(k, readers=("a", "a")), "name each reader once"),
    "over what": (lambda k: _over(k, over=3), "the value that tle.pipe returned"),
    "over a third": (lambda k: _over(k, over=_over(k), o=buffer(k, 2, 64)), "buffers of its own"),
    "over capacity": (lambda k: _over(k, capacity=3, o=buffer(k, 3, 64)), "write `capacity=2`"),
    "over readers": (lambda k: _over(k, readers=("a", "b")), "share a seat"),
    "another kernel": (lambda k: k(pipe(Kernel()).writer), "in the kernel that uses it"),
    "no readers": (lambda k: k(pipe(k).reader, "a"), "call `reader()`"),
    "other reader": (lambda k: k(pipe(k, readers=(("a", "b"), )).reader, "c"), "call `reader('a')`"),
    "other field": (lambda k: k(pipe(k).reader, None, ("z", )), "leave `fields` out"),
    "close of one": (lambda k: k(k(pipe(k, 2, one_shot=True).writer).close, 0), "leave the close out"),
    "close over": (lambda k: k(k(_over(k).writer).close, 0), "close the other pipe"),
    "iter": (lambda k: k(k(pipe(k).writer).acquire, 1.5), "the number of the chunk"),
    "iter from 0": (lambda k: k(k(pipe(k).writer).acquire, -1), "number the chunks 0, 1, 2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_each_refusal_has_its_line_and_its_mend(kernel, case):
    call, mend = REFUSED[case]
    with pytest.raises(ValueError) as caught:
        call(kernel)
    assert type(caught.value) is ValueError and caught.value.sites == (USER_LINE, )
    assert mend in caught.value.hint or mend in str(caught.value)
    assert ("\nMend: " in str(caught.value)) == bool(caught.value.hint)


def test_no_refusal_of_a_pipe_is_left_out():
    """Each `refuse` of the words of pipes is one of the cases, and there is no other way to refuse."""
    folder = Path(mimw.language.tle.__file__).parent
    sources = [(folder / f"{name}.py").read_text() for name in ("pipe", "pipe_record", "pipe_values")]
    assert sum(len(re.findall(r"\brefuse\(", source)) for source in sources) == len(REFUSED)
    assert not any(re.search(r"\braise \w|\bassert ", source) for source in sources)
