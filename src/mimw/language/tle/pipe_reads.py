"""Refuses to give a slot back while a product that was started asynchronously may still read it."""

from __future__ import annotations

from typing import Any

from ...ir import Buffer
from .pipe_record import PipeRecord

_VIEWS = ("buffer_index", "buffer_slice", "buffer_trans", "buffer_reinterpret")


def check_reads_over(record: PipeRecord, fields: list, stage: Any, builder) -> None:
    """ValueError if an `async_dot` that no wait recorded since has finished reads the slot being released."""
    dots = _under_way(builder.log)
    makers = {result: op for op in builder.log for result in op.results} if dots else {}
    for dot in dots:
        for operand in dot.args[:2]:
            if isinstance(operand.get_type(), Buffer) and _is_slot(operand, makers, fields, stage):
                raise ValueError(f"{record.label}: released while the async_dot of line {dot.site.line} may still read the slot; "
                                 "put an async_dot_wait in between, or release the chunk one step later")


def _under_way(ops: list) -> list:
    """The asynchronous products that may run now, newest first."""
    found: list = []
    for index in reversed(range(len(ops))):
        if ops[index].name == "async_dot_wait":
            older = [op for op in reversed(ops[:index]) if op.name == "async_dot"]
            return found + older[:ops[index].args[0]]
        if ops[index].name == "async_dot":
            found.append(ops[index])
    return found


def _is_slot(view, makers: dict, fields: list, stage: Any) -> bool:
    while view in makers and makers[view].name in _VIEWS:
        op = makers[view]
        if op.name == "buffer_index" and op.args[0] in fields:
            return _same(op.args[1], stage, makers)
        view = op.args[0]
    return False


def _same(index, stage: Any, makers: dict) -> bool:
    """True if the index is certainly the stage: one number, or computed alike from one value."""
    if isinstance(stage, int):
        op = makers.get(index)
        return op is not None and op.name == "constant" and op.args[0] == stage
    return _spelled(index, makers) == _spelled(stage.handle, makers)


def _spelled(handle, makers: dict):
    op = makers.get(handle)
    if op is None or op.regions:
        return handle
    return (op.name, *(_spelled(arg, makers) if arg in makers or hasattr(arg, "replacement") else arg for arg in op.args))
