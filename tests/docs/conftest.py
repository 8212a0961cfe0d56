"""The site is built while the tests are collected: that is the work of one core, and takes as long as the build does.

Input: the modules that pytest collects. Output: the fixture `site_build`, a build that has started when test_site.py was collected
for workers (`--forked`), or that starts when a test asks. One that no test is to ask for ends at once.
"""

from importlib.util import find_spec

import pytest

from tests.docs.site_build import Build

_SITE = "test_site.py"
_early: list[Build] = []


def pytest_pycollect_makemodule(module_path, parent):
    options = parent.config.option
    if module_path.name == _SITE and options.forked and not options.collectonly and find_spec("sphinx"):
        _early.append(Build())
        parent.config.add_cleanup(_end)


def pytest_collection_finish(session):
    if not any(item.path.name == _SITE for item in session.items):
        _end()


def _end() -> None:
    while _early:
        _early.pop().end()


@pytest.fixture(scope="session")
def site_build():
    """The folder of the site, and what building it has said."""
    if _early:
        yield _early[0].wait()
    else:
        build = Build()
        yield build.wait()
        build.end()
