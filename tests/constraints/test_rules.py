"""Every op of the table has a layout rule, and every rule an op."""

from mimw.compiler.constraints.rules import RULES
from mimw.ir import OPS


def test_rules_and_table_name_each_other():
    assert set(RULES) == {row.rule or row.layout for row in OPS.values()}
