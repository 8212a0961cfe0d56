"""Words of `tle.dsa` outside kernels: loops and hints say where they belong, spaces are told apart."""

import pytest

from mimw.tle import dsa


@pytest.mark.parametrize("use", [lambda: dsa.hint(inter_no_alias=True), lambda: list(dsa.pipeline(4)),
                                 lambda: next(iter(dsa.parallel(0, 4, num_stages=2)))])
def test_loops_and_hints_are_for_kernels(use):
    with pytest.raises(RuntimeError):
        use()


def test_spaces_are_distinct_and_printable():
    spaces = [getattr(dsa.ascend, name) for name in ("UB", "L1", "L0A", "L0B", "L0C")]
    assert len(set(spaces)) == len({str(space) for space in spaces}) == 5
