"""`save_html` and `_repr_html_`: what reports, runs, predictions, explanations and kernels have in common.

Input: an object with `_page`, which makes its `Page`. Output: a file, or the frame that a notebook shows. For example:

    mimw.check(ring, (1, ), a, b).save_html("ring.html")
    mimw.predict(ring, (1, ), a, b)                         at the end of a cell: the page stands below the cell
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Shown:
    """What can be shown as a page."""

    __slots__ = ()

    def _page(self) -> Any:
        """What the page shows, a `report.page.Page`."""
        raise NotImplementedError

    def save_html(self, path: str | Path) -> None:
        """Write one page of HTML that needs no network: source, findings, timeline, storage, barriers and tables, linked by click.

        args:      path - where; an existing file is written anew
        errors:    OSError where nothing can be written
        """
        self._page().write(path)

    def _repr_html_(self) -> str:
        return self._page().fragment()
