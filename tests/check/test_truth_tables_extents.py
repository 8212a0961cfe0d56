"""Truth tables of tiles with odd extents, which assembly of ours copies and multiplies: who wrote them, who reads them, who
overwrites them then.

Triton puts no fence and no barrier between its own ops and what assembly reads or writes. Those between proxies, and from task to
task, are passes over the IR: taken out, the simulator finds them missing. Those of a task that does all of it by itself are made
with the instruction: the order of the PTX is held, and it is another one without them.
"""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.lowering.hopper import any_columns
from tests.compiling import to_assembly

from .tables import SWITCHES, states, unfenced

describe = mimw.TensorDescriptor.from_tensor


@mimw.jit
def write(x_ptr, x_desc, tile, full, step: tl.constexpr, WRITER: tl.constexpr):
    if WRITER == "tma":
        tlx.barrier_expect_bytes(full, 48 * 64 * 2)
        tlx.async_descriptor_load(x_desc, tile, [48 * step, 0], full)
    else:
        tlx.local_store(tile, tl.load(x_ptr + tl.arange(0, 48)[:, None] * 64 + tl.arange(0, 64)[None, :]))


@mimw.jit
def read(a, tile, y_desc, c_ptr, step: tl.constexpr, READER: tl.constexpr, WAITS: tl.constexpr):
    if READER == "product":
        sums = tlx.async_dot(a, tlx.local_trans(tile))
        if WAITS:
            sums = tlx.async_dot_wait(0, sums)
        tl.store(c_ptr + tl.arange(0, 64), tl.sum(sums, 1))
    elif READER == "copy":
        tlx.async_descriptor_store(y_desc, tile, [48 * step, 0])
        if WAITS:
            tlx.async_descriptor_store_wait(0)
    else:
        tl.store(c_ptr + tl.arange(0, 48), tl.sum(tlx.local_load(tile), 1))


@mimw.jit
def twice(x_ptr, x_desc, a_desc, y_desc, c_ptr, WRITER: tl.constexpr, READER: tl.constexpr, OTHER: tl.constexpr,
          WAITS: tl.constexpr):
    """A tile of 48 rows is written and read, and so again: by one task, or by two."""
    tile, a = tlx.local_alloc((48, 64), tl.float16, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    full, free, there = tlx.alloc_barriers(1), tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):  # writer, and the reader
            if not OTHER:
                tlx.barrier_expect_bytes(there[0], 64 * 64 * 2)
                tlx.async_descriptor_load(a_desc, a[0], [0, 0], there[0])
                tlx.barrier_wait(there[0], 0)
            for step in tl.static_range(2):
                if OTHER:
                    tlx.barrier_wait(free[0], step ^ 1)
                write(x_ptr, x_desc, tile[0], full[0], step, WRITER)
                if OTHER and WRITER != "tma":
                    tlx.barrier_arrive(full[0])
                if not OTHER:
                    if WRITER == "tma":
                        tlx.barrier_wait(full[0], step)
                    read(a[0], tile[0], y_desc, c_ptr, step, READER, WAITS)
        with tlx.async_task(num_warps=4):  # reader
            if OTHER:
                tlx.barrier_expect_bytes(there[0], 64 * 64 * 2)
                tlx.async_descriptor_load(a_desc, a[0], [0, 0], there[0])
                tlx.barrier_wait(there[0], 0)
                for step in tl.static_range(2):
                    tlx.barrier_wait(full[0], step)
                    read(a[0], tile[0], y_desc, c_ptr, step, READER, WAITS)
                    tlx.barrier_arrive(free[0])


@states("tma_load", "async_dot", "async_dot_wait", "barrier_arrive", "barrier_wait")
def used(writer="tma", reader="product", other=True, waits=True):
    x, a, y, c = (np.ones(shape, np.float16) for shape in ((96, 64), (64, 64), (96, 64), (64, )))
    args = x, describe(x, [48, 64]), describe(a, [64, 64]), describe(y, [48, 64]), c.astype(np.float32)
    return twice, (1, ), args, dict(WRITER=writer, READER=reader, OTHER=other, WAITS=waits)


PAIRS = [(writer, reader) for writer in ("threads", "tma") for reader in ("product", "copy", "threads")]
each_pair = pytest.mark.parametrize("writer, reader", PAIRS)


