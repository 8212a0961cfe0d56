"""`install_aliases` answers the published imports with our own objects."""

import subprocess
import sys
from pathlib import Path

import pytest

from mimw.testing import gpu_available
from tests.processes import mimw, python

_PRELUDE = "import mimw\nmimw.install_aliases()\nmimw.install_aliases()\n"


def _run(source, **variables):
    run = python("-c", source, **variables)
    return run.stdout, run.stderr


@pytest.mark.parametrize("source", [
    "import triton.language.extra.tlx as tlx\nprint(tlx.local_alloc is mimw.tlx.local_alloc)",
    "from triton.language.extra import tlx\nprint(tlx is mimw.tlx)",
    "from triton.language.extra.tlx import local_alloc\nprint(local_alloc is mimw.tlx.local_alloc)",
    "from triton.language.extra.tlx import *\nprint(local_alloc is mimw.tlx.local_alloc)",
    "import triton.language as tl\nprint(tl.extra.tlx is mimw.tlx)",
    "import triton.language.extra.tlx.warp_spec as a, mimw.tlx.warp_spec as b\nprint(a is b)",
    "from triton.language.extra.tlx.mem_ops import local_alloc\nprint(local_alloc is mimw.tlx.local_alloc)",
    "from triton.language.extra.tlx.types import layout_encoding\nprint(layout_encoding is mimw.tlx.layout_encoding)",
    "from triton.language.extra.tlx.warp_ops import warp_redux, vote_ballot_sync\nprint(warp_redux is mimw.tlx.warp_redux)",
    "from triton.language.extra.tlx.mxfp8_utils import _to_mxfp8_block, _to_mxfp8_block_with_block_amax, _to_mxfp8_32x32_block\n"
    "print(_to_mxfp8_block is mimw.tlx._to_mxfp8_block)",
    "from triton.language.extra.subtile_ops import _split_n_2D, _join_n_2D\nprint(_split_n_2D is mimw.tlx.subtile_ops._split_n_2D)",
    "import triton.language as tl\nprint(tl.extra.subtile_ops is mimw.tlx.subtile_ops)",
    "from triton.language.extra.cuda.inline_ptx_lib import _mul_f32x2, _add_f32x2, _sub_f32x2, _fma_f32x2\n"
    "print(_mul_f32x2 is mimw.tlx.inline_ptx_lib._mul_f32x2)",
    "from triton.language.extra.cuda.inline_ptx_lib import tanh_approx_fp32, _reduce_fadd2\n"
    "from triton.language.extra.tlx.mxfp8_utils import (_cvt_e4m3x4_f32, _cvt_e5m2x4_f32, _fused_amax_to_e8m0,\n"
    "    _compute_scale_and_quantize, _amax_to_e8m0_and_quantize)\n"
    "print(_reduce_fadd2 is mimw.tlx.inline_ptx_lib._reduce_fadd2)",
    "import triton.experimental.tle.language as tle\nprint(tle is mimw.tle)",
    "import triton.experimental.tle as tle\nprint(tle is mimw.tle)",
    "from triton.experimental import tle\nprint(tle.language is tle is mimw.tle)",
    "from triton.experimental.tle.language import pipe\nprint(pipe is mimw.tle.pipe)",
    "from triton.experimental.tle.language.gpu import alloc\nprint(alloc is mimw.tle.gpu.alloc)",
    "import triton.experimental.tle.language.gpu as gpu\nprint(gpu is mimw.tle.gpu)",
    "from triton.experimental.tle.raw import dialect\nfrom triton.experimental.tle.language.raw import call\n"
    "print(dialect is mimw.tle.raw.dialect and call is mimw.tle.raw.call)",
    "from triton.experimental.tle.raw.mlir import vprintf, vassert\nfrom triton.experimental.flagtree.edsl import dialect\n"
    "import triton.experimental.flagtree.language as fl\nfrom triton.experimental.tle.raw import InOut\n"
    "print(vprintf is mimw.tle.raw.mlir.vprintf and dialect is mimw.tle.raw.dialect and fl is mimw.tle)",
    "from mlir import ir\nfrom mlir.dialects import arith, nvvm, scf\nimport mlir.dialects.memref as memref\n"
    "print(ir is mimw.tle.raw.ir and memref.load is mimw.tle.raw.memref.load and arith.addi is mimw.tle.raw.arith.addi)",
    "import triton.experimental.tle.language.dsa as dsa\nprint(dsa is mimw.tle.dsa)",
    "from triton.experimental.tle.language.dsa.ascend import UB\nimport triton.experimental.tle.dsa.ascend as ascend\n"
    "print(UB is ascend.UB is mimw.tle.dsa.ascend.UB)",
    "import triton\nprint(triton.jit is mimw.jit)",
    "import triton\nfrom triton.runtime import Config\nprint(triton.Config is Config is mimw.Config)",
    "from triton.runtime.autotuner import Config\nprint(Config is mimw.Config)",
    "import triton\nprint(triton.autotune is triton.runtime.autotune is mimw.autotune)",
    "import triton, triton.compiler\nfrom triton.compiler.compiler import compile\n"
    "print(triton.compile is triton.compiler.compile is compile)",
])
def test_published_names_are_ours(source):
    assert _run(_PRELUDE + source) == ("True\n", "")


