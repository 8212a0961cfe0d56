"""What a process does for one candidate of the library's GEMM, without a GPU; what is pruned, written and read again."""

import json
import os

import pytest
import triton.language as tl

import mimw
from mimw.kernels import measured
from mimw.kernels.gemm import configs
from mimw.kernels.gemm.configs import Configuration
from mimw.kernels.measured import ByChip
from mimw.runtime.compile_kernel import compile_kernel
from mimw.tools.processes import run
from mimw.tuning import TuningError, find, work, write
from mimw.tuning.binary import resources
from mimw.tuning.journal import Journal
from mimw.tuning.prune import by_prediction
from mimw.tuning.store import _read


@pytest.fixture(scope="module", autouse=True)
def environment():
    """Steps run in processes of their own; here they must leave no trace."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES", ""))
        patched.setenv("MIMW_TARGET", "sm_90a")
        patched.setattr(work, "_without_a_gpu", lambda chip: None)
        yield


GEMM = find("gemm")
PROBLEM = GEMM.problem("256x256x256")


def test_what_does_not_fit_is_refused_with_the_sum():
    too_deep = work.predicted(GEMM, PROBLEM, Configuration(bm=128, bn=256, stages=8, staging=1), "sm_90a", 132)
    assert too_deep == {"refused": "409728 bytes of shared memory, 177280 more than the 232448 that there are"}
    too_wide = work.predicted(GEMM, PROBLEM, Configuration(bm=256, bn=256, stages=2, staging=1), "sm_90a", 132)
    assert too_wide == {"refused": "a product of task 'consumer[0]' has a sum of 128 x 256, 256 registers for each of 128 threads, "
                                   "which have 240"}


def test_what_fits_is_predicted():
    found = work.predicted(GEMM, PROBLEM, Configuration(bm=64, bn=256, stages=2, staging=1, ping_pong=True), "sm_90a", 132)
    assert 2 < found["microseconds"] < 20 and found["shared"] == 2 * (64 + 256) * 128 + 2 * 64 * 128 + 8 * 4 and found["bound"]


def test_candidates_fit_and_hold_what_the_library_knows():
    for dtype in GEMM.dtypes:
        found = GEMM.candidates(GEMM.problem("4096x4096x4096", dtype), 132)
        assert len(set(found)) == len(found) >= 24
    known = {row["configuration"]["stages"] for row in _read(GEMM.file)["rows"] if row["configuration"]["bm"] == 128}
    assert known <= {one.stages for one in GEMM.candidates(PROBLEM, 132) if one.bm == one.bn == 128}


@mimw.jit
def centred(x, N: tl.constexpr):
    at = tl.arange(0, N)
    one = tl.load(x + at)
    tl.store(x + at, one - tl.sum(one))         # all of it lives until the sum is there


def test_spills_are_read_off_the_binary():
    few = compile_kernel(centred, {"x": "*fp32"}, {"N": 256}, "sm_90a", options={"num_warps": 4})
    many = compile_kernel(centred, {"x": "*fp32"}, {"N": 2048}, "sm_90a", options={"num_warps": 1, "maxnreg": 24})
    registers, local = resources(few.stage("cubin"))
    assert registers >= 16 and local == 0
    registers, local = resources(many.stage("cubin"))
    assert registers <= 24 and local > 0


def test_pruning_sums():
    kept, why = by_prediction({"a": 100.0, "b": 150.0, "c": 101.0, "d": 101.0}, share=0.25, least=2)
    assert kept == ["a", "c", "d"], "as good as the last that is kept is kept, too"
    assert why == {"b": "predicted 150.0 us, 1.500 x the best (100.0 us); kept: the best 3 of 4, up to 101.0 us"}
    assert by_prediction({}, 0.5, 4) == ([], {}) and by_prediction({"a": 1.0, "b": 2.0}, 0.5, 4) == (["a", "b"], {})


def test_the_file_is_read_by_the_kernel(tmp_path, monkeypatch):
    file = tmp_path / "configs.json"
    file.write_text(GEMM.file.read_text())
    chosen, other = Configuration(bm=64, bn=128, stages=5), Configuration(bm=64, bn=256)
    write(file, "NVIDIA H200", "mimw tune gemm", [GEMM.row(GEMM.problem("8192x8192x1024"), chosen),
                                                  GEMM.row(GEMM.problem("512x512x512", "fp8"), chosen)])
    before, data = json.loads(GEMM.file.read_text()), json.loads(file.read_text())
    assert len(data["rows"]) == len(before["rows"]) + 1 and data["command"] == before["command"]
    assert data["rows"][0]["command"] == "mimw tune gemm" and data["rows"][1:-1] == before["rows"][1:]
    write(file, "NVIDIA H100", "mimw tune gemm", [GEMM.row(GEMM.problem("8192x8192x1024"), other)])
    data = json.loads(file.read_text())
    assert data["chip"] == "NVIDIA H200" and list(data["chips"]) == ["NVIDIA H100"]
    assert len(data["chips"]["NVIDIA H100"]["rows"]) == 1
    monkeypatch.setattr(configs, "_measured", ByChip(file, configs._measured.read))
    assert configs.configuration(8192, 8192, 1024) == chosen and configs.configuration(512, 512, 512, 1) == chosen
    assert configs.configuration(8192, 8192, 2048) != chosen
    monkeypatch.setattr(measured, "chip_in_use", lambda: "NVIDIA H100")
    assert configs.configuration(8192, 8192, 1024) == other and configs.configuration(512, 512, 512, 1) == chosen


def test_a_file_that_is_none(tmp_path):
    (tmp_path / "new.json").write_text("[1]")
    with pytest.raises(TuningError, match="is no file of configurations"):
        write(tmp_path / "new.json", "a chip", "", [])
    with pytest.raises(TuningError, match="cannot be written"):
        write(tmp_path / "new.json" / "x", "a chip", "", [{}])


def test_no_file_is_no_journal(tmp_path):
    journal = Journal(None)
    journal.add("k", "predicted", {"how": "done"}, "8", {})
    assert journal.of("k", "predicted") == {"how": "done"} and journal.of("k", "compiled") is None
    assert not any(tmp_path.iterdir())


def test_so_many_processes_at_a_time():
    def number(n):
        return n * n

    found = list(run(((n, number, (n, )) for n in range(5)), 2, 30.0))
    assert sorted((one.key, one.value) for one in found) == [(n, n * n) for n in range(5)]
    assert {one.how for one in found} == {"done"}


def test_operators_are_found_by_name():
    assert type(find("tests.tuning.named:OWN")).__name__ == "Named"
    for name, said in (("gem", "there is no operator 'gem'"), ("nowhere.at.all:X", "no module 'nowhere.at.all'"),
                       ("tests.tuning.named:tl", "is no operator")):
        with pytest.raises(TuningError, match=said):
            find(name)
