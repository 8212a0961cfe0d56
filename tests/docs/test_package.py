"""What a package holds, and docs/PACKAGE.md: all data is named, links work elsewhere, numbers are about those of the code."""

import json
import os
import random
import re
import subprocess
import sys
import tarfile
import textwrap
import tomllib
import zipfile
from pathlib import Path

import pytest

import mimw
from docs.support import package, parts
from mimw.cli.starts import gemm
from mimw.compiler.triton_port import borrowed
from mimw.runtime.export import export
from mimw.runtime.library import DISTRIBUTION as library_name
from tests import versions
from tests.export.building import COMPILER, CUDA, needs_compiler

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
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
    patterns, of_library = (tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
                            for folder in (".", "packages/mimw-kernels"))
    assert {name: globs for name, globs in patterns.items() if name != "mimw"} == of_library
    source = ROOT / "src" / "mimw"
    named = {path for name, globs in patterns.items() for pattern in globs
             for path in source.parent.joinpath(*name.split(".")).glob(pattern)}
    folders = {path.parent for path in source.rglob("__init__.py")}     # what setuptools finds by itself
    left = [path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts
            and not (path.suffix == ".py" and path.parent in folders)]
    assert len(left) > 20 and [path for path in left if path not in named] == []
    assert package.missing(package.IN_WHEEL, parts.files(library=False)) == []
    assert package.missing(package.IN_LIBRARY, parts.files(library=True)) == []
    assert all((ROOT / name).exists() for name in package.IN_SOURCE)


def wheel(path: Path, library: bool) -> int:
    """A wheel's files in a zip as setuptools makes it, in bytes, with a RECORD of as many lines (45 bytes each, compressed)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in parts.files(library):
            archive.write(SOURCE / name, name)
        archive.writestr("RECORD", random.Random(0).randbytes(45 * len(archive.namelist())))
    return path.stat().st_size


def test_two_wheels_share_the_tree(tmp_path):
    """No file lies in both, each lies in one, and each wheel is as small as the page says."""
    tree = {str(path.relative_to(SOURCE)) for path in SOURCE.joinpath("mimw").rglob("*")
            if path.is_file() and path.suffix != ".pyc"}
    for library, name in ((False, "mimw"), (True, "mimw-kernels")):
        files = parts.files(library)
        assert parts.unlike(library, [*files, "mimw-0.dist-info/RECORD"]) == [] and parts.unlike(library, files[1:]) == files[:1]
        assert not tree.isdisjoint(files)
        tree -= set(files)
        megabytes = float(re.search(rf"\| `{name}` \| ([\d.]+) MB", PAGE)[1])
        assert wheel(tmp_path / name, library) / 1e6 == pytest.approx(megabytes, abs=0.1)
    assert tree == set()


def test_what_is_published_requires_its_other_half_in_the_same_version():
    project = tomllib.loads(parts.narrowed((ROOT / "pyproject.toml").read_text()))
    library, *users = (tomllib.loads((ROOT / "packages" / name / "pyproject.toml").read_text())
                       for name in (library_name, "mimw-vllm", "mimw-sglang"))
    assert project["project"]["optional-dependencies"]["kernels"] == [f"{library_name}=={mimw.__version__}"]
    found = project["tool"]["setuptools"]["packages"]["find"]
    assert sorted(found["exclude"]) == sorted(library["tool"]["setuptools"]["packages"]["find"]["include"])
    assert library["project"]["dependencies"] == [f"mimw=={mimw.__version__}"]
    assert library["project"]["classifiers"] == [one for one in project["project"]["classifiers"]
                                                 if one != "Topic :: Software Development :: Compilers"]
    for one in (library, *users):
        assert one["project"]["version"] == mimw.__version__
    for one in users:
        assert one["project"]["dependencies"] == [f"mimw[kernels,torch]=={mimw.__version__}"]
    with pytest.raises(ValueError, match="should have 'kernels = ..' once"):
        parts.narrowed("where = [\"src\"]\n")


def test_source_packages_are_the_same_bytes_whoever_made_them_when(tmp_path):
    made = []
    for name, mode in (("one", 0o600), ("two", 0o644)):
        folder = tmp_path / name / "p-1"
        folder.mkdir(parents=True)
        for file in ("ab" if mode == 0o600 else "ba"):
            (folder / file).write_text(file)
            (folder / file).chmod(mode)
        archive = tmp_path / name / "p.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            for file in ("ab" if mode == 0o600 else "ba"):
                tar.add(folder / file, f"p-1/{file}")
        parts.repack(archive)
        made.append(archive.read_bytes())
    assert made[0] == made[1]
    with tarfile.open(archive) as tar:
        assert {one.name: (one.mtime, one.mode, tar.extractfile(one).read()) for one in tar} == {
            "p-1/a": (parts.seconds(), 0o644, b"a"), "p-1/b": (parts.seconds(), 0o644, b"b")}


def test_without_the_library_an_import_names_the_command(tmp_path):
    """A folder with the tools' files alone, as the wheel mimw installs them; commands that want the library say the same."""
    for name in parts.files(library=False):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(SOURCE / name)
    (tmp_path / "program.py").write_text(textwrap.dedent(f"""
        import sys
        sys.path[:] = [{str(tmp_path)!r}, *(path for path in sys.path if path != {str(SOURCE)!r})]
        import mimw
        said = []
        for statement in ("import mimw.ops", "from mimw import kernels", "import mimw.nn", "import mimw.tuning.write",
                          "from mimw.integrations import vllm", "mimw.ops"):
            try:
                exec(statement)
            except (ImportError, AttributeError) as error:
                said.append(f"{{type(error).__name__}}: {{error}}")
        print(*said, sep="\\n")
        print(hasattr(mimw, "ops"), hasattr(mimw, "nothing"))
        from mimw.cli import main
        print(main(["demo"]), main(["tune", "--list"]))
    """))
    done = subprocess.run([sys.executable, "-P", tmp_path / "program.py"], capture_output=True, text=True, cwd=tmp_path,
                          env=os.environ | {"PYTHONPATH": ""})
    told = "is of the package mimw-kernels, which is not installed: pip install 'mimw[kernels]==" + mimw.__version__ + "'"
    assert done.stdout.splitlines() == [
        *(f"LibraryMissing: mimw.{name} {told}" for name in ("ops", "kernels", "nn", "tuning", "integrations")),
        f"AttributeError: mimw.ops {told}", "False False", "1 1"], done.stderr
    assert done.stderr == f"mimw: mimw.kernels {told}\nmimw: mimw.tuning {told}\n"


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
    (tmp_path / "packages/mimw-kernels").mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "packages/mimw-kernels/pyproject.toml"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    package.address(tmp_path, "https://h/o/mimw")
    found, library = (tomllib.loads((tmp_path / folder / "pyproject.toml").read_text())["project"]
                      for folder in (".", "packages/mimw-kernels"))
    assert found["urls"]["Issues"] == "https://h/o/mimw/issues" and found["scripts"] == {"mimw": "mimw.cli:main"}
    assert library["urls"] == found["urls"]
    outside = re.sub(r"```.*?```|`[^`\n]*`", "", (tmp_path / "README.md").read_text(), flags=re.DOTALL)
    assert "](https://h/o/mimw/blob/v" in outside and "](https://h/o/mimw/raw/v" in outside
    assert re.findall(r"\]\((?!https?://|#)", outside) == []
    assert package.missing(["a", "b"], ["b"]) == ["a"] and package.shares({"m/a/x": 3072, "m/b": 1024}) == "m/a 3 KB, m/b 1 KB"


