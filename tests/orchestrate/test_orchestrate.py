"""Ordinary kernels become orchestrated ones: equal to the last bit, clean, compiled for Hopper, or refused with the line."""

import importlib
from dataclasses import replace

import numpy as np
import pytest

import mimw
from mimw.compiler.orchestrate.plan import Plan
from mimw.tools.orchestrate import orchestrate
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.prove import prove
from mimw.tools.orchestrate.written import written

CASES = {
    "gemm_descriptors": dict(m=128, n=128, k=320),
    "gemm_persistent": dict(m=256, n=128, k=192, programs=1),
    "attention": dict(t=512, bn=64),
    "gemm_pointers": dict(m=192, n=136, k=328),
    "gemm_bias_gelu": dict(),
    "attention:causal": dict(t=512, bn=64),
    "gated_mlp": dict(batch=1, n=64),
    "gated_mlp:gradient": dict(batch=1, n=64),
}


def case(name, **sizes):
    module, _, which = name.partition(":")
    return getattr(importlib.import_module(f"tests.orchestrate.cases.{module}"), which or "case")(**sizes)


def plain(name, **sizes):
    kernel, grid, args, meta, (out, expected) = case(name, **sizes)
    return plain_of(kernel, grid, args, meta, "sm_90a")


@pytest.mark.long(everywhere=True, but=[
    "attention-1", "attention:causal-1", "gated_mlp-1", "gated_mlp:gradient-1", "gemm_bias_gelu-1", "gemm_descriptors-2",
    "gemm_persistent-1", "gemm_pointers-1"])
@pytest.mark.parametrize("consumers", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_a_plan_is_proved(name, consumers):
    one = written(plain(name, **CASES[name]), Plan(consumers=consumers, stages=2))
    assert one.kernel is not None, (one.wrong, one.remarks)
    proof = prove(one, seeds=2, limit=20)
    assert proof.ok, proof
    assert proof.compared and all(not line["different"] for line in proof.compared)


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_trips_around_the_depth_of_a_pipe_are_compared(stages):
    proof = prove(written(plain("gemm_descriptors", m=128, n=128, k=64 * 8), Plan(stages=stages)), seeds=1, limit=5)
    assert proof.ok, proof
    trips = {0, 1, 2, stages - 1, stages, stages + 1}
    assert {line["sizes"].get("K") for line in proof.compared} >= {64 * trip for trip in trips}


@pytest.mark.parametrize("name", ["gated_mlp", "gated_mlp:gradient"])
def test_products_that_only_add_run_on_into_the_next_trip_together(name):
    one = written(plain(name, **CASES[name]), Plan(consumers=2, stages=2))
    assert one.text.count("async_dot_wait(1, ") == 4 and "tl.trans" not in one.text and "local_load" not in one.text
    assert all(ring.direct and ring.trails for ring in one.made.rings.rings)


@pytest.mark.long(but=["gemm_descriptors"], everywhere=True)
@pytest.mark.parametrize("name", ["gemm_descriptors", "attention"])
def test_what_is_compiled_is_hopper_s(name):
    one = written(plain(name, **CASES[name]), Plan(consumers=2, stages=2))
    made = mimw.compile(one.kernel, one.plain.launch.grid, *one.arguments(), num_warps=one.num_warps, target="sm_90a")
    ptx = made.ptx
    assert all(word in ptx for word in ("wgmma.mma_async", "cp.async.bulk.tensor", "setmaxnreg.inc", "setmaxnreg.dec"))
    assert made.stack_bytes == 0


# ---- mistakes that a proof has to find ---------------------------------------------------------------------------------------


def everywhere(change):
    """Change ops of a program: to another op, or to None, which leaves it out."""
    def changed(program):
        def walk(block):
            return block.with_ops(new.with_blocks(walk) for op in block.ops if (new := change(op)) is not None)
        return replace(program, body=walk(program.body))
    return changed


def without(name):
    return everywhere(lambda op: None if op.name == name else op)


def other(name, **changes):
    return everywhere(lambda op: op.with_operands(**{key: change(getattr(op, key)) for key, change in changes.items()})
                      if op.name == name else op)


MUTANTS = {
    "no release": without("pipe_release"),
    "no commit": without("pipe_commit"),
    "products are waited for a product too late": other("async_dot_wait", pending=lambda pending: pending + 1),
    "products of a loop are never waited for": other("async_dot_wait", pending=lambda pending: 9 if pending else 0),
    "every release without its predicate": other("pipe_release", predicate=lambda given: None),
}


@pytest.mark.long(everywhere=True, but=[
    "attention-every release without its predicate", "attention-products are waited for a product too late",
    "attention-products of a loop are never waited for", "gemm_descriptors-no commit", "gemm_descriptors-no release"])
@pytest.mark.parametrize("mistake", MUTANTS)
@pytest.mark.parametrize("name", ["gemm_descriptors", "attention"])
def test_a_mistake_is_found(name, mistake, monkeypatch):
    from mimw.tools.orchestrate import written as module
    right = module.orchestrated
    changed = []

    def wrong(*given):
        made = right(*given)
        program = MUTANTS[mistake](made.program)
        changed.append(program.body is not made.program.body)
        return replace(made, program=program)

    monkeypatch.setattr(module, "orchestrated", wrong)
    if name == "attention" and "predicate" in mistake:
        pytest.skip("no release of this kernel has one")
    one = written(plain(name, **CASES[name]), Plan(stages=2))
    assert changed == [True]
    proof = prove(one, seeds=4, limit=50)
    assert not proof.ok and proof.wrong


# ---- what stays plain --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, reason", [
    ("layer_norm", "no loop multiplies what it loads"),
    ("softmax_rows", "no loop multiplies what it loads"),
])
def test_what_does_not_multiply_stays_plain(name, reason):
    kernel, grid, args, meta, _ = case(name)
    found = orchestrate(kernel, grid, *args, **meta)
    assert not found.is_used and found.kernel is None and not found.source
    assert any(reason in line for line in found.refused)


def test_a_kernel_in_tasks_is_left_alone():
    kernel, grid, args, meta, _ = case("gemm_descriptors")
    found = orchestrate(kernel, grid, *args, plan=Plan(stages=2), **meta)
    again = orchestrate(found.kernel, grid, *found.chosen.written.arguments(), num_warps=4)
    assert again.because == "its author has orchestrated it already"


def test_the_launch_takes_the_plain_kernel_where_arrays_overlap():
    kernel, grid, args, meta, (out, expected) = case("gemm_descriptors")
    found = replace(orchestrate(kernel, grid, *args, plan=Plan(stages=2), **meta), is_used=True)
    found[grid](*args, **meta)
    np.testing.assert_allclose(out, expected(), rtol=1e-2, atol=1e-1)
    a, b, _, *sizes = args
    from mimw.tools.orchestrate.guards import why_plain
    assert why_plain(found, grid, args, meta) == ""
    assert "overlaps" in why_plain(found, grid, (a, b, mimw.TensorDescriptor.from_tensor(a.base.array, [128, 128]), *sizes), meta)
    assert "others than" in why_plain(found, grid, args, meta | {"num_warps": 8})
