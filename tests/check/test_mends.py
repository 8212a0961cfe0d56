"""The mend that is printed works: planted mistakes are mended by machine and checked again; what misled names its cause now."""

import json
import linecache
import sys
from pathlib import Path

import numpy as np
import pytest

import mimw
from benchmarks import mends
from mimw.cli import main
from mimw.cli.load import load
from mimw.errors import Edit, MimwError
from mimw.tools.findings import Finding
from mimw.tools.mends import edited, mend_for
from mimw.tools.mends.kernel_source import source_of

ROWS = [json.loads(line) for line in (Path(mends.__file__).parent / "results/mends.jsonl").read_text().splitlines()]
PAGE = Path(mends.__file__).parents[1] / "docs/MENDS.md"


@pytest.fixture(scope="module", autouse=True)
def triton_keeps_its_names():
    """Commands give Triton's names to mimw's own in their process, which other tests of this one must not see."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mimw, "install_aliases", lambda: None)
        yield


@pytest.fixture(scope="module")
def kernels(triton_keeps_its_names):
    with mends.kernels() as found:
        yield {one.name: one for one in found}


@pytest.fixture
def broken(kernels, tmp_path):
    """A file with a kernel of START.md, of `mimw new gemm` or of a tutorial, in which one text stands for another."""

    def write(name: str, old: str, new: str) -> Path:
        source = Path(kernels[name].make()[0].fn.__code__.co_filename)
        text = source.read_text()
        assert old in text
        path = tmp_path / f"kernel_{len(list(tmp_path.iterdir()))}.py"
        path.write_text(text.replace(old, new, 1) + _CASES.get(name, ""))
        linecache.checkcache(str(path))
        return path

    return write


_CASES = {name: f"""

def case():
    import numpy as np
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in {shapes})
    return gemm, *arguments(a, b, np.zeros((128, 128), np.float16), BM=64, BN=64, STAGES=3, num_warps=4)
""" for name, shapes in (("tutorial 01", ((128, 256), (256, 128))), ("tutorial 11", ((128, 256), (256, 128))))}


def _found(path: Path) -> list:
    kernel, grid, args, meta = load(f"{path}:case")()
    return list(mimw.check(kernel, grid, *args, jobs=1, **meta).findings)


# ---- what misled, by the message alone ---------------------------------------------------------------------------------

def test_a_wait_that_is_gone_is_named_with_the_copy_that_completes_its_barrier(broken):
    path = broken("START.md", "                tlx.barrier_wait(full[slot], phase)\n", "")
    for finding in _found(path):
        assert finding.hint == f"wait for `full[slot]`, which the tma_load of {path}:26 completes, before {path}:18"
    path = broken("new gemm", "                tlx.barrier_wait(full[slot], phase)\n", "")
    assert [one.hint for one in _found(path)] == [f"wait for `full[slot]`, which the tma_load of {path}:31 completes, before "
                                                  f"{path}:37"]


@pytest.mark.parametrize("name, line", [("START.md", 18), ("new gemm", 37)])
def test_a_readers_inverted_parity_on_a_fresh_barrier_is_named(broken, name, line):
    path = broken(name, "barrier_wait(full[slot], phase)", "barrier_wait(full[slot], phase ^ 1)")
    for finding in _found(path):
        assert finding.message.startswith(f"the wait at {path}:{line} names the wrong parity, so that it returns too early")
        assert finding.sites[0].line == line and f"wait for the other parity at {path}:{line}" in finding.hint


def test_a_forgotten_commit_of_copies_in_a_loop_is_named(broken):
    path = broken("tutorial 01", "    tlx.async_load_commit_group()\n", "")
    finding, = _found(path)
    assert finding.kind == "CopyReadEarly" and finding.hint.startswith(f"put async_load_commit_group behind {path}:28")


@pytest.mark.parametrize("wait", ["full[slot], phase", "free[slot], phase ^ 1"])
def test_the_parity_of_the_number_in_place_of_the_rounds(broken, wait):
    new = "slot, phase = row % 2, row & 1\n                tlx.barrier_wait("
    path = broken("START.md", f"slot, phase = row % 2, (row // 2) & 1\n                tlx.barrier_wait({wait}", new + wait)
    for finding in _found(path):
        assert "with 2 slots that of a round is (i // 2) & 1" in finding.hint


@pytest.mark.parametrize("number", ["0", "chunk + 1"])
def test_a_commit_of_another_chunk_is_refused(broken, number):
    path = broken("tutorial 11", "tiles.commit(chunk)", f"tiles.commit({number})")
    finding, = _found(path)
    assert finding.kind == "ProtocolError" and [site.line for site in finding.sites] == [31, 28]
    assert finding.hint == f"give the commit at {path}:31 the number of the acquire at {path}:28."


def test_commits_of_the_acquired_chunk_pass_however_it_is_counted(kernels):
    """By the loop's number, a sum, a constant or a counter of the kernel's own: no alarm in tutorial 11 and 12."""
    kernel, grid, args, meta = kernels["tutorial 11"].make()
    assert mimw.check(kernel, grid, *args, jobs=1, **meta).ok


# ---- mends that a machine applies --------------------------------------------------------------------------------------

# Of each operator one mistake: (kernel, line of the mistake).
SAMPLE = {("START.md", 11, "more slots than fit"), ("START.md", 12, "a wrong number of arrivals"),
          ("START.md", 17, "`phase = i & 1`"), ("START.md", 18, "a wait gone"),
          ("START.md", 18, "a parity inverted"), ("START.md", 18, "a constant parity"),
          ("START.md", 18, "a wait too late"), ("START.md", 20, "one arrival too few"), ("START.md", 20, "one arrival too many"),
          ("START.md", 20, "a release too early"), ("START.md", 26, "wrong bytes"), ("START.md", 27, "coordinates exchanged"),
          ("START.md", 22, "too many warps"), ("START.md", 27, "a wrong slot"), ("new gemm", 39, "one group too many under way"),
          ("tutorial 01", 30, "a commit gone"), ("tutorial 11", 31, "a wrong index of `commit`"),
          ("new two_tasks", 30, "a release too early")}


@pytest.mark.long(but=["START.md", "new gemm", "new two_tasks", "tutorial 11"], everywhere=True)
@pytest.mark.parametrize("name", ["START.md", "new gemm", "new two_tasks", "tutorial 01", "tutorial 11"])
def test_a_mend_is_applied_and_the_check_is_clean(kernels, name):
    """The result is numpy's then, too. All mistakes: `python -m benchmarks.mends`."""
    wanted = {(line, operator) for kernel, line, operator in SAMPLE if kernel == name}
    seen = set()

    def chosen(mistake) -> bool:
        first = (mistake.line, mistake.operator) not in seen
        seen.add((mistake.line, mistake.operator))
        return first and (mistake.line, mistake.operator) in wanted

    rows = list(mends.rows_of(kernels[name], chosen))
    assert {(row.line, row.operator) for row in rows} == wanted
    assert [row for row in rows if row.steps != 1 or not row.right] == []


