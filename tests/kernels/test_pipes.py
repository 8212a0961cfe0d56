"""The library's GEMM and attention leave slots, phases and barriers to pipes; their consumers have names and take turns."""

import re
from pathlib import Path

import pytest

import mimw.kernels
from mimw.kernels.consumers import consumer, consumers, one_of_consumers

BY_HAND = re.compile(r"alloc_barriers|(?<!named_)barrier_(?:wait|arrive|expect_bytes)|get_bufidx_phase|"
                     r"\bphases?\b|\bparit\w+|[%^] ?(?:2|STAGES)\b")


@pytest.mark.parametrize("name", ["gemm", "attention"])
def test_no_barrier_slot_or_phase_is_written_by_hand(name):
    files = sorted((Path(mimw.kernels.__file__).parent / name).glob("*.py"))
    assert len(files) >= 3
    found = [f"{file.name}: {line.strip()}" for file in files for line in file.read_text().splitlines() if BY_HAND.search(line)]
    assert not found


@pytest.mark.parametrize("line", [
    "full = tlx.alloc_barriers(STAGES)", "tlx.barrier_wait(full[slot], phase)", "tlx.barrier_arrive(free[slot])",
    "slot, turn = tlx.warp_spec.get_bufidx_phase(used, STAGES)", "slot = used % STAGES", "other = turn ^ 1 if turn % 2 else turn"])
def test_what_is_looked_for_is_found(line):
    assert BY_HAND.search(line)


def test_names_of_consumers():
    assert consumer(1) == "consumer1"
    assert consumers(2) == ("consumer0", "consumer1")
    assert consumers(1, "load", "store") == ("consumer0", "load", "store")
    assert one_of_consumers(3) == (("consumer0", "consumer1", "consumer2"), )
