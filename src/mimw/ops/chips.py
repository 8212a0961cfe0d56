"""Which chip a call is planned for: the GPU of its tensors, the one that is simulated, or the one that is asked about.

Input: a tensor that says where. Output: what plans depend on. For example:

    is_hopper(x), is_amd(x), amd_chip(x), has_e4m3(x)
    programs(x)                     one a multiprocessor: how many persistent programs to start
    with asking("gfx950") as call:  inside, plans of this thread are made for that chip, kept nowhere, and launch nothing
        ...
    call.launched                   what they would have launched
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor

from mimw.target import target

SIMULATED_PROGRAMS = 4      # they run one after the other


@dataclass(eq=False)
class Asked:
    """A call that is explained and not computed: for which chip, with how many multiprocessors, which number is to stand for those
    that the host would wait for and that are not known, and what the call would do."""

    chip: str
    multiprocessors: int
    sizes: int | None = None
    launched: list[Any] = field(default_factory=list)
    plans: list[Any] = field(default_factory=list)          # records of notes.py
    steps: list[str] = field(default_factory=list)          # what torch computes


_ASKED: ContextVar[Asked | None] = ContextVar("mimw_asked", default=None)
asked = _ASKED.get


@contextmanager
def asking(chip: str, multiprocessors: int, sizes: int | None = None) -> Iterator[Asked]:
    """Inside, calls of this thread are explained for that chip."""
    call = Asked(chip, multiprocessors, sizes)
    before = _ASKED.set(call)
    try:
        yield call
    finally:
        _ASKED.reset(before)


def chip_of(on: Tensor) -> str:
    """The name of the chip for which calls of `on` are planned: "sm_90a", "gfx950", ..; of a GPU that mimw.target does not know,
    as "sm_86" """
    if (call := asked()) is not None:
        return call.chip
    if not on.is_cuda:
        return os.environ.get("MIMW_TARGET") or "sm_90a"
    if torch.version.hip is not None:
        return _architecture(on.get_device())
    (major, minor), _ = _chip(on.get_device())
    return f"sm_{major}{minor}" + "a" * (major >= 9)


@cache
def _chip(device: int) -> tuple[tuple[int, int], int]:
    properties = torch.cuda.get_device_properties(device)
    return (properties.major, properties.minor), properties.multi_processor_count


@cache
def _architecture(device: int) -> str:
    return torch.cuda.get_device_properties(device).gcnArchName.partition(":")[0]     # "gfx942:sramecc+:xnack-"


def programs(on: Tensor) -> int:
    """The multiprocessors of the GPU that holds `on`; a few in the simulator."""
    if (call := asked()) is not None:
        return call.multiprocessors
    return _chip(on.get_device())[1] if on.is_cuda else SIMULATED_PROGRAMS


def is_hopper(on: Tensor) -> bool:
    """True if `on` lies where kernels with Hopper's words run: on sm_90, or in its simulator unless MIMW_TARGET names another
    chip. Torch says 9.0 of AMD's gfx90a, too."""
    return chip_of(on).startswith("sm_90")


def is_amd(on: Tensor) -> bool:
    """True if `on` lies on a GPU of AMD, which torch calls a device of CUDA, or if MIMW_TARGET names one to simulate."""
    return chip_of(on).startswith("gfx")


def amd_chip(on: Tensor) -> str | None:
    """The chip of AMD, "gfx950" for example, on which `on` lies, or which MIMW_TARGET names to simulate; None elsewhere."""
    return chip_of(on) if is_amd(on) else None


def has_e4m3(on: Tensor) -> bool:
    """True if Triton takes fp8 e4m3 where `on` lies: from sm_89 on, on AMD's chips from gfx90a on, and in the simulator."""
    if asked() is None and not on.is_cuda:
        return True
    name = chip_of(on)
    return name.startswith("gfx") or int(name.removeprefix("sm_").removesuffix("a")) >= 89


def asked_for(name: str) -> tuple[str, int]:
    """The chip of a name that `mimw.target` takes, with its multiprocessors; TargetError for another."""
    found = target(name)
    return found.name, found.multiprocessors or SIMULATED_PROGRAMS


__all__ = ["SIMULATED_PROGRAMS", "Asked", "amd_chip", "asked", "asked_for", "asking", "chip_of", "has_e4m3", "is_amd", "is_hopper",
           "programs"]
