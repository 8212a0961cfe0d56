"""No synchronising word without a truth table: the words are read off the op table."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

import mimw
from benchmarks.mutants import mutants
from mimw.compiler.passes import run_passes
from mimw.compiler.passes.expand_pipes import expand_pipes
from mimw.errors import KernelError
from mimw.ir import OPS
from mimw.runtime.simulate import prepare
from mimw.target import target
from mimw.tools.check import Search

from .tables import TABLES, as_written

for _path in sorted(Path(__file__).parent.glob("test_truth_tables*.py")):     # they fill TABLES
    import_module(f".{_path.stem}", __package__)

# Synchronising by their effects, but there is nothing that they order between tasks, operations in flight or CTAs.
ORDER_NOTHING = {
    "barrier": "tl.debug_barrier holds up the threads of a task, which is one strand of the memory model",
    "grid_dependency_wait": "every launch is over before the next one starts",
    "grid_dependency_launch_dependents": "every launch is over before the next one starts",
    "clock64": "reads a clock; it keeps its place among the other ops, which is all that its effect says",
    "vote_ballot": "a vote of one warp",
    "sched_barrier": "a hint for the compiler behind Triton, about the instructions of one wave",
    "wait_words": "notes for a watchdog where barriers lie",
}
# What a pass makes of the word that an author writes; the word has the table.
MADE_OF = {"dsa_fetch": "async_load",
           "watched_wait": "barrier_wait", "tmem_copy_pair": "tmem_copy", "barrier_phase": "tcgen05_mma_pair",
           "group_barrier": "distributed_barrier", "grid_barrier": "distributed_barrier",
           "halves_part": "stage_start", "halves_meet": "stage_end"}
# No word records what the reader of TTGIR makes: its tables, in test_truth_tables_allocations.py, are programs written op by op.
SYNCHRONISING = [name for name, row in OPS.items() if (row.effects & {"sync", "async"} or name.startswith("atomic_")
                 or name == "remote_store") and "ttgir" not in row.traits]


@pytest.mark.parametrize("word", [name for name in SYNCHRONISING if name not in ORDER_NOTHING])
def test_every_word_has_a_table(word):
    about = [name for name, (words, _) in TABLES.items() if MADE_OF.get(word, word) in words]
    assert about, f"{word} synchronises, and no launch in tests/check/test_truth_tables*.py is registered with @states({word!r})"


def test_the_exceptions_are_words():
    assert set(ORDER_NOTHING).intersection(OPS) <= set(SYNCHRONISING)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_about_words_that_matter(name):
    """The launch with all switches on holds the words and is right; of each wait, arrive and fence there is one that it needs."""
    words, make = TABLES[name]
    kernel, grid, args, meta = make()
    chip = meta.get("target", "sm_90a")
    launch = prepare(kernel, grid, args, {name: value for name, value in meta.items() if name != "target"}, chip)
    assert set(words) <= {op.name for program in (launch.recorded, expand_pipes(launch.recorded)) for op in program.walk()}
    assert mimw.check(kernel, grid, *args, seeds=2, shrink=False, **meta).ok
    drops = [mutant for mutant in mutants(launch.recorded) if mutant.change == "drop"]
    for word in {mutant.word for mutant in drops}.intersection(words):
        assert not all(_ok(launch, mutant, chip) for mutant in drops if mutant.word == word), f"{name} is right without its {word}"


def _ok(launch, mutant, chip: str) -> bool:
    try:
        program = run_passes(mutant.program, target(chip))
    except KernelError:
        return False
    search = Search(replace(launch, program=as_written(program)))
    return search.all(1, "random", 0, shrink=False).ok and search.all([1], "both", 4, shrink=False).ok
