"""Which target is simulated, and that everybody who asks learns of the same one."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.pipeline import device_numbers, gpu_target
from mimw.compiler.triton_port import no_gpu as stand_ins
from mimw.compiler.triton_port.no_gpu import NoGpuDriver, answer_for
from mimw.compiler.triton_port.runtime import GPUTarget
from mimw.errors import TargetError
from mimw.runtime.compile_kernel import compile_kernel
from mimw.runtime.handles import SimulatedLauncher, loaded
from mimw.target import TARGETS, asked, asking, target, wanted
from mimw.testing import gpu_available
from tests.processes import mimw as command
from tests.processes import python

no_gpu = pytest.mark.skipif(gpu_available(), reason="there is a GPU, which answers for itself")


def test_who_decides(monkeypatch):
    monkeypatch.delenv("MIMW_TARGET", raising=False)
    assert wanted().name == "sm_90a" and asked() is None
    monkeypatch.setenv("MIMW_TARGET", "sm_100a")
    assert wanted().name == "sm_100a"
    with asking(target("gfx950")):
        assert wanted().name == asked().name == "gfx950"
        assert wanted("sm_80").name == "sm_80"
    assert wanted().name == "sm_100a" and asked() is None
    monkeypatch.setenv("MIMW_TARGET", "sm_1000")
    with pytest.raises(TargetError, match="no target is named 'sm_1000'"):
        wanted()


@pytest.mark.parametrize("sold, chip", [("H100", "sm_90a"), ("h200-sxm", "sm_90a"), ("B200", "sm_100a"), ("RTX 5090", "sm_120a"),
                                        ("mi300x", "gfx942")])
def test_the_name_under_which_a_gpu_is_sold_is_told_with_its_chip(sold, chip):
    with pytest.raises(TargetError, match=f"^'{sold}' is {chip} here; known are sm_80, sm_90a, "):
        target(sold)


def seen_by_host():
    return triton.runtime.driver.active.get_current_target().arch


@mimw.jit
def gated(out_ptr, SEEN: tl.constexpr):
    tlx.clock64()
    tl.store(out_ptr, 17 if tl.target_info.cuda_capability_geq(10, 0) else 16)
    tl.store(out_ptr + 1, SEEN)


heuristic = triton.heuristics({"SEEN": lambda args: seen_by_host()})(gated)


@no_gpu
@pytest.mark.parametrize("chip, arch", [("sm_90a", 90), ("sm_100a", 100)])
def test_host_code_of_a_launch_sees_the_target_that_was_asked_for(chip, arch):
    """Functions of the kernel that are known when it is compiled, a heuristic, and a grid that is a function."""
    out, grids = np.zeros(2, np.int32), []

    def grid(arguments):
        grids.append(seen_by_host())
        return (1, )

    mimw.simulate(heuristic, grid, out, target=chip)
    assert grids == [arch] and tuple(out) == (16 + (arch >= 100), arch)
    assert mimw.check(heuristic, grid, out, seeds=1, target=chip).ok and set(grids) == {arch}
    before = seen_by_host()
    assert before == wanted().arch      # nothing is left behind


@no_gpu
@pytest.mark.parametrize("chip, stored", [("sm_90a", 16), ("sm_100a", 17)])
def test_host_code_of_a_compilation_sees_its_target(chip, stored):
    ttgir = compile_kernel(gated, {"out_ptr": "*i32"}, {"SEEN": 7}, chip).stage("ttgir")
    assert f"arith.constant {stored} : i32" in ttgir and f"arith.constant {33 - stored} : i32" not in ttgir


@mimw.jit
def large(x_ptr, ROWS: tl.constexpr):
    tile = tlx.local_alloc((ROWS, 128), tl.float32, 1)
    at = tl.arange(0, ROWS)[:, None] * 128 + tl.arange(0, 128)[None, :]
    tlx.local_store(tile[0], tl.load(x_ptr + at))
    tl.store(x_ptr + at, tlx.local_load(tile[0]) + 1)


@mimw.jit
def asks_for_work(x_ptr):
    context = tlx.clc_create_context(1)
    tile, phase = tl.program_id(0), 0
    while tile != -1:
        tlx.clc_producer(context, phase ^ 1)
        tl.store(x_ptr + tile, 1.0)
        tile = tlx.clc_consumer(context, phase)
        phase ^= 1


@pytest.mark.parametrize("run", [mimw.simulate, lambda *given, **named: mimw.check(*given, seeds=1, **named)])
def test_words_and_limits_are_those_of_the_target(run):
    """Words that need the chip, its shared memory, the size of its clusters; what it cannot do is refused before a run."""
    x = np.zeros(256 * 128, np.float32)
    run(asks_for_work, (4, ), np.zeros(4, np.float32), target="sm_100a")
    with pytest.raises(triton.CompilationError, match="needs cluster launch control"):
        mimw.simulate(asks_for_work, (4, ), np.zeros(4, np.float32), target="sm_90a")
    mimw.simulate(large, (1, ), x, 256, target="sm_100a")
    with pytest.raises(Exception, match="shared memory.*sm_120a|sm_120a.*shared memory"):
        mimw.simulate(large, (1, ), x, 256, target="sm_120a")
    run(large, (16, ), x, 16, ctas_per_cga=(16, 1, 1), target="sm_100a")
    with pytest.raises(TargetError, match="sm_120a has at most 8 CTAs a cluster"):
        run(large, (16, ), x, 16, ctas_per_cga=(16, 1, 1), target="sm_120a")


@no_gpu
def test_predictions_are_of_the_target(monkeypatch):
    x = np.zeros(16 * 128, np.float32)
    assert "B200" in mimw.predict(large, (1, ), x, 16, target="sm_100a").chip
    monkeypatch.setenv("MIMW_TARGET", "sm_100a")
    assert "B200" in mimw.predict(large, (1, ), x, 16).chip
    with pytest.raises(TargetError, match="there is no cost model of sm_103a: its latencies and rates are in no data file"):
        mimw.predict(large, (1, ), x, 16, target="sm_103a")


SCRIPT = """
import json
import triton
import triton.language as tl
import triton.language.extra.tlx as tlx

