"""docs/SCALING.md is what the rows and the formulas say; the formulas at the edges, where the answer is known."""

import json

import pytest

from docs.support import scaling, scaling_held
from docs.support import scaling_model as model
from docs.support.performance_rows import Row
from docs.support.scaling_model import Constants

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
    found = model.constants([*wrong, row("signal", one_way_us=1.5), row("world_barrier", programs=1, us=2.0),
                               row("world_barrier", programs=132, us=3.0), *puts])
    assert (found.signal, found.barrier, found.link, found.sms, found.of) == (1.5, 3.0, 395e3, 8, 132)


def test_in_a_domain():
    assert model.all_gather(ROUND, 1, 1e6) == ROUND.signal
    assert model.all_gather(ROUND, 4, 1e6) == 2 + 750
    assert model.two_shot(ROUND, 4, 1e6) == pytest.approx(2 * (2 + 750) + 1e6 / model.DRAM)
    assert model.one_shot(ROUND, 4, 1e6) == pytest.approx(2 + 3000 + 4e6 / model.DRAM)
    assert model.dispatch(ROUND, 4, 1000, 500, 1) == 2 + 750
    assert model.dispatch(ROUND, 2, 1000, 500, 8) == pytest.approx(2 + 1000 * (1 - 1 / 256)), "a row crosses once, not 4 times"
    assert model.one_shot(ROUND, 2, 1e6) < model.two_shot(ROUND, 2, 1e6)


@pytest.mark.parametrize("p", [4, 8])
def test_one_shot_and_two_shot_meet(p):
    at = model.crossover(ROUND, p)
    for size, first in ((at * 0.9, True), (at * 1.1, False)):
        assert (model.one_shot(ROUND, p, size) < model.two_shot(ROUND, p, size)) == first


def test_across_domains_the_slower_of_the_two_ways_counts():
    """64 ranks: an eighth of the bytes of the seven other domains comes over the network to each."""
    assert model.all_gather(ROUND, 64, 1e6) == 2 + 5 + max(1e6 * 7 / 8 / 1000, 1e6 * 7 / 64 / 100)
    fast = Constants(**{**vars(ROUND), "network": 1e9})
    assert model.all_gather(fast, 64, 1e6) == 2 + 5 + 875
    assert model.dispatch(ROUND, 64, 1000, 500, 1) == pytest.approx(5 + 1e6 * 56 / 64 / 100)


def test_what_is_hidden_behind_a_product():
    """Wide products hide the gather, narrow ones are as long as it; copies by SMs take these from the product."""
    c = Constants(**{**vars(ROUND), "link": 370e3})
    wide = model.product(8 * 2048, 8192, 16384)
    assert model.gathered_product(c, 8, 2048, 8192, 16384, 0) == wide
    assert model.gathered_product(c, 8, 2048, 8192, 16384, 8) == pytest.approx(wide * 132 / 124)
    narrow = model.product(8 * 2048, 128, 16384)
    assert model.gathered_product(c, 8, 2048, 128, 16384, 0) == model.all_gather(c, 8, 2.0 * 8 * 2048 * 16384) + narrow / 8
    assert model.ring_attention(c, 1, 4096, 32, 8, 128) * 4 <= model.ring_attention(c, 4, 4096, 32, 8, 128)


def test_rows_of_four_gpus_get_a_line_of_their_own():
    """So that the page has them as soon as there are rows; what hides is held as a share of the work alone."""
    def measured(name, shape, us, **baselines):
        return Row(name, shape, us, baselines, 0.0, "chip", "", "2026-01-02", 1)

    size = {"bytes": 64 << 20}
    rows = {held.file: [] for held in scaling_held.HELD}
    rows["distributed_collectives"] = [measured("all_gather-bf16-64M", size | {"ranks": p}, 40000.0) for p in (4, 2)]
    product = {"M": 8 * 2048, "N": 8192, "K": 16384, "gpus": 4}
    rows["distributed-gemm"] = [measured("distributed-gemm-gather", product, 300.0, **{"mimw GEMM alone": 200.0})]
    _, _, two, four, gathered = scaling_held.held(ROUND, rows).splitlines()
    thought = [model.all_gather(ROUND, p, 64 << 20) for p in (2, 4)]
    assert two == f"| all-gather, bf16: 64 MiB | 2 | {thought[0]:.0f} us | 40000 us | {40000 / thought[0]:.2f} |"
    assert four.startswith("| all-gather, bf16: 64 MiB | 4 | ") and four.endswith(f"| {40000 / thought[1]:.2f} |")
    at = model.gathered_product(ROUND, 4, 4096, 8192, 16384, 0) / model.product(16384, 8192, 16384)
    assert gathered.endswith(f"| 4 | {at:.2f} | 1.50 | {1.5 / at:.2f} |")


def test_other_machines(capsys):
    assert scaling.main(["--print", "--domain", "72", "--network-gb-per-s", "100", "--network-us", "3"]) == 0
    said = capsys.readouterr().out
    assert "72 GPUs with such links" in said and "100 GB/s a GPU and 3 us a message" in said and "not measured" in said


def test_every_row_is_right():
    """Measurements whose copies were wrong are no constants."""
    rows = [json.loads(line) for line in scaling.ROWS.read_text().splitlines()]
    assert len(rows) > 100 and all(one.get("right", True) for one in rows)
