"""What workers report is what one process would have: results, warnings, output, a process that dies; and each test runs once."""

import re
from functools import partial

from tests.forked import NOBODY, Share
from tests.processes import python

_ONE = """
import os, sys, warnings
from pathlib import Path
import pytest

@pytest.fixture(scope="module")
def once(tmp_path_factory):
    return tmp_path_factory.mktemp("once")

@pytest.mark.parametrize("number", range(4))
def test_passes(once, number):
    (once / str(number)).touch(exist_ok=False)
    assert len(list(once.iterdir())) == number + 1

def test_warns():
    warnings.warn("beware", DeprecationWarning)

def test_dies():
    os._exit(7)

def test_crashes():
    os.kill(os.getpid(), 11)

def test_crashes_once():
    if not (told := Path(__file__).with_name("told")).exists():
        told.touch()
        os.kill(os.getpid(), 6)

def test_skips():
    pytest.skip("for a reason")

@pytest.mark.xfail(reason="known")
def test_expected():
    assert False
"""

_OTHER = """
def test_fails():
    print("said before")
    one = 1
    assert one == 2

def test_has_a_place_of_its_own(tmp_path):
    assert not list(tmp_path.iterdir())
"""


# `python` has imported mimw, and so its plugin, of which pytest would warn.
pytest_alone = partial(python, "-m", "pytest", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


def run(tmp_path, *options):
    (tmp_path / "test_one.py").write_text(_ONE)
    (tmp_path / "test_other.py").write_text(_OTHER)
    done = pytest_alone("-q", "-rfs", "-p", "tests.forked", "-p", "no:cacheprovider", "--rootdir", tmp_path, *options,
                  tmp_path)
    assert done.returncode == 1 and not done.stderr, done.stdout + done.stderr
    return done.stdout


def test_reports_are_those_of_one_process(tmp_path):
    said = run(tmp_path, "--forked", "2")
    assert re.search(r"3 failed, 7 passed, 1 skipped, 1 xfailed, 3 warnings in", said), said
    assert "the process of this test ended: 7" in said and re.search("FAILED .*test_one.py::test_dies", said)
    assert re.search(r"ended: -11\nit had run tests of\n( .*\n)* +test_one.py\nFatal Python error: Segmentation fault", said), said
    assert re.search(r'test_one.py", line \d+ in test_crashes', said)
    assert "test_crashes_once runs again: the process of this test ended: -6" in said and "test_dies runs again" not in said
    assert "assert 1 == 2" in said and "said before" in said and "test_other.py:5: AssertionError" in said
    assert "DeprecationWarning: beware" in said and "test_one.py:16" in said and "for a reason" in said


def test_the_first_failure_ends_all(tmp_path):
    said = run(tmp_path, "--forked", "2", "-x", "-k", "fails or dies")
    assert "stopping after 1 failures" in said and re.search(r"[12] failed, 10 deselected in", said)


def test_all_run_in_one_process_where_cuda_does_not_start_in_a_fork(tmp_path):
    (tmp_path / "conftest.py").write_text("from tests import gpu_workers\ngpu_workers.starts_in_a_fork = lambda: False\n")
    (tmp_path / "test_other.py").write_text(_OTHER)
    said = pytest_alone("-q", "-p", "tests.forked", "-p", "no:cacheprovider", "--forked", "2", "--rootdir", tmp_path,
                  tmp_path).stdout
    assert "1 failed, 1 passed, 1 warning" in said and "it has started CUDA, which does not survive a fork" in said, said
    assert re.search(r"2 tests: \d+ s in 1 processes", said), said


_BREAKS = """
import sys
from types import SimpleNamespace
import pytest

def refuse():
    raise RuntimeError("launches fail from here on")

@pytest.mark.parametrize("number", range(4))
def test_number(number):
    assert not hasattr(sys.modules.get("torch"), "broken")
    if number in (1, 3):
        sys.modules["torch"] = SimpleNamespace(broken=True, cuda=SimpleNamespace(is_initialized=lambda: True, synchronize=refuse))
        pytest.fail("it breaks the device")
"""


def test_a_worker_whose_device_is_broken_makes_place_for_another(tmp_path):
    (tmp_path / "test_breaks.py").write_text(_BREAKS)
    said = pytest_alone("-q", "-rf", "-p", "tests.forked", "-p", "no:cacheprovider", "--forked", "1", "--rootdir",
                  tmp_path, tmp_path).stdout
    assert "2 failed, 2 passed in" in said and re.search(r"4 tests: \d+ s in 1 processes", said), said
    assert "test_number[1]" in said and "test_number[3]" in said


_GROWS = """
import gc
import sys
from pathlib import Path
import pytest

@pytest.fixture(scope="session", autouse=True)
def of_the_worker():
    yield
    with open(Path(__file__).with_name("ended"), "a") as opened:
        opened.write("e")

@pytest.mark.parametrize("number", range(3))
def test_number(number):
    taken = vars(sys).setdefault("taken", [])
    assert len(taken) == number and gc.get_threshold()[0] == 0
    taken.append(b"1" * (20 << 20))
"""


def test_a_worker_that_has_grown_makes_place_behind_its_module(tmp_path):
    """Not before, and its fixtures come to their end. Each module finds a worker that has run nothing."""
    (tmp_path / "conftest.py").write_text("from tests import worker_memory\nworker_memory.MUCH = 30 << 20\n"
                                          "worker_memory.gpu_available = lambda: False\n")
    for name in "abc":
        (tmp_path / f"test_{name}.py").write_text(_GROWS)
    said = pytest_alone("-q", "-rf", "-p", "tests.forked", "-p", "no:cacheprovider", "--import-mode=importlib", "--forked", "1",
                        "--rootdir", tmp_path, tmp_path).stdout
    assert "9 passed in" in said, said
    assert (tmp_path / "ended").read_text() == "eee"


class Item:
    def __init__(self, path):
        self.path = path


def test_modules_stay_together_until_nobody_has_one():
    share = Share([Item(path) for path in "aaaabbcccccc"], 2)
    assert [share.take(0), share.take(1), share.take(0)] == [0, 4, 1]
    assert [share.take(1) for _ in range(2)] == [5, 6] and [share.take(0) for _ in range(2)] == [2, 3]
    assert share.take(0) == 10 and [share.take(1) for _ in range(3)] == [7, 8, 9], "half of what is left of c"
    assert share.take(1) == NOBODY, "one test is not worth sharing" and share.take(0) == 11
