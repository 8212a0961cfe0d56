"""Tutorial 22 on simulated GPUs: sums, launches that follow each other, its two mistakes and its "what if"s, and what it prints.
On real ones: `torchrun --nproc-per-node 2 tutorials/22_several_gpus.py`, which ends with an error where a sum is wrong."""

import numpy as np
import pytest

import mimw
from mimw.errors import RankDied
from mimw.testing import compare


def launch(tutorial, gpus=3, programs=2, n=32, world=None, **meta):
    world = world or mimw.World(gpus)
    x = world.each(lambda rank: np.random.default_rng(rank).standard_normal(programs * n, np.float32), "x")
    y = world.each(lambda rank: np.zeros(programs * n, np.float32), "y")
    return tutorial.arguments(world, x, y, n, **meta)


@pytest.mark.parametrize("gpus, slots", [(1, 2), (2, 2), (3, 1), (5, 3)])
def test_launches_that_follow_each_other(tutorial, gpus, slots):
    grid, args, meta = launch(tutorial, gpus, slots=slots)
    x, y = args[:2]
    for seed in range(2):
        mimw.simulate(tutorial.sum_around, grid, *args, seed=seed, races=True, **meta)
        for one in y:
            compare(one, sum(x), rtol=1e-5, atol=1e-5)
            one[:] = 0


def found(tutorial, *args, first=False, **meta):
    grid, args, meta = launch(tutorial, 4, *args, **meta)
    if first:
        mimw.simulate(tutorial.sum_around, grid, *args, **meta)
    return mimw.check(tutorial.sum_around, grid, *args, seeds=3, shrink=False, **meta)


def test_right_under_every_interleaving(tutorial):
    assert found(tutorial).ok and found(tutorial, slots=1).ok and found(tutorial, first=True).ok


@pytest.mark.parametrize("flaws, kind", [(dict(SCOPE="gpu"), "ScopeTooNarrow"), (dict(WAITS=False), "SlotReusedEarly")])
def test_its_mistakes(tutorial, flaws, kind):
    assert kind in {finding.kind for finding in found(tutorial, **flaws).findings}


PUT = "        tl.store(there + place, passed)\n"
TELL = "        tlx.signal(tlx.peer_pointer(ready, right, world) + pid, scope=SCOPE)\n"


@pytest.mark.parametrize("texts, first", [
    ((PUT + TELL, TELL + PUT), False),
    (("ready + pid, 1 - size", "ready + pid, 0", "free + pid, 1 - size", "free + pid, 0"), True),
], ids=["told before", "not set back"])
def test_what_if(edited, texts, first):
    assert not found(edited(*texts), first=first).ok


def test_what_the_others_report_of_a_rank_that_has_gone(tutorial):
    grid, args, meta = launch(tutorial, world=mimw.World(4, dies={2: 30}))
    with pytest.raises(RankDied, match="rank 3 would report SignalNeverSent"):
        mimw.simulate(tutorial.sum_around, grid, *args, **meta)


def test_what_it_prints(tutorial, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tutorial.on_a_laptop(gpus=4, programs=1, n=32)
    said = capsys.readouterr().out
    assert "with {'SCOPE': 'gpu'}: ScopeTooNarrow" in said and "as it stands: ok" in said
    assert "a release of scope sys" in said and (tmp_path / "several_gpus.html").read_text()
    assert float(said.split("difference to numpy: ")[1].split()[0]) < 1e-5
