"""Launch keywords for clusters: accepted, refused, and what the compiled kernel says of them."""

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.launch import canonical_keywords, check_grid, cluster_shape
from mimw.errors import LaunchError, TargetError
from mimw.runtime.compile_kernel import compile_kernel


@mimw.jit
def plain(y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y_ptr + tl.program_id(0) * N + at, at + tl.program_id(0))


@mimw.jit
def orchestrated(y_ptr, N: tl.constexpr):
    tile = tlx.local_alloc((N, ), tl.int32, 1)
    at = tl.arange(0, N)
    tlx.local_store(tile[0], at + tl.program_id(0))
    tl.store(y_ptr + tl.program_id(0) * N + at, tlx.local_load(tile[0]))


@mimw.jit
def ring(y_ptr):
    """Every CTA tells the next one of its cluster its rank."""
    tile = tlx.local_alloc((32, ), tl.int32, 1)
    rank, size = tlx.cluster_cta_rank(), tlx.cluster_size_1d()
    at = tl.arange(0, 32)
    tlx.remote_shmem_store(tile[0], at * 0 + rank, (rank + 1) % size)
    tlx.cluster_barrier()
    program = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    tl.store(y_ptr + program * 32 + at, tlx.local_load(tile[0]) * 100 + size)


def compiled(kernel, **options):
    return compile_kernel(kernel, {"y_ptr": "*i32"}, {"N": 32}, options=options)


@pytest.mark.parametrize("given, shape", [(None, None), ((2, 1, 1), (2, 1, 1)), ([1, 4], (1, 4, 1)), ((2, ), (2, 1, 1)),
                                          ((1, 1, 1), (1, 1, 1)), (np.array([2, 2, 1]).tolist(), (2, 2, 1))])
def test_shapes(given, shape):
    assert cluster_shape(given) == shape


@pytest.mark.parametrize("given", [(), (0, 1, 1), (1, 1, 1, 1), (2.0, 1, 1), 2, "211", (True, 1, 1), (-1, )])
def test_refused_shapes(given):
    with pytest.raises(LaunchError, match="ctas_per_cga should be"):
        cluster_shape(given)


def test_keywords_become_one():
    assert canonical_keywords({"num_warps": 4}) == {"num_warps": 4}
    assert canonical_keywords({"cluster_dims": [2]}) == {"ctas_per_cga": (2, 1, 1)}
    both = {"ctas_per_cga": (2, ), "cluster_dims": (2, 1, 1), "launch_cluster": True}
    assert canonical_keywords(both) == {"ctas_per_cga": (2, 1, 1)}
    assert canonical_keywords({"ctas_per_cga": None}) == {}
    assert canonical_keywords({"cluster_dims": 7}, own=("cluster_dims", )) == {"cluster_dims": 7}


def test_contradicting_keywords():
    with pytest.raises(LaunchError, match="contradict each other"):
        canonical_keywords({"ctas_per_cga": (2, 1, 1), "cluster_dims": (4, 1, 1)})


def test_grids():
    check_grid((8, ), (2, 1, 1))
    check_grid((4, 6), (2, 3, 1))
    check_grid((7, ), None)
    with pytest.raises(LaunchError, match=r"7 % 2 = 1"):
        check_grid((7, ), (2, 1, 1))
    with pytest.raises(LaunchError, match="along y"):
        check_grid((2, ), (2, 2, 1))


@pytest.mark.parametrize("kernel", ["plain", "orchestrated"])
def test_ptx_and_metadata(kernel):
    kernel = globals()[kernel]  # by name: pytest would keep the function past the end of the bindings
    alone, pair, four = compiled(kernel), compiled(kernel, ctas_per_cga=(2, 1, 1)), compiled(kernel, cluster_dims=(1, 4, 1))
    assert ".explicitcluster" not in alone.stages["ptx"] and alone.metadata.ctas_per_cga is None
    for one, shape in ((pair, (2, 1, 1)), (four, (1, 4, 1))):
        assert one.metadata.ctas_per_cga == shape and one.metadata.num_ctas == 1
        assert f".explicitcluster\n.reqnctapercluster {shape[0]}, {shape[1]}, {shape[2]}" in one.stages["ptx"]
    again = compiled(kernel, ctas_per_cga=(2, 1, 1))  # from the cache on disk
    assert again.metadata.hash == pair.metadata.hash and again.metadata.ctas_per_cga == (2, 1, 1)
    assert len({alone.metadata.hash, pair.metadata.hash, four.metadata.hash}) == 3


def test_one_cta_is_no_cluster():
    kernel = compiled(orchestrated, ctas_per_cga=(1, 1, 1))
    assert kernel.metadata.ctas_per_cga == (1, 1, 1) and ".explicitcluster" not in kernel.stages["ptx"]


