"""Edits of a source text: applied, shown as a diff, and what goes with them in a `Mend`.

Input: a text and edits. Output: the changed text, or a unified diff. For example:

    edited(text, [Edit("ring.py", 18, 18, "delete")])       the text without line 18
    diff("ring.py", text, changed)                          --- ring.py, +++ ring.py, @@ -17,3 +17,2 @@ ...
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ...errors import Edit, MimwError


@dataclass(frozen=True)
class Mend:
    """A change of the source with which a check finds nothing, or less.

    text      a sentence that says what to change
    edits     the same for a machine; lines are those of the file as it was
    left      how many findings are left; 0 is a clean check
    others    other changes that check as clean and compute something else: only the author knows which is meant
    diff      the edits as a unified diff
    """

    text: str
    edits: tuple[Edit, ...]
    left: int = 0
    others: tuple[str, ...] = ()
    diff: str = ""

    def __str__(self) -> str:
        checked = ("with this change the check finds nothing" if not self.left else
                   f"with this change the check finds {self.left}: a first step")
        lines = [f"{self.text} ({checked})"]
        if self.others:
            lines.append("these check as clean, too, and compute something else; only you know which is meant:")
            lines += [f"  or {other}" for other in self.others]
        return "\n".join(lines)

    def apply(self) -> None:
        """Write the change into its file, which must be as it was when it was checked."""
        path = Path(self.edits[0].file)
        text = path.read_text(encoding="utf-8")
        changed = edited(text, self.edits)
        if diff(str(path), text, changed) != self.diff:
            raise MimwError(f"{path} has changed since it was checked, so the mend is not applied")
        path.write_text(changed, encoding="utf-8")

    def as_json(self) -> dict:
        """Plain data, for `mimw check --json`."""
        return {"text": self.text, "edits": [edit.as_json() for edit in self.edits], "left": self.left, "others": list(self.others),
                "diff": self.diff}


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text after all edits."""
    lines = text.splitlines()
    for edit in sorted(edits, key=lambda one: (one.line, one.action != "insert"), reverse=True):
        first = edit.line - 1
        lines[first:first if edit.action == "insert" else edit.last] = edit.text.split("\n") if edit.action != "delete" else []
    return "\n".join(lines) + ("\n" if text.endswith("\n") else "")


def diff(path: str, before: str, after: str) -> str:
    """The change as a unified diff with one line around it."""
    return "\n".join(difflib.unified_diff(before.splitlines(), after.splitlines(), path, path, n=1, lineterm=""))
