"""Mistakes in a ring whose slots a helper fills: each is named by the barrier that it is about, as the helper's line spells it."""

import re

import pytest

import mimw
from tests.kernels import helped_ring
from tests.kernels.lines import line_of

COPY = line_of(helped_ring.fill, "tlx.async_descriptor_load")
EXPECT = line_of(helped_ring.fill, "tlx.barrier_expect_bytes")
READ = line_of(helped_ring.sums, "tlx.local_load")
FIRST = line_of(helped_ring.sums, "tlx.barrier_wait(landed[0], 0)")

MENDS = {
    "the announcement": rf"Announce the bytes before \S+:{COPY}: `barrier_expect_bytes\(full\[slot\], 256\)` is the arrival",
    "the filler's wait": rf"if the slot is filled again here, let 'task 1' wait before \S+:{EXPECT} for the barrier that releases",
    "the reader's wait": rf"wait in 'default' before \S+:{READ} for the phase of 'landed' that the tma_load of \S+:{COPY} "
                         rf"completes; its waits for 'landed' are at \S+:{FIRST}$",
    "the release": r"let the task that has used a slot arrive on its barrier",
}


def checked(**how):
    kernel, grid, args, meta = helped_ring.launch(**how)
    return mimw.check(kernel, grid, *args, jobs=1, **meta)


@pytest.mark.parametrize("mistake", MENDS)
def test_the_mend_names_the_barrier(mistake):
    found = checked(mistake=mistake).findings
    assert re.search(MENDS[mistake], found[0].hint), found[0]


def test_a_launch_that_fills_each_slot_once_is_not_called_complete():
    """What is gone does not show there, and the report says which barriers it says nothing about."""
    assert checked().unawaited == ()
    for mistake in ("", "the filler's wait"):
        report = checked(rows=2, mistake=mistake)
        line = line_of(helped_ring.sums, "tlx.alloc_barriers(SLOTS), tlx.alloc_barriers(SLOTS)")
        assert report.ok and report.unawaited == (f"'given' (line {line})", )
        assert "note: no wait needed an arrival of 'given'" in str(report) and report.as_json()["unawaited"] == [*report.unawaited]
