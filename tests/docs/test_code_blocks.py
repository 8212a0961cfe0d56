"""Every code block of the pages is true: programs run, commands print what the page says they print, diffs apply.

`tests/docs/blocks.py` says what is done with a block of which language.
"""

import sys

import pytest

from tests.docs.blocks import ROOT, Reader, blocks, pages


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    monkeypatch.setenv("COLUMNS", "132")
    return tmp_path


@pytest.mark.parametrize("page", [pytest.param(page, id=page.relative_to(ROOT).as_posix()) for page in pages()])
def test_the_blocks_of_a_page(page, folder):
    reader = Reader(page, folder)
    for block in blocks(page):
        reader.read(block)
