"""What goes wrong with a pipe is told in its words: slots, chunks, acquire, commit, wait, release; never in those of barriers."""

import json
import re
from html import unescape

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw import errors
from mimw.compiler.analysis import PipeSide
from mimw.report import chrome_trace, timeline_svg
from mimw.report.utilisation import bubbles, shares


@mimw.jit
def ring(x_desc, y_ptr, steps, WRITER: tl.constexpr, READER: tl.constexpr, READERS: tl.constexpr = 1):
    """A pipe with one mistake in its writer or in its readers."""
    if READERS == 1:
        p = tle.pipe(capacity=2, name="ring", x=tle.gpu.alloc([2, 16, 32], tl.float32))
        tle.gpu.warp_specialize([(take, (p.reader(), y_ptr, steps, READER)), (give, (p.writer(), x_desc, steps, WRITER))],
                                [1], [24])
    else:
        p = tle.pipe(capacity=2, name="ring", readers=("first", "second"), x=tle.gpu.alloc([2, 16, 32], tl.float32))
        tle.gpu.warp_specialize([(take, (p.reader("first"), y_ptr, steps, "")), (give, (p.writer(), x_desc, steps, WRITER)),
                                 (take, (p.reader("second"), y_ptr + 6 * 512, steps, READER))], [1, 4], [24, 24])


@triton.jit
def give(writer, x_desc, steps, MISTAKE: tl.constexpr):
    for k in range(steps):
        slot = writer.acquire(k)  # acquire
        tle.gpu.copy(x_desc, slot.x, [16, 32], [k * 16, 0])
        if MISTAKE != "no commit":
            writer.commit(k)  # commit
        if MISTAKE == "two commits":
            writer.commit(k)  # again
        if MISTAKE == "late store":
            tl.store(tle.gpu.local_ptr(slot.x), tl.zeros((16, 32), tl.float32))  # late


@triton.jit
def take(reader, y_ptr, steps, MISTAKE: tl.constexpr):
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    for k in range(steps + 1 if MISTAKE == "one more" else steps):
        slot = reader.wait(k).slot  # wait
        x = tl.load(tle.gpu.local_ptr(slot.x))
        if MISTAKE == "some releases":
            if k % 3 == 0:
                reader.release(k)
        elif MISTAKE != "no release":
            reader.release(k)  # release
        if MISTAKE == "late read":
            x += tl.load(tle.gpu.local_ptr(slot.x))  # late
        if MISTAKE == "two releases":
            reader.release(k)  # again
        tl.store(y_ptr + k * 512 + at, x)


@mimw.jit
def unfinished_read(x_desc, y_ptr, steps):
    """Both ends in one partition, and the wait before the commit."""
    p = tle.pipe(capacity=1, name="alone", x=tle.gpu.alloc([1, 16, 32], tl.float32))
    at = tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :]
    writer, reader = p.writer(), p.reader()
    for k in range(steps):
        slot = reader.wait(k).slot  # wait
        tl.store(y_ptr + at, tl.load(tle.gpu.local_ptr(slot.x)))
        reader.release(k)
        filled = writer.acquire(k)
        tle.gpu.copy(x_desc, filled.x, [16, 32], [k * 16, 0])
        writer.commit(k)  # commit


def arguments():
    x = mimw.TensorDescriptor.from_tensor(np.arange(192 * 32, dtype=np.float32).reshape(192, 32), [16, 32])
    return x, np.zeros((2 * 192, 32), np.float32)


def found(kernel, **meta) -> list:
    return list(mimw.check(kernel, (1, ), *arguments(), 6, **meta, seeds=3).findings)


BARRIERS = re.compile(r"barrier|arriv|parity|expect|phase", re.IGNORECASE)

