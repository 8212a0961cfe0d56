"""docs/SCALING.md is what the rows and the formulas say; the formulas at the edges, where the answer is known."""

import json

import pytest

from docs.support import scaling
from docs.support.scaling import Constants

ROUND = Constants(signal=2.0, barrier=3.0, link=1000.0, sms=8, of=132, domain=8, network=100.0, far=5.0)


def test_the_page_is_what_the_rows_say():
    """Else: python docs/support/scaling.py"""
    assert scaling.main(["--check"]) == 0


def row(name, **facts):
    return {"name": name, "date": "2026-01-02", "right": True, **facts}


def test_constants_come_from_right_rows_of_the_newest_date():
    puts = [row("bandwidth", way="TMA", direction="put", both=True, sms=sms, gb_per_s=rate)
            for sms, rate in ((1, 40.0), (8, 380.0), (16, 390.0), (132, 395.0))]
    wrong = [row("signal", one_way_us=9.0) | {"date": "2026-01-01"}, row("signal", one_way_us=8.0) | {"right": False}]
    found = scaling.constants([*wrong, row("signal", one_way_us=1.5), row("world_barrier", programs=1, us=2.0),
                               row("world_barrier", programs=132, us=3.0), *puts])
    assert (found.signal, found.barrier, found.link, found.sms, found.of) == (1.5, 3.0, 395e3, 8, 132)


def test_in_a_domain():
    assert scaling.all_gather(ROUND, 1, 1e6) == ROUND.signal
    assert scaling.all_gather(ROUND, 4, 1e6) == 2 + 750
    assert scaling.two_shot(ROUND, 4, 1e6) == pytest.approx(2 * (2 + 750) + 1e6 / scaling.DRAM)
    assert scaling.one_shot(ROUND, 4, 1e6) == pytest.approx(2 + 3000 + 4e6 / scaling.DRAM)
    assert scaling.dispatch(ROUND, 4, 1000, 500, 1) == 2 + 750
    assert scaling.one_shot(ROUND, 2, 1e6) < scaling.two_shot(ROUND, 2, 1e6)


@pytest.mark.parametrize("p", [4, 8])
def test_one_shot_and_two_shot_meet(p):
    at = scaling.crossover(ROUND, p)
    for size, first in ((at * 0.9, True), (at * 1.1, False)):
        assert (scaling.one_shot(ROUND, p, size) < scaling.two_shot(ROUND, p, size)) == first


def test_across_domains_the_slower_of_the_two_ways_counts():
    """64 ranks: an eighth of the bytes of the seven other domains comes over the network to each."""
    assert scaling.all_gather(ROUND, 64, 1e6) == 2 + 5 + max(1e6 * 7 / 8 / 1000, 1e6 * 7 / 64 / 100)
    fast = Constants(**{**vars(ROUND), "network": 1e9})
    assert scaling.all_gather(fast, 64, 1e6) == 2 + 5 + 875
    assert scaling.dispatch(ROUND, 64, 1000, 500, 1) == 5 + 1e6 * 56 / 64 / 100


def test_what_is_hidden_behind_a_product():
    """Wide products hide the gather, narrow ones are as long as it; copies by SMs take these from the product."""
    c = Constants(**{**vars(ROUND), "link": 370e3})
    wide = scaling.product(8 * 2048, 8192, 16384)
    assert scaling.gathered_product(c, 8, 2048, 8192, 16384, 0) == wide
    assert scaling.gathered_product(c, 8, 2048, 8192, 16384, 8) == pytest.approx(wide * 132 / 124)
    narrow = scaling.product(8 * 2048, 128, 16384)
    assert scaling.gathered_product(c, 8, 2048, 128, 16384, 0) == scaling.all_gather(c, 8, 2.0 * 8 * 2048 * 16384) + narrow / 8
    assert scaling.ring_attention(c, 1, 4096, 32, 8, 128) * 4 <= scaling.ring_attention(c, 4, 4096, 32, 8, 128)


def test_other_machines(capsys):
    assert scaling.main(["--print", "--domain", "72", "--network-gb-per-s", "100", "--network-us", "3"]) == 0
    said = capsys.readouterr().out
    assert "72 GPUs with such links" in said and "100 GB/s a GPU and 3 us a message" in said and "not measured" in said


def test_every_row_is_right():
    """Measurements whose copies were wrong are no constants."""
    rows = [json.loads(line) for line in scaling.ROWS.read_text().splitlines()]
    assert len(rows) > 100 and all(one.get("right", True) for one in rows)
