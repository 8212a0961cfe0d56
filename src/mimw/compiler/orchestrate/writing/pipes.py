"""Pipes as text: each word with what it orders beside it.

Input: an op on a pipe. Output: lines. For example:

    %kv = pipe_make [%k, %v], capacity=2        kv = tle.pipe(capacity=2, name="kv", k=k, v=v)
    %a, %b = pipe_acquire %kv, chunk=%i         slot = kv.writer().acquire(i)           slot.k, slot.v
    %c, %d, %e = pipe_wait %kv, chunk=%i        read = kv.reader().wait(i).slot         its slots are read.k, read.v
"""

from __future__ import annotations

from ....ir import I32, Op
from .rows import statement, unwritten
from .texts import Text, has_sign
from .words import argument, plain


@statement("pipe_make")
def _make(w, op: Op) -> None:
    plain(op, "names", "readers", "one_shot")
    name = w.names.fresh(op.result.name or "pipe")
    readers = op.attrs.get("readers")
    more = f", readers={_tuple(readers)}" if readers else ""
    more += ", one_shot=True" if op.attrs.get("one_shot") else ""
    more += "" if op.over is None else f", over={w.code(op.over)}"
    fields = ", ".join(f"{field}={w.code(buffer)}" for field, buffer in zip(op.attrs["names"], op.fields))
    w.line(f'{name} = tle.pipe(capacity={op.capacity}, name="{name}"{more}, {fields})', w.note(op))
    w.texts[op.result] = Text(name)


def _tuple(names) -> str:
    inner = ", ".join(_tuple(one) if isinstance(one, (tuple, list)) else f'"{one}"' for one in names)
    return f"({inner}, )" if len(names) == 1 else f"({inner})"


def end(w, op: Op) -> str:
    """The end of a pipe that calls a word."""
    if op.row.end == "writer":
        return f"{w.code(op.pipe)}.writer()"
    reader = op.attrs.get("reader")
    return f"{w.code(op.pipe)}.reader({_quoted(reader)})"


def _quoted(name) -> str:
    return f'"{name}"' if name else ""


def chunk(w, op: Op) -> str:
    """The number of the chunk, with the sign that the op has."""
    if isinstance(op.chunk, int):
        return repr(op.chunk)
    number = w.constant(op.chunk)
    if number is not None and number.type == I32 and number.value >= 0:
        return repr(number.value)
    text = w.typed(op.chunk)
    if has_sign(op.chunk.type):
        text = w.with_sign(text, op.chunk.type, not op.attrs.get("unsigned"))
    return text.code


@statement("pipe_acquire pipe_held pipe_wait")
def _slot(w, op: Op) -> None:
    plain(op, "unsigned", "reader")
    make = w.uses.definition.get(op.pipe)
    if make is None or make.name != "pipe_make":
        raise unwritten(op, "its pipe comes out of a branch or a loop")
    word = op.name.removeprefix("pipe_")
    buffers = op.results[:-1] if word == "wait" else op.results
    closed = word == "wait" and op.results[-1] in w.live
    name = w.names.fresh(f"{w.code(op.pipe)}_{'slot' if word == 'acquire' else 'read'}")
    call = f"{end(w, op)}.{word}({chunk(w, op)})"
    if not any(value in w.live for value in op.results):
        w.line(call, w.note(op))
        return
    w.line(f"{name} = {call}{'.slot' if word == 'wait' and not closed else ''}", w.note(op))
    for field, value in zip(make.attrs["names"], buffers):
        w.texts[value] = Text(f"{name}.slot.{field}" if closed else f"{name}.{field}")
    if closed:
        w.texts[op.results[-1]] = Text(f"{name}.is_closed")


@statement("pipe_commit pipe_close pipe_release")
def _word(w, op: Op) -> None:
    plain(op, "unsigned", "reader")
    more = ""
    if op.name == "pipe_release" and op.predicate is not None:
        more = f", pred={argument(w, op, op.predicate)}"
    w.line(f"{end(w, op)}.{op.name.removeprefix('pipe_')}({chunk(w, op)}{more})", w.note(op))
