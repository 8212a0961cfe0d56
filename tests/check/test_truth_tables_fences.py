"""Fences between proxies that the compiler puts in where the author wrote none: the program is right, and its PTX has the fence.

Who reads what was stored, in the asynchronous proxy, is a TMA store of the same task or of another one; the other tables have
products, bulk copies and copies to another CTA. Taken out, the fence is missing, and named. Where the compiler cannot put it the
fence is still missing.
"""

import re
from typing import Literal as L

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from tests.compiling import to_assembly
from tests.kernels.lines import line_of

from .tables import SWITCHES, unfenced

describe = mimw.TensorDescriptor.from_tensor
TARGETS = ["sm_90a", "sm_100a"]


@mimw.jit
def handed_out(x_ptr, y_desc, OTHER: tl.constexpr, HOW: tl.constexpr, AUTHOR: tl.constexpr):
    """A tile is stored and sent off by TMA, by one task or by two; two tiles, one after the other."""
    tile = tlx.local_alloc((32, 32), tl.float16, 1)
    full, free = tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):  # writer
            at = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
            for step in range(2):
                if HOW == "cp.async":
                    tlx.async_load(x_ptr + at, tile[0])
                    tlx.async_load_commit_group()
                    tlx.async_load_wait_group(0)
                elif HOW == "scatter":
                    column = tl.zeros((32, 32), tl.int32) + tl.arange(0, 32)[None, :]
                    tlx.local_scatter(tile[0], tl.load(x_ptr + at), column, 1)
                else:
                    tlx.local_store(tile[0], tl.load(x_ptr + at))
                if AUTHOR == "writer":
                    tlx.fence("async_shared")
                if OTHER:
                    tlx.barrier_arrive(full[0])
                    tlx.barrier_wait(free[0], step)
                else:
                    tlx.async_descriptor_store(y_desc, tile[0], [32 * step, 0])
                    tlx.async_descriptor_store_wait(0)
        with tlx.async_task(num_warps=1):  # sender
            if OTHER:
                for step in range(2):
                    tlx.barrier_wait(full[0], step)
                    if AUTHOR == "sender":
                        tlx.fence("async_shared")
                    tlx.async_descriptor_store(y_desc, tile[0], [step * 32, 0])
                    tlx.async_descriptor_store_wait(0)
                    tlx.barrier_arrive(free[0])


HOW = ["store", "scatter", "cp.async"]
SENDS = {True: "tile[0], [step * 32, 0])", False: "tile[0], [32 * step, 0])"}


def launch(other=True, how="store", author="", target="sm_90a"):
    x, y = np.ones((32, 32), np.float16), np.zeros((64, 32), np.float16)
    return handed_out, (1, ), (x, describe(y, [32, 32])), dict(OTHER=other, HOW=how, AUTHOR=author, target=target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("other", SWITCHES)
def test_a_tile_that_is_stored_and_sent_off(other, how, target):
    """Right as compiled. Without the compiler's fence it is missing from task to task and in one task, and named by both lines."""
    kernel, grid, args, meta = launch(other, how, target=target)
    assert mimw.check(kernel, grid, *args, seeds=3, **meta).ok
    findings = unfenced(launch(other, how, target=target)).findings
    assert {finding.kind for finding in findings} == {"MissingFence"}
    stores, sends = {"store": "tlx.local_store(", "scatter": "tlx.local_scatter(", "cp.async": "tlx.async_load("}[how], SENDS[other]
    assert {finding.sites[0].line for finding in findings} == {line_of(kernel, stores)}
    assert {finding.sites[1].line for finding in findings} == {line_of(kernel, sends)}


def fences(ptx: str) -> list[str]:
    """The fences, arrivals and TMA stores of a text, in order, without what repeats."""
    found = re.findall(r"fence\.proxy\.async|mbarrier\.arrive|cp\.async\.bulk\.tensor", ptx)
    return [one for index, one in enumerate(found) if not index or one != found[index - 1]]


def ptx_of(target, **switches):
    names = dict(x_ptr="*fp16", y_desc="tensordesc<fp16[32, 32]>")
    meta = {name: value for name, value in launch(target=target, **switches)[3].items() if name != "target"}
    return to_assembly(handed_out, names, meta, target=target).stage("ptx")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("author", ["", "writer"])
def test_the_fence_is_in_the_ptx(target, author):
    """Before the writer's arrival, and in one task before its copy; as often as if the author had written it."""
    ptx = ptx_of(target, author=author)
    assert fences(ptx)[:2] == ["fence.proxy.async", "mbarrier.arrive"]
    assert ptx.count("fence.proxy.async") == ptx_of(target, author="writer").count("fence.proxy.async")
    assert fences(ptx_of(target, other=False, author=author))[:2] == ["fence.proxy.async", "cp.async.bulk.tensor"]


@pytest.mark.parametrize("target", TARGETS)
def test_one_fence_is_enough(target):
    """Where the sender has it, behind its wait, the writer gets none."""
    ptx = ptx_of(target, author="sender")
    assert fences(ptx)[0] == "mbarrier.arrive" and "fence.proxy.async" in ptx
    kernel, grid, args, meta = launch(author="sender", target=target)
    assert mimw.check(kernel, grid, *args, seeds=3, **meta).ok


def test_explain_says_so():
    kernel, grid, args, meta = launch()
    explained = mimw.explain(kernel, grid, *args, **meta)
    said = explained.sections["Fences between proxies, put in"]
    place = f"test_truth_tables_fences.py:{line_of(kernel, 'barrier_arrive(full[0])')}"
    assert said.startswith(f"writer       before the barrier_arrive of {place}: ")
    assert said.endswith("reads what the task stored")
    kernel, grid, args, meta = launch(author="writer")
    assert "Fences between proxies, put in" not in mimw.explain(kernel, grid, *args, **meta).sections


def filled(tile, full):
    tile[:] = 7


@tle.raw.dialect(name="ptx", source=".func f() { ret; }", reference=filled, effects={"full": "arrive"})
def fill(tile: tle.raw.Output[L["memref<64xf32, 3>"]], full: L["barrier"]): ...


@mimw.jit
def by_native_code(y_desc, F: tl.constexpr, AUTHOR: tl.constexpr):
    tile, full = tle.gpu.alloc([64], tl.float32), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(full[0], 0)
            if AUTHOR:
                tlx.fence("async_shared")
            tlx.async_descriptor_store(y_desc, tile, [0])
            tlx.async_descriptor_store_wait(0)
        with tlx.async_task(num_warps=1):
            tle.raw.call_smem(F, [tile, full[0]])


@pytest.mark.parametrize("author", SWITCHES)
def test_what_native_code_stores(author):
    """It arrives by itself, so no fence can be put before that: the author's is missing, or there."""
    y = np.zeros(64, np.float32)
    report = mimw.check(by_native_code, (1, ), describe(y, [64]), fill, author, seeds=3, shrink=False)
    assert {finding.kind for finding in report.findings} == (set() if author else {"MissingFence"})
