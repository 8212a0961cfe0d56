"""benchmarks.fla_ahead without a GPU: which configurations of an autotuner are found, under which keys, and what a pack holds.

    pytest --forked 0 tests/benchmarks/test_fla_ahead.py
"""

import argparse
import json
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import pytest
import triton
import triton.language as tl
from triton import knobs
from triton.runtime import cache, driver
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import MockTensor

torch = pytest.importorskip("torch", reason="the benchmark is of operators of torch")

from benchmarks import fla_ahead, linear_attention  # noqa: E402
from mimw.compiler.triton_port.no_gpu import NoGpuDriver  # noqa: E402
from tests.machine_code import disassembled  # noqa: E402
from tests.processes import python  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:triton.knobs")
ROWS = 64
# what only fla shows: its autotuners' configurations, and that in a backward pass, too, it takes the chip for an H200
OF_FLA = """
from collections import Counter
from benchmarks.fla_ahead import jobs_of, runs_of
jobs = jobs_of(runs_of("simple/4x2048x16x128/training"))
print(Counter(job.source.name for job in jobs.values())["chunk_local_cumsum_scalar_kernel"])
print(max(job.source.constants.get((job.source.fn.arg_names.index("BK"), ), 0) for job in jobs.values()
          if job.source.name == "chunk_bwd_kernel_dqkwg"))
"""


@triton.autotune([triton.Config({}, num_warps=1), triton.Config({}, num_warps=2), triton.Config({"COLUMNS": 32})], key=["heads"],
                 prune_configs_by={"early_config_prune": lambda configurations, named, **_: configurations[:2]})
@triton.heuristics({"COLUMNS": lambda named: 16})
@triton.jit(do_not_specialize=["rows"])
def doubled(x, rows, heads, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * heads + tl.arange(0, COLUMNS)[None]
    tl.store(x + at, tl.load(x + at, mask=at < rows) * 2, mask=at < rows)


def launched(offset: int = 0) -> dict:
    doubled.fn.fn.device_caches.clear()
    with fla_ahead.on_an_h200() as noted:
        x = torch.empty(4096, device="cuda", dtype=torch.bfloat16)
        assert x.device == torch.device("cuda", 0)
        doubled[(1, )](x[offset:], 150, 2, ROWS=ROWS)
    return noted


def looked_up() -> list[bool]:
    """Whether Triton's own way, that of a launch, finds each binary in its cache."""
    hits = []
    chip = NoGpuDriver(lambda: fla_ahead.TARGET, dict, type(None), lambda binary: ())
    doubled.fn.fn.device_caches.clear()
    with (mock.patch.object(driver, "_active", chip),
          mock.patch.object(knobs.compilation, "listener", lambda *, cache_hit, **_: hits.append(cache_hit))):
        doubled.warmup(MockTensor(torch.bfloat16), 150, 2, ROWS=ROWS, grid=(1, ))
    return hits


def test_what_is_compiled_is_what_a_launch_looks_up(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(knobs.cache, "dir", str(tmp_path / "cache"))
    jobs = launched()
    assert [job.options.num_warps for job in jobs.values()] == [1, 2]
    assert launched(8).keys() == jobs.keys() and not launched(1).keys() & jobs.keys()       # an address of 16 bytes, or not
    assert fla_ahead.compile_all(jobs, 1) == []
    assert looked_up() == [True, True]
    assert fla_ahead.compile_all(jobs, 1) == []
    assert "2 binaries, 2 to compile" in (said := capsys.readouterr().out) and said.endswith("2 binaries, 0 to compile\n")

    at = tmp_path / "there" / "fla-cache"
    size = fla_ahead.pack(tmp_path / "cache", jobs, at, tmp_path / "fla.txz")
    with tarfile.open(tmp_path / "fla.txz") as packed:
        names = packed.getnames()
        packed.extractall(at.parent)
    assert size == (tmp_path / "fla.txz").stat().st_size and len(names) == 3 * len(jobs)
    for group in at.glob("*/__grp__*"):
        named = json.loads(group.read_text())["child_paths"]
        assert sorted(named) == ["doubled.cubin", "doubled.json"]
        assert all(str(Path(path).relative_to(at.parent)) in names for path in named.values())
    binary, *_ = at.glob("*/doubled.cubin")
    whole, lean = (tmp_path / "cache" / binary.relative_to(at)).read_bytes(), binary.read_bytes()
    assert b"ld.global" in whole and b"ld.global" not in lean and len(lean) == len(whole)
    assert disassembled([whole], "sm_90a") == disassembled([lean], "sm_90a")
    fla_ahead.pack(tmp_path / "cache", jobs, at, tmp_path / "whole.txz", whole=True)
    with tarfile.open(tmp_path / "whole.txz") as packed:
        assert packed.extractfile(f"fla-cache/{binary.relative_to(at)}").read() == whole
    monkeypatch.setattr(knobs.cache, "dir", str(at))
    assert looked_up() == [True, True]


def test_what_does_not_compile_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(knobs.cache, "dir", str(tmp_path))
    jobs = launched()
    (first, job), (second, _) = jobs.items()
    job.source.signature["x"] = "nothing"
    assert fla_ahead.compile_all(jobs, 1) == [first] and fla_ahead.is_there(second, jobs[second])
    assert f"doubled {first} failed: " in capsys.readouterr().out


def test_the_key_of_another_triton():
    assert fla_ahead.triton_key_of(Path(triton.__file__).parent) == cache.triton_key()


def test_runs():
    runs = fla_ahead.runs_of("gla,simple/8x1024x8x64/training")
    assert runs == [fla_ahead.Run("gla", "8x1024x8x64", "training"), fla_ahead.Run("simple", "8x1024x8x64", "training")]
    assert len(fla_ahead.runs_of("gdn")) == len(linear_attention.SHAPES) * len(linear_attention.WAYS)
    for wrong in ("gdm", "gdn/1x1", "gdn/8x1024x8x64/backward", "gdn/8x1024x8x64/training/2"):
        with pytest.raises(argparse.ArgumentTypeError, match="is none of|is not FAMILIES"):
            fla_ahead.runs_of(wrong)


def test_help(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fla_ahead", "--help"])
    with pytest.raises(SystemExit) as ended:
        fla_ahead.main()
    assert ended.value.code == 0 and fla_ahead.__doc__.strip() in capsys.readouterr().out


def test_time_to_tune(monkeypatch):
    given = []
    monkeypatch.setattr(Autotuner, "do_bench", None)        # so that what stands there comes back
    monkeypatch.setattr("triton.testing.do_bench", lambda call, **options: given.append(options))
    linear_attention.tune_within(20.0)
    doubled.do_bench(print, quantiles=(0.5, ))
    assert given == [dict(warmup=4.0, rep=16.0, quantiles=(0.5, ))]


@pytest.mark.skipif(find_spec("fla") is None, reason="needs fla-core 0.6.0")
def test_configurations_of_fla():
    done = python("-c", OF_FLA, torch=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["16", "128"]
