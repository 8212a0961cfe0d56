"""ascend_910b: plain kernels are simulated, checked and explained for it; what would take a compiler says so."""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.cli import main
from mimw.compiler.triton_port.recording_backend import RecordingBackend
from mimw.compiler.triton_port.runtime import GPUTarget, make_backend
from mimw.errors import TargetError
from mimw.runtime.compile_kernel import compile_kernel, record_kernel
from mimw.target import TARGETS
from tests.kernels.one_amd_word import CASES

CHIP = "ascend_910b"
NO_BINARY = "ascend_910b is a target of the simulator: .* of a kernel for it would take its vendor's compiler"
TYPES = {"x": "*fp16", "y": "*fp16", "z": "*fp32", "n": "i32"}


@mimw.jit
def product(x, y, z, n, K: tl.constexpr):
    """z = x @ y in steps of K, of 16 rows and columns."""
    rows, ks = tl.arange(0, 16), tl.arange(0, K)
    total = tl.zeros((16, 16), tl.float32)
    for k in range(0, n, K):
        a = tl.load(x + rows[:, None] * n + (k + ks)[None, :])
        total = tl.dot(a, tl.load(y + (k + ks)[:, None] * 16 + rows[None, :]), total)
    tl.store(z + rows[:, None] * 16 + rows[None, :], total)


@mimw.jit
def rounded(x):
    tl.store(x, tl.load(x).to(tl.float8e5).to(tl.float32))


def arguments():
    numbers = np.random.default_rng(1)
    x, y = (numbers.standard_normal(shape).astype(np.float16) for shape in ((16, 64), (64, 16)))
    return x, y, np.zeros((16, 16), np.float32)


def test_a_plain_kernel_is_simulated_and_checked():
    x, y, z = arguments()
    mimw.simulate(product, (1, ), x, y, z, 64, K=16, target=CHIP)
    np.testing.assert_allclose(z, x.astype(np.float32) @ y.astype(np.float32), rtol=1e-3, atol=1e-3)
    assert mimw.check(product, (1, ), x, y, z, 64, K=16, target=CHIP).ok


def test_there_is_no_binary(monkeypatch):
    monkeypatch.setenv("MIMW_TARGET", CHIP)
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    launched = product[(1, )](*arguments(), 64, K=16)
    for make in (lambda: compile_kernel(product, TYPES, {"K": 16}), lambda: launched.asm,
                 lambda: product.warmup(*arguments(), 64, K=16, grid=(1, ))):
        with pytest.raises(TargetError, match=NO_BINARY):
            make()
    frozen = product.freeze((1, ), *arguments(), 64, K=16)
    assert frozen.compiled is None and frozen() is not None     # a launch on the simulator


def test_what_there_is_instead(tmp_path, capsys):
    named = [f"{__file__}:product", "--signature", "*fp16, *fp16, *fp32, i32", "--constexpr", "K=16", "--target", CHIP]
    assert main(["compile", *named, "--emit", "ir"]) == 0
    assert "kernel product(%x: *fp16" in capsys.readouterr().out
    assert main(["compile", *named, "--emit", "ptx"]) == 1
    assert re.search(NO_BINARY, capsys.readouterr().err)
    assert main(["export", *named, "-o", str(tmp_path)]) == 1
    assert "ascend_910b has no cubin" in capsys.readouterr().err and not list(tmp_path.iterdir())
    assert main(["explain", *named]) == 0
    told = capsys.readouterr().out
    assert re.search(r"ub +vector core +0 +196608 +MTE3 to global", told) and "FixPipe to global, FixPipe to l1" in told


def test_words_of_gpus_are_refused():
    case, _ = CASES["local_alloc"]
    with pytest.raises(Exception, match="ascend_910b cannot hold a buffer in shared memory(.|\n)*tle.dsa.alloc in one of UB, L1"):
        mimw.simulate(case.kernel, (1, ), np.zeros(64, np.float32), target=CHIP)
    with pytest.raises(Exception, match="8e5 not supported in this architecture"):
        mimw.simulate(rounded, (1, ), np.zeros(1, np.float32), target=CHIP)


def test_the_backend_that_records():
    backend = make_backend(GPUTarget("ascend", CHIP, 1))
    assert isinstance(backend, RecordingBackend) and backend.parse_options({"num_warps": 2}).arch == CHIP
    assert backend.hash() == f"recording-{backend.target}" and not RecordingBackend.supports_target(GPUTarget("cuda", 90, 32))
    with pytest.raises(TargetError, match="no compiler for ascend_910b"):
        backend.add_stages({}, None, None)
    recorded = record_kernel(product, TYPES, {"K": 16}, CHIP, dump=True)
    assert list(recorded.stages) == ["ir"] and "00-record" in recorded.after and recorded.target is TARGETS[CHIP]
