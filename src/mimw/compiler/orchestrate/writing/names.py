"""Names for the values of a program that is written as text: the author's, each once, and none that Python or Triton needs.

Input: hints. Output: names. For example:

    names.fresh("acc"), names.fresh("acc"), names.fresh("for")      acc, acc2, for_
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable
from contextlib import contextmanager

_OURS = ("tl", "tlx", "tle", "mimw", "triton", "constexpr")


class Names:
    """Gives out names that no other value has."""

    def __init__(self, taken: Iterable[str] = ()):
        self.taken = {*_OURS, *dir(builtins), *taken}
        self.used: dict[str, int] = {}
        self.given: set[str] = set()        # in scopes that are over

    def fresh(self, hint: str) -> str:
        """A name that begins as `hint` does."""
        base = re.sub(r"\W+", "_", hint).lstrip("_") or "t"
        base = f"t{base}" if base[0].isdigit() else base
        base = f"{base}_" if keyword.iskeyword(base) or keyword.issoftkeyword(base) else base
        name, number = base, self.used.get(base, 1)
        while name in self.taken:
            number += 1
            name = f"{base}{number}" if not base[-1].isdigit() else f"{base}_{number}"
        self.used[base] = number
        self.taken.add(name)
        return name

    @contextmanager
    def scope(self, always: Iterable[str] = ()):
        """Names that are given out within are free again in the next scope, but for those in `always`."""
        taken, used = set(self.taken), dict(self.used)
        yield
        self.given |= self.taken
        self.taken, self.used = taken | set(always), used
