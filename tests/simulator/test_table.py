"""Every op of the IR has a meaning."""

from mimw.ir import OPS
from mimw.simulator import HANDLERS


def test_every_row_has_a_handler():
    gone = {"alias_overlap", "distributed_barrier"}  # once their places are known
    gone |= {name for name, row in OPS.items() if "pipe" in row.traits}      # once `expand_pipes` has run
    assert sorted(HANDLERS) == sorted(OPS.keys() - gone)