def test_the_figures_are_the_goal_and_those_of_the_page():
    steps = [row["steps"] for row in ROWS]
    assert {row["kernel"] for row in ROWS} == {"START.md", "new gemm", "new two_tasks", "new layer_norm", "tutorial 01",
                                               "tutorial 02", "tutorial 11"}
    assert steps.count(1) >= 0.9 * len(steps) and 0 not in steps
    assert PAGE.read_text() == mends.page(ROWS)


# ---- the command -------------------------------------------------------------------------------------------------------

WAITS_WRONG = "barrier_wait(full[slot], phase)", "barrier_wait(full[slot], phase ^ 1)"


def test_fix_shows_a_diff_and_apply_writes_it(broken, capsys):
    path = broken("START.md", *WAITS_WRONG)
    text = path.read_text()
    assert main(["check", f"{path}:case", "--fix", "--jobs", "1"]) == 1
    shown = capsys.readouterr().out
    assert f"Mend: {path}:18: write `phase` for `phase ^ 1`" in shown
    wrong, right = (f"                tlx.{wait}\n" for wait in reversed(WAITS_WRONG))
    assert f"-{wrong}+{right}" in shown
    assert path.read_text() == text
    assert main(["check", f"{path}:case", "--fix", "--apply", "--jobs", "1"]) == 0
    assert path.read_text() == text.replace(*reversed(WAITS_WRONG))
    assert "is changed" in capsys.readouterr().out


def test_json_has_the_edits(broken, capsys):
    path = broken("START.md", *WAITS_WRONG)
    assert main(["check", f"{path}:case", "--json", "--jobs", "1"]) == 1
    report = json.loads(capsys.readouterr().out)
    edit = {"file": str(path), "line": 18, "last": 18, "action": "replace",
            "text": "                tlx.barrier_wait(full[slot], phase)"}
    assert report["mend"]["edits"] == [edit] and all(one["edits"] == [edit] for one in report["findings"])


def test_apply_goes_with_fix(broken, capsys):
    assert main(["check", f"{broken('START.md', *WAITS_WRONG)}:case", "--apply"]) == 2
    assert "--apply goes with --fix" in capsys.readouterr().err


