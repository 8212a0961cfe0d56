"""Texts kept in files: the print of a stage for the smallest kernel that shows the point.

Input: a text, and the name of a case. Output: nothing, or an AssertionError with the difference from
`folder/<case>.txt`:

    Golden(folder, "gemm")(text)                     compares `text` with folder/gemm.txt
    Golden(folder, "gemm", update=True)(text)        writes folder/gemm.txt
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path


@dataclass(frozen=True)
class Golden:
    """Compares texts with `folder/<case>.txt`; with `update` it writes the files instead."""

    folder: Path
    case: str
    update: bool = False

    def __call__(self, text: str, case: str | None = None) -> None:
        """Pass if `text` equals the file, up to a final newline; otherwise AssertionError with the difference.

        `case` names the file where one test compares several texts.
        """
        path = self.folder / f"{case or self.case}.txt"
        text = text.rstrip("\n") + "\n"
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        if not path.exists():
            raise AssertionError(f"{path} does not exist. Read the text below, then run with --update-golden.\n{text}")
        kept = path.read_text()
        if text != kept:
            difference = unified_diff(kept.splitlines(), text.splitlines(), "kept", "now", lineterm="")
            raise AssertionError("\n".join([f"{path} holds another text (--update-golden rewrites it):", *difference]))
