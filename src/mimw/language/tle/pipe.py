"""`tle.pipe`: a typed edge from a producer to its consumers within one CTA, with the barriers that keep it.

Per stage one mbarrier says that a chunk is there and one that all readers are done with it; they are recorded as the same ops
as TLX's, so every check, report and simulator that knows barriers knows pipes.
"""

from __future__ import annotations

from typing import Any

import triton.language.core as tl

from ...ir import I32, Buffer
from ..core import word
from ..tlx import types as tlx
from ..tlx.arguments import is_int
from .gpu.types import buffered_tensor
from .pipe_reads import check_reads_over
from .pipe_record import PipeRecord, place_of
from .pipe_values import Described, pipe_slot, pipe_wait_result
from .pipe_window import Window, close_window, open_window


@word
def pipe(*, capacity: tl.constexpr, scope: tl.constexpr = "cta", name: tl.constexpr = None, readers: tl.constexpr = None,
         one_shot: tl.constexpr = False, _semantic=None, **fields):
    """Name the buffers that carry one chunk from a producer to its consumers, and make the barriers between them.

    args:      capacity - chunks that fit, int >= 1
               scope    - "cta"
               name     - (opt) for messages and reports
               readers  - (opt) names of the consumers, each of which reads every chunk; without, there is one without a name
               one_shot - one chunk only: `acquire` and `release` do nothing
               fields   - name=buffer, at least one: arrays in shared memory of rank 2 or more whose first extent is `capacity`
    returns:   pipe_value
    errors:    ValueError
    lowers to: ttng.init_barrier
    """
    _check(capacity, scope, name, readers, one_shot, fields)
    builder = _semantic.builder
    builder.pipes += 1
    readers = None if readers is None else tuple(readers)
    record = PipeRecord(builder.pipes, name, capacity, readers, one_shot, builder)
    parts: dict[str, Any] = {"_full": _barriers(capacity, 1, "full", builder)}
    if not one_shot:
        parts["_free"] = _barriers(capacity, len(readers or (None, )), "free", builder)
        parts["_closed"] = _markers(record, builder)
        builder.finishers.append(record.finish)
    value = pipe_value(record, parts | fields)
    if name:
        value._set_name(builder, name)
    return value


def _check(capacity, scope, name, readers, one_shot, fields: dict) -> None:
    if not is_int(capacity) or capacity < 1:
        raise ValueError(f"tle.pipe: capacity must be a compile-time int >= 1, got {capacity!r}")
    if scope != "cta":
        raise ValueError(f'tle.pipe: scope must be "cta", got {scope!r}')
    if name is not None and not isinstance(name, str):
        raise ValueError(f"tle.pipe: name must be None or a str, got {name!r}")
    if not isinstance(one_shot, bool):
        raise ValueError(f"tle.pipe: one_shot must be a compile-time bool, got {one_shot!r}")
    if readers is not None:
        _check_names("tle.pipe", "reader", readers)
    if not fields:
        raise ValueError("tle.pipe: at least one field is needed, `name=buffer`")
    _check_names("tle.pipe", "field", tuple(fields))
    for field, buffer in fields.items():
        if not isinstance(buffer, buffered_tensor) or buffer.type.storage is not tlx.storage_kind.smem:
            raise ValueError(f"tle.pipe: field {field!r} must be a buffer of tle.gpu.alloc in shared memory, got {buffer}")
        if len(buffer.shape) < 2 or buffer.shape[0] != capacity:
            raise ValueError(f"tle.pipe: field {field!r} must have rank 2 or more and a first extent of {capacity}, the "
                             f"capacity; its shape is {list(buffer.shape)}")


def _check_names(word_name: str, what: str, names: Any) -> None:
    if not isinstance(names, (list, tuple)) or not names:
        raise ValueError(f"{word_name}: {what}s must be a non-empty tuple or list of names, got {names!r}")
    for one in names:
        if not isinstance(one, str) or not one.isidentifier() or one.startswith("_") or one in ("fields", "readers"):
            raise ValueError(f"{word_name}: {one!r} is no legal {what} name; take an identifier that does not start with `_` "
                             "and is not `fields` or `readers`")
    if len(set(names)) != len(names):
        raise ValueError(f"{word_name}: {what} names must be unique, got {list(names)}")


