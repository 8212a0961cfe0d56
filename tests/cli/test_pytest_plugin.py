"""`pytest --mimw-check`: suites of others, each run by a pytest of its own."""

import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mimw.cli import pytest_plugin
from mimw.tools import every_launch
from mimw.tools.every_launch import Tally
from mimw.tools.findings import Finding, Report
from tests.processes import python

ROOT = Path(__file__).parents[2]
PLUGIN = pytest_plugin.__name__
KERNELS_OF_GLUON = ROOT / "tests" / "kernels" / "gluon_kernels.py"
KERNELS = """
import numpy as np
import pytest
import triton
import triton.language as tl

@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

@triton.jit
def total(x, out, BLOCK: tl.constexpr):
    part = tl.sum(tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)))
    tl.store(out, tl.load(out) + part)      # RACE

def ones(count=64):
    return np.ones(count, np.float32)

def add_up(x=None, out=None):
    total[(2, )](ones() if x is None else x, np.zeros(1, np.float32) if out is None else out, BLOCK=32)
"""


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """`suite(text, *words)`: a pytest of a file with these tests behind `KERNELS`, and what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(text, *words, name="test_suite.py", plugin=("-p", PLUGIN), **options):
        (tmp_path / name).write_text(f"{KERNELS}\n{text}")
        return python("-m", "pytest", "-p", "no:cacheprovider", *plugin, name, *words, **options)

    return run


def summary(done):
    """The lines under `mimw check`, up to the next rule."""
    lines = done.stdout.splitlines()
    begin = next(index for index, line in enumerate(lines) if " mimw check " in line)
    return [line for line in lines[begin + 1:] if line and line[0] not in "=-"]


def test_a_right_suite_passes_and_its_launches_write_their_results(suite):
    """Launches that are equal are checked once; other numbers, shapes or arguments are other launches."""
    done = suite("""
        @pytest.mark.parametrize("count, block", [(64, 32), (64, 32), (50, 32), (64, 64)])
        def test_double(count, block):
            x = 1.5 * ones()
            double[(triton.cdiv(count, block), )](x, count, BLOCK=block)
            assert (x[:count] == 3).all() and (x[count:] == 1.5).all()
        """.replace("\n        ", "\n"), "--mimw-check")
    assert done.returncode == 0, done.stdout
    assert summary(done)[0] == "4 launches of 1 kernel, 3 different ones checked under 8 interleavings: nothing found"
    assert "4 passed" in done.stdout


def test_a_race_fails_the_tests_that_launch_it_at_its_line(suite):
    """Also one that keeps the error from pytest; one that is expected to fail does so, and the others are as without a check."""
    done = suite("""
        def test_race():
            add_up()

        def test_swallowed():
            try:
                add_up()
            except BaseException:
                pass

        def test_of_errors_of_kernels():
            with pytest.raises(Exception):
                add_up()

        @pytest.mark.xfail(reason="known")
        def test_known():
            add_up()

        def test_without_a_launch():
            pass

        def test_right():
            double[(2, )](ones(), 64, BLOCK=32)
        """.replace("\n        ", "\n"), "--mimw-check=2", "--mimw-check-sarif=found.sarif", "-rA")
    assert done.returncode == 1, done.stdout
    (line, ) = (number for number, text in enumerate(KERNELS.splitlines(), 1) if "# RACE" in text)
    assert f"test_suite.py:{line} in total" in done.stdout and "DataRace" in done.stdout and "Mend:" in done.stdout
    launched = next(number for number, text in enumerate(KERNELS.splitlines(), 1) if "total[(2, )]" in text)
    assert f"mimw found this in total, launched at {Path.cwd()}/test_suite.py:{launched}:" in done.stdout
    outcomes = {test: what for what, _, test in (line.partition(" test_suite.py::") for line in done.stdout.splitlines()) if test}
    assert {test.partition(" ")[0]: what for test, what in outcomes.items()} == {
        "test_race": "FAILED", "test_swallowed": "FAILED", "test_of_errors_of_kernels": "FAILED", "test_known": "XFAIL",
        "test_without_a_launch": "PASSED", "test_right": "PASSED"}
    assert summary(done)[:2] == ["5 launches of 2 kernels, 2 different ones checked under 2 interleavings: 1 finding in total",
                                 f"for code review: {Path.cwd()}/found.sarif"]
    (run, ) = json.loads(Path("found.sarif").read_text())["runs"]
    (result, ) = run["results"]
    where = result["locations"][0]["physicalLocation"]
    assert (result["ruleId"], where["artifactLocation"]["uri"], where["region"]["startLine"]) == ("DataRace", "test_suite.py", line)


def test_a_launch_outside_of_a_test_fails_what_needs_it(suite):
    """A file where it is imported, the tests of a fixture, a test that launches in a thread; and no other one."""
    Path("test_imported.py").write_text("from test_suite import add_up\nadd_up()\n")
    done = suite("""
        import threading

        @pytest.fixture(scope="module")
        def added_up():
            add_up()

        def test_right():
            double[(2, )](ones(), 64, BLOCK=32)

        def test_of_the_fixture(added_up):
            pass

        def test_in_a_thread():
            thread = threading.Thread(target=add_up)
            thread.start()
            thread.join()
        """.replace("\n        ", "\n"), "test_imported.py", "--mimw-check=2", "--continue-on-collection-errors", "-rA")
    told = {line.split(" - ")[0] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR ", "PASSED"))}
    assert told == {"ERROR test_imported.py", "PASSED test_suite.py::test_right", "ERROR test_suite.py::test_of_the_fixture",
                    "FAILED test_suite.py::test_in_a_thread"}


def test_a_suite_that_launches_nothing_is_as_without(suite):
    done = suite("def test_plain():\n    assert ones().sum() == 64\n", "--mimw-check")
    assert done.returncode == 0 and "1 passed" in done.stdout
    assert summary(done)[0] == "no kernel was launched, so none was checked"


def test_without_the_option_nothing_of_the_package_is_loaded(tmp_path):
    """Nor Triton or numpy: each pytest of an environment with mimw loads the plugin. (Plugins of others may load numpy.)"""
    (tmp_path / "test_plain.py").write_text("""
