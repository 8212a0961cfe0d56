"""One test that asks the same of many things, each in well under a millisecond: ops of the table, files of the package.

    @every(OPS)
    def test_an_op_has_a_row(name):         one test; its error names each op of which an assertion fails, and says why
        assert name in OPS

Input: what to ask about, and a test of one. Output: a test of all, which goes on behind a failure. An item of pytest for each costs
5 ms of CPU, in collecting it twice, running and reporting it: more than looking at fifty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest


def every(things: Iterable[str]) -> Callable[[Callable[[str], None]], Callable[[], None]]:
    things = list(things)
    assert things, "a test of nothing passes whatever happens"

    def of_all(test: Callable[[str], None]) -> Callable[[], None]:
        def all_of_them():
            wrong = []
            for thing in things:
                try:
                    test(thing)
                except Exception as error:
                    wrong.append(f"{thing}: {type(error).__name__}: {error}")
            if wrong:
                pytest.fail(f"{len(wrong)} of {len(things)}\n" + "\n".join(wrong), pytrace=False)

        all_of_them.__name__, all_of_them.__doc__, all_of_them.__module__ = test.__name__, test.__doc__, test.__module__
        return all_of_them

    return of_all
