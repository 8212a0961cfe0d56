"""Every op knows the user's line it stands for, and inside helpers the calls that led there; each pass is verified."""

from pathlib import Path

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.passes import pipeline
from mimw.errors import InvalidProgram
from mimw.kernels.gemm.kernel import GemmForm, gemm
from mimw.kernels.gemm.tiles import Tiles
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_ttgir

HERE = Path(__file__).resolve()


@mimw.jit
def inner(x, at):
    tl.store(x + at, tl.sum(tl.load(x + at), 0))  # inner


@mimw.jit
def outer(x, n, tile):
    at = tl.arange(0, 64)
    inner(x, at)  # outer
    if n > 0:
        tlx.local_store(tile, tl.load(x + at))


@mimw.jit
def kernel(x, n):
    tiles = tlx.local_alloc((64, ), tl.int32, 1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            for i in range(n):
                outer(x, i, tiles[0])  # kernel
        with tlx.async_task(num_warps=1):
            pass


def line(mark: str) -> int:
    return next(i for i, text in enumerate(HERE.read_text().splitlines(), 1) if text.endswith(f"# {mark}"))


def test_the_path_to_an_op():
    program = to_ttgir(kernel, dict(x="*i32", n="i32")).program
    (store, ) = [op for op in program.walk() if op.name == "store"]
    assert [(site.line, site.function) for site in store.site.chain()] == [
        (line("inner"), "inner"), (line("outer"), "outer"), (line("kernel"), "kernel")]
    assert {site.file for site in store.site.chain()} == {str(HERE)}


GEMM = dict(a_desc="tensordesc<bf16[128,64]>", b_desc="tensordesc<bf16[64,128]>", c_desc="tensordesc<bf16[64,64]>", M="i32",
            N="i32", K="i32")
SIZES = dict(FORM=GemmForm(Tiles(128, 128, 8, 64, CONSUMERS=2, PIECES=2, STAGING=2, PING_PONG=False, B_IS_NK=False), STAGES=3))


@pytest.mark.parametrize("source, arguments", [(kernel, (dict(x="*i32", n="i32"), {})), (gemm, (GEMM, SIZES))])
def test_every_op_has_a_position(source, arguments):
    """Also those of `tl`'s own helpers (`tl.sum`, `tl.cdiv`), whose outermost caller is then a line of the kernel."""
    compiled = to_ttgir(source, *arguments)
    ops = list(compiled.program.walk())
    assert len(ops) > 15
    for op in ops:
        chain = op.site.chain()
        assert all(site.line > 0 and site.column >= 0 for site in chain)
        assert chain[-1].function == source.__name__ and Path(chain[-1].file) == Path(source.fn.__code__.co_filename)


def test_positions_reach_the_ttgir():
    assert f'{HERE}":{line("inner")}:' in to_ttgir(kernel, dict(x="*i32", n="i32")).stage("ttgir")


def test_each_pass_is_verified(monkeypatch):
    """A rewrite that breaks the IR is stopped right after it, with the guilty op."""
    from dataclasses import replace

    def forget_an_op(program, *_):
        ops = tuple(op for op in program.body.ops if op.name != "make_range")
        return replace(program, body=replace(program.body, ops=ops))

    @mimw.jit
    def victim(x):
        tlx.fence("gpu")
        tl.store(x + tl.arange(0, 64), 1)

    bad = pipeline.rewrite("forget", forget_an_op, "forgets an op")
    monkeypatch.setattr(pipeline, "PASSES", (bad, *pipeline.PASSES))
    with pytest.raises(InvalidProgram, match="used before it is defined"):
        compile_kernel(victim, dict(x="*i32"))


def test_names_are_the_user_s():
    program = to_ttgir(kernel, dict(x="*i32", n="i32")).program
    names = {result.name for op in program.walk() for result in op.results}
    assert {"tiles", "at"} <= names and [param.name for param in program.params] == ["x", "n"]


def test_a_run_counts_what_it_did():
    run = mimw.simulate(kernel, (2, ), np.zeros(64, np.int32), 3)
    assert run.counts["store"] == 6 and run.counts["local_store"] == 4