import sys
def test_plain():
    assert {name.partition(".")[0] for name in sys.modules} & {"numpy", "torch", "triton"} == set()
    assert [name for name in sys.modules if name.startswith("mimw.") and not name.startswith("mimw.cli")] == ["mimw.errors"]
""")
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", PLUGIN, str(tmp_path)], cwd=tmp_path,
                          capture_output=True, text=True, env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    assert done.returncode == 0 and "mimw check" not in done.stdout, done.stdout


@pytest.mark.long(but=["words0*", "words3*"], everywhere=True)
@pytest.mark.parametrize("words, said", [
    (["--mimw-check", "tests"], "'tests' is no number of interleavings; with a path behind it, write --mimw-check=8 tests"),
    (["--mimw-check=0"], "'0' is no number of interleavings"),
    (["--mimw-check-sarif=a.sarif"], "--mimw-check-sarif goes with --mimw-check"),
    (["--mimw-check", "--mimw-check-sarif=none/a.sarif"], "--mimw-check-sarif: there is no folder none")])
def test_what_cannot_be_is_refused(words, said, suite):
    done = suite("def test_plain(): pass\n", *words)
    assert done.returncode == 4 and said in done.stdout + done.stderr


def test_a_chip_that_there_is_not_is_refused(suite):
    done = suite("def test_plain(): pass\n", "--mimw-check", MIMW_TARGET="sm_1")
    assert done.returncode == 4 and "--mimw-check: " in done.stderr and "sm_1" in done.stderr


def test_kernels_as_users_have_them(suite):
    """Tensors of torch on "cuda", also those that need a derivative; autotuned, with heuristics; compiled first; a kernel of stock
    Triton's class, decorated before the name was ours."""
    pytest.importorskip("torch", reason="the tensors are torch's")
    done = suite("""
        import torch
        from triton.runtime.jit import JITFunction

        @triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 32})], ["n"])
        @triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
        @triton.jit
        def scaled(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(y + at, 3 * tl.load(x + at, mask=at < n), mask=at < n)

        @JITFunction
        def stock(x):
            tl.store(x + tl.program_id(0), 1.0)

        def test_tuned():
            x, y = torch.ones(100, device="cuda", requires_grad=True), torch.zeros(100, device="cuda")
            needed = (x * y).sum()
            scaled[lambda meta: (triton.cdiv(100, meta["BLOCK"]), )](x, y, 100)
            assert y.eq(3).all() and x.eq(1).all() and not x._version

        def test_compiled_first():
            x = torch.ones(64, device="cuda")
            double.warmup(x, 64, BLOCK=32, grid=(1, ))[(2, 1, 1)](x, 64, 32)
            assert x.eq(2).all()

        def test_stock():
            x = torch.zeros(2, device="cuda")
            stock[(2, )](x)
            assert x.eq(1).all()
        """.replace("\n        ", "\n"), "--mimw-check=2", torch=True)
    assert done.returncode == 0, done.stdout
    assert summary(done)[0] == "3 launches of 3 kernels, 3 different ones checked under 2 interleavings: nothing found"


