"""The rows of a kernel's configs.json, of the chip in use: a file may hold rows of several chips (`mimw tune --write`).

Input: the file, and a function that makes of rows what the kernel looks things up in. Output: a function that gives that:

    @by_chip(Path(__file__).parent / "configs.json")
    def _measured(rows):
        return {row["head_dim"]: Configuration(**row["configuration"]) for row in rows}

    _measured()[128]        of the GPU's chip; where launches are simulated, or it has no row of its own, of the file's own chip

A file of one chip is that chip's for all, and nobody is asked which GPU there is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .chosen import Rows


class ByChip:
    """What `read` makes of the rows in `file`, made once for each chip."""

    def __init__(self, file: Path, read: Callable[[list[dict]], Any]):
        self.file, self.read, self.__doc__ = file, read, read.__doc__
        self.cache_clear()

    def cache_clear(self) -> None:
        """Read the file again when somebody asks next."""
        self._own: Any = None
        self._others: dict[str, Any] | None = None

    def __call__(self) -> Any:
        if self._others is None:
            data = json.loads(self.file.read_text()) if self.file.exists() else {"rows": []}
            self._own = self._made(data["rows"])
            self._others = {chip: self._made(merged(data["rows"], one["rows"])) for chip, one in data.get("chips", {}).items()}
        return self._others.get(chip_in_use(), self._own) if self._others else self._own

    def _made(self, rows: list[dict]) -> Any:
        made = self.read(rows)
        return Rows(self.file.parent.name, made) if isinstance(made, dict) else made


def merged(rows: list[dict], others: list[dict]) -> list[dict]:
    """The rows, with those of `others` in the place of rows of the same problem, and behind them."""
    return list({problem_of(row): row for row in (*rows, *others)}.values())


def problem_of(row: dict) -> str:
    """What tells the problems of rows apart: all but what was found for them."""
    return json.dumps({name: value for name, value in row.items() if name not in ("configuration", "command")}, sort_keys=True)


def by_chip(file: Path) -> Callable[[Callable[[list[dict]], Any]], ByChip]:
    """The decorator above."""
    return lambda read: ByChip(file, read)


def chip_in_use() -> str | None:
    """The name of the GPU that torch launches on in this process; None where it has not come to that."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return torch.cuda.get_device_name()