@each_pair
@pytest.mark.parametrize("other", SWITCHES)
def test_a_tile_that_is_written_and_read_twice(writer, reader, other):
    """Right as compiled. Without the fence before the reader, or before the next copy, it is missing where one is needed."""
    launch = used(writer, reader, other)
    kernel, grid, args, meta = launch
    assert mimw.check(kernel, grid, *args, seeds=2, **meta).ok
    delivered = writer == "threads" and (reader == "copy" or reader == "product" and other)
    handed_over = writer == "tma" and reader == "threads"
    for scope, needed in (("delivery", delivered), ("handover", handed_over)):
        kinds = {finding.kind for finding in unfenced(launch, scope).findings}
        assert kinds == ({"MissingFence"} if needed else set()), scope


@pytest.mark.parametrize("writer", ["threads", "tma"])
@pytest.mark.parametrize("other", SWITCHES)
@pytest.mark.parametrize("reader, kind", [("product", "OperandOverwritten"), ("copy", "SourceOverwritten")])
def test_what_is_read_later_is_waited_for(writer, other, reader, kind):
    """Without the wait the tile is overwritten under its reader. (The sums are used without it, too: that is found first.)"""
    kernel, grid, args, meta = used(writer, reader, other, waits=False)
    kinds = {finding.kind for finding in mimw.check(kernel, grid, *args, seeds=2, **meta).findings}
    assert kinds & {kind, "AsyncDotReadEarly", "SlotReusedEarly"}


# Of accesses by threads those of the tile, fp16; sums go from warp to warp in 32 bits.
WORDS = {"st": r"st\.shared\.b16", "ld": r"ld\.shared\.b16|ldmatrix", "load": r"cp\.async\.bulk\.tensor\S+shared::cluster\.global",
         "send": r"cp\.async\.bulk\.tensor\S+global\.shared", "mma": r"wgmma\.mma", "fence": r"fence\.proxy\.async",
         "meet": r"bar(rier)?\.sync", "over": r"wgmma\.wait_group", "sent": r"cp\.async\.bulk\.wait_group"}
WRITES, READS = {"threads": "st", "tma": "load"}, {"product": "mma", "copy": "send", "threads": "ld"}
# What stands between the write and the read, and between the read and the next write, of one task.
TO_READ = {("threads", "product"): ["fence", "meet"], ("threads", "copy"): ["fence", "meet"], ("threads", "threads"): ["meet"]}
TO_WRITE = {("product", "threads"): ["over", "meet"], ("product", "tma"): ["over", "meet"], ("copy", "threads"): ["sent", "meet"],
            ("copy", "tma"): ["sent", "meet"], ("threads", "threads"): ["meet"], ("threads", "tma"): ["fence", "meet"]}


def assembly(writer, reader) -> str:
    names = dict(x_ptr="*fp16", x_desc="tensordesc<fp16[48, 64]>", a_desc="tensordesc<fp16[64, 64]>",
                 y_desc="tensordesc<fp16[48, 64]>", c_ptr="*fp32")
    return to_assembly(twice, names, used(writer, reader, other=False)[3]).stage("ptx")


def steps(ptx: str) -> list[str]:
    """What the PTX does with shared memory, in order, without what repeats."""
    found = [one.lastgroup for one in re.finditer("|".join(f"(?P<{name}>{word})" for name, word in WORDS.items()), ptx)]
    return [one for at, one in enumerate(found) if not at or one != found[at - 1]]


def between(done: list[str], first: str, second: str) -> list[str]:
    """The steps from the first `first` to the `second` that follows it."""
    begin = done.index(first)
    return done[begin + 1:done.index(second, begin)]


def is_ordered(done: list[str], writer: str, reader: str) -> bool:
    """True if what has to stand between a write and its read, and between that and the next write, is there, in this order."""
    def holds(first, second, wanted):
        rest = iter(between(done, first, second))
        return all(any(step == one for one in rest) for step in wanted)

    write, read = WRITES[writer], READS[reader]
    return holds(write, read, TO_READ.get((writer, reader), [])) and holds(read, write, TO_WRITE[reader, writer])


@pytest.mark.long(but=["tma-*", "threads-copy"], everywhere=True)
@each_pair
def test_the_order_in_one_task(writer, reader):
    done = steps(assembly(writer, reader))
    assert is_ordered(done, writer, reader), done


def test_the_order_is_another_one_without_what_the_instruction_brings(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(any_columns, "sync", lambda emitter: None)
    done = steps(assembly("threads", "product"))
    assert not is_ordered(done, "threads", "product"), done