def test_in_a_process_that_has_imported_nothing():
    source = "import triton.language.extra.tlx as tlx, triton\nprint(tlx is mimw.tlx and triton.jit is mimw.jit)"
    run = subprocess.run([sys.executable, "-c", _PRELUDE + source], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("True\n", "")


def test_a_word_that_does_not_exist_is_an_import_error():
    _, errors = _run(_PRELUDE + "import triton.language.extra.tlx.nowhere")
    assert "ModuleNotFoundError" in errors


def test_tritons_own_library_stays_stock():
    assert _run(_PRELUDE + "import triton\nprint(type(triton.language.sum).__name__)") == ("JITFunction\n", "")


def test_nothing_changes_before_the_call():
    assert _run("import mimw, triton\ntry:\n    import triton.language.extra.tlx\n"
                "except ImportError:\n    print(triton.jit.__module__)") == ("triton.runtime.jit\n", "")


_KERNEL = """
import triton
import triton.language as tl
import triton.language.extra.tlx as tlx
from triton.compiler import ASTSource
from triton.backends.compiler import GPUTarget

@triton.jit
def through(x, y, n, N: tl.constexpr):
    tile = tlx.local_alloc((N, ), tl.float32, tl.constexpr(1))
    tlx.local_store(tile[0], tl.load(x + tl.arange(0, N), mask=tl.arange(0, N) < n))
    tl.store(y + tl.arange(0, N), tlx.local_load(tile[0]))

@triton.jit
def plain(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), 1)

TYPES = {"x": "*fp32", "y": "*fp32", "n": "i32"}
"""


def _script(tmp_path, source):
    path = tmp_path / "script.py"
    path.write_text(_KERNEL + source)
    run = mimw("run", path, MIMW_SIMULATE="1")
    return run.stdout, run.stderr


def test_compile_of_a_source(tmp_path):
    said, errors = _script(tmp_path, """
for target, text, types in ((GPUTarget("cuda", 90, 32), "ptx", TYPES),
                            (GPUTarget("hip", "gfx950", 64), "amdgcn", {**TYPES, "N": "constexpr"})):
    compiled = triton.compile(ASTSource(through, signature=types, constexprs={"N": 64}), target=target, options={"num_warps": 2})
    print(compiled.metadata.num_warps, text in compiled.asm, compiled.asm["ttgir"].count("ttg.local_alloc"))
""")
    assert (said, errors) == ("2 True 1\n2 True 1\n", "")


def test_compile_with_a_cluster_and_of_a_plain_kernel(tmp_path):
    said, errors = _script(tmp_path, """
source = ASTSource(fn=through, signature=TYPES, constexprs={"N": 64}, attrs={(0, ): [["tt.divisibility", 16]]})
compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"ctas_per_cga": (2, 1, 1)})
print(compiled.metadata.ctas_per_cga, ".reqnctapercluster" in compiled.asm["ptx"], compiled.asm["ttgir"].count("divisibility"))
print("tt.store" in triton.compile(ASTSource(plain, {"x": "*fp32"}, {"N": 64}), target=GPUTarget("cuda", 90, 32)).asm["ttgir"])
try:
    triton.compile(3)
except AssertionError as error:
    print(error)
""")
    assert (said, errors) == ("(2, 1, 1) True 1\nTrue\nsource must be either AST or a filepath\n", "")


def test_backends_by_name():
    assert _run(_PRELUDE + "from triton.backends.compiler import GPUTarget\n"
                "print([(t.is_cuda_backend(), t.is_hip_backend()) for t in (GPUTarget('cuda', 90, 32), "
                "GPUTarget('hip', 'gfx950', 64))])") == ("[(True, False), (False, True)]\n", "")


@pytest.mark.skipif(gpu_available(), reason="Triton's own driver answers where there is a GPU")
@pytest.mark.parametrize("target, said", [("", "cuda 90 True"), ("gfx950", "hip gfx950 False")])
def test_the_driver_answers_before_any_kernel_is_decorated(target, said):
    source = ("import triton\nactive = triton.runtime.driver.active\ntarget = active.get_current_target()\n"
              "print(target.backend, target.arch, target.is_cuda_backend(), active.get_active_torch_device())")
    assert _run(_PRELUDE + source, MIMW_TARGET=target) == (f"{said} cpu\n", "")


def test_a_published_script_for_blackwell():
    """Simulated and compiled as an sm_100a."""
    run = mimw("run", "--target", "sm_100a", str(Path(__file__).with_name("published_blackwell.py")), MIMW_SIMULATE="1")
    lines = run.stdout.splitlines()
    assert lines and all(line.endswith("True") for line in lines) and len(lines) == 5, run.stdout + run.stderr
