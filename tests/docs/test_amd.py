"""docs/AMD.md says of each word what the op table says that it becomes."""

from pathlib import Path

from mimw.ir import OPS
from mimw.target import FEATURES, TARGETS
from tests.every import every

PAGE = (Path(__file__).parents[2] / "docs" / "AMD.md").read_text()
TABLE = " ".join(PAGE.partition("## The replacements")[2].partition("On gfx1250 descriptors")[0].split())


@every({name: row for name, row in OPS.items() if row.becomes})
def test_each_word_that_becomes_another_stands_in_the_table(name):
    assert OPS[name].becomes in TABLE


def test_rows_say_it_of_features_that_a_chip_maps():
    mapped = {feature for chip in TARGETS.values() for feature in chip.mapped}
    assert mapped == {row.needs for row in OPS.values() if row.becomes} and mapped <= set(FEATURES)
    assert all(chip.mapped.isdisjoint(chip.features) for chip in TARGETS.values())
