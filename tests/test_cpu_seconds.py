"""The plugin that names dear tests, in a run of its own."""

from tests import cpu_seconds
from tests.processes import python

_TESTS = """
import time

def test_dear():
    end = time.process_time() + 0.6
    while time.process_time() < end:
        pass

def test_waiting():
    time.sleep(0.6)
"""


def test_what_computes_is_named_and_what_waits_is_not(tmp_path):
    (tmp_path / "test_two.py").write_text(_TESTS)
    done = python("-m", "pytest", "-q", "-p", "tests.cpu_seconds", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Tests over 0.5 CPU seconds: 1, " in done.stdout
    assert "test_two.py::test_dear" in done.stdout and "test_waiting" not in done.stdout


def test_what_a_forked_process_computes_counts():
    python("-c", "")        # the one that it is forked from has started
    before = cpu_seconds._now()
    assert python("-c", "import time\nwhile time.process_time() < 0.3: pass").returncode == 0
    assert cpu_seconds._now() - before > 0.1