MISTAKES = [
    # writer, reader, readers, kind, what the message says, what the mend says, lines
    ("no commit", "", 1, "TooFewArrivals", "no writer commits a chunk to pipe 'ring'", "call commit(k) behind acquire(k)",
     ("wait", )),
    ("two commits", "", 1, "TooManyArrivals", "commits slot 0 of pipe 'ring' again, for chunk 0: a chunk is committed there and "
     "not complete yet", "commit each chunk once", ("again", )),
    ("late store", "", 1, "CopyReadEarly", "comes after the start of the TMA load", "between acquire and commit", ("late", )),
    ("", "one more", 1, "TooFewArrivals", "it could have come from the commit at", "", ("wait", )),
    ("", "no release", 1, "TooFewArrivals", "no reader of pipe 'ring' releases its 2 slots", "call release(k)",
     ("acquire", )),
    ("", "no release", 2, "TooFewArrivals", "only 1 of the 2 readers of pipe 'ring' release its", "call release(k)",
     ("acquire", )),
    ("", "some releases", 1, "WaitCycle", "pipe 'ring', chunk 3: the writer waits for the release of slot 1 by the reader; it has "
     "been released 0 times", "", ("wait", "acquire")),
    ("", "some releases", 1, "WaitCycle", "in task 'take', which is blocked at", "", ("wait", )),
    ("", "some releases", 1, "WaitCycle", "; the last there: pipe 'ring', chunk 1: the writer commits slot 1\n", "", ("acquire", )),
    ("", "some releases", 1, "WaitCycle", "; none there yet\n", "", ("acquire", )),
    ("", "some releases", 2, "TooFewArrivals", "; the last there: pipe 'ring', chunk 1: reader 'first' releases slot 1\n", "",
     ("acquire", )),
    ("", "some releases", 2, "TooFewArrivals", "; none there yet\n", "", ("acquire", )),
    ("", "some releases", 2, "TooFewArrivals", "it has been released 0 times, and since then released by 1 of its 2 readers", "",
     ("acquire", )),
    ("", "late read", 1, "SlotReusedEarly",
     "acquire of the second task waits for pipe 'ring', but not for a release of the first task after", "the release at",
     ("late", "release")),
    ("", "late read", 1, "SlotReusedEarly", "(generic proxy), behind pipe 'ring', chunk 0: the reader releases slot 0", "",
     ("late", )),
    ("", "late read", 1, "SlotReusedEarly", "in flight after the op), of pipe 'ring', chunk 2\n", "", ("late", )),
    ("late store", "", 1, "CopyReadEarly", "(generic proxy), behind pipe 'ring', chunk 0: the writer commits slot 0", "",
     ("late", )),
    ("late store", "", 1, "CopyReadEarly", "in flight after the op), of pipe 'ring', chunk 0\n", "", ("late", )),
    ("", "two releases", 1, "PhaseMissed", "the release of slot 0 of pipe 'ring' may come before the acquire",
     "call release once a chunk", ("again", )),
    ("", "two releases", 1, "PhaseMissed", "(pipe 'ring', chunk 0: the reader releases slot 0; pipe 'ring', chunk 2: the writer "
     "acquires slot 0)", "", ("again", )),
]


@pytest.mark.parametrize("writer, reader, readers, kind, text, mend, lines", MISTAKES)
def test_what_is_said(writer, reader, readers, kind, text, mend, lines):
    findings = found(ring, WRITER=writer, READER=reader, READERS=readers)
    one = next((finding for finding in findings if finding.kind == kind), None)
    assert one is not None, [finding.kind for finding in findings]
    assert text in one.message + "\n" and mend in one.hint and (one.hint or not mend)
    assert all(f"# {line}" in str(one) for line in lines), str(one)
    for finding in findings:
        told = re.sub(r"/\S+", "", f"{finding.message}\n{finding.hint}")
        assert not BARRIERS.search(told), told


@pytest.mark.parametrize("readers", [1, 2])
def test_a_pipe_without_a_mistake(readers):
    x, y = arguments()
    assert mimw.check(ring, (1, ), x, y, 6, WRITER="", READER="", READERS=readers, seeds=3).ok
    mimw.simulate(ring, (1, ), x, y, 6, WRITER="", READER="", READERS=readers)
    assert (y.reshape(-1)[:readers * 6 * 512].reshape(readers, -1) == np.arange(6 * 512)).all()


def test_what_the_compiler_knows():
    text = "the wait of .* on pipe 'alone' never returns: the commit that lets it pass"
    with pytest.raises(errors.WaitCycle, match=text) as caught:
        mimw.simulate(unfinished_read, (1, ), *arguments(), 6)
    assert "call the commit first" in caught.value.hint and not BARRIERS.search(re.sub(r"/\S+", "", caught.value.message))


def test_barriers_of_the_authors_own_keep_their_words():
    from mimw.compiler.analysis import pipe_sides
    from mimw.runtime.simulate import prepare
    from tests.kernels.pipes import ring as other
    program = prepare(other, (1, ), (arguments()[0], arguments()[1], 6), dict(N=16, M=32, CAPACITY=2)).program
    sides = {side.side: side for side in pipe_sides(program).values()}
    assert set(sides) == {"full", "free"} and sides["free"].slot(1) == "slot 1 of pipe 'ring'"
    told = {(op.name, op.attrs.get("method")) for op in program.walk() if op.row.barrier}
    assert told == {("barrier_expect", "commit"), ("barrier_wait", "acquire"), ("barrier_wait", "wait"),
                    ("barrier_arrive", "release"), ("tma_load", None)}
    assert {sides["full"].verb(op) for op in program.walk() if op.name == "tma_load"} == {"copy"}


@mimw.jit
def shared_by_two(x_desc, y_ptr, steps):
    """The second reader gives no slot of an odd chunk back."""
    kv = tle.pipe(capacity=2, readers=("first", "second"), x=tle.gpu.alloc([2, 16, 32], tl.float32))
    tle.gpu.warp_specialize([(take, (kv.reader("first"), y_ptr, steps, "")), (give, (kv.writer(), x_desc, steps, "")),
                             (take, (kv.reader("second"), y_ptr + 6 * 512, steps, "some releases"))], [1, 4], [24, 24])


