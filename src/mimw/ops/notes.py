"""What a plan consists of, and why: noted while it is made, for `mimw.ops.explain` and for the log.

Input: the decisions of operators, each with what speaks against a kernel. Output: a record of the plan. For example:

    if takes("attention", another_chip(q), in_fp32(q), scale <= 0 and "the scale is not more than 0"):
        ...                     nothing speaks against it
    with planning("attention", (q, k, v)) as record:
        plan = make(q, k, v)
    record.declined             ["attention: it takes bf16 and fp16, not fp32"]

A reason is the text behind its own condition, so there is no second copy of one. Plans are made once for calls that look alike:
a call whose plan is there notes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from mimw.kernels.chosen import listening

from .chips import asked, chip_of, is_hopper
from .log import log_plan

EXACT = "fp32 is to be exact, as torch.get_float32_matmul_precision() says"
UNREADABLE = "TMA cannot read or write a matrix as it lies: rows and their addresses must be multiples of 16 bytes"
NO_COPY = "TMA cannot read or write a matrix as it lies, and copies do not pay for so few products"


@dataclass
class Record:
    """A plan: the operator, the call's arguments, its launches, and what speaks against kernels that it does not launch."""

    operator: str
    args: tuple
    launches: list[Any] = field(default_factory=list)
    declined: list[str] = field(default_factory=list)
    chosen: list[tuple[str, str]] = field(default_factory=list)


_RECORD: ContextVar[Record | None] = ContextVar("mimw_record", default=None)


@contextmanager
def planning(operator: str, args: tuple) -> Iterator[Record]:
    """Inside, a plan is made for a call of these arguments."""
    with listening() as chosen:
        record = Record(operator, args, chosen=chosen)
        before = _RECORD.set(record)
        try:
            yield record
        finally:
            _RECORD.reset(before)
    if (call := asked()) is not None:
        call.plans.append(record)
    else:
        log_plan(record)


def takes(kernel: str, *against: str | bool | None) -> bool:
    """True if nothing speaks against the kernel; else the first text among `against`, of which others are False or None, is noted
    as the reason."""
    why = next(filter(None, against), None)
    if why is not None and (record := _RECORD.get()) is not None:
        line = f"{kernel}: {why}"
        if line not in record.declined:
            record.declined.append(line)
    return why is None


def another_chip(on: Tensor) -> str | None:
    """What speaks against a kernel for Hopper where `on` lies."""
    return None if is_hopper(on) else f"the chip is {chip_of(on)}, and it is for sm_90"


def in_fp32(x: Tensor) -> str | None:
    """What speaks against a kernel for numbers of 16 bits."""
    return "it takes bf16 and fp16, not fp32" if x.dtype is torch.float32 else None


def note_launch(launch: Any) -> str:
    """Note a launch of the plan that is being made. The result says why it has its configuration: the reasons of its own package,
    else of those that it asked, since the launch before."""
    record = _RECORD.get()
    if record is None:
        return ""
    record.launches.append(launch)
    own = [reason for package, reason in record.chosen if package == launch.package]
    reasons = dict.fromkeys(own or [f"{package}: {reason}" for package, reason in record.chosen])
    record.chosen.clear()
    return ", ".join(reasons) or "by its rule, no row measured"


__all__ = ["EXACT", "NO_COPY", "UNREADABLE", "Record", "another_chip", "in_fp32", "note_launch", "planning", "takes"]