def _barriers(count: int, arrivals: int, side: str, builder) -> tlx.mbarrier:
    """`side`: what the barriers say of a slot, "full" or "free"; reports then speak of the pipe (`analysis.pipe_words`)."""
    handle = builder.record("alloc_barriers", count, arrivals, pipe=side).results[0]
    return tlx.mbarrier_type(count, None, tlx.storage_kind.smem).value(handle)


def _markers(record: PipeRecord, builder) -> tlx.buffered_tensor:
    """One number a stage: 1 for an end marker."""
    record.false = builder.get_int1(False)
    op = builder.record("local_alloc", Buffer(I32, (1, ), record.capacity), None, layout=None)
    record.closing.append(op)
    return tlx.buffered_tensor_type(tl.int32, (1, ), record.capacity, tlx.storage_kind.smem).value(op.results[0])


class pipe_value(Described):
    """A pipe. `capacity`, `scope`, `name`, `fields`, `readers`, `one_shot` are what it was made with."""

    @property
    def readers(self) -> tuple[str, ...] | None:
        """The declared readers, or None for a single one without a name."""
        return self._record.readers

    @property
    def one_shot(self) -> bool:
        """True if the pipe carries one chunk."""
        return self._record.one_shot

    @word
    def writer(self, _semantic=None) -> pipe_writer:
        """The producer's end; there is one, however often it is asked for."""
        self._record.check_kernel(_semantic)
        return pipe_writer(self._record, self._parts)

    @word
    def reader(self, name: tl.constexpr = None, fields: tl.constexpr = None, _semantic=None) -> pipe_reader:
        """A consumer's end.

        args:      name   - which of the declared `readers`; none if none are declared
                   fields - (opt) names of the fields that it shows; all by default
        errors:    ValueError
        """
        record = self._record
        record.check_kernel(_semantic)
        if record.readers is None and name is not None:
            raise ValueError(f"{record.label} declares no readers, so its reader has no name; got {name!r}")
        if record.readers is not None and name not in record.readers:
            raise ValueError(f"{record.label} has the readers {list(record.readers)}; got {name!r}")
        parts = self._parts
        if fields is not None:
            _check_names("pipe.reader", "field", fields)
            unknown = [field for field in fields if field not in self._fields]
            if unknown:
                raise ValueError(f"{record.label} has the fields {list(self._fields)}; got {unknown}")
            parts = {part: value for part, value in parts.items() if part.startswith("_") or part in fields}
        return pipe_reader(record, parts, (name, ))


class _Endpoint(Described):

    def _slot(self, stage, semantic) -> pipe_slot:
        return pipe_slot(self._record, {name: buffer.slot(stage, _semantic=semantic) for name, buffer in self._fields.items()})

    def _barrier(self, which: str, stage, semantic):
        return tlx.mbarrier.__getitem__(self._parts[which], stage, _semantic=semantic).handle

    def _wait(self, barrier, phase, semantic) -> None:
        phase = semantic.builder.get_int32(phase) if is_int(phase) else phase.handle
        semantic.builder.record("barrier_wait", barrier, phase, None)

    def _marker(self, stage, semantic):
        """The stage's end marker; an op that goes again if nobody closes."""
        builder, markers = semantic.builder, self._parts["_closed"]
        index = builder.get_int32(stage) if is_int(stage) else stage.handle
        op = builder.record("buffer_index", markers.handle, index)
        self._record.closing.append(op)
        return op.results[0]

    def _mark(self, stage, value: int, semantic) -> None:
        builder, tile = semantic.builder, tl.block_type(tl.int32, [1])
        number = builder.record("splat", tile.to_ir(builder), builder.get_int32(value)).results[0]
        self._record.closing.append(builder.record("local_store", self._marker(stage, semantic), number))