def test_a_deadlock_names_pipe_chunk_and_reader():
    with pytest.raises(errors.Deadlock) as caught:
        mimw.simulate(shared_by_two, (1, ), *arguments(), 6)
    told = str(caught.value)
    assert "pipe 'kv', chunk 3: the writer waits for the release of slot 1 by readers 'first' and 'second'; it has been released " \
        "0 times, and since then released by 1 of its 2 readers" in told
    assert "pipe 'kv', chunk 3: reader 'second' waits for the writer's commit to slot 1; 1 chunk has been committed there" in told
    assert len(re.findall(r"  task 'take\S*' of CTA \(0, 0, 0\) waits at ", told)) == 2, told
    assert not BARRIERS.search(re.sub(r"/\S+", "", caught.value.message))


def test_a_timeline_names_pipe_chunk_and_reader():
    x, y = arguments()
    trace = mimw.simulate(ring, (1, ), x, y, 6, WRITER="", READER="", READERS=2, trace=True).trace
    waits = {event.label for event in trace.events if event.kind == "wait"}
    text = r"pipe 'ring', chunk \d: reader 'first' waits for the writer's commit to slot \d"
    assert any(re.fullmatch(text, label) for label in waits), waits
    text = "pipe 'ring', chunk 4: the writer waits for the release of slot 0 by readers 'first' and 'second'"
    assert text in waits, waits


def test_a_timeline_has_each_commit_and_release_once():
    x, y = arguments()
    trace = mimw.simulate(ring, (1, ), x, y, 6, WRITER="", READER="", READERS=2, trace=True).trace
    calls = [event for event in trace.events if event.kind == "pipe"]
    assert all(event.start == event.end and event.site is not None for event in calls)
    assert sorted(event.label for event in calls) == sorted(
        f"pipe 'ring', chunk {chunk}: {who} slot {chunk % 2}" for chunk in range(6)
        for who in ("the writer commits", "reader 'first' releases", "reader 'second' releases"))
    first = {event.lane for event in calls if "'first'" in event.label}
    second = {event.lane for event in calls if "'second'" in event.label}
    assert len(first) == len(second) == 1 and first != second       # two partitions that run one function are told apart

    drawn = timeline_svg(trace, "ring")
    assert "commit or release of a pipe" in drawn and "pipe 'ring', chunk 5: reader 'second' releases slot 1" in unescape(drawn)
    moments = [event for event in json.loads(chrome_trace(trace, "ring"))["traceEvents"] if event["ph"] == "i"]
    assert len(moments) == 18 and all("dur" not in event and event["s"] == "t" for event in moments)
    (lane, ) = {(event.cta, event.lane) for event in calls if event.label.endswith("commits slot 0")}
    assert shares(trace, lane).keys() == {"run", "wait"}
    (waited, ) = bubbles(trace, lane)
    assert waited.what == "pipe 'ring': the writer waits for the release of a slot by readers 'first' and 'second'"
    assert waited.times == 4


def test_where_a_launch_may_wait():
    from mimw.runtime.simulate import prepare
    from mimw.runtime.watchdog.report import lines_that_wait
    x, y = arguments()
    told = lines_that_wait(prepare(ring, (1, ), (x, y, 6), dict(WRITER="", READER="", READERS=1)).program)
    assert "acquire on pipe 'ring', in task 'give'" in told and "wait on pipe 'ring', in task 'take'" in told
    assert "barrier_wait" not in told


def test_what_a_watchdog_says_of_a_chunk():
    """Slot and parity are all that a stamp has: with them the chunk is known up to two rounds of the slots."""
    from mimw.runtime.watchdog.report import places
    from tests.watchdog.fabricated import Table, stamped
    table = Table(stamped((ring, (1, ), (*arguments(), 6), dict(WRITER="", READER="", READERS=1))), 1)
    rows = {(alloc.attrs["side"], index): row for row, (alloc, index) in enumerate(table.rows)}
    wait, acquire = table.number("take", "waits"), table.number("give", "waits")
    table.put(0, range(4), wait, row=rows["full", 1], parity=1)
    table.put(0, range(4, 5), acquire, row=rows["free", 0], parity=0)
    table.words(0, *[None] * len(rows))
    told = places(table.program, (1, 1, 1), table.bytes)
    assert f"waits at {table.stamps[wait].site} for pipe 'ring', chunk 3 (or 7, 11, ...): the reader waits for the writer's " \
        "commit to slot 1" in told
    assert f"waits at {table.stamps[acquire].site} for pipe 'ring', chunk 2 (or 6, 10, ...): the writer waits for the release of " \
        "slot 0 by the reader" in told
    assert "the last there" not in told and "none there yet" not in told


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_slot_and_parity_tell_the_chunk_up_to_two_rounds(capacity):
    """As `expand_pipes` makes them of the number of a chunk."""
    for chunk in range(6 * capacity):
        slot, parity = chunk % capacity, chunk // capacity % 2
        for side, waited in (("full", parity), ("free", 1 - parity)):
            told = list(map(int, re.findall(r"\d+", PipeSide("pipe 'p'", side, 1).chunks(slot, waited, capacity))))
            assert told[0] == chunk % (2 * capacity) and told[1] - told[0] == told[2] - told[1] == 2 * capacity
