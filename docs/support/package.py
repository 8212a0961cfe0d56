"""The packages that are published: mimw, its source package, and mimw-kernels, whose files lie in the folder of mimw.

    python docs/support/package.py --out dist                                   as the files are
    python docs/support/package.py --out dist --url https://HOST/OWNER/mimw     with addresses, and README's links made absolute

Input: the files that MANIFEST.in and pyproject.toml name. Output: mimw-VERSION-py3-none-any.whl, mimw-VERSION.tar.gz and
mimw_kernels-VERSION-py3-none-any.whl in the folder, the same bytes in each run; what is in them, in bytes; 1 if something is
missing that a user looks for, or lies in the wrong one (docs/support/parts.py divides). Wants setuptools 77 or newer.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]
from docs.support import parts  # noqa: E402 (the path first: this is run as a script)

COPIED = ("src", "docs", "packages", "tutorials", "tests", "benchmarks", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE",
          "MANIFEST.in", "Makefile", "README.md", "pyproject.toml", ".pre-commit-hooks.yaml")
# What a user looks for after `pip install`, in either wheel, and in the source package.
IN_WHEEL = ("mimw/py.typed", "mimw/cli/starts/gemm.py", "mimw/compiler/triton_port/borrowed.txt",
            "mimw/simulator/costs/sm_90a.toml", "mimw/tlx/__init__.pyi")
IN_LIBRARY = ("mimw/kernels/gemm/configs.json", "mimw/ops/__init__.pyi", "mimw/nn/__init__.py", "mimw/tuning/__init__.py")
IN_SOURCE = ("README.md", "CHANGELOG.md", "LICENSE", "docs/PACKAGE.md", "docs/CLI.md", "docs/schemas/findings.schema.json",
             ".pre-commit-hooks.yaml", "tutorials/01_pipelined_gemm.py", "tests/conftest.py", "tests/export/driver.c",
             "benchmarks/driver.py", "src/mimw/py.typed", "src/mimw/kernels/gemm/configs.json",
             "packages/mimw-kernels/pyproject.toml")
_LINK = re.compile(r"(!\[[^\]]*)?(\]\()(?!https?://|#|mailto:)([^)\s]+)\)")      # where it is a picture its words, the address
_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
_BUILD = "from setuptools import build_meta; import sys; getattr(build_meta, sys.argv[1])(sys.argv[2])"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("dist"))
    parser.add_argument("--url", help="the address of the project, for [project.urls] and README's links")
    options = parser.parse_args(argv)
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "mimw")
        copy(tree)
        if options.url:
            address(tree, options.url.rstrip("/"))
        library = Path(folder, "mimw-kernels")
        library.mkdir()
        for path in (*(tree / "packages" / "mimw-kernels").iterdir(), tree / "LICENSE"):
            shutil.copy(path, library)
        shutil.copytree(tree / "src", library / "src")
        project = tree / "pyproject.toml"
        project.write_text(parts.narrowed(project.read_text()))
        source = build("build_sdist", tree, out, "mimw-*.tar.gz")
        parts.repack(source)
        wheels = {False: build("build_wheel", tree, out, "mimw-*.whl"),     # last: it leaves folders in the tree
                  True: build("build_wheel", library, out, "mimw_kernels-*.whl")}
    wrong = []
    for of_library, wheel in wheels.items():
        with zipfile.ZipFile(wheel) as archive:
            sizes = {one.filename: one.compress_size for one in archive.infolist()}
        wrong += parts.unlike(of_library, sizes) + missing(IN_LIBRARY if of_library else IN_WHEEL, sizes)
        print(f"{wheel.name}  {wheel.stat().st_size} bytes, {len(sizes)} files: {shares(sizes)}")
    with tarfile.open(source) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    print(f"{source.name}  {source.stat().st_size} bytes, {len(names)} files")
    for name in (wrong := wrong + missing(IN_SOURCE, names)):
        print(f"missing, or in the wrong package: {name}")
    return 1 if wrong else 0


def copy(tree: Path) -> None:
    """The project's files, with the modes that a wheel has."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(ROOT / name, tree / name)
    for path in tree.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def build(what: str, tree: Path, out: Path, pattern: str) -> Path:
    """One package of a tree, by setuptools, with the times that SOURCE_DATE_EPOCH says; its path."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", _BUILD, what, out], cwd=tree, capture_output=True, text=True,
                          env=os.environ | {"SOURCE_DATE_EPOCH": str(parts.seconds())})
    if done.returncode:
        raise SystemExit(f"{what} of {tree.name} failed (is setuptools 77 or newer?):\n{done.stderr[-3000:]}")
    return max(out.glob(pattern), key=lambda path: path.stat().st_mtime)


def address(tree: Path, url: str) -> None:
    """Put the project's addresses into a copy of the files."""
    version = re.search(r'__version__ = "([^"]+)"', (tree / "src/mimw/__init__.py").read_text())[1]
    for project, before in ((tree / "pyproject.toml", "[project.scripts]"),
                            (tree / "packages/mimw-kernels/pyproject.toml", "[tool.setuptools]")):
        project.write_text(project.read_text().replace(before, f"{urls(url, version)}\n{before}", 1))
    readme = tree / "README.md"
    readme.write_text(absolute(readme.read_text(), url, f"v{version}"))


def urls(url: str, version: str) -> str:
    """The table of addresses in pyproject.toml."""
    pages = {"Homepage": url, "Source": url, "Issues": f"{url}/issues", "Documentation": f"{url}/blob/v{version}/docs",
             "Changelog": f"{url}/blob/v{version}/CHANGELOG.md"}
    return "[project.urls]\n" + "".join(f'{name} = "{page}"\n' for name, page in pages.items())


def absolute(text: str, url: str, version: str) -> str:
    """Links of a text to files of the project, as a page elsewhere needs them: to the page of a file, or to a picture itself."""

    def there(link: re.Match) -> str:
        return f"{link[1] or ''}{link[2]}{url}/{'raw' if link[1] else 'blob'}/{version}/{link[3].removeprefix('./')})"

    pieces = _CODE.split(text)      # every second one is code, in which brackets are no links
    pieces[::2] = [_LINK.sub(there, piece) for piece in pieces[::2]]
    return "".join(pieces)


def missing(wanted: Iterable[str], there: Iterable[str]) -> list[str]:
    """Those of the names that are not there."""
    return sorted(set(wanted) - set(there))


def shares(sizes: dict[str, int]) -> str:
    """Which folders of the package take the most of it."""
    folders = Counter()
    for name, size in sizes.items():
        folders["/".join(name.split("/")[:2])] += size
    return ", ".join(f"{name} {size // 1024} KB" for name, size in folders.most_common(5))


if __name__ == "__main__":
    sys.exit(main())
