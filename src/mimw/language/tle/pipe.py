"""`tle.pipe`: a typed edge from a producer to its consumers within one CTA.

Input: the calls of `tle.pipe` and of its ends. Output: one op of the IR for each (`ir/ops/pipes.py`). For example:

    slot = writer.acquire(k)        %slot.x = pipe_acquire %p, chunk=%k
    writer.commit(k)                pipe_commit %p, chunk=%k

What barriers, waits and copies a pipe is made of, the pass `expand_pipes` says.
"""

from __future__ import annotations

from typing import Any

import triton.language.core as tl

from ..core import word
from ..refuse import refuse
from ..tlx import types as tlx
from ..tlx.arguments import is_int, predicate_handle
from .gpu.types import buffered_tensor
from .pipe_record import PipeHandleType, PipeRecord, chunk_of
from .pipe_values import Described, pipe_slot, pipe_wait_result
from .struct import field_values, fields_of
from .struct_fields import is_known


@word
def pipe(buffers=None, /, *, capacity: tl.constexpr, scope: tl.constexpr = "cta", name: tl.constexpr = None,
         readers: tl.constexpr = None, one_shot: tl.constexpr = False, over=None, _semantic=None, **fields):
    """Name the buffers that carry one chunk from a producer to its consumers, and make the barriers between them.

    args:      buffers  - (opt) a struct of buffers, whose fields are the pipe's; slots are then such structs, of one stage each.
                          What it holds besides, constants, each slot has
               capacity - chunks that fit, int >= 1
               scope    - "cta"
               name     - (opt) for messages and reports
               readers  - (opt) names of the consumers, each of which reads every chunk; without, there is one without a name.
                          A tuple of names shares a seat: each chunk is read by one of them
               over     - (opt) another pipe, over whose chunks those of this one are written: `acquire(i)` waits for nothing and is
                          called behind the wait for chunk i of the other, whose slot `release(i)` of this one frees
               one_shot - one chunk only: `acquire` and `release` do nothing
               fields   - name=buffer, at least one: arrays in shared memory of rank 2 or more whose first extent is `capacity`
    returns:   pipe_value
    errors:    ValueError, with what to write instead
    lowers to: ttng.init_barrier
    example:   tiles = tle.pipe(capacity=2, k=tle.gpu.alloc([2, 64, 64], tl.float16))
    """
    if buffers is not None:
        fields = _of_struct(buffers, fields)
    _check(capacity, scope, name, readers, one_shot, fields)
    _check_over(over, capacity, readers, one_shot)
    builder = _semantic.builder
    readers, names = None if readers is None else tuple(readers), tuple(fields)
    attrs = {"readers": readers} if readers else {}
    attrs |= {"one_shot": True} if one_shot else {}
    handles = tuple(buffer.handle for buffer in fields.values())
    below = () if over is None else (over._parts["_"].handle, )
    handle = builder.record("pipe_make", handles, capacity, *below, names=names, **attrs).results[0]
    record = PipeRecord(name, capacity, names, readers, one_shot, builder, handle, builder.site, over is not None, buffers)
    value = pipe_value(record, {"_": PipeHandleType(record).value(handle), **fields})
    if name:
        value._set_name(builder, name)
    return value


def _of_struct(buffers: Any, fields: dict) -> dict[str, Any]:
    """The buffers of a struct by the names of its fields."""
    if fields_of(buffers) is None or fields:
        refuse(ValueError, "tle.pipe: its buffers are given by name, or all of them as one struct; got "
                           f"{buffers}{' and ' if fields else ''}{', '.join(fields)}",
               mend="write `name=buffer` for each, or declare a @tle.struct of buffers and give one value of it")
    return {name: value for name, value in field_values(buffers).items() if not is_known(value)}


def _check(capacity, scope, name, readers, one_shot, fields: dict) -> None:
    if not is_int(capacity) or capacity < 1:
        refuse(ValueError, f"tle.pipe: capacity must be a compile-time int >= 1, got {capacity!r}",
               mend="write the number of slots, `capacity=2`, or a tl.constexpr")
    if scope != "cta":
        refuse(ValueError, f'tle.pipe: scope must be "cta", got {scope!r}',
               mend="leave `scope` out; copy data to other CTAs by tle.remote, or by TLX's multicast loads")
    if name is not None and not isinstance(name, str):
        refuse(ValueError, f"tle.pipe: name must be None or a str, got {name!r}", mend='write `name="kv"`, or leave it out')
    if not isinstance(one_shot, bool):
        refuse(ValueError, f"tle.pipe: one_shot must be a compile-time bool, got {one_shot!r}",
               mend="write `one_shot=True`, or leave it out")
    if readers is not None:
        _check_names("tle.pipe", "reader", seated(readers))
    if not fields:
        refuse(ValueError, "tle.pipe: at least one field is needed, `name=buffer`",
               mend=f"write `x=tle.gpu.alloc([{capacity}, 64], tl.float32)` among the arguments")
    _check_names("tle.pipe", "field", tuple(fields))
    for field, buffer in fields.items():
        if not isinstance(buffer, buffered_tensor) or buffer.type.storage is not tlx.storage_kind.smem:
            refuse(ValueError, f"tle.pipe: field {field!r} must be a buffer of tle.gpu.alloc in shared memory, got {buffer}",
                   mend=f"write `{field}=tle.gpu.alloc([{capacity}, ...], dtype)`")
        if len(buffer.shape) < 2 or buffer.shape[0] != capacity:
            refuse(ValueError, f"tle.pipe: field {field!r} must have rank 2 or more and a first extent of {capacity}, the "
                             f"capacity; its shape is {list(buffer.shape)}",
                   mend=f"allocate one slot a chunk, `tle.gpu.alloc([{capacity}, ...], dtype)`")


