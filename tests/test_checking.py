"""MIMW_CHECK=1: what `mimw.check` finds in a kernel ends its first launch, whichever way it is launched."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import mimw
from mimw.errors import CheckFailed, KernelWarning
from mimw.tools import checking
from tests.kernels import handed_over as shelf
from tests.kernels.counted import counted
from tests.kernels.handed_over import handed_over
from tests.processes import mimw as command

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    monkeypatch.setenv("MIMW_CHECK", "1")
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    monkeypatch.setattr(checking, "_found", {})


@pytest.fixture
def checks(monkeypatch):
    """How often a kernel was checked."""
    made, real = [], checking._failure
    monkeypatch.setattr(checking, "_failure", lambda *args: made.append(1) or real(*args))
    return made


def arrays(count=2):
    return np.arange(32 * count, dtype=np.float32), np.full(32 * count, -1, np.float32)


def test_a_right_kernel_is_launched_and_checked_once_a_specialisation(checks):
    x, y = arrays()
    for _ in range(3):
        handed_over[(2, )](x, y, True, 32)
    assert (y == x).all() and len(checks) == 1
    handed_over[(2, )](x, y, True, 32, num_warps=8)
    assert len(checks) == 2


def test_a_racy_one_is_not_launched_again_and_again(checks):
    x, y = arrays()
    for _ in range(2):
        with pytest.raises(CheckFailed) as caught:
            handed_over[(2, )](x, y, False, 32)
    assert (y == -1).all() and len(checks) == 1 and not caught.value.report.ok
    told = str(caught.value)
    assert shelf.__file__ in told and "was not launched" in told and "MIMW_CHECK=0" in told and "tlx.local_load(tile[0])" in told


@pytest.mark.parametrize("value", ["", "0"])
def test_without_it_nothing_is_checked(checks, monkeypatch, value):
    monkeypatch.setenv("MIMW_CHECK", value)
    x, y = arrays()
    try:
        handed_over[(2, )](x, y, False, 32)
    except mimw.errors.SimulationError:     # what a run by itself may meet
        pass
    assert not checks


def test_a_frozen_launch_is_checked_when_it_is_frozen():
    x, y = arrays()
    with pytest.raises(CheckFailed):
        handed_over.freeze((2, ), x, y, False, 32)
    handed_over.freeze((2, ), x, y, True, 32)()
    assert (y == x).all()


def test_an_autotuned_kernel_is_checked_in_its_configurations():
    x, y = arrays()
    tuned = mimw.autotune([mimw.Config({"N": 32})], ["RIGHT"])(handed_over)
    with pytest.raises(CheckFailed):
        tuned[(2, )](x, y, RIGHT=False)
    tuned[(2, )](x, y, RIGHT=True)
    assert (y == x).all()


def test_of_a_large_grid_a_sample_runs(monkeypatch):
    monkeypatch.setattr(type(handed_over), "simulated", lambda *_: "launched")
    x, y = arrays(4096)
    assert handed_over[(4096, )](x, y, True, 32) == "launched"
    report = mimw.check(handed_over, (4096, ), x, y, True, 32, ctas="sample", seeds=1, shrink=False, rounds=False)
    assert report.unseen


@pytest.mark.parametrize("ctas, warned", [(checking.FEW, False), (checking.FEW + 1, True)])
def test_ctas_that_no_sample_shows_run_all_or_are_told(ctas, warned):
    x, tiles = np.zeros(64, np.float32), np.zeros(1, np.int32)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        counted[(ctas, )](x, tiles, 32)
    told = [str(one.message) for one in seen if one.category is KernelWarning and "launched unchecked" in str(one.message)]
    assert bool(told) is warned and x[:32].all() and tiles == 32 + ctas


def test_stand_ins_share_memory_as_the_tensors_do(monkeypatch):
    torch = pytest.importorskip("torch", reason="stand-ins are of torch tensors")
    whole = torch.arange(64, dtype=torch.float32)
    storages = {}
    first, second = (checking.stand_in(one, storages) for one in (whole[8:40:2], whole.view(8, 8).T))
    assert first.equal(whole[8:40:2]) and second.equal(whole.view(8, 8).T) and second.stride() == (1, 8) and len(storages) == 1
    first.zero_()
    assert second[0, 1] == 0 and whole[8] == 8      # the element is one in both; the user's stays
    monkeypatch.setattr(checking, "COPIED", 16)
    assert not checking.stand_in(whole, {}).any() and checking.stand_in(whole.to(torch.int32), {})[63] == 63


def test_what_is_no_tensor_of_a_gpu_stays_as_it_is():
    x, described = np.zeros((8, 16), np.float32), mimw.TensorDescriptor.from_tensor(np.zeros((8, 16), np.float32), [8, 16])
    assert checking.on_host((x, [3, described]), {})[0] is x and checking.on_host(described, {}) is described


_SCRIPT = '''
import numpy as np
from tests.kernels.handed_over import handed_over
x, y = np.arange(64, dtype=np.float32), np.full(64, -1, np.float32)
handed_over[(2, )](x, y, {right}, 32)
print((x == y).all())
'''


@pytest.mark.parametrize("right", [True, False])
def test_the_command(tmp_path, monkeypatch, right):
    monkeypatch.delenv("MIMW_CHECK")
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT.format(right=right))
    done = command("run", "--check", str(script), PYTHONPATH=str(ROOT))
    if right:
        assert done.returncode == 0 and "True" in done.stdout, done.stderr
    else:
        assert done.returncode and "handed_over was not launched" in done.stdout + done.stderr


@pytest.mark.gpu
def test_on_a_gpu(monkeypatch):
    """The tensors of a launch that did not happen are as they were; a right one is launched."""
    torch = pytest.importorskip("torch", reason="the tensors of a GPU are torch's")
    monkeypatch.setenv("MIMW_SIMULATE", "0")
    x, y = torch.arange(64, dtype=torch.float32, device="cuda"), torch.full((64, ), -1.0, device="cuda")
    with pytest.raises(CheckFailed):
        handed_over[(2, )](x, y, False, 32)
    with pytest.raises(CheckFailed):
        handed_over.freeze((2, ), x, y, False, 32)
    assert (y == -1).all()
    handed_over[(2, )](x, y, True, 32)
    assert y.equal(x)
