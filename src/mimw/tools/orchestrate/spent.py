"""The seconds of the parts of a search.

Input: parts by name, around what they do. Output: seconds by name. For example:

    with spent.on("predict"): ...
    spent.rounded()                 {"write": 1.21, "rank": 2.4, "predict": 3.05, "compile": 1.1, "prove": 4.72}
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


class Spent(dict[str, float]):
    """Seconds by the name of the part; a part that comes again is added."""

    @contextmanager
    def on(self, part: str) -> Iterator[None]:
        begun = perf_counter()
        try:
            yield
        finally:
            self[part] = self.get(part, 0.0) + perf_counter() - begun

    def rounded(self) -> dict[str, float]:
        return {part: round(seconds, 2) for part, seconds in self.items()}