def seated(readers) -> Any:
    """The names of all readers; those that share a seat are declared as a tuple."""
    if not isinstance(readers, (list, tuple)):
        return readers
    return [name for seat in readers for name in (seat if isinstance(seat, (list, tuple)) and seat else (seat, ))]


def _check_over(over, capacity: int, readers, one_shot: bool) -> None:
    if over is None:
        return
    if not isinstance(over, pipe_value):
        refuse(ValueError, f"tle.pipe: over must be a pipe, got {over}",
               mend="give the value that tle.pipe returned, not one of its ends")
    below = over._owner
    if one_shot or below.one_shot or below.over:
        refuse(ValueError, f"tle.pipe: neither a pipe over {below.label} nor that one may carry one chunk, or lie over a third",
               mend="leave one_shot out of both; three roles that use a slot in turn need a pipe with buffers of its own")
    if below.capacity != capacity:
        refuse(ValueError, f"tle.pipe: a pipe over {below.label} must have its capacity, {below.capacity}, got {capacity}",
               mend=f"write `capacity={below.capacity}`")
    if len(readers or (None, )) != 1 or len(below.readers or (None, )) != 1:
        refuse(ValueError, f"tle.pipe: a pipe over {below.label} and that one must have one seat of readers each",
               mend='readers that take turns share a seat, `readers=(("first", "second"), )`; others want a pipe each')


def _check_names(word_name: str, what: str, names: Any) -> None:
    if not isinstance(names, (list, tuple)) or not names:
        refuse(ValueError, f"{word_name}: {what}s must be a non-empty tuple or list of names, got {names!r}",
               mend=f'write `{what}s=("first", )`, or leave them out')
    for one in names:
        if not isinstance(one, str) or not one.isidentifier() or one.startswith("_") or one in ("fields", "readers"):
            refuse(ValueError, f"{word_name}: {one!r} is no legal {what} name; take an identifier that does not start with `_` "
                             "and is not `fields` or `readers`")
    if len(set(names)) != len(names):
        refuse(ValueError, f"{word_name}: {what} names must be unique, got {list(names)}", mend=f"name each {what} once")


class pipe_value(Described):
    """A pipe. `capacity`, `scope`, `name`, `fields`, `readers`, `one_shot` are what it was made with.

    example:   tiles = tle.pipe(capacity=2, k=tle.gpu.alloc([2, 64, 64], tl.float16))
    """

    @property
    def readers(self) -> tuple[str, ...] | None:
        """The declared readers, or None for a single one without a name."""
        return self._owner.readers

    @property
    def one_shot(self) -> bool:
        """True if the pipe carries one chunk."""
        return self._owner.one_shot

    @word
    def writer(self, _semantic=None) -> pipe_writer:
        """The producer's end; there is one, however often it is asked for."""
        self._owner.check_kernel(_semantic)
        return pipe_writer(self._owner, self._parts)

    @word
    def reader(self, name: tl.constexpr = None, fields: tl.constexpr = None, _semantic=None) -> pipe_reader:
        """A consumer's end.

        args:      name   - which of the declared `readers`; none if none are declared
                   fields - (opt) names of the fields that it shows; all by default
        errors:    ValueError
        """
        record = self._owner
        record.check_kernel(_semantic)
        if record.readers is None and name is not None:
            refuse(ValueError, f"{record.label} declares no readers, so its reader has no name; got {name!r}",
                   mend=f"call `reader()`, or declare `readers=({name!r}, )` where the pipe is made")
        if record.readers is not None and name not in seated(record.readers):
            refuse(ValueError, f"{record.label} has the readers {list(record.readers)}; got {name!r}",
                   mend=f"call `reader({seated(record.readers)[0]!r})` or with another of the names")
        parts = self._parts
        if fields is not None:
            _check_names("pipe.reader", "field", fields)
            unknown = [field for field in fields if field not in self._fields]
            if unknown:
                refuse(ValueError, f"{record.label} has the fields {list(self._fields)}; got {unknown}",
                       mend="name some of these, or leave `fields` out to see all")
            parts = {part: value for part, value in parts.items() if part.startswith("_") or part in fields}
        return pipe_reader(record, parts, (name, ))


