"""`tle.remote` of descriptors that the host has made, one of each GPU's array: simulated, checked, compiled, refused."""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.runtime.compile_kernel import compile_kernel
from tests.kernels.remote_tile import fetch
from tests.tle.compiling import refused

MESH = tle.device_mesh({"device": 3})
TYPE = "tensordesc<fp16[16, 16]>"


def fetching(meets=True, static=False, n=16):
    world = mimw.World(3)
    x, y = world.symmetric((n, n), "float16", "x"), world.each(lambda rank: np.zeros((n, n), np.float16), "y")
    descriptors = tuple(world.each([mimw.TensorDescriptor.from_tensor(x[rank], [n, n])] * 3, f"d{rank}") for rank in range(3))
    return fetch, (1, ), (descriptors, x, y, world, n, 3, MESH, meets, static)


@pytest.mark.parametrize("static", [False, True])
def test_each_reads_what_its_neighbour_has(static):
    kernel, grid, args = fetching(static=static)
    mimw.simulate(kernel, grid, *args, races=True)
    assert [int(one[0, 1]) for one in args[2]] == ([2001, 2001, 2001] if static else [1001, 2001, 1])


def test_a_peer_that_has_not_written_yet_is_found():
    kernel, grid, args = fetching(meets=False)
    finding = next(iter(mimw.check(kernel, grid, *args, seeds=2).findings))
    assert "argument 'x' of rank" in finding.message


@pytest.mark.parametrize("chip", ["sm_90a", "sm_100a"])
def test_a_choice_of_addresses(chip):
    """The parameters stay where they are: no copy of a descriptor."""
    ptx = compile_kernel(fetch, {"descriptors": (TYPE, ) * 3, "x": "*fp16", "y": "*fp16", "world": "*i64"},
                         {"N": 16, "SIZE": 3, "MESH": MESH, "MEETS": True, "STATIC": False}, target=chip).stages["ptx"]
    assert len(re.findall(r"cvta\.param\.u64", ptx)) == 3 and len(re.findall(r"selp\.b64", ptx)) == 2
    assert ".local" not in ptx and "cp.async.bulk.tensor.2d" in ptx


@mimw.jit
def wrong(a, c, x, world, MESH: tl.constexpr, HOW: tl.constexpr):
    mesh = tle.bind_mesh(MESH, world)
    if HOW == "one":
        tle.remote(a, 1, scope=mesh)
    if HOW == "types":
        tle.remote((a, a, c), 1, scope=mesh)
    if HOW == "pointers":
        tle.remote((a, a, x), 1, scope=mesh)
    if HOW == "few":
        tle.remote((a, a), 1, scope=mesh)
    if HOW == "range":
        tle.remote((a, a, a), 3, scope=mesh)


@pytest.mark.parametrize("error, match, how", [
    (NotImplementedError, "give a tuple of descriptors, one of each GPU's array", "one"), (TypeError, "of one type", "types"),
    (TypeError, "of one type", "pointers"), (ValueError, "2 descriptors for the 3 GPUs", "few"), (ValueError, "shard 3", "range")])
def test_refusals(error, match, how):
    refused(error, match, wrong, {"a": TYPE, "c": "tensordesc<fp16[32, 16]>", "x": "*fp16", "world": "*i64"}, MESH=MESH, HOW=how)