def is_blackwell():
    return triton.runtime.driver.active.get_current_target().arch // 10 == 10

@triton.jit
def kernel(x, ONES: tl.constexpr):
    if ONES:
        context = tlx.clc_create_context(1)
        tlx.clc_producer(context, 1)
        tl.store(x + tl.program_id(0), 1.0)
        tlx.clc_consumer(context, 0)
    else:
        tl.store(x + tl.program_id(0), 2.0 + tlx.clock64().to(tl.float32) * 0)

import numpy as np
x = np.zeros(1, np.float32)
kernel[(1, )](x, is_blackwell())
driver = triton.runtime.driver.active
found = driver.utils.get_device_properties(driver.get_current_device())
print(json.dumps([float(x[0]), driver.get_current_target().arch, found["multiprocessor_count"], found["max_shared_mem"],
                  driver.get_device_properties(0)["max_num_regs"], list(driver.utils.get_device_capability(0))]))
"""


@no_gpu
@pytest.mark.parametrize("words, variables, chip", [
    (("run", ), {}, "sm_90a"), (("run", "--target", "sm_100a"), {}, "sm_100a"), (("run", ), {"MIMW_TARGET": "sm_100a"}, "sm_100a"),
    (("simulate", "--target", "sm_100a"), {}, "sm_100a"), (("run", "--target", "sm_90a"), {"MIMW_TARGET": "sm_100a"}, "sm_90a"),
    (("run", "--target", "sm100"), {}, "sm_100a")])
def test_a_script_sees_the_target(tmp_path, words, variables, chip):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    done = command(*words, str(path), **variables)
    assert done.returncode == 0, done.stderr
    row = TARGETS[chip]
    assert json.loads(done.stdout) == [1.0 if chip == "sm_100a" else 2.0, row.arch, row.multiprocessors, row.shared_bytes,
                                       row.registers_per_cta, list(divmod(row.arch, 10))]


def test_a_target_that_is_none(tmp_path):
    (tmp_path / "script.py").write_text("print('ran')")
    done = command("run", "--target", "sm_10", str(tmp_path / "script.py"))
    assert done.returncode and "no target is named 'sm_10'" in done.stderr and not done.stdout


FAKE_TORCH = {
    "torch/__init__.py": "from torch import cuda\n",
    "torch/cuda/__init__.py": "def is_available(): return False\n"
                              "def get_device_capability(device=None): raise AssertionError('no CUDA')\n"
                              "def get_device_properties(device): raise AssertionError('no CUDA')\n"
                              "def get_device_name(device=None): return 'real'\n"}
TORCH_SCRIPT = """
{first}
import mimw
mimw.install_aliases()
mimw.install_aliases()
import torch
one = torch.cuda.get_device_properties("cuda")
print(torch.cuda.get_device_capability(), torch.cuda.get_device_capability(0)[0], one.multi_processor_count, one.major, one.name,
      torch.cuda.is_available())
