"""What `mimw explain` says of a kernel that reaches other GPUs."""

from mimw.report import resource_table
from mimw.runtime.simulate import prepare
from mimw.target import target
from tests.kernels.several_gpus import exchanging, streaming


def said(launch) -> str:
    kernel, grid, args, meta = launch
    return resource_table(prepare(kernel, grid, args, meta).program, target("sm_90a"))


def test_what_reaches_other_gpus_is_counted():
    assert "other GPUs: pointers to a peer 3, waits for signals 2, barriers 1" in said(exchanging())
    assert "other GPUs: pointers to a peer 3, waits for signals 2, barriers 0" in said(streaming())
