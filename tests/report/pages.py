"""Pages of a few kernels, made once for all tests of a worker, and what stands in a page.

Input: the name of a case. Output: HTML, or its elements. For example:

    read(page("released_before_the_wait")).ids        {"L0.33", "N1", "timeline", ...}
"""

import functools
from html.parser import HTMLParser

import mimw
from tests.kernels import tma_pipeline

TWO = "never_waits_for_a_free_slot"


class Read(HTMLParser):
    """The elements of a page: `elements` as (tag, attributes), `text` without scripts and styles."""

    def __init__(self, page: str):
        super().__init__()
        self.elements, self.words, self.inside = [], [], ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside not in ("script", "style"):
            self.words.append(data)

    @property
    def ids(self) -> set[str]:
        return {attributes["id"] for _, attributes in self.elements if "id" in attributes}

    @property
    def text(self) -> str:
        return "".join(self.words)

    def of_class(self, name: str) -> list[dict]:
        return [attributes for _, attributes in self.elements if name in (attributes.get("class") or "").split()]


@functools.cache
def report(name: str):
    """What `mimw.check` says of a pipeline of tests/kernels/tma_pipeline.py; of `TWO`, whose loader waits for no free slot, two
    seeds find two things."""
    kernel, grid, args, meta = never_waits_for_a_free_slot() if name == TWO else getattr(tma_pipeline, name)()
    return mimw.check(kernel, grid, *args, seeds=(0, 2) if name == TWO else 1, shrink=False, rounds=False, jobs=1, **meta)


def never_waits_for_a_free_slot():
    return tma_pipeline.pipeline, *tma_pipeline.pipeline_arguments(WAIT_FREE=False)


@functools.cache
def page(name: str) -> str:
    return report(name)._page().html()


@functools.cache
def read(text: str) -> Read:
    return Read(text)