@mimw.jit
def two_tasks(x_ptr, y_ptr, N: tl.constexpr):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, N)
            tl.store(y_ptr + tl.program_id(0) * N + at, tl.load(x_ptr + at) + tl.program_id(0))
        with tlx.async_task(num_warps=4):
            at = tl.arange(0, N)
            tl.store(y_ptr + (tl.num_programs(0) + tl.program_id(0)) * N + at, tl.load(x_ptr + at) * 2)


def test_one_program_over_two_ctas(machine):
    """Triton's own `num_ctas`: the grid counts programs, and each of their elements is stored once."""
    x = np.arange(512, dtype=np.int32)
    y = np.zeros((4, 512), np.int32)
    machine.launch(two_tasks, (2, ), x, y, 512, num_ctas=2)
    assert (y == np.stack([x, x + 1, 2 * x, 2 * x])).all()


def test_two_ctas_in_the_module():
    kernel = compile_kernel(two_tasks, {"x_ptr": "*i32", "y_ptr": "*i32"}, {"N": 512}, options={"num_ctas": 2})
    assert kernel.metadata.num_ctas == 2 and '"ttg.num-ctas" = 2' in kernel.stages["ttgir"]
    with pytest.raises(triton.CompilationError, match="'local_alloc' is about one CTA"):
        compile_kernel(orchestrated, {"y_ptr": "*i32"}, {"N": 32}, options={"num_ctas": 2})


def test_warmup_keeps_shapes_apart():
    y = triton.runtime.jit.MockTensor(tl.int32)
    shapes = [plain.warmup(y, 32, grid=(4, ), **keywords).metadata.ctas_per_cga
              for keywords in ({}, {"ctas_per_cga": (2, 1, 1)}, {"cluster_dims": (2, )}, {"ctas_per_cga": (4, 1, 1)})]
    assert shapes == [None, (2, 1, 1), (2, 1, 1), (4, 1, 1)]


def test_accepted_and_unknown_keywords():
    y = triton.runtime.jit.MockTensor(tl.int32)
    plain.warmup(y, 32, grid=(4, ), launch_cluster=True, launch_cooperative_grid=True)
    with pytest.raises(KeyError, match="clusters"):
        plain.warmup(y, 32, grid=(4, ), clusters=(2, 1, 1))


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_chips_without_clusters(target):
    with pytest.raises(TargetError, match="no clusters"):
        compile_kernel(plain, {"y_ptr": "*i32"}, {"N": 32}, target=target, options={"ctas_per_cga": (2, 1, 1)})


def test_too_large():
    with pytest.raises(TargetError, match="clusters of 32 CTAs; sm_90a has at most 16"):
        compiled(plain, ctas_per_cga=(4, 8, 1))
    with pytest.raises(TargetError, match="at most 8"):
        compile_kernel(plain, {"y_ptr": "*i32"}, {"N": 32}, target="sm_120a", options={"ctas_per_cga": (16, 1, 1)})


def test_larger_than_portable():
    """Above 8 CTAs the driver wants to be asked; the kernel's own class does that when it is loaded."""
    y = triton.runtime.jit.MockTensor(tl.int32)
    names = {shape: type(orchestrated.warmup(y, 32, grid=(16, 4), ctas_per_cga=shape)).__name__
             for shape in ((8, 1, 1), (4, 4, 1))}
    assert names == {(8, 1, 1): "CompiledKernel", (4, 4, 1): "ClusterKernel"}


@pytest.mark.parametrize("shape", [(16, 1, 1), (4, 4, 1), (12, 1, 1)])
def test_ranks_of_a_large_cluster(machine, shape):
    y = np.full((shape[0] * shape[1] * 2, 32), -1, np.int32)
    machine.launch(ring, (shape[0] * 2, shape[1]), y, ctas_per_cga=shape)
    size = shape[0] * shape[1]
    for program, row in enumerate(y):
        column, line = program % (2 * shape[0]), program // (2 * shape[0])
        rank = column % shape[0] + line * shape[0]
        assert (row == (rank - 1) % size * 100 + size).all()


def test_preferred():
    with pytest.raises(ValueError, match="preferred_ctas_per_cga.*sm_100"):
        compiled(plain, ctas_per_cga=(2, 1, 1), preferred_ctas_per_cga=(4, 1, 1))
    with pytest.raises(ValueError, match="sm_100"):
        mimw.simulate(orchestrated, (4, ), np.zeros(128, np.int32), 32, preferred_ctas_per_cga=(4, 1, 1))
    kernel = compile_kernel(plain, {"y_ptr": "*i32"}, {"N": 32}, target="sm_100a", options={
        "ctas_per_cga": (2, 1, 1), "preferred_ctas_per_cga": (4, 1, 1)})
    assert kernel.metadata.ctas_per_cga == (2, 1, 1) and kernel.metadata.preferred_ctas_per_cga == (4, 1, 1)
    plainly = compile_kernel(plain, {"y_ptr": "*i32"}, {"N": 32}, target="sm_100a", options={"ctas_per_cga": (2, 1, 1)})
    assert kernel.stage("ptx") == plainly.stage("ptx")      # nothing else is compiled
    assert plainly.metadata.preferred_ctas_per_cga is None


