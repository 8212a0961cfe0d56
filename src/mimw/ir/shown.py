"""The common methods of reports, runs, predictions, explanations and kernels: `save_html`, `_repr_html_`, `_repr_pretty_`.

Input: an object with `_page`, which makes its `Page`. Output: a file, or the frame that a notebook shows. For example:

    mimw.check(ring, (1, ), a, b).save_html("ring.html")
    mimw.predict(ring, (1, ), a, b)                         at the end of a cell: the page stands below the cell
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Shown:
    """The base of objects that can be shown as a page."""

    __slots__ = ()

    def __init_subclass__(cls, **given: Any) -> None:
        """IPython takes the first class that has a `__repr__` or `_repr_pretty_` of its own, and a dataclass has a `__repr__`."""
        super().__init_subclass__(**given)
        cls._repr_pretty_ = Shown._repr_pretty_

    def _page(self) -> Any:
        """The page of the object, a `report.page.Page`."""
        raise NotImplementedError

    def save_html(self, path: str | Path) -> None:
        """Write one page of HTML that needs no network: source, findings, timeline, storage, barriers and tables, linked by click.

        args:      path - where; an existing file is written anew
        errors:    OSError where nothing can be written
        """
        self._page().write(path)

    def _repr_html_(self) -> str:
        return self._page().fragment()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the text as `print` does, for IPython in a terminal, and for a notebook that shows no HTML."""
        printer.text(str(self))