class _Endpoint(Described):

    def _record(self, name: str, iter, semantic, *more, **attrs):
        """Record the op `name` on the pipe's chunk `iter`, with further operands and attributes; gives its results."""
        self._owner.check_kernel(semantic)
        chunk, unsigned = chunk_of(self._owner, iter, semantic)
        return semantic.builder.record(name, self._parts["_"].handle, chunk, *more, **unsigned, **attrs).results

    def _slot(self, handles: list) -> Any:
        """The visible fields of the slot whose buffers, one a field of the pipe, are given: as a struct, if the pipe is made of one
        and all are visible."""
        shown = {name: handle for name, handle in zip(self._owner.fields, handles) if name in self._fields}
        buffers = {name: self._fields[name].type.slot().value(handle) for name, handle in shown.items()}
        if self._owner.struct is not None and len(buffers) == len(self._owner.fields):
            return self._owner.struct.replace(**buffers)
        return pipe_slot(self._owner, buffers)


class pipe_writer(_Endpoint):
    """The producer's end of a pipe. Every thread of the partition makes each call, for chunks 0, 1, 2, ..

    example:   tiles = tle.pipe(capacity=2, k=tle.gpu.alloc([2, 64, 64], tl.float16))
               writer = tiles.writer()
               slot = writer.acquire(i)
               writer.commit(i)
    """

    @word
    def acquire(self, iter, _semantic=None) -> pipe_slot:
        """Wait until every reader has released the previous chunk in the stage of chunk `iter`, and take the stage's buffers.

        args:      iter - number of the chunk, an int or an integer scalar
        errors:    ValueError for a chunk number that is no integer or negative, and for a pipe of another kernel
        lowers to: ttng.wait_barrier
        """
        return self._slot(self._record("pipe_acquire", iter, _semantic))

    @word
    def commit(self, iter, _semantic=None) -> None:
        """Publish chunk `iter`: what this partition has written, and what copies into the slot still bring.

        orders:    all of it -> what a reader does after its wait for the chunk
        errors:    ValueError for a chunk number as for `acquire`; when the kernel is compiled, KernelError for a field that is
                   filled in two ways in one chunk
        lowers to: ttng.barrier_expect before TMA copies; ttg.async_wait, ttng.fence_async_shared, ttng.arrive_barrier
        """
        self._record("pipe_commit", iter, _semantic)

    @word
    def close(self, iter, _semantic=None) -> None:
        """Publish an end marker as chunk `iter`; waits for the stage as `acquire` does.

        errors:    ValueError on a one-shot pipe
        lowers to: ttng.wait_barrier, ttng.arrive_barrier
        """
        if self._owner.one_shot:
            refuse(ValueError, f"{self._owner.label} carries one chunk (one_shot), so it is never closed",
                   mend="leave the close out, or one_shot where the pipe is made")
        if self._owner.over:
            refuse(ValueError, f"{self._owner.label} is written over the chunks of another pipe, so it is never closed",
                   mend="close the other pipe: its end is the end of this one")
        self._record("pipe_close", iter, _semantic)


class pipe_reader(_Endpoint):
    """A consumer's end of a pipe. Every thread of the partition makes each call.

    example:   tiles = tle.pipe(capacity=2, k=tle.gpu.alloc([2, 64, 64], tl.float16))
               reader = tiles.reader()
               k = reader.wait(i).slot.k
               reader.release(i)
    """

    @property
    def _reader_attr(self) -> dict[str, str]:
        """The attribute that names this reader, if it has a name."""
        return {"reader": self._detail[0]} if self._detail[0] else {}

    @word
    def wait(self, iter, _semantic=None) -> pipe_wait_result:
        """Wait until chunk `iter` is committed or closed; may be repeated before its release.

        returns:   pipe_wait_result: `slot` and `is_closed`
        errors:    ValueError for a chunk number as for `acquire`
        lowers to: ttng.wait_barrier
        """
        *buffers, closed = self._record("pipe_wait", iter, _semantic, **self._reader_attr)
        return pipe_wait_result(self._owner, {"_slot": self._slot(buffers), "_is_closed": tl.tensor(closed, tl.int1)})

    @word
    def held(self, iter, _semantic=None) -> pipe_slot:
        """The slot of a chunk that this reader has waited for and not released: its buffers, without a second wait.

        errors:    ValueError for a chunk number as for `acquire`
        not:       checked when compiling; the simulator finds a chunk that was not waited for, as a race
        """
        return self._slot(self._record("pipe_held", iter, _semantic, **self._reader_attr))

    @word
    def release(self, iter, pred=None, _semantic=None) -> None:
        """Give the stage of chunk `iter` back: this reader's reads of it are over.

        args:      pred - (opt) an i1 scalar; where it is false nothing happens, and `iter` may be -1
        orders:    this partition's reads and writes before -> what the writer does after it has acquired the stage again
        errors:    ValueError for a chunk number as for `acquire`; KernelError for a `pred` that is no scalar; when the kernel is
                   compiled, ProtocolError if an `async_dot` that reads the slot is still under way
        lowers to: ttng.arrive_barrier
        """
        when = predicate_handle("pipe.release", pred, _semantic)
        self._record("pipe_release", iter, _semantic, *(() if when is None else (when, )), **self._reader_attr)


__all__ = ["pipe", "pipe_reader", "pipe_slot", "pipe_value", "pipe_wait_result", "pipe_writer"]
