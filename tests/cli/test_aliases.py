"""`install_aliases` answers the published imports with our own objects."""

import subprocess
import sys

import pytest

_PRELUDE = "import mimw\nmimw.install_aliases()\nmimw.install_aliases()\n"


def _run(source):
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
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
    "import triton.experimental.tle.language as tle\nprint(tle is mimw.tle)",
    "import triton.experimental.tle as tle\nprint(tle is mimw.tle)",
    "from triton.experimental import tle\nprint(tle.language is tle is mimw.tle)",
    "from triton.experimental.tle.language import pipe\nprint(pipe is mimw.tle.pipe)",
    "from triton.experimental.tle.language.gpu import alloc\nprint(alloc is mimw.tle.gpu.alloc)",
    "import triton.experimental.tle.language.gpu as gpu\nprint(gpu is mimw.tle.gpu)",
    "from triton.experimental.tle.raw import dialect\nfrom triton.experimental.tle.language.raw import call\n"
    "print(dialect is mimw.tle.raw.dialect and call is mimw.tle.raw.call)",
    "import triton.experimental.tle.language.dsa as dsa\nprint(dsa is mimw.tle.dsa)",
    "import triton\nprint(triton.jit is mimw.jit)",
    "import triton\nfrom triton.runtime import Config\nprint(triton.Config is Config is mimw.Config)",
    "from triton.runtime.autotuner import Config\nprint(Config is mimw.Config)",
    "import triton\nprint(triton.autotune is triton.runtime.autotune is mimw.autotune)",
])
def test_published_names_are_ours(source):
    assert _run(_PRELUDE + source) == ("True\n", "")


def test_a_word_that_does_not_exist_is_an_import_error():
    _, errors = _run(_PRELUDE + "import triton.language.extra.tlx.nowhere")
    assert "ModuleNotFoundError" in errors


def test_tritons_own_library_stays_stock():
    assert _run(_PRELUDE + "import triton\nprint(type(triton.language.sum).__name__)") == ("JITFunction\n", "")


@pytest.mark.parametrize("name", ["dsa.alloc", "dsa.hint", "raw.dialect", "raw.call", "call", "hardware_constraint"])
def test_families_that_are_not_offered_name_the_word(name):
    source = f"try:\n    tle.{name}()\nexcept mimw.errors.NotYet as error:\n    print(error)"
    said, errors = _run(_PRELUDE + "import mimw.errors\nimport triton.experimental.tle.language as tle\n" + source)
    assert f"not yet: tle.{name} is not offered by this release" in said and not errors


def test_nothing_changes_before_the_call():
    assert _run("import mimw, triton\ntry:\n    import triton.language.extra.tlx\n"
                "except ImportError:\n    print(triton.jit.__module__)") == ("triton.runtime.jit\n", "")
