"""On which chips each operator's example runs, and by which kernels: found by simulating it as each chip.

    found(["sm_90a", "sm_80"])      {"matmul": {"sm_90a": ["gemm"], "sm_80": ["plain_matmul"]}, ...}

Input: the examples of operator_examples.py. Output: by operator and chip the kernels in the order of their first launch, none where
torch computes it. An example that fails raises its error. docs/support/operator_chips.json keeps what `operator_pages.py` found.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from unittest import mock

import torch

import mimw
from docs.support.operator_examples import OF_ONE
from mimw import ops

CHIPS = ("sm_90a", "sm_80", "sm_100a", "sm_120a", "gfx942", "gfx950", "gfx1250")
KEPT = Path(__file__).with_suffix(".json")


def kept() -> dict[str, dict[str, list[str]]]:
    return json.loads(KEPT.read_text())


def keep(facts: dict[str, dict[str, list[str]]]) -> None:
    """A line for each operator."""
    KEPT.write_text("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in facts.items()) + "\n}\n")


def found(chips: Iterable[str] = CHIPS, names: Iterable[str] = tuple(OF_ONE)) -> dict[str, dict[str, list[str]]]:
    """Each chip in a process of its own: what an operator has found out for tensors on the CPU, it keeps."""
    names, by_chip = list(names), {}
    for chip in chips:
        with get_context("fork").Pool(1) as process:
            by_chip[chip] = process.apply(as_chip, (chip, names))
    return {name: {chip: by_chip[chip][name] for chip in by_chip} for name in names}


def as_chip(chip: str, names: list[str]) -> dict[str, list[str]]:
    """The kernels of each example on one chip, in a forked process."""
    torch.set_num_threads(1)        # the threads of the process that was forked are not here
    with mock.patch.dict(os.environ, {"MIMW_TARGET": chip}), warnings.catch_warnings():
        warnings.simplefilter("ignore", ops.SimulationWarning)
        return {name: run(name) for name in names}


def run(name: str) -> list[str]:
    """The kernels that an example launches; what it compares with is torch's."""
    torch.manual_seed(0)
    with kernels_noted() as noted:
        exec(compile(OF_ONE[name], f"<example of {name}>", "exec"), {})
    return list(dict.fromkeys(noted))


@contextmanager
def kernels_noted():
    """A list that gets the packages of the kernels that are simulated."""
    noted, simulate = [], mimw.simulate

    def noting(kernel, *args, **options):
        noted.append(kernel.fn.__module__.removeprefix("mimw.kernels.").partition(".")[0])
        return simulate(kernel, *args, **options)

    with mock.patch.object(mimw, "simulate", noting):
        yield noted
