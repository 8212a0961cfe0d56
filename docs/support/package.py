"""The wheel and the source package, with what only a published one has: the project's addresses, and links of README to them.

    python docs/support/package.py --out dist                                   as the files are
    python docs/support/package.py --out dist --url https://HOST/OWNER/mimw     with addresses, and README's links made absolute

Input: the files that MANIFEST.in and pyproject.toml name. Output: mimw-VERSION-py3-none-any.whl and mimw-VERSION.tar.gz in the
folder; what is in them, in bytes; 1 if something is missing that a user looks for. Wants setuptools 77 or newer.
"""

from __future__ import annotations

import argparse
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
COPIED = ("src", "docs", "packages", "tutorials", "tests", "benchmarks", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE",
          "MANIFEST.in", "Makefile", "README.md", "pyproject.toml")
# What a user looks for after `pip install`, and in the source package.
IN_WHEEL = ("mimw/py.typed", "mimw/cli/starts/gemm.py", "mimw/compiler/triton_port/borrowed.txt",
            "mimw/simulator/costs/sm_90a.toml", "mimw/kernels/gemm/configs.json", "mimw/tlx/__init__.pyi")
IN_SOURCE = ("README.md", "CHANGELOG.md", "LICENSE", "docs/PACKAGE.md", "docs/CLI.md", "tutorials/01_pipelined_gemm.py",
             "tests/conftest.py", "tests/export/driver.c", "benchmarks/driver.py", "src/mimw/py.typed")
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
        tree = Path(folder)
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            else:
                shutil.copy(ROOT / name, tree / name)
        if options.url:
            address(tree, options.url.rstrip("/"))
        for what in ("build_sdist", "build_wheel"):     # the wheel last: it leaves folders in the tree
            subprocess.run([sys.executable, "-W", "ignore", "-c", _BUILD, what, out], cwd=tree, check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wheel = max(out.glob("mimw-*.whl"), key=lambda path: path.stat().st_mtime)
    source = max(out.glob("mimw-*.tar.gz"), key=lambda path: path.stat().st_mtime)
    with zipfile.ZipFile(wheel) as archive:
        sizes = {one.filename: one.compress_size for one in archive.infolist()}
    with tarfile.open(source) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    lost = [*missing(IN_WHEEL, sizes), *missing(IN_SOURCE, names)]
    print(f"{wheel.name}  {wheel.stat().st_size} bytes, {len(sizes)} files: {shares(sizes)}")
    print(f"{source.name}  {source.stat().st_size} bytes, {len(names)} files")
    for name in lost:
        print(f"missing: {name}")
    return 1 if lost else 0


def address(tree: Path, url: str) -> None:
    """Put the project's addresses into a copy of the files."""
    version = re.search(r'__version__ = "([^"]+)"', (tree / "src/mimw/__init__.py").read_text())[1]
    project = tree / "pyproject.toml"
    project.write_text(project.read_text().replace("[project.scripts]", f"{urls(url, version)}\n[project.scripts]", 1))
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

    parts = _CODE.split(text)       # every second one is code, in which brackets are no links
    parts[::2] = [_LINK.sub(there, part) for part in parts[::2]]
    return "".join(parts)


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