def test_kernels_of_gluon(suite):
    """Also one that was decorated before the name was ours, and one that is not read: it ends in that, and the summary says so."""
    pytest.importorskip("torch", reason="Gluon's descriptors are of its tensors")
    done = suite(f"import sys\nsys.path.append({str(ROOT)!r})\n" + """
        import torch
        from triton.experimental import gluon
        from triton.experimental.gluon import language as gl
        from triton.experimental.gluon._runtime import GluonJITFunction
        from tests.kernels.gluon_kernels import column_sums, tiles_of

        @gluon.jit
        def one(x):
            gl.store(x, 1.0)

        @gluon.jit
        def of_another_cta(x):
            at = gl.arange(0, 64, gl.BlockedLayout([1], [32], [4], [0], cga_layout=[[1]]))
            gl.store(x + at, gl.gather(gl.load(x + at), 63 - at, 0))

        @GluonJITFunction
        def decorated_before(x):
            gl.store(x, 1.0)

        @pytest.mark.parametrize("waits", [True, False])
        def test_ring(waits):
            x, y = torch.ones(7 * 16, 64, device="cuda"), torch.zeros(64, device="cuda")
            for _ in range(2):
                column_sums[(1, )](tiles_of(x), y, 7, SLOTS=2, WAITS=waits)
            assert y.eq(112).all()

        def test_numpy():
            one[(1, )](out := np.zeros(1, np.float32))
            assert out == 1

        def test_before():
            decorated_before[(1, )](out := torch.zeros(1))
            assert out == 1

        def test_not_read():
            of_another_cta[(1, )](torch.zeros(64), num_ctas=2)
        """.replace("\n        ", "\n"), "--mimw-check=1", "-rA", torch=True)
    outcomes = {test.partition(" ")[0]: what for what, _, test in (
        line.partition(" test_suite.py::") for line in done.stdout.splitlines()) if test and what in ("PASSED", "FAILED")}
    assert outcomes == {"test_ring[True]": "PASSED", "test_ring[False]": "FAILED", "test_numpy": "PASSED", "test_before": "PASSED",
                        "test_not_read": "FAILED"}, done.stdout
    (line, ) = (number for number, text in enumerate(KERNELS_OF_GLUON.read_text().splitlines(), 1) if "# READ" in text)
    assert "CopyReadEarly" in done.stdout and f"{KERNELS_OF_GLUON}:{line}" in done.stdout
    assert "NotYet" in done.stdout and "lies in several CTAs" in done.stdout
    told = summary(done)
    assert told[0] == "6 launches of 4 kernels, 4 different ones checked under 1 interleaving: 1 finding in column_sums"
    assert told[1].startswith(f"of_another_cta was launched unchecked: NotYet at {Path.cwd()}/test_suite.py:")
    assert "several CTAs" in told[1]


def test_pytest_finds_the_plugin_by_the_entry_point_of_the_package(suite, tmp_path):
    """Under the module's own name, so that it is the same one if `-p` names it as well."""
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert entries == {PLUGIN: PLUGIN}
    installed = tmp_path / "installed" / "of_mimw-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: of-mimw\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[pytest11]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items()))
    text = f"import sys\nsys.path.insert(0, {str(installed.parent)!r})\nimport pytest\nsys.exit(pytest.main(sys.argv[1:]))\n"
    (tmp_path / "start.py").write_text(text)
    (tmp_path / "test_plain.py").write_text("def test_plain(): pass\n")
    for plugin in ((), ("-p", PLUGIN)):
        done = python("start.py", "-p", "no:cacheprovider", *plugin, "--mimw-check", "test_plain.py::test_plain", "--rootdir=.")
        assert done.returncode == 4 and "write --mimw-check=8 test_plain.py::test_plain" in done.stderr


@pytest.mark.skipif(importlib.util.find_spec("xdist") is None, reason="needs pytest-xdist")
def test_workers_of_xdist_report_together(suite):
    done = suite("""
        @pytest.mark.parametrize("count", [32, 64])
        def test_double(count):
            double[(2, )](ones(), count, BLOCK=32)

        def test_race():
            add_up()
        """.replace("\n        ", "\n"), "--mimw-check=2", "--mimw-check-sarif=found.sarif", "-p", "xdist", "-n", "1")
    assert done.returncode == 1, done.stdout
    assert summary(done)[0] == "3 launches of 2 kernels, 3 different ones checked under 2 interleavings: 1 finding in total"
    (run, ) = json.loads(Path("found.sarif").read_text())["runs"]
    assert [one["ruleId"] for one in run["results"]] == ["DataRace"]


def test_what_the_summary_says():
    found = Report((Finding("DataRace", "m", ()), Finding("DataRace", "n", ())), 8, kernel="b")
    late = Report((), 1, kernel="a", stopped="1 of 8 seeds", unseen=("2 of 9 clusters", ))
    tally = Tally(1, 3, [late])
    tally.add(Tally(1, 2, [found], {"c": "NotYet: why"}))
    assert str(tally).splitlines() == [
        "5 launches of 3 kernels, 2 different ones checked under 1 interleaving: 2 findings in b",
        f"1 check not complete: after {every_launch.SECONDS:g} s no further run began",
        f"of 1 launch with more than {every_launch.FEW} CTAs a sample ran", "c was launched unchecked: NotYet: why"]
