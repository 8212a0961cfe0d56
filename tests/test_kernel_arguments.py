"""A kernel keeps each of its arguments, whatever a tool calls its own."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.cli import main

NAMES = ("seed", "target", "trace", "races", "seeds", "search", "limit", "shrink", "rounds", "progress", "jobs", "time_limit",
         "ctas", "protocol", "megahertz", "capacity", "kernel", "grid", "args", "meta", "fn")


@mimw.jit
def named(y, seed, target, trace, races, seeds, search, limit, shrink, rounds, progress, jobs, time_limit, ctas, protocol,
          megahertz, capacity, kernel, grid, args, meta, fn):
    tlx.clock64()
    given = (seed, target, trace, races, seeds, search, limit, shrink, rounds, progress, jobs, time_limit, ctas, protocol,
             megahertz, capacity, kernel, grid, args, meta, fn)
    for i in tl.static_range(21):
        tl.store(y + i, given[i])


def arguments():
    return {name: 100 + place for place, name in enumerate(NAMES)}


@pytest.mark.parametrize("positional", range(0, len(NAMES), 4))
def test_simulate(positional):
    y, given = np.zeros(len(NAMES), np.int32), arguments()
    first = [given.pop(name) for name in NAMES[:positional]]
    mimw.simulate(named, (1, ), y, *first, **given)
    assert y.tolist() == list(arguments().values())


def test_check_and_predict():
    y = np.zeros(len(NAMES), np.int32)
    assert mimw.check(named, (1, ), y, **arguments()).ok
    assert mimw.predict(named, (1, ), y, **arguments()).microseconds > 0


def test_an_autotuned_kernel():
    tuned = mimw.autotune(configs=[mimw.Config({"seed": 7}, num_warps=1)], key=["target"])(named)
    y, given = np.zeros(len(NAMES), np.int32), arguments()
    given.pop("seed")
    mimw.simulate(tuned, (1, ), y, **given)
    assert y.tolist() == [7, *list(arguments().values())[1:]]


@mimw.jit
def of_a_launch(y, seed, target, trace, races, kernel, args, meta):
    tlx.clock64()
    given = (seed, target, trace, races, kernel, args, meta)
    for i in tl.static_range(7):
        tl.store(y + i, given[i])


def test_a_launch(machine, monkeypatch):
    """`grid` and `warmup` are Triton's own words for a launch's grid: no kernel can have them by name there."""
    monkeypatch.setenv("MIMW_SIMULATE", "1" if machine.name == "simulator" else "0")
    y = np.zeros(7, np.int32)
    given = dict(seed=1, target=2, trace=3, races=4, kernel=5, args=6, meta=7)
    if machine.name == "gpu":
        import torch
        on_gpu = torch.zeros(7, dtype=torch.int32, device="cuda")
        of_a_launch[(1, )](on_gpu, **given)
        y[:] = on_gpu.cpu().numpy()
    else:
        of_a_launch[(1, )](y, **given)
    assert y.tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_commands(tmp_path, capsys, monkeypatch):
    """What the command says for itself does not become the kernel's."""
    source = tmp_path / "own_names.py"
    source.write_text('''
import mimw, mimw.tlx as tlx, triton.language as tl

@mimw.jit
def named(y, target, limit, seeds, ctas):
    tlx.clock64()
    tl.device_assert(target == 1 and limit == 2 and seeds == 3 and ctas == 4)
    tl.store(y, target)
''')
    monkeypatch.chdir(tmp_path)
    given = ["own_names.py:named", "--grid", "1", "--args", "i32[4]", "target=1", "limit=2", "seeds=3", "ctas=4"]
    assert main(["check", *given, "--seeds", "2"]) == 0, capsys.readouterr()
    assert main(["timeline", *given]) == 0, capsys.readouterr()