class pipe_writer(_Endpoint):
    """The producer's end of a pipe. Every thread of the partition makes each call, for chunks 0, 1, 2, .."""

    @word
    def acquire(self, iter, _semantic=None, _generator=None) -> pipe_slot:
        """Wait until every reader has released what was in the stage of chunk `iter` before, and take its buffers.

        args:      iter - number of the chunk, an int or an integer scalar
        lowers to: ttng.wait_barrier
        """
        stage = self._take(iter, _semantic, _generator)
        if not self._record.one_shot:
            self._mark(stage, 0, _semantic)
        slot = self._slot(stage, _semantic)
        open_window(Window(self._record, self._barrier("_full", stage, _semantic), slot._fields, _semantic.builder))
        return slot

    @word
    def commit(self, iter, _semantic=None, _generator=None) -> None:
        """Publish chunk `iter`: what this partition has written, and what copies into the slot still bring.

        orders:    all of it -> what a reader does after its wait for the chunk
        lowers to: ttng.barrier_expect before TMA copies; ttg.async_wait, ttng.fence_async_shared, ttng.arrive_barrier
        """
        self._record.check_kernel(_semantic)
        self._record.taken_by("the writer", _generator)
        stage, _ = place_of(self._record, iter, _semantic)
        full = self._barrier("_full", stage, _semantic)
        window = close_window(self._record, full, _semantic.builder)
        if _semantic.builder.get_insertion_block() is not window.block:
            window.full = full  # the other barrier's view need not be visible here
        window.publish()

    @word
    def close(self, iter, _semantic=None, _generator=None) -> None:
        """Publish an end marker as chunk `iter`; waits for the stage as `acquire` does.

        errors:    ValueError on a one-shot pipe
        lowers to: ttng.wait_barrier, ttng.arrive_barrier
        """
        if self._record.one_shot:
            raise ValueError(f"{self._record.label} carries one chunk (one_shot), so it is never closed")
        stage = self._take(iter, _semantic, _generator)
        self._record.closes = True
        self._mark(stage, 1, _semantic)
        _semantic.builder.record("barrier_arrive", self._barrier("_full", stage, _semantic), 1, None)

    def _take(self, iter, semantic, generator):
        """The stage of chunk `iter`, free."""
        self._record.check_kernel(semantic)
        self._record.taken_by("the writer", generator)
        stage, phase = place_of(self._record, iter, semantic)
        if not self._record.one_shot:
            opposite = 1 - phase if is_int(phase) else semantic.xor_(phase, 1)
            self._wait(self._barrier("_free", stage, semantic), opposite, semantic)
        return stage


class pipe_reader(_Endpoint):
    """A consumer's end of a pipe. Every thread of the partition makes each call."""

    @property
    def _role(self) -> str:
        return f"reader {self._detail[0]!r}" if self._detail[0] else "the reader"

    @word
    def wait(self, iter, _semantic=None, _generator=None) -> pipe_wait_result:
        """Wait until chunk `iter` is committed or closed; may be repeated before its release.

        returns:   pipe_wait_result: `slot` and `is_closed`
        lowers to: ttng.wait_barrier
        """
        record = self._record
        record.check_kernel(_semantic)
        record.taken_by(self._role, _generator)
        stage, phase = place_of(record, iter, _semantic)
        self._wait(self._barrier("_full", stage, _semantic), phase, _semantic)
        return pipe_wait_result(record, {"_slot": self._slot(stage, _semantic), "_is_closed": self._is_closed(stage, _semantic)})

    def _is_closed(self, stage, semantic) -> tl.tensor:
        builder, record = semantic.builder, self._record
        if record.one_shot:
            return tl.tensor(builder.get_int1(False), tl.int1)
        load = builder.record("local_load", self._marker(stage, semantic), None, layout=None)
        number = builder.record("unsplat", load.results[0])
        closed = builder.record("icmpNE", number.results[0], builder.get_int32(0))
        record.closing += [load, number, closed]
        record.never_closed.append(closed.results[0])
        return tl.tensor(closed.results[0], tl.int1)

    @word
    def release(self, iter, _semantic=None, _generator=None) -> None:
        """Give the stage of chunk `iter` back: this reader's reads of it are over.

        orders:    this partition's reads and writes before -> what the writer does after it has acquired the stage again
        errors:    ValueError if an `async_dot` that reads the slot is still under way
        lowers to: ttng.arrive_barrier
        """
        record = self._record
        record.check_kernel(_semantic)
        record.taken_by(self._role, _generator)
        stage, _ = place_of(record, iter, _semantic)
        if record.one_shot:
            return
        check_reads_over(record, [buffer.handle for buffer in self._fields.values()], stage, _semantic.builder)
        _semantic.builder.record("barrier_arrive", self._barrier("_free", stage, _semantic), 1, None)


__all__ = ["pipe", "pipe_reader", "pipe_slot", "pipe_value", "pipe_wait_result", "pipe_writer"]
