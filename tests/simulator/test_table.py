"""Every op of the IR has a meaning."""

from mimw.ir import OPS
from mimw.simulator import HANDLERS


def test_every_row_has_a_handler():
    assert sorted(HANDLERS) == sorted(OPS.keys() - {"alias_overlap"})  # that one is gone once places are known
