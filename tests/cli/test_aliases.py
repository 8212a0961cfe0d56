"""`install_aliases` answers the published imports with whatever `mimw` offers."""

import subprocess
import sys

import pytest

# Stand-ins for the words and the decorator, so that only the aliases are under test.
_PRELUDE = """
import sys, types, mimw
tlx = types.ModuleType("mimw.tlx"); tlx.__path__ = [{path!r}]; tlx.local_alloc = "our word"
sys.modules["mimw.tlx"] = mimw.tlx = tlx
def jit(fn=None, **options): return ("ours", options) if fn is None else ("ours", fn.__name__)
class Config: pass
def autotune(): pass
mimw.jit, mimw.Config, mimw.autotune = jit, Config, autotune
mimw.install_aliases(); mimw.install_aliases()
"""


def _run(tmp_path, source):
    (tmp_path / "warp_spec.py").write_text("def get_bufidx_phase(): return 'ours'\n")
    (tmp_path / "mem_ops.py").write_text("")
    code = _PRELUDE.format(path=str(tmp_path)) + source
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.mark.parametrize("source", [
    "import triton.language.extra.tlx as tlx\nprint(tlx.local_alloc)",
    "from triton.language.extra import tlx\nprint(tlx.local_alloc)",
    "from triton.language.extra.tlx import local_alloc\nprint(local_alloc)",
    "from triton.language.extra.tlx import *\nprint(local_alloc)",
    "import triton.language as tl\nprint(tl.extra.tlx.local_alloc)",
])
def test_every_way_to_import_the_words(tmp_path, source):
    run = _run(tmp_path, source)
    assert (run.stdout, run.stderr) == ("our word\n", "")


def test_submodules_are_the_same_objects(tmp_path):
    run = _run(tmp_path, "import triton.language.extra.tlx.warp_spec as a, mimw.tlx.warp_spec as b\n"
               "from triton.language.extra.tlx.warp_spec import get_bufidx_phase\n"
               "import triton.language.extra.tlx.mem_ops\nprint(a is b, get_bufidx_phase())")
    assert (run.stdout, run.stderr) == ("True ours\n", "")


def test_decorator_and_config(tmp_path):
    run = _run(tmp_path, "import triton, triton.runtime\nfrom triton.runtime.autotuner import Config\n"
               "print(triton.jit is mimw.jit, triton.Config is Config is triton.runtime.Config is mimw.Config,"
               " triton.autotune is triton.runtime.autotune is mimw.autotune)\n"
               "print(triton.jit(do_not_specialize=['n']))\n"
               "print(hasattr(triton.language.sum, 'fn'))")
    assert (run.stdout, run.stderr) == ("True True True\n('ours', {'do_not_specialize': ['n']})\nTrue\n", "")


def test_nothing_changes_before_the_call():
    code = "import mimw, triton\ntry:\n    import triton.language.extra.tlx\nexcept ImportError:\n    print(triton.jit.__module__)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("triton.runtime.jit\n", "")
