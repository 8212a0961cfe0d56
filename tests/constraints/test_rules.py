"""Every op of the table has a layout rule, and every rule an op."""

from mimw.constraints.rules import RULES
from mimw.ir import OPS


def test_rules_and_table_name_each_other():
    wanted = {row.layout for row in OPS.values()}
    assert wanted - set(RULES) == set()
    assert set(RULES) - wanted - set(OPS) == set()
