"""A kernel's configs.json with the rows of a search in it: rows of several chips in one file, those of one chip where they were.

Input: the file, a chip, the command, rows. Output: the file, written whole or not at all. For example:

    write(file, "NVIDIA H200", "mimw tune gemm --shapes 4096x4096x4096", [as_row((4096, 4096, 4096), 2, chosen)])
    {"chip": "NVIDIA H200", "command": ..., "rows": [...], "chips": {"NVIDIA H100": {"command": ..., "rows": [...]}}}

`rows` are those of `chip`, as before there were others: a kernel that asks for no chip reads these. A row takes the place of one
with the same problem; all others stay. Rows of another chip than the file's are under `chips`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from ..errors import TuningError
from ..kernels.measured import merged


def write(file: Path, chip: str, command: str, rows: list[dict]) -> None:
    """Merge the rows into the file; TuningError where it cannot be written or is no file of configurations."""
    data = _read(file)
    if not data.get("rows") and "chips" not in data:
        data = {"chip": chip, "command": command, "rows": []}
    place = data
    if data.setdefault("chip", chip) != chip:
        place = data.setdefault("chips", {}).setdefault(chip, {"rows": []})
    place.setdefault("command", command)
    place["rows"] = merged(place["rows"], [row | ({} if place["command"] == command else {"command": command}) for row in rows])
    whole = file.with_suffix(".json.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        whole.write_text(json.dumps(data, indent=1) + "\n")
        os.replace(whole, file)
    except OSError as error:
        raise TuningError(f"{file} cannot be written: {error.strerror}", hint="name another file: --write PATH") from error


def _read(file: Path) -> dict:
    if not file.exists():
        return {}
    try:
        data = json.loads(file.read_text())
        data["rows"][:0]
    except (ValueError, KeyError, TypeError):
        raise TuningError(f"{file} is no file of configurations", hint="name another file: --write PATH") from None
    return data
