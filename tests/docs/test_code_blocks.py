"""Every code block of the pages is true: programs run, commands print what the page says they print, diffs apply.

`tests/docs/blocks.py` says what is done with a block of which language.
"""

import re
import sys

import pytest

from tests.docs.blocks import READ_ONLY, ROOT, Block, Reader, blocks, pages
from tests.every import every

# Pages whose programs another test runs, because it asks more of them than that they run: the test, and how many it runs.
ELSEWHERE = {"README.md": ("tests/test_readme.py", 2), "docs/DISTRIBUTED.md": ("tests/docs/test_distributed.py", 2),
             "docs/OPERATORS.md": ("tests/docs/test_operators.py", 3), "docs/PYTHON.md": ("tests/docs/test_python.py", 1),
             "docs/RAW_BODIES.md": ("tests/docs/test_raw_bodies.py", 2), "docs/RAW_MLIR.md": ("tests/docs/test_raw_mlir.py", 2),
             "docs/SPACES.md": ("tests/docs/test_spaces.py", 1), "docs/THREE_WAYS.md": ("tests/docs/test_three_ways.py", 3)}
# docs/operators: an example each, which need torch, and those of several GPUs, ranks.
ELSEWHERE |= {path.relative_to(ROOT).as_posix(): ("tests/docs/test_operator_pages.py", 1)
              for path in (ROOT / "docs" / "operators").rglob("*.md")}
READ = {path.relative_to(ROOT).as_posix(): blocks(path) for path in pages()}


def is_run(block: Block) -> bool:
    """Whether its text is to be executed here, in a page's order; what is no such block can be asked about by itself."""
    return block.language in ("python", "diff", "console") and not block.mark.startswith(READ_ONLY)


RUN = [page for page, found in READ.items() if page not in ELSEWHERE and any(map(is_run, found))]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    monkeypatch.setenv("COLUMNS", "132")
    return tmp_path


@pytest.mark.parametrize("page", RUN)
def test_a_page_does_what_it_says(page, folder):
    reader = Reader(ROOT / page, folder)
    for block in READ[page]:
        reader.read(block)


@every([page for page in READ if page not in RUN])
def test_other_pages_name_what_there_is(page):
    """Commands, options, programs and excerpts."""
    reader = Reader(ROOT / page, ROOT)
    for block in READ[page]:
        if not is_run(block):
            reader.read(block)


@every(ELSEWHERE)
def test_other_programs_are_run_elsewhere(page):
    test, count = ELSEWHERE[page]
    assert re.sub("^docs/|(?<=operators/).*", "", page) in (ROOT / test).read_text()
    assert len([block for block in READ[page] if is_run(block)]) == count


def test_few_programs_are_only_read():
    """What is neither run nor on a GPU shows one statement of a kernel, or a mistake; a new one is counted here."""
    only_read = [block for found in READ.values() for block in found if block.language == "python" and not is_run(block)]
    assert len([block for block in only_read if block.mark.startswith("on a GPU")]) == 2
    assert len(only_read) <= 16 and all("DEBUGGING" not in block.page and "START" not in block.page for block in only_read)


@pytest.mark.parametrize("page, said", [
    ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "and what happened is\n1"),
    ("```sh\nmimw check --nonsense a.py:b\n```\n", "nonsense"),
    ("```sh\npython gone.py\n```\n", "no program gone.py"),
    ("```sh\nmake gone\n```\n", "no target gone"),
    ("```text\nmimw check [--gone]\n```\n", "has no --gone"),
    ("<!-- file: a.py -->\n```python\na = 1\n```\n\n```diff\n-b = 1\n+b = 2\n```\n", "do not stand once"),
    ("<!-- file: a.py -->\n```python\nprint(5)\n```\n\n```console\n$ python a.py\n6\n```\n", "and what happened is\n5"),
    ("text\n\n    a = 1\n", "begin the block by"),
    ("```\nmimw doctor\n```\n\n```toml\na\n```\n", "a block is one of"),
    ("```yaml\nhooks:\n  - run: mimw check --nonsense a.py:b\n```\n", "nonsense"),
])
def test_what_a_reader_stumbles_over(page, said, folder):
    path = folder / "page.md"
    path.write_text(page)
    reader = Reader(path, folder)
    with pytest.raises(AssertionError) as stumble:
        for block in blocks(path):
            reader.read(block)
    assert said in str(stumble.value)
