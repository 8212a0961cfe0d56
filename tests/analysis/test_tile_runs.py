"""Runs in tiles: each fact that is claimed holds for the values of a run, and loads have the pieces that a reader sees in them."""

import importlib
from dataclasses import replace

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.compiler.analysis.tile_runs import piece_of, runs_of
from mimw.ir import Pointer
from mimw.ir.types import element_of
from mimw.simulator import Hooks, run
from mimw.target import target
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.written import _aligned


@mimw.jit
def arithmetic(x, out, n, m, W: tl.constexpr):
    """Of each op a run that stays, one that gets shorter, and one that ends."""
    at, rows = tl.arange(0, 64), tl.arange(0, 4)
    shifted, wrapped, mixed = n + at, (at + 8) % 16, tl.where(at < 32, at, 5)
    tile = rows[:, None] * W + shifted[None, :]
    total = tl.zeros((64, ), tl.int32)
    for i in range(0, n, 16):
        total += tl.load(x + i + at, mask=(at < n - i) | (i + at >= m), other=0)
        tile += 24
    pick = x + tile
    if n > m:
        pick += 2
    found = tl.load(pick.T, mask=((rows < m)[:, None] & (tile - 4 >= n)).T, other=0)
    tl.store(out + at, total + tl.sum(found, 1) + (at - 3) // 2 + tl.minimum(wrapped, 64 - at) + mixed * 1 + 0 * m)


class Looks:
    """Compares claims with values, as an observer of a run."""

    def __init__(self, facts):
        self.facts, self.seen = facts, 0

    def does(self, task, op) -> None:
        for value in op.operands:
            element = element_of(value.type)
            whole = isinstance(element, Pointer) or not getattr(element, "is_float", True)
            if whole and value in task.env and value in self.facts:
                self.holds(self.facts[value], np.asarray(task.env[value]).astype(np.int64), element)
                self.seen += 1

    def holds(self, runs, values, element) -> None:
        unit = element.pointee.bytes if isinstance(element, Pointer) else 1
        assert not (values % runs.every).any()
        assert runs.number is None or (values == runs.number).all()
        for at, axis in enumerate(runs.axes):
            lines = np.moveaxis(values, at, -1)
            extent = lines.shape[-1]
            for length, step in ((min(axis.run, extent), unit), (min(axis.same, extent), 0)):
                groups = lines.reshape(*lines.shape[:-1], extent // length, length)
                assert (np.diff(groups, axis=-1) == step).all(), (axis, values)
            groups = lines.reshape(*lines.shape[:-1], -1, min(axis.run, extent))
            assert not (groups[..., 0] % axis.start).any(), (axis, values)

    def waits(self, task, wait) -> None: ...

    def lands(self, operation) -> None: ...

    def completes(self, barrier, task, op) -> None: ...


def launch_of(name, *numbers):
    if name != "arithmetic":
        kernel, grid, args, meta, _ = importlib.import_module(f"tests.orchestrate.cases.{name}").case()
        return plain_of(kernel, grid, args, meta, "sm_90a")
    args = np.zeros(4096, np.int32), np.zeros(64, np.int32), *numbers
    return plain_of(arithmetic, (1, ), args, dict(W=48, num_warps=4), "sm_90a")


@pytest.mark.parametrize("name, numbers", [
    ("arithmetic", (32, 16)), ("arithmetic", (36, 7)), ("arithmetic", (64, 128)),
    ("gathered_gemm", ()), ("attention_sequences", ()), ("gemm_pointers", ()), ("grouped_gemm", ())])
def test_each_claim_holds_in_a_run(name, numbers):
    plain = launch_of(name, *numbers)
    program = replace(plain.launch.program, params=_aligned(plain.launch.program, plain).params)
    looks = Looks(runs_of(program))
    run(plain.launch.program, plain.launch.grid, plain.launch.values,
        hooks=Hooks(observer=looks, clusters=(((0, 0, 0), ), ((1, 0, 0), )) if plain.launch.grid[0] > 1 else ()))
    assert looks.seen > 50


def test_pieces_of_loads():
    def pieces(name, *numbers):
        plain = launch_of(name, *numbers)
        program = _aligned(plain.program, plain)
        return [piece_of(program, op) for op in program.where(lambda row: row.loads) if len(op.result.type.shape
                if hasattr(op.result.type, "shape") else ()) == 2]
    assert pieces("gathered_gemm") == [(1, 16), (0, 16)]
    assert pieces("attention_sequences") == [(1, 16), (0, 16), (1, 16)]
    assert pieces("arithmetic", 32, 16) == [(0, 8)] and pieces("arithmetic", 36, 7) == [(1, 4)]


def test_a_mask_that_changes_at_a_loaded_number_leaves_single_elements():
    plain = launch_of("arithmetic", 37, 16)
    program = _aligned(plain.program, plain)
    load = next(op for op in program.named("masked_load") if len(op.result.type.shape) == 1)
    assert piece_of(program, load) == (0, 4) and min(target("sm_90a").copy_pieces) == 4
