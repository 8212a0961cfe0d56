"""The GPU stage of ordinary programs. Without a GPU its launches are simulated; what it compares and notices is the same."""

import numpy as np
import pytest

from mimw.simulator import Hooks, run
from mimw.tools.orchestrate import written as steps
from tests.fuzz.ordinary import device
from tests.fuzz.ordinary import room as room_module
from tests.fuzz.ordinary.draw import drawn
from tests.fuzz.ordinary.exact import Watch, unit
from tests.fuzz.ordinary.judge import FINE, judged, launched
from tests.fuzz.ordinary.mutants import MUTANTS
from tests.fuzz.ordinary.room import PAD, Room

pytest.importorskip("torch", reason="arrays on the device are torch's")
WHOLE, FRACTIONS = 7, 10        # programs of which some plan hands something over


@pytest.fixture
def simulated(monkeypatch):
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    for module in (device, room_module):
        monkeypatch.setattr(module, "gpu_is_active", lambda: False)
    monkeypatch.setattr(device, "PLANS", (1, ))
    monkeypatch.setattr(device, "STOCK", 1)


@pytest.mark.long(but=["7"], everywhere=True)
@pytest.mark.parametrize("seed", [WHOLE, FRACTIONS])
def test_a_program_is_launched_plain_and_under_a_plan(seed, simulated):
    found = judged(seed, ("gpu", ))
    assert device.case_of(seed).exact is (seed == WHOLE) and found.plans == 1
    assert [kind for _, kind, _ in found.outcomes if kind == "ok"] == ["ok"] * 2
    assert [one for one in found.outcomes if one[0] != "gpu" or one[1] not in FINE] == []


@pytest.mark.parametrize("seed", [WHOLE, FRACTIONS])
def test_a_wrong_number_is_seen(seed, simulated, monkeypatch):
    right, (_, change) = steps.lifted, MUTANTS["the offset of a box"]
    monkeypatch.setattr(steps, "lifted", lambda *given, **more: change(right(*given, **more)))
    kinds = {kind for _, kind, _ in judged(seed, ("gpu", )).outcomes}
    assert kinds & {"mismatch", "refused by mistake"}, kinds


def test_bytes_beside_an_array_are_nobodys(simulated):
    array, room = np.arange(6, dtype=np.float16).reshape(2, 3), Room()
    placed, other = room.place([array, 5]), room.place([array, array])
    room.send()
    args, (one, two) = room.given(placed, None), room.given(other, None)
    assert args[1] == 5 and args[0].shape == (2, 3) and one.data_ptr() == two.data_ptr() != args[0].data_ptr()
    args[0] += 1
    room.fetch()
    assert room.is_whole() and (room.read(placed)[0] == array + 1).all() and (room.read(other)[0] == array).all()
    assert np.isnan(room.raw[PAD - 2:PAD].numpy().view(np.float16)[0])
    room.raw[PAD + array.nbytes] = 0
    room.fetch()
    assert not room.is_whole()


def test_a_program_without_a_plan_is_drawn_anew(simulated):
    """Of 4 there is none: a tensor of no elements."""
    case, found = device.case_of(4), judged(4, ("gpu", ))
    assert case.program.seed == 4 + device.APART and found.plans == 1 and found.outcomes[0][1] == "skipped"
    assert set(found.seconds) == {"until compiled", "compile and launch", "wait"}


@pytest.mark.parametrize("seed, why", [(WHOLE, ""), (34, "2^12 units are added"), (13, "a fraction"), (139, "rounded to tf32")])
def test_what_rounds_is_known(seed, why):
    program, _ = drawn(seed, whole=True)
    watch, launch = Watch(fp8=any(array.element == "fp8e4nv" for array in program.arrays)), launched(program).launch
    run(launch.program, launch.grid, launch.values, hooks=Hooks(observer=watch))
    assert why in watch.rounds and bool(why) is bool(watch.rounds)


def test_units():
    assert unit(np.array([0.0, 6.0, -20.0])) == 2 and unit(np.array([0.75, 3.0])) == 0.25 and unit(np.zeros(3)) == np.inf


def test_rounding_is_told_from_a_mistake():
    want = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32)
    assert device.apart(want * np.float32(1.001), want) == "" and "norm" in device.apart(np.roll(want, 64, 0), want)
    assert "inf" in device.apart(np.where(want > 3, np.inf, want), want)


@pytest.mark.gpu
@pytest.mark.parametrize("first", [0, 100])
def test_programs_on_a_gpu(first):
    outcomes = [one for seed in range(first, first + 8) for one in judged(seed, ("gpu", )).outcomes]
    assert [one for one in outcomes if one[1] not in FINE] == [] and ("gpu", "ok", "") in outcomes
