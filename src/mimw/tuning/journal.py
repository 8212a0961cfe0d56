"""Findings of a search, as lines of JSON, so that a search that was killed resumes where it stopped.

Input: a file. Output: the findings about a candidate; a line appended for each step that has ended. For example:

    journal = Journal("mimw-tune-gemm.jsonl")
    journal.add("9f2c..", "predicted", {"how": "done", "figures": {"microseconds": 190.9}}, problem, configuration)
    journal.of("9f2c..", "predicted")           what was added, in a later process, too

A candidate's key is made of the problem, the configuration, the sources of its kernels, the chip and the versions: findings
about another version of a kernel are not used. Every line is written and flushed at once; a last line that is cut off, as by
a kill, is left out when the file is read, and the file goes on behind it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import TuningError


class Journal:
    """Lines of a file, or of nothing where there is no `path`; with `restart` from the beginning."""

    def __init__(self, path: Path | str | None, restart: bool = False):
        self.path = None if path is None else Path(path)
        self._known: dict[tuple[str, str], dict] = {}
        self.read = 0               # steps that were known from the start
        if self.path is None:
            return
        if restart:
            self.path.unlink(missing_ok=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            self._load()

    def _load(self) -> None:
        text = self.path.read_text()
        for number, line in enumerate(text.splitlines(), 1):
            try:
                one = json.loads(line)
                self._known[one["key"], one["step"]] = one["outcome"]
            except (ValueError, KeyError, TypeError):
                if number < len(text.splitlines()):
                    raise TuningError(f"{self.path}, line {number}, is no line of a search's journal",
                                      hint="name another file by --journal, or overwrite this one by --restart") from None
        if text and not text.endswith("\n"):
            self.path.write_text(text[:text.rfind("\n") + 1])
        self.read = len(self._known)

    def of(self, key: str, step: str) -> dict | None:
        """The outcome of a step; None if it is not known."""
        return self._known.get((key, step))

    def add(self, key: str, step: str, outcome: dict, problem: str, configuration: dict[str, Any]) -> None:
        self._known[key, step] = outcome
        if self.path is not None:
            line = json.dumps({"key": key, "step": step, "problem": problem, "configuration": configuration, "outcome": outcome})
            with self.path.open("a") as file:
                file.write(line + "\n")
