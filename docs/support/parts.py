"""Two wheels of one tree: mimw has the language, the compiler, the simulator and the tools, mimw-kernels the library.

Input: the files below src/. Output: which wheel has which of them, pyproject.toml as it is published, archives without times:

    files(library=True)         ["mimw/integrations/__init__.py", ...], what lies in mimw/integrations, kernels, nn, ops, tuning
    narrowed(text)              pyproject.toml of mimw without the library, and with the extra `kernels`, which requires it

The repository's own pyproject.toml is that of both: `pip install -e .` and `pip install .` in a checkout give everything.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path

import mimw
from mimw.runtime.library import DISTRIBUTION, MODULES

SOURCE = Path(__file__).resolve().parents[2] / "src"
FIRST = 315532800       # 1980-01-01: the earliest time that a zip archive can hold


def files(library: bool) -> list[str]:
    """The files of a wheel, as its RECORD names them, in order, without its metadata."""
    paths = (path.relative_to(SOURCE) for path in (SOURCE / "mimw").rglob("*") if path.is_file() and path.suffix != ".pyc")
    return sorted(str(path) for path in paths if (path.parts[1] in MODULES) is library)


def unlike(library: bool, names: Iterable[str]) -> list[str]:
    """The files that only one has: the wheel whose names these are, or the tree's part for it."""
    return sorted({name for name in names if ".dist-info/" not in name} ^ set(files(library)))


def narrowed(text: str) -> str:
    """pyproject.toml of mimw as it is published."""
    without = ", ".join(f'"mimw.{name}*"' for name in MODULES)
    for old, new in (('where = ["src"]\n', f'where = ["src"]\nexclude = [{without}]\n'),
                     ("kernels = []", f'kernels = ["{DISTRIBUTION}=={mimw.__version__}"]')):
        if text.count(old) != 1:
            raise ValueError(f"pyproject.toml should have {old.strip()!r} once")
        text = text.replace(old, new)
    return text


def seconds() -> int:
    """The time of all files in a package: SOURCE_DATE_EPOCH, or else the earliest."""
    return int(os.environ.get("SOURCE_DATE_EPOCH", FIRST))


def repack(archive: Path) -> None:
    """A source package again, in the order of names, without times, owners and the name of the file: the same bytes in each run."""
    with tarfile.open(archive) as old:
        members = [(one, old.extractfile(one).read() if one.isfile() else b"") for one in old.getmembers()]
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as new:
        for one, content in sorted(members, key=lambda pair: pair[0].name):
            made = tarfile.TarInfo(one.name)
            made.type, made.size, made.mtime, made.mode = one.type, len(content), seconds(), 0o755 if one.isdir() else 0o644
            new.addfile(made, io.BytesIO(content))
    with archive.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=seconds()) as packed:
        packed.write(plain.getvalue())
