"""The resource table and the storage map, as text."""

from mimw.report import resource_table
from mimw.report.table import table
from mimw.target import target
from tests.analysis.building import Kernel, ring_copy

SM90 = target("sm_90a")


def test_the_resource_table_of_a_ring():
    assert resource_table(ring_copy().program("ring_copy"), SM90) == """\
ring_copy on sm_90a: 12 warps, 384 threads a CTA

  task      role      warps   registers   buffers   waits for   arrives at   copies   dots
  ────────────────────────────────────────────────────────────────────────────────────────
  default   idle          4         168   -         -           -                 0      0
  load      load          1         168   tiles     free        full              1      0
  mma       compute       4         168   tiles     full        free              0      0

  buffer   tile            count   bytes
  ──────────────────────────────────────
  tiles    bf16[128, 64]       4   65536

  barriers   count   arrivals   bytes a phase
  ───────────────────────────────────────────
  full           4          1           16384
  free           4          1               -

shared memory: 65792 of 232448 bytes (28.3 %), as planned: scratch of the compiled kernel is not known here
"""


def test_a_table_is_text_in_a_notebook_too(monkeypatch):
    """Where rich would show it by itself."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert table(("task", "warps"), [("mma", 8)], ("warps", )).split() == ["task", "warps", "─" * 12, "mma", "8"]


def test_what_the_compiled_kernel_takes():
    last = resource_table(ring_copy().program(), SM90, shared_total=66560).splitlines()[-1]
    assert last == "shared memory: 66560 of 232448 bytes (28.6 %), 960 of them padding and scratch"


def test_a_request_that_is_not_met_is_shown():
    k = Kernel()
    with k.task("greedy", 4, 512):
        pass
    assert "256 (asked 512)" in resource_table(k.program(), SM90)


def test_a_plain_kernel():
    assert resource_table(Kernel().program("plain"), SM90) == """\
plain on sm_90a: 4 warps, 128 threads a CTA

  task     role   warps   registers   buffers   waits for   arrives at   copies   dots
  ────────────────────────────────────────────────────────────────────────────────────
  kernel   idle       4         256   -         -           -                 0      0

shared memory: 0 of 232448 bytes (0.0 %), as planned: scratch of the compiled kernel is not known here
"""
