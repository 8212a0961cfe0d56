"""The watchdog without a GPU: a limit on the time of a simulated launch, by the command line and by the environment."""

import re
import time
from pathlib import Path

import pytest

import mimw
from mimw.errors import LaunchError
from mimw.runtime.watchdog import Launch, has_hung, seconds, watched_simulation
from mimw.runtime.watchdog.notes import file, remember
from tests.kernels.hangs import case, handed_on, tuned
from tests.processes import mimw as command

SCRIPT = Path(__file__).parents[1] / "kernels" / "hangs.py"


@pytest.mark.parametrize("text, expected", [(None, None), ("", None), ("0", None), ("2.5", 2.5), ("10", 10.0)])
def test_the_limit(monkeypatch, text, expected):
    monkeypatch.delenv("MIMW_WATCHDOG", raising=False)
    if text is not None:
        monkeypatch.setenv("MIMW_WATCHDOG", text)
    assert seconds() == expected


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "1e99"])
def test_what_is_no_limit(monkeypatch, text):
    monkeypatch.setenv("MIMW_WATCHDOG", text)
    with pytest.raises(LaunchError, match="should be a positive number of seconds"):
        seconds()


def run(*words):
    return command(*words, timeout=100, MIMW_SIMULATE="1")


def test_a_simulation_that_takes_too_long_ends_with_124():
    found = run("run", "--watchdog", "4", str(SCRIPT), "many")        # behind the start of a machine that has much to do
    assert found.returncode == 124 and found.stdout == ""
    assert "'handed_on' on grid (20000, 1, 1), launched at " in found.stderr
    assert "has not ended within 4 s on the simulator (MIMW_WATCHDOG)" in found.stderr
    assert re.search(r"task '(default|storer|loader)' of CTA \(", found.stderr)
    assert " of 20000 CTAs have begun and not ended" in found.stderr


def test_what_ends_in_time_ends_as_ever():
    found = run("run", "--watchdog=60", str(SCRIPT), "right")
    assert (found.returncode, found.stdout, found.stderr) == (0, "right came back\n", "")


def test_a_deadlock_is_raised_at_once():
    found = run("simulate", "--watchdog", "60", str(SCRIPT), "wrong_parity")
    assert found.returncode == 1 and found.stderr.startswith("mimw: WaitCycle")


def test_the_command_refuses_what_is_no_limit():
    found = run("run", "--watchdog", "soon", str(SCRIPT), "right")
    assert found.returncode == 1 and found.stderr.startswith("mimw: MIMW_WATCHDOG=soon should be a positive number")


def test_the_report_goes_to_the_stderr_of_the_command(tmp_path):
    """pytest takes stderr away from its tests; the report comes nevertheless."""
    (tmp_path / "test_it.py").write_text(f"import sys\nsys.path.insert(0, {str(SCRIPT.parent)!r})\nimport hangs\n\n"
                                         "def test_it():\n    hangs.main('many')\n")
    found = run("run", "--watchdog", "1.5", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "test_it.py"))
    assert found.returncode == 124 and "has not ended within 1.5 s on the simulator" in found.stderr


def test_where_the_tasks_are_is_told():
    kernel, grid, args, meta = case("right")
    said, ended = [], []
    mimw.simulate(kernel, grid, *case("right")[2], **meta)       # recorded by then: the limit is on steps

    def slowly():
        from mimw.simulator.machine.machine import Machine
        step, Machine._next_task = Machine._next_task, lambda machine: time.sleep(0.02) or step(machine)
        try:
            return mimw.simulate(kernel, grid, *args, **meta)
        finally:
            Machine._next_task = step

    watched_simulation(Launch(kernel, args, meta, grid), 0.3, slowly, ended=lambda: ended.append(True), say=said.append)
    assert ended == [True] and (args[0] == args[1]).all()
    assert "'handed_on' on grid (3, 1, 1)" in said[0]
    assert "of CTA (2, 0, 0) " in said[1] and "3 of 3 CTAs have begun and not ended; " in said[1]
    assert " waits at " in said[1] or " runs, in " in said[1]


def test_a_launch_in_time_is_not_told_of():
    kernel, grid, args, meta = case("right")
    said = []
    run_ = watched_simulation(Launch(kernel, args, meta, grid), 30.0, lambda: mimw.simulate(kernel, grid, *args, **meta),
                              ended=lambda: said.append("ended"), say=said.append)
    assert run_.cycles > 0 and said == []


# ---- autotuning ----------------------------------------------------------------------------------------------------------

def test_configurations_that_have_hung_are_left_out(monkeypatch, tmp_path, capfd):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    wrong = tuned.configs[1]
    assert not has_hung(tuned.fn, str(wrong))
    remember(tuned.fn, str(wrong), "a launch")
    assert file().parent == tmp_path and has_hung(tuned.fn, str(wrong)) and not has_hung(handed_on, str(wrong))
    tuned.nargs = {}
    monkeypatch.delenv("MIMW_WATCHDOG", raising=False)
    assert tuned.prune_configs({}) == tuned.configs                  # only a watchdog leaves anything out
    monkeypatch.setenv("MIMW_WATCHDOG", "5")
    assert tuned.prune_configs({}) == [tuned.configs[0], tuned.configs[2]]
    assert "autotuning 'tuned' without the configuration FLIP: 0" in capfd.readouterr().err
    for config in tuned.configs:
        remember(tuned.fn, str(config), "a launch")
    with pytest.raises(LaunchError, match="every configuration of 'tuned' has hung under a watchdog"):
        tuned.prune_configs({})


def test_a_launch_knows_the_configuration_that_is_tried(monkeypatch):
    seen = []
    monkeypatch.setattr(type(tuned.fn), "run", lambda self, *args, **kwargs: seen.append(Launch(self, args, {}, (1, ))))
    tuned.nargs = {}
    tuned._bench(*case("tuned")[2], config=tuned.configs[1], grid=(1, ), SIZE=128)
    assert seen[0].tuned.startswith("FLIP: 0") and "tries the configuration FLIP: 0" in str(seen[0])
    assert Launch(tuned.fn, (), {}, (1, )).tuned == ""
