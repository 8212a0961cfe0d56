"""docs/performance.md and its pictures are what the rows say; which rows count; the charts are SVG."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.support import performance
from docs.support.chart import line_chart, ratio_ticks, wrapped
from docs.support.performance_choices import shipped
from docs.support.performance_counters import newest_counters, said_of
from docs.support.performance_rows import newest_of
from mimw.kernels import gemm

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def made():
    return performance.pages()


def test_the_page_is_what_the_rows_say(made):
    """Else: python docs/support/performance.py"""
    stale = [name for name, text in made.items() if (DOCS / name).read_text() != text]
    pictures = {f"performance/{file.name}" for file in (DOCS / "performance").iterdir()}
    assert stale == [] and pictures | {"performance.md", "performance-h100.md"} == set(made)


def test_every_file_of_timed_rows_has_a_table(made):
    files = performance.newest(performance.ROOT / "benchmarks" / "results")
    assert len(files) > 10 and all(f"| {rows[0].name} |" in made["performance.md"] for rows in files.values())


def line(name="gemm-bf16-GH1", us=10.0, date="2026-01-02", k=64, configuration=None, code=None, **baselines):
    return json.dumps({"name": name, "shape": {"M": 1, "N": 2, "K": k}, "microseconds": us, "configuration": configuration or {},
                       "baselines": baselines or {"cuBLAS": 20.0}, "error": 0.0, "chip": "a chip", "date": date}
                      | ({"versions": {"triton": "3.9.0", "code": code}} if code else {}))


def test_the_newest_row_of_a_shape_counts():
    """Rows of a search stand together: the fastest of them; those of an earlier date, or of an earlier run, do not count."""
    text = "\n".join([line(us=1.0, date="2026-01-01"), line(us=2.0), line(us=7.0, k=128), line(us=9.0), line(us=8.0), line(us=8.5),
                      '{"name": "other", "gb_per_s": 1}'])
    one, other = newest_of(text)
    assert (one.microseconds, one.tried, one.date) == (8.0, 3, "2026-01-02") and other.shape["K"] == 128 and other.tried == 1


def test_of_a_search_the_librarys_choice_counts_today():
    """Not the fastest of the candidates; where it was not among them the row says so, and so does the goal."""
    chosen, other = vars(gemm.configuration(8192, 8192, 8192)), {"bm": 64}
    text = "\n".join([line(us=8.0, configuration=other), line(us=9.0, configuration=chosen),
                      line(us=7.0, k=128, configuration=other), line(us=6.0, k=32, code="12345678")])
    shapes = {64: (8192, 8192, 8192), 128: (8192, 8192, 8192), 32: (1, 1, 1)}
    rows = newest_of(text, lambda row: shipped(row | {"shape": dict(zip("MNK", shapes[row["shape"]["K"]]))}))
    assert [(row.microseconds, row.tried, row.shipped, row.run) for row in rows] == [
        (9.0, 2, True, "2026-01-02"), (7.0, 1, False, "2026-01-02"), (6.0, 1, None, "2026-01-02 12345678")]
    assert rows[2].versions == "triton 3.9.0"
    assert performance.goal_of(performance.SECTIONS[0].goals[0], rows).endswith(
        "Rows of 2 runs: 2 of 2026-01-02, 1 of 2026-01-02 12345678. 1 of them with a configuration that the library does not "
        "choose today.")


def test_the_librarys_choice_is_known_for_most_rows():
    """A field that an older row lacks is as by default; nobody chooses for a copy."""
    made = vars(gemm.configuration(8192, 8192, 1024))
    row = {"name": "gemm-bf16-GH1", "shape": {"M": 8192, "N": 8192, "K": 1024}, "configuration": made}
    assert shipped(row) and not shipped(row | {"configuration": made | {"bm": 32}})
    assert shipped(row | {"configuration": {name: value for name, value in made.items() if name != "together"}})
    assert shipped(row | {"name": "gather-copy"}) is None and shipped(row | {"configuration": {}}) is None


def test_goals_and_ceilings_are_sums():
    section = performance.SECTIONS[0]
    rows = newest_of("\n".join([line("gemm-bf16-GH1", 10.0, cuBLAS=11.0), line("gemm-bf16-GH2", 10.0, k=32, cuBLAS=9.0)]))
    mean, every, _ = (performance.goal_of(goal, rows) for goal in section.goals)
    assert "Geometric mean 0.995, lowest 0.900 (gemm-bf16-GH2), of 2 rows, 1 at the goal: missed by 0.055." in mean
    assert every.endswith("1 at the goal: missed by 0.080.") and "every row" in every
    operations, memory = performance.limits()
    assert performance.ceiling(section, rows[0]) == pytest.approx(1e6 * (2 * (64 + 128) + 4) / memory)
    assert operations["fp8"] == pytest.approx(2 * operations["bf16"], rel=1e-3)


def test_a_chart_is_svg_with_gaps():
    text = line_chart("a < b", "TFLOP/s", ["1", "2", "3", "4"], {"mimw": [1, 2, None, 4], "x": [5.0, 5, 5, 5]})
    tree = ElementTree.fromstring(text)
    tags = [element.tag.rpartition("}")[2] for element in tree]
    assert tags.count("polyline") == 2 + 1 and tags.count("circle") == 7 + 3 and "a < b" in [element.text for element in tree]
    assert "mimw / others" in text and "prefers-color-scheme:dark" in text


def test_ratios_have_even_ticks_or_doubling_ones_with_one_among_them():
    assert ratio_ticks({"x": [1.02, None, 1.1]}) == [1.0, 1.05, 1.1]
    assert ratio_ticks({"x": [0.864, 1.136]}) == [0.8, 0.9, 1.0, 1.1, 1.2] and ratio_ticks({"x": [1.0]}) == [1.0, 1.02]
    assert ratio_ticks({"x": [0.99, 4.5]}) == [1, 2, 4, 8] and ratio_ticks({"x": [0.4, 1.2]}) == [0.25, 0.5, 1, 2]


def test_names_that_do_not_fit_side_by_side_take_lines():
    assert wrapped(["1 x 2", "3 x 4"]) == [["1 x 2"], ["3 x 4"]]
    assert wrapped(["8 x 64 x 131072", "128x28672", "ragged"] * 3)[:3] == [["8", "64", "131072"], ["128", "28672"], ["ragged"]]


def test_names_are_sorted_as_numbers_are():
    names = ["all_reduce-bf16-1M", "all_reduce-bf16-64K", "moe-qwen-512", "moe-qwen-4096", "moe-qwen-64"]
    assert sorted(names, key=performance.counted_name) == [names[1], names[0], names[4], names[2], names[3]]


def launch(side="mimw", us=800.0, **facts):
    row = {"name": "gemm-bf16-GH1", "shape": {"N": 2, "M": 1, "K": 64}, "side": side, "run": "2026-01-02T10:00:00", "kernel": "k",
           "microseconds": us, "mhz": 1506, "tensor": 0.936, "memory": 0.2, "l2": 0.8, "l2_hits": 0.75, "shared": 0.45,
           "issue": 0.001, "stalls": {"long_scoreboard": 0.3, "barrier": 0.6}, "sm_active": [0.5, 0.9, 1.0], "conflicts": 0.0,
           "local_bytes": 0, "launches": 1, "share": 1.0}
    return json.dumps(row | facts)


def test_counters_stand_below_the_table_of_their_row(tmp_path):
    """The busiest unit first; of several launches the longest; of a row and side the last run."""
    file = tmp_path / "counters.jsonl"
    file.write_text("\n".join([launch("cuBLAS"), launch(us=900.0, run="earlier"), launch(us=100.0, launches=2, share=0.25),
                               launch(us=300.0, launches=2, share=0.75, conflicts=0.1, local_bytes=2_000_000)]))
    rows = newest_of("\n".join([line(), line(k=128)]))
    one, = said_of(rows, newest_counters(file), performance.said)
    units = ("tensor cores 94 %, L2 80 % (hits 75 %), shared memory 45 %, memory 20 %; warps wait: barrier 60 %, long scoreboard "
             "30 %; an SM is busy 90 % as long as the last one, the first one 50 %")
    assert one == (f"* Counters of gemm-bf16-GH1 (M 1, N 2, K 64): **cuBLAS** 800 us at 1506 MHz; {units}. **mimw** 300 us "
                   f"at 1506 MHz, 75 % of the call in 2 launches; {units}; 10 % of shared memory's wavefronts are bank conflicts; "
                   "2 MB of spills and local arrays.")
    assert newest_counters(tmp_path / "none.jsonl") == {}
    one, = said_of(rows, newest_counters(file), performance.said, lambda launch: False)
    assert one.startswith("* Counters of gemm-bf16-GH1 (M 1, N 2, K 64; a configuration that the library does not choose today): ")


def test_a_goal_that_is_missed_is_explained_by_counters(made):
    """Else: a case in benchmarks/counter_cases.py, `python -m benchmarks.counters` on a GPU, and a text in
    docs/support/performance_explained.py."""
    several = {section.title for section in performance.SECTIONS if section.of_several}     # ncu cannot run those
    tables = [text for text in made["performance.md"].split("\n## ")[1:] if text.partition("\n")[0] not in several]
    missed = {text.partition("\n")[0]: text for text in tables if "missed by" in text}
    wanted = "* Counters of ", "**By counters.**"
    assert missed and [title for title, text in missed.items() if not all(words in text for words in wanted)] == []