def test_a_file_that_has_changed_is_left_alone(broken):
    path = broken("START.md", *WAITS_WRONG)
    kernel, grid, args, meta = load(f"{path}:case")()
    report = mimw.check(kernel, grid, *args, jobs=1, mends=True, **meta)
    path.write_text("# a line\n" + path.read_text())
    with pytest.raises(MimwError, match="has changed since"):
        report.mend.apply()


# ---- when there is none ------------------------------------------------------------------------------------------------

def test_changes_that_compute_something_else_are_told_besides(broken):
    """If every change checked as clean and computed something else, only the author would know which is meant."""
    kernel, results = load(f"{broken('START.md', *WAITS_WRONG)}:row_sums"), iter(range(100))
    mend = mend_for(kernel, [Finding("DataRace", "", ())], lambda kernel, whole: (), 20, lambda kernel: bytes([next(results)]))
    assert mend.others and "only you know which is meant" in str(mend)
    assert not mend_for(kernel, [Finding("DataRace", "", ())], lambda kernel, whole: (), 20, lambda kernel: b"").others


def test_what_only_the_result_shows_is_mended_where_results_are_expected(broken, capsys):
    path = broken("new gemm", "A[slot], [m, i * BK]", "A[slot], [i * BK, m]")
    assert main(["check", f"{path}:case", "--fix", "--apply", "--jobs", "1"]) == 0
    assert "WrongResult" in capsys.readouterr().out and "A[slot], [m, i * BK]" in path.read_text()


@pytest.mark.long(shown_by="test_a_change_after_which_less_is_found_is_a_first_step")
def test_two_mistakes_are_mended_together(broken):
    """Neither alone: with either one left the kernel gets stuck, or reads what nobody has written."""
    path = broken("START.md", *WAITS_WRONG)
    path.write_text(path.read_text().replace("free[slot], phase ^ 1", "free[slot], phase"))
    kernel, grid, args, meta = load(f"{path}:case")()
    report = mimw.check(kernel, grid, *args, jobs=1, mends=60, **meta)
    assert {edit.line for edit in report.mend.edits} == {18, 25} and report.mend.left == 0
    report.mend.apply()
    linecache.checkcache(str(path))
    assert _found(path) == []


def test_nothing_is_told_that_does_not_help(broken):
    kernel, found = load(f"{broken('START.md', *WAITS_WRONG)}:row_sums"), [Finding("DataRace", "", ())]
    assert mend_for(kernel, found, lambda kernel, whole: found, 20, most=10) is None


def test_a_change_after_which_less_is_found_is_a_first_step(broken):
    kernel, found = load(f"{broken('START.md', *WAITS_WRONG)}:row_sums"), [Finding("DataRace", "", ()), Finding("Deadlock", "", ())]
    mend = mend_for(kernel, found, lambda kernel, whole: found[:1] if whole else (), 20, most=10)
    assert mend.left == 1 and "a first step" in str(mend)


def test_a_kernel_without_a_file_of_its_own_has_no_mend():
    def made():
        import triton.language as tl

        @mimw.jit
        def kernel(x):
            tl.store(x + 100 + tl.arange(0, 16), 1.0)
        return kernel

    report = mimw.check(made(), (1, ), np.zeros(16, np.float32), mends=True)
    assert not report.ok and report.mend is None and report.findings[0].edits == ()


def test_only_the_kernels_functions_are_made_anew(tmp_path):
    """What else the file does is not done again, and the module keeps its kernel."""
    path = tmp_path / "counted.py"
    path.write_text("import mimw\nimport triton.language as tl\nruns = []\nruns.append(1)\n\n\n@mimw.jit\ndef one(x):\n"
                    "    tl.store(x, 1.0)\n")
    kernel = load(f"{path}:one")
    with source_of(kernel) as source:
        other = source.remade(source.text.replace("1.0", "2.0"))
        x = np.zeros(1, np.float32)
        mimw.simulate(other, (1, ), x)
        assert x[0] == 2.0 and sys.modules[kernel.fn.__module__].runs == [1]
        assert sys.modules[kernel.fn.__module__].one is kernel


@pytest.mark.parametrize("edits, text", [
    ([Edit("f", 2, 2, "delete")], "a\nc\n"), ([Edit("f", 2, 2, "insert", "x")], "a\nx\nb\nc\n"),
    ([Edit("f", 1, 2, "replace", "x\ny\nz")], "x\ny\nz\nc\n"), ([Edit("f", 4, 4, "insert", "x")], "a\nb\nc\nx\n"),
    ([Edit("f", 1, 1, "delete"), Edit("f", 3, 3, "insert", "a")], "b\na\nc\n"),
    ([Edit("f", 3, 3, "delete"), Edit("f", 1, 1, "insert", "c")], "c\na\nb\n")])
def test_edits_name_lines_of_the_file_as_it_was(edits, text):
    assert edited("a\nb\nc\n", edits) == text