"""


@no_gpu
@pytest.mark.parametrize("first", ["", "import torch"])
def test_torch_answers_for_the_target(tmp_path, first):
    """Whether torch is imported before or after the aliases are installed."""
    for name, text in FAKE_TORCH.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    source = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n" + TORCH_SCRIPT.format(first=first)
    done = python("-c", source, MIMW_TARGET="sm_100a")
    assert (done.stdout, done.stderr) == ("(10, 0) 10 148 10 simulated sm_100a False\n", "")
    done = python("-c", source, MIMW_TARGET="sm_100a", MIMW_SIMULATE="0")
    assert "AssertionError: no CUDA" in done.stderr


def test_numbers_of_the_device():
    assert device_numbers(TARGETS["sm_100a"]) == {"max_shared_mem": 232448, "max_num_regs": 65536, "warpSize": 32,
                                                  "multiprocessor_count": 148}
    assert device_numbers(TARGETS["gfx950"])["arch"] == "gfx950"
    assert "multiprocessor_count" not in device_numbers(TARGETS["gfx1250"])
    assert device_numbers(TARGETS["ascend_910b"]) == {"max_shared_mem": 0, "max_num_regs": 0, "warpSize": 1, "num_aicore": 24,
                                                      "num_vectorcore": 48, "multiprocessor_count": 24}
    driver = NoGpuDriver(lambda: gpu_target(TARGETS["gfx1250"]), lambda: device_numbers(TARGETS["gfx1250"]),
                         SimulatedLauncher, loaded)
    with pytest.raises(KeyError, match="mem_clock_rate: launches are simulated here, and of the device only these are known"):
        driver.utils.get_device_properties(0)["mem_clock_rate"]
    with pytest.raises(RuntimeError, match="Triton's driver was asked for 'utils.fill_tma_descriptor'"):
        driver.utils.fill_tma_descriptor()


def test_a_gpus_driver_names_the_target_of_a_simulated_launch(monkeypatch):
    """A stand-in for a machine with a GPU: outside of simulated launches the driver's own answer stays."""
    class Driver:
        def get_current_target(self):
            return GPUTarget("cuda", 90, 32)

    one, now = Driver(), []
    monkeypatch.setattr(stand_ins, "gpu_is_active", lambda: True)
    monkeypatch.setattr(stand_ins, "driver", SimpleNamespace(active=one))
    answer_for(lambda: now[-1] if now else None)
    assert one.get_current_target().arch == 90
    now.append(GPUTarget("cuda", 100, 32))
    assert one.get_current_target().arch == 100
    answer_for(lambda: None)        # once is enough
    assert one.get_current_target().arch == 100
    now.pop()
    assert one.get_current_target().arch == 90


@no_gpu
@pytest.mark.parametrize("words, text", [
    (("compile", "KERNEL", "--signature", "x_ptr=*fp32", "--emit", "ptx"), ".target sm_100a"),
    (("explain", "KERNEL", "--signature", "x_ptr=*fp32"), "Tasks on sm_100a"),
    (("check", "KERNEL", "--grid", "4", "--args", "fp32[4]", "--seeds", "2"), "ok: nothing found"),
    (("timeline", "KERNEL", "--grid", "4", "--args", "fp32[4]"), "NVIDIA B200")])
@pytest.mark.parametrize("by_variable", [False, True])
def test_commands_about_a_kernel(words, text, by_variable):
    words = [f"{__file__}:asks_for_work" if word == "KERNEL" else word for word in words]
    done = command(*words, **({"MIMW_TARGET": "sm_100a"} if by_variable else {})) if by_variable else command(
        *words, "--target", "sm_100a")
    assert done.returncode == 0 and text in done.stdout, (done.stdout, done.stderr)


def test_opt_takes_the_target_from_the_environment(tmp_path):
    (tmp_path / "k.ir").write_text("kernel k() on 4 warps {\n  %r = alloc_barriers count=1, arrive_count=1 : barrier<x 1>\n"
                                   "  %a = local_alloc buffer<i64[2]> : buffer<i64[2]>\n  %i = constant 0, i32 : i32\n"
                                   "  %b = barrier_index %r, %i : barrier\n  clc_issue %a, %b\n}\n")
    refused = command("opt", str(tmp_path / "k.ir"), "--pass", "target")
    assert refused.returncode and "it has no cluster launch control" in refused.stderr
    assert command("opt", str(tmp_path / "k.ir"), "--pass", "target", MIMW_TARGET="sm_100a").returncode == 0
