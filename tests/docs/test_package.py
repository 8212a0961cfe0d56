"""What a package holds, and docs/PACKAGE.md: all data is named, links work elsewhere, numbers are about those of the code."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import mimw
from docs.support import package
from mimw.cli.starts import gemm
from mimw.compiler.triton_port import borrowed
from mimw.runtime.export import export
from tests import versions
from tests.export.building import COMPILER, CUDA, needs_compiler

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "PACKAGE.md").read_text()


@needs_compiler
def test_the_program_in_c_is_one(tmp_path):
    """By the header of the kernel that `mimw new gemm` writes."""
    code = re.search(r"```c\n(.*?)```", PAGE, re.DOTALL)[1]
    kernel, grid, args, meta = gemm.case()
    (tmp_path / "gemm.h").write_text(export(kernel, grid, *args, target="sm_90a", **meta).files["gemm.h"])
    given = ", ".join(f"CUdeviceptr address_{name}" for name in "abc")
    head = f'#include "gemm.h"\nCUresult f(CUstream stream, {given}, int m, int n, int k)'
    (tmp_path / "program.c").write_text(f"{head} {{\n{code}return status;\n}}\n")
    subprocess.run([COMPILER, "-std=c11", "-Wall", "-Werror", "-fsyntax-only", f"-isystem{CUDA}", "program.c"], cwd=tmp_path,
                   check=True)


def test_every_file_of_data_is_in_the_wheel():
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["mimw"]
    source = ROOT / "src" / "mimw"
    named = {path for pattern in patterns for path in source.glob(pattern)}
    folders = {path.parent for path in source.rglob("__init__.py")}     # what setuptools finds by itself
    left = [path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts
            and not (path.suffix == ".py" and path.parent in folders)]
    assert len(left) > 20 and [path for path in left if path not in named] == []
    assert all((source.parent / name).exists() for name in package.IN_WHEEL)
    assert all((ROOT / name).exists() for name in package.IN_SOURCE)


def test_every_file_that_tests_read_is_in_the_source_package():
    """All of the folders beside src/, less what Python leaves there; and whatever folder of ours their programs import."""
    named = {path for line in (ROOT / "MANIFEST.in").read_text().splitlines() if line.startswith("recursive-include ")
             for folder, *patterns in [line.split()[1:]] for pattern in patterns for path in (ROOT / folder).rglob(pattern)}
    folders = [ROOT / name for name in package.COPIED if name != "src" and (ROOT / name).is_dir()]
    there = {path for folder in folders for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert there - named == set() and len(there) > 1000
    imported = {name for path in there if path.suffix == ".py"
                for name in re.findall(r"^ *(?:from|import) (\w+)", path.read_text(), re.MULTILINE)}
    ours = {path.name for path in ROOT.iterdir() if path.is_dir()}
    assert imported & ours <= set(package.COPIED) and "benchmarks" in imported & ours


def test_links_become_absolute_and_code_stays():
    text = "[a](docs/A.md), [b](./B.md#x), [c](https://h/C), [d](#d); `e[grid](f)`\n```\ng[0](h)\n```\n[`i`](I.md) ![a b](b.svg)"
    assert package.absolute(text, "https://h/o", "v1") == (
        "[a](https://h/o/blob/v1/docs/A.md), [b](https://h/o/blob/v1/B.md#x), [c](https://h/C), [d](#d); `e[grid](f)`\n"
        "```\ng[0](h)\n```\n"
        "[`i`](https://h/o/blob/v1/I.md) ![a b](https://h/o/raw/v1/b.svg)")


def test_addresses_are_put_into_a_copy(tmp_path):
    (tmp_path / "src/mimw").mkdir(parents=True)
    (tmp_path / "src/mimw/__init__.py").write_text(f'__version__ = "{mimw.__version__}"\n')
    for name in ("pyproject.toml", "README.md"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    package.address(tmp_path, "https://h/o/mimw")
    found = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert found["urls"]["Issues"] == "https://h/o/mimw/issues" and found["scripts"] == {"mimw": "mimw.cli:main"}
    outside = re.sub(r"```.*?```|`[^`\n]*`", "", (tmp_path / "README.md").read_text(), flags=re.DOTALL)
    assert "](https://h/o/mimw/blob/v" in outside and "](https://h/o/mimw/raw/v" in outside
    assert re.findall(r"\]\((?!https?://|#)", outside) == []
    assert package.missing(["a", "b"], ["b"]) == ["a"] and package.shares({"m/a/x": 3072, "m/b": 1024}) == "m/a 3 KB, m/b 1 KB"


def test_the_page_counts_what_there_is_to_within_a_few():
    for text, counted in (("names that the door imports", borrowed.imported()), ("with their parameters", borrowed.signatures()),
                          ("lowering calls by name", borrowed.built())):
        assert abs(int(re.search(rf"{text}, some (\d+) \|", PAGE)[1]) - len(counted)) < 25


def test_versions_writes_its_rows_and_says_if_one_failed(monkeypatch, tmp_path, capsys):
    def row(folder, python, torch, numpy, tests):
        return {"asked": f"{torch} {numpy}", "result": "ok" if numpy == "2.4" else "failed"}

    monkeypatch.setattr(versions, "row", row)
    path = tmp_path / "rows.json"
    assert versions.main(["--torch", "none", "--numpy", "2.4", "--json", str(path)]) == 0
    assert versions.main(["--torch", "none", "2.15", "--numpy", "2.4", "2.0", "--json", str(path)]) == 1
    assert [row["asked"] for row in json.loads(path.read_text())] == ["none 2.4", "none 2.0", "2.15 2.4", "2.15 2.0"]
    assert "2.15 2.0 | failed" in capsys.readouterr().out
    rows = [{"torch": "2.15.0", "numpy": "2.4.6", "result": "ok"}]
    page = versions.with_table(f"a\n{versions.BEGIN}old\n{versions.END}z\n", rows)
    assert page.startswith(f"a\n{versions.BEGIN}| torch | numpy |") and page.endswith(f"\n{versions.END}z\n") and "old" not in page
    assert "| 2.15.0 | 2.4.6 | - | - | - | - | ok | - | - |" in page