def test_the_page_counts_what_there_is_to_within_a_few():
    for text, counted in (("names that the door imports", borrowed.imported()), ("with their parameters", borrowed.signatures()),
                          ("lowering calls by name", borrowed.built())):
        assert abs(int(re.search(rf"{text}, some (\d+) \|", PAGE)[1]) - len(counted)) < 25


def test_versions_writes_its_rows_and_says_if_one_failed(monkeypatch, tmp_path, capsys):
    def row(folder, python, torch, numpy, tests, triton):
        return {"asked": f"{torch} {numpy}", "result": "ok" if (numpy, triton) == ("2.4", "3.9.*") else "failed"}

    monkeypatch.setattr(versions, "row", row)
    path = tmp_path / "rows.json"
    assert versions.main(["--torch", "none", "--numpy", "2.4", "--json", str(path)]) == 0
    assert versions.main(["--torch", "none", "--numpy", "2.4", "--triton", "3.9.*", "3.8.0"]) == 1
    assert versions.main(["--torch", "none", "2.15", "--numpy", "2.4", "2.0", "--json", str(path)]) == 1
    assert [row["asked"] for row in json.loads(path.read_text())] == ["none 2.4", "none 2.0", "2.15 2.4", "2.15 2.0"]
    assert "2.15 2.0 | failed" in capsys.readouterr().out
    rows = [{"torch": "2.15.0", "numpy": "2.4.6", "result": "ok"}]
    page = versions.with_table(f"a\n{versions.BEGIN}old\n{versions.END}z\n", rows)
    assert page.startswith(f"a\n{versions.BEGIN}| torch | numpy |") and page.endswith(f"\n{versions.END}z\n") and "old" not in page
    assert "| 2.15.0 | 2.4.6 | - | - | - | - | ok | - | - |" in page
