"""The checks of published kernels, on kernels of our own in the place of fetched files: docs/BUGS.md tells of them."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="benchmarks import torch")

from benchmarks import compiled_checks
from benchmarks.compiled_checks import CASES, arguments, checked
from benchmarks.compiled_checks_found import FOUND, NOT_TAKEN
from benchmarks.compiled_checks_sources import Case, Launch, module_of, to_ttgir
from benchmarks.others_sources import NotFetched, Source
from mimw.compiler.triton_port.late_fences import with_late_fences

HERE = Path(__file__).parent.parent / "kernels"
ROWS = "fp16[64,64]/16,64"
LAUNCHES = {
    "freed_the_next_one": ("PhaseMissed", dict(out="i32[4,128]"), {"out": "np.arange(128) + np.arange(4)[:, None]"}),
    "one_load_too_many": ("UnfinishedAtExit", dict(source=ROWS, target=ROWS, n=4), {"target": "source"}),
    "rows_for_columns": ("WrongResult", dict(target="fp16[16,256]/16,64"), {"target": "np.ones((16, 256))"}),
}


@pytest.fixture
def packages(tmp_path):
    (tmp_path / "own-1").symlink_to(HERE)
    return tmp_path


def case(function: str, is_right: bool) -> Case:
    _, args, results = LAUNCHES[function]
    return Case(function, Source("own", "1", "wild_compiled.py", function), 90,
                lambda module: Launch((1, ), args, dict(RIGHT=is_right), results), is_wrong=None)


@pytest.mark.parametrize("function", LAUNCHES)
def test_each_mistake_is_found_and_the_right_kernel_is_passed(function, packages):
    wrong, right = (checked(case(function, is_right), packages, 2, 60.0) for is_right in (False, True))
    assert LAUNCHES[function][0] in wrong["said"] and wrong["findings"][0]["lines"][0].startswith("wild_compiled.py:")
    assert str(packages) not in json.dumps(wrong)
    assert right["said"] == "ok" and right["compared"] and right["ops"] and right["simulated"]


def test_a_file_that_is_not_there_says_so(tmp_path):
    (tmp_path / "own-1").mkdir()
    assert checked(case("rows_for_columns", True), tmp_path, 1, 60.0)["said"] == "not fetched"
    with pytest.raises(NotFetched, match=r"has no file wild_compiled\.py"):
        module_of(Source("own", "1", "wild_compiled.py", ""), tmp_path)


def test_a_kernel_that_triton_refuses_is_a_row(packages):
    refused = Case("no", Source("own", "1", "wild_compiled.py", "rows_for_columns"), 90, lambda module: Launch((1, ), dict(
        target="fp16[16,256]"), dict(RIGHT=True)))
    assert checked(refused, packages, 1, 60.0)["said"] == "not compiled"


def test_arguments_begin_with_what_the_launch_says():
    launch = Launch((1, ), dict(x="fp32[4]", rows="i32[4]", n=4), fill={"rows": "np.arange(4) * 2"}, results={"x": "x + n"})
    (x, rows, n), right = arguments(launch, ["x", "rows", "n"])
    assert rows.tolist() == [0, 2, 4, 6] and n == 4 and x.dtype == np.float32 and np.ptp(x) > 0
    assert np.array_equal(right["x"], x + 4)


def test_triton_puts_in_the_fence_before_a_tma_store(packages):
    text, _, _ = to_ttgir(case("rows_for_columns", True), packages)
    fence = "ttng.fence_async_shared"
    bare = "\n".join(one for one in text.splitlines() if fence not in one)
    assert fence in text and fence not in bare and fence in with_late_fences(bare, 90)


def test_the_table_and_what_is_said_of_it_name_the_same_kernels():
    assert {*FOUND, *NOT_TAKEN} <= CASES.keys()
    assert sum(one.is_wrong is True for one in CASES.values()) > 50 and all(one.source.version for one in CASES.values())


def test_the_command_prints_a_line_each_and_keeps_rows(packages, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(compiled_checks, "CASES", {one.name: one for one in [case("rows_for_columns", True)]})
    call = ["--packages", str(packages), "--results", str(tmp_path / "rows"), "--seeds", "1"]
    assert compiled_checks.main(call) == 0
    assert "rows_for_columns" in capsys.readouterr().out
    (row, ) = map(json.loads, (tmp_path / "rows" / "compiled_checks.jsonl").read_text().splitlines())
    assert row["said"] == "ok" and row["function"] == "rows_for_columns"
    assert compiled_checks.main([*call, "--keep", str(tmp_path / "kept")]) == 0
    assert "tt.func" in (tmp_path / "kept" / "rows_for_columns.ttgir").read_text()
