"""Known deadlocks on a GPU, each in a process of its own: it ends with status 124 and says what hangs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "kernels" / "hangs.py"
LINES = {text.strip(): number for number, text in reversed(list(enumerate(SCRIPT.read_text().splitlines(), 1)))}    # the first such


def at(source: str) -> str:
    """The place of a line of the script."""
    return f"hangs.py:{LINES[source]}"


def launched(name: str, *options: str, seconds: int = 3, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "mimw", "run", "--watchdog", str(seconds), *options, str(SCRIPT), name]
    found = subprocess.run(command, capture_output=True, text=True, timeout=150, env={**os.environ, **environment})
    print(found.stdout, found.stderr)
    return found


def hangs(name: str, *expected: str, **environment: str) -> str:
    found = launched(name, **environment)
    assert found.returncode == 124
    assert "has not come back within 3 s (MIMW_WATCHDOG)" in found.stderr
    missing = [text for text in expected if text not in found.stderr]
    assert not missing, f"{missing} not in\n{found.stderr}"
    return found.stderr


def shown(told: str) -> str:
    """How a report speaks of an mbarrier's word: the H200 gives 0 to every load of one, so counts come from the verdict alone."""
    return "its state reads as 0" if "its state reads as 0" in told else "it is in a phase of parity 0"


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["right", "many"])
def test_what_comes_back_is_right(name):
    found = launched(name, seconds=20)
    assert (found.returncode, found.stdout) == (0, f"{name} came back\n")


@pytest.mark.gpu
def test_a_wrong_parity():
    full, free = at("tlx.barrier_wait(full[0], i & 1)"), at("tlx.barrier_wait(free[0], (i & 1) ^ FLIP)")
    told = hangs("wrong_parity", "'handed_on' on grid (3, 1, 1)", "WaitCycle: no task of CTA (0, 0, 0) and 2 others",
                 "3 of 3 CTAs have begun and not ended", "The simulator, on the same launch: WaitCycle")
    assert f"{full} for parity 0 of 'full'[0]: {shown(told)}" in told and f"{free} for parity 0 of 'free'[0]: {shown(told)}" in told
    assert "in task 'loader', which is blocked at" in told and "in task 'storer', which is blocked at" in told


@pytest.mark.gpu
def test_an_arrival_that_stops_coming():
    told = hangs("last_arrive", "and 2 others in the same state")
    assert f"parity 0 of 'full'[0]: {shown(told)}" in told


@pytest.mark.gpu
def test_a_missing_arrival():
    told = hangs("missing_arrive", "no task of CTA (0, 0, 0) can go on.", "in task 'third', which has finished",
                 "in task 'default', which is blocked at", "The simulator, on the same launch: TooFewArrivals",
                 "2 of 3 arrivals and 0 bytes pending")
    assert f"for parity 0 of 'met'[0]: {shown(told)}" in told


@pytest.mark.gpu
def test_missing_bytes():
    told = hangs("missing_bytes", "no task of CTA (0, 0, 0) can go on.", "with 1 of 1 arrivals and 8192 bytes pending",
                 "bytes could have come from tma_load", "The simulator, on the same launch: BytesNeverSent")
    assert f"for parity 0 of 'full'[0]: {shown(told)}" in told


@pytest.mark.gpu
def test_a_named_barrier():
    hangs("named_barrier", f"task 'default' of CTA (0, 0, 0) waits at {SCRIPT.parent}/" + at("tlx.named_barrier_wait(9, 256)")
          + " for named barrier 9, which opens for 256 threads")


@pytest.mark.gpu
def test_a_cluster():
    hangs("cluster", "no task of CTAs (0, 0, 0), (1, 0, 0) can go on", "for the cluster barrier", "for parity 0 of 'called'[0]",
          "of CTA (0, 0, 0), which is blocked at", "The simulator, on the same launch: WaitCycle")


@pytest.mark.gpu
@pytest.mark.parametrize("name, expected", [
    ("spin", f"task 'default' of CTA (0, 0, 0) runs in the loop at {SCRIPT.parent}/hangs.py:"),
    ("plain", "The kernel leaves no stamps: it calls nothing of tlx or tle.")])
def test_a_loop_on_memory(name, expected):
    hangs(name, expected, "The simulator, on the same launch: Livelock")


@pytest.mark.gpu
def test_without_stamps_the_lines_are_told():
    told = hangs("wrong_parity", "The kernel leaves no stamps. It may wait at", "barrier_wait on 'full', in task 'storer'",
                 "barrier_wait on 'free', in task 'loader'", MIMW_WATCHDOG_STAMPS="0")
    assert "The simulator, on the same launch: WaitCycle" in told


@pytest.mark.gpu
def test_an_autotuner_leaves_out_what_has_hung(tmp_path):
    hangs("tuned", "as an autotuner tries the configuration FLIP: 0", TRITON_CACHE_DIR=str(tmp_path))
    again = launched("tuned", seconds=20, TRITON_CACHE_DIR=str(tmp_path))
    assert again.returncode == 0 and "without the configuration FLIP: 0" in again.stderr
    assert again.stdout == "tuned came back\n"
