"""Which torch, numpy and Triton go with this package: each set gets a virtual environment of its own, where some tests run.

    python -m tests.versions --torch 2.13.0 2.14.1 2.15.0 none --numpy 2.4.6
    python -m tests.versions --triton 3.8.0 3.9.0
    python -m tests.versions --page rows.json more_rows.json
    python -m tests.versions --torch none --numpy 2.0.2 2.1.3 --tests tests/test_jit.py --json rows.json

Input: versions, as pip takes them; `none` is no torch. Output: a row for each set, as docs/PACKAGE.md has them; 1 if one failed.
pip installs the package as a wheel, then torch. Where pip refuses the set, since torch names another Triton, torch is installed
without its Triton, and the row says so; a Triton that the package does not require is installed last. The environments are in a
temporary folder, which goes when the program ends; a torch for CUDA takes 6 GB and some minutes.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE, BEGIN, END = ROOT / "docs" / "PACKAGE.md", "<!-- versions -->\n", "<!-- end of versions -->\n"
TESTS = ["tests/test_import.py", "tests/test_jit.py", "tests/simulator/test_tiles.py", "tests/simulator/test_host_arrays.py",
         "tests/export", "tests/ops/test_operator.py", "tests/ops/test_matmul.py", "tests/ops/test_softmax.py",
         "tests/ops/test_exported_operator.py"]
_REQUIRED = "import importlib.metadata as m; print('\\n'.join(m.requires('torch') or []))"
_INSTALLED = ("import importlib.metadata as m, sys, platform\n"
              "found = {d.metadata['Name'].lower().replace('_', '-'): d.version for d in m.distributions()}\n"
              "print(platform.python_version(), *(found.get(name, '-') for name in ('torch', 'triton', 'numpy', 'ml-dtypes')))")
_SUMMARY = re.compile(r"(\d+) (passed|failed|skipped|error|errors|deselected)")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", nargs="+", default=["none"], metavar="VERSION")
    parser.add_argument("--numpy", nargs="+", default=["2.4.6"], metavar="VERSION")
    parser.add_argument("--triton", nargs="+", default=["3.9.*"], metavar="VERSION",
                        help="another one than the package requires is installed in its place, and the row says so")
    parser.add_argument("--tests", nargs="+", default=TESTS, metavar="PATH")
    parser.add_argument("--python", default=sys.executable, metavar="PROGRAM")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the rows there as well, after each")
    parser.add_argument("--page", nargs="+", type=Path, metavar="PATH",
                        help="run nothing: write the rows of these files into docs/PACKAGE.md")
    options = parser.parse_args(argv)
    if options.page:
        PAGE.write_text(with_table(PAGE.read_text(), [row for path in options.page for row in json.loads(path.read_text())]))
        return 0
    rows = []
    with tempfile.TemporaryDirectory(prefix="mimw-versions-") as folder:
        for torch in options.torch:
            for numpy, triton in product(options.numpy, options.triton):
                rows.append(row(Path(folder, f"{torch}-{numpy}-{triton}"), options.python, torch, numpy, options.tests, triton))
                print(" | ".join(map(str, rows[-1].values())), flush=True)
                if options.json:
                    options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return any(row["result"] != "ok" for row in rows)


def with_table(page: str, rows: list[dict[str, object]]) -> str:
    """The page with a table of these rows between its marks."""
    columns = ("torch", "numpy", "triton", "ml_dtypes", "python", "installed", "result", "tests", "date")
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(row.get(column, "-")) for column in columns) + " |" for row in rows]
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + "\n".join(lines) + "\n" + END + rest.partition(END)[2]


def row(folder: Path, python: str, torch: str, numpy: str, tests: list[str], triton: str = "3.9.*") -> dict[str, object]:
    """What one set gives: the versions that were installed, how, what the tests said."""
    start = time.time()
    _run([python, "-m", "venv", folder])
    own = folder / "bin" / "python"
    said = _pip(own, f"{ROOT}[test]", f"numpy=={numpy}")
    how = "by pip"
    if not said.returncode and torch != "none":
        said = _pip(own, f"torch=={torch}", "triton>=3.8,<3.10", f"numpy=={numpy}")
        if said.returncode:
            how = "without its Triton: " + _wanted_triton(own, torch)
            said = subprocess.run([own, "-c", "import torch"], capture_output=True, text=True)
    if not said.returncode and not triton.startswith("3.9."):
        said, how = _pip(own, "--no-deps", f"triton=={triton}"), f"{how}; its Triton by hand"
    if said.returncode:
        return _answer(own, torch, numpy, how, "not installed: " + _last(said), "", start)
    done = subprocess.run([own, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--forked", "1", *tests], cwd=ROOT,
                          capture_output=True, text=True)
    counted = {kind: int(count) for count, kind in _SUMMARY.findall(_last(done))}
    told = ", ".join(f"{counted[kind]} {kind}" for kind in ("passed", "failed", "error", "errors", "skipped") if kind in counted)
    return _answer(own, torch, numpy, how, "ok" if done.returncode == 0 else "failed", told or _last(done), start)


def _answer(own: Path, torch: str, numpy: str, how: str, result: str, told: str, start: float) -> dict[str, object]:
    python, *found = subprocess.run([own, "-c", _INSTALLED], capture_output=True, text=True).stdout.split()
    return {"asked": f"torch {torch}, numpy {numpy}", "python": python,
            **dict(zip(("torch", "triton", "numpy", "ml_dtypes"), found)), "installed": how, "result": result, "tests": told,
            "date": time.strftime("%Y-%m-%d"), "seconds": round(time.time() - start)}


def _wanted_triton(own: Path, torch: str) -> str:
    """Install torch and what it requires but its Triton; return what it says of Triton."""
    if _pip(own, "--no-deps", f"torch=={torch}").returncode:
        return "no such torch"
    required = [line for line in subprocess.run([own, "-c", _REQUIRED], capture_output=True, text=True).stdout.splitlines()
                if "extra ==" not in line]
    _pip(own, *(line for line in required if not line.startswith("triton")))
    return next((line.partition(";")[0].strip() for line in required if line.startswith("triton")), "it names none")


def _pip(own: Path, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([own, "-m", "pip", "install", "-q", "--disable-pip-version-check", *words], capture_output=True,
                          text=True)


def _run(words: list) -> None:
    subprocess.run(list(map(str, words)), check=True, capture_output=True)


def _last(done: subprocess.CompletedProcess) -> str:
    return ((done.stdout.strip() or done.stderr.strip()).splitlines() or ["no word"])[-1]


if __name__ == "__main__":
    sys.exit(main())