def test_a_compiled_launch_names_what_it_prefers(monkeypatch):
    monkeypatch.setenv("MIMW_TARGET", "sm_100a")
    y = triton.runtime.jit.MockTensor(tl.int32)
    for kernel in (plain, orchestrated):
        for preferred in ((4, 1, 1), (2, ), None):
            found = kernel.warmup(y, 32, grid=(8, ), ctas_per_cga=(2, 1, 1), preferred_ctas_per_cga=preferred).metadata
            assert found.preferred_ctas_per_cga == (None if preferred is None else (*preferred, 1, 1)[:3])


@pytest.mark.parametrize("shape, preferred, grid, kind, text", [
    ((2, 1, 1), (3, 1, 1), 12, ValueError, r"\(3, 1, 1\) is no multiple of ctas_per_cga=\(2, 1, 1\)"),
    ((2, 2, 1), (4, 1, 1), 12, ValueError, "is no multiple"),
    ((2, 1, 1), (32, 1, 1), 64, TargetError, "asks for clusters of 32 CTAs; sm_100a has at most 16 CTAs a cluster"),
    ((2, 1, 1), (8, 1, 1), 12, ValueError, r"12 CTAs along x, which clusters of preferred_ctas_per_cga=\(8, 1, 1\) do not divide")])
def test_a_preference_that_the_driver_would_refuse(shape, preferred, grid, kind, text):
    with pytest.raises(kind, match=text):
        mimw.simulate(orchestrated, (grid, 2), np.zeros(32 * 128, np.int32), 32, ctas_per_cga=shape,
                      preferred_ctas_per_cga=preferred, target="sm_100a")


def test_a_preference_changes_no_result():
    """The hardware may launch regular clusters at any time; here it always does."""
    one, other = (np.zeros(8 * 32, np.int32) for _ in range(2))
    mimw.simulate(orchestrated, (8, ), one, 32, ctas_per_cga=(2, 1, 1), target="sm_100a")
    mimw.simulate(orchestrated, (8, ), other, 32, ctas_per_cga=(2, 1, 1), preferred_ctas_per_cga=(4, 1, 1), target="sm_100a")
    assert (one == other).all() and one.any()


def test_every_cta_is_a_program():
    y = np.zeros(4 * 32, np.int32)
    mimw.simulate(orchestrated, (4, ), y, 32, ctas_per_cga=(2, 1, 1))
    assert (y.reshape(4, 32) == np.arange(32) + np.arange(4)[:, None]).all()


@pytest.mark.parametrize("grid", [(3, ), lambda meta: (3, )])
def test_the_grid_must_be_divisible(grid, monkeypatch):
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    with pytest.raises(LaunchError, match="3 CTAs along x"):
        orchestrated[grid](np.zeros(96, np.int32), 32, ctas_per_cga=(2, 1, 1))


def test_config_and_autotune(monkeypatch):
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    config = mimw.Config({"N": 32}, ctas_per_cga=[2, 1])
    assert config.ctas_per_cga == (2, 1, 1) and config.all_kwargs()["ctas_per_cga"] == (2, 1, 1)
    assert mimw.Config({"N": 32}, cluster_dims=(2, )).ctas_per_cga == (2, 1, 1)
    assert "ctas_per_cga" not in mimw.Config({"N": 32}).all_kwargs()
    tuned = mimw.autotune([config], key=[])(orchestrated)
    with pytest.raises(LaunchError):
        tuned[(3, )](np.zeros(96, np.int32))
    untouched = mimw.autotune([mimw.Config({"N": 32})], key=[])(orchestrated)
    with pytest.raises(LaunchError):
        untouched[(3, )](np.zeros(96, np.int32), ctas_per_cga=(2, 1, 1))
    y = np.zeros(128, np.int32)
    tuned[(4, )](y)
    assert (y.reshape(4, 32)[:, 0] == np.arange(4)).all()


def test_heuristics(monkeypatch):
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    kernel = triton.heuristics({"ctas_per_cga": lambda args: (args["N"] // 16, 1, 1)})(orchestrated)
    y = np.zeros(4 * 32, np.int32)
    kernel[(4, )](y, N=32)
    assert (y.reshape(4, 32)[:, 0] == np.arange(4)).all()
    with pytest.raises(LaunchError):
        kernel[(3, )](y, N=32)


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ["plain", "orchestrated"])
def test_launch(kernel):
    kernel = globals()[kernel]  # by name: pytest would keep the function past the end of the bindings
    import torch
    y = torch.zeros(8 * 32, dtype=torch.int32, device="cuda")
    launched = kernel[lambda meta: (8, )](y, 32, ctas_per_cga=(2, 1, 1))
    assert launched.metadata.ctas_per_cga == (2, 1, 1)
    assert (y.cpu().reshape(8, 32) == torch.arange(32) + torch.arange(8)[:, None]).all()
    with pytest.raises(LaunchError):
        kernel[(7, )](y, 32, ctas_per_cga=(2, 1, 1))
