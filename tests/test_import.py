"""What `import mimw` and `mimw --help` load, that a name stays a function whoever imports the module of that name, and what the
two cost. Each case is a process of its own: in this one everything is loaded already."""

import json
import subprocess
import sys
import textwrap
from importlib import import_module

import pytest

import mimw

PUBLIC = {"autotune": "runtime.autotune", "check": "tools.check", "compile": "runtime.ahead", "explain": "tools.explain",
          "jit": "runtime.jit", "simulate": "runtime.simulate"}
BOUND_S = {"import mimw": 0.3, "from mimw.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass": 0.2}


def fresh(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_after(program: str) -> set[str]:
    return modules_in(fresh(program + _TELL))


_TELL = "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"


def modules_in(printed: str) -> set[str]:
    return set(json.loads(printed.splitlines()[-1]))


def forked(*programs: str) -> list[str]:
    """What each program prints in a process of its own, forked from one that has imported what is not ours: 0.6 s less each."""
    code = """
        import json, os, sys
        import ml_dtypes, numpy, triton, triton.compiler.code_generator, triton.language, triton.runtime.interpreter
        for program in json.loads(sys.argv[1]):
            if not (child := os.fork()):
                assert "mimw" not in sys.modules
                exec(program, {"__name__": "__main__"})
                sys.stdout.flush()
                os._exit(0)
            if os.waitpid(child, 0)[1]:
                sys.exit(f"failed: {program}")
            print(end="\\f", flush=True)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), json.dumps(programs)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\f")[:-1]


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.split(".")[0] == "mimw"}


def test_import_loads_nothing_else():
    modules = loaded_after("import mimw\nmimw.__version__, mimw.__all__, dir(mimw)")
    assert ours(modules) == {"mimw"}
    assert not modules & {"triton", "numpy", "torch"}


def test_a_name_loads_what_it_stands_for():
    """And nothing that only other names need."""
    cases = [("mimw.tlx", "tlx", "simulator"), ("mimw.jit\nmimw.autotune", "runtime.autotune", "simulator"),
             ("mimw.jit\nmimw.check", "tools.check", "tools.timing"),
             ("mimw.jit\nmimw.simulate", "runtime.simulate", "tools.check")]
    loaded = map(modules_in, forked(*(f"import mimw\n{names}{_TELL}" for names, *_ in cases)))
    for (_, home, other), modules in zip(cases, loaded, strict=True):
        assert f"mimw.{other}" not in modules and f"mimw.{home}" in modules


def test_help_loads_the_commands_alone():
    modules = loaded_after("from mimw.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass")
    assert not modules & {"triton", "numpy", "torch"}
    assert {name for name in ours(modules) if not name.startswith("mimw.cli")} == {"mimw", "mimw.errors"}


@pytest.mark.parametrize("command", ["check", "compile", "doctor", "run"])
def test_help_of_one_command_loads_no_other(command):
    modules = loaded_after(f"from mimw.cli import main\ntry: main(['{command}', '--help'])\nexcept SystemExit: pass")
    assert f"mimw.cli.{command}" in modules
    assert "triton" not in modules
    others = {"check", "compile", "demo", "doctor", "run", "timeline"} - {command}
    assert not modules & {f"mimw.cli.{name}" for name in others}


@pytest.mark.parametrize("program", BOUND_S, ids=["import", "help"])
def test_cost(program):
    """The best of three, or of up to nine on a busy machine, in CPU seconds of the whole process with Python's own start."""
    seconds = []
    while len(seconds) < 3 or min(seconds) >= BOUND_S[program] and len(seconds) < 9:
        seconds.append(float(fresh(f"{program}\nimport time\nprint(time.process_time())").splitlines()[-1]))
    assert min(seconds) < BOUND_S[program]


ORDERS = [
    "import mimw.tools.check, mimw.runtime.jit, mimw.runtime.simulate, mimw.runtime.autotune, mimw",
    "import mimw.runtime.autotune\nimport mimw.runtime.simulate as one\nfrom mimw import check\nimport mimw.tools.check",
    "from mimw.runtime.jit import MimwFunction\nfrom mimw.runtime.simulate import prepare\nimport mimw",
    "import mimw\nmimw.jit, mimw.check\nimport mimw.tools.check, mimw.runtime.jit\nmimw.simulate\nimport mimw.runtime.autotune",
    "from mimw.runtime.compiled import Compiled\nfrom mimw import *\nimport mimw, mimw.testing, mimw.kernels.gemm, mimw.cli.check",
]


def test_names_stay_functions():
    forked(*(f"""{order}
import sys
for name, home in {PUBLIC}.items():
    value = getattr(mimw, name)
    assert not isinstance(value, type(sys)), name
    assert value is getattr(sys.modules['mimw.' + home], name), name
    scope = {{}}
    exec(f'from mimw import {{name}} as one', scope)
    assert scope['one'] is value, name
import mimw.compiler.pipeline
from mimw.runtime.compile_kernel import compile_kernel
assert mimw.compile is sys.modules['mimw.runtime.ahead'].compile and mimw.compile.compile_kernel is compile_kernel
""" for order in ORDERS))


@pytest.mark.parametrize("name", PUBLIC)
def test_a_function_is_no_module(name):
    with pytest.raises(ModuleNotFoundError, match=f"mimw.{name}"):
        import_module(f"mimw.{name}")


def test_pickles_and_patches():
    fresh("""
        import pickle, mimw
        for name in mimw.__all__:
            if name not in ("tle", "tlx"):
                value = getattr(mimw, name)
                assert pickle.loads(pickle.dumps(value)) is value or name == "__version__", name
        mimw.check = 7          # as a test's monkeypatch does
        assert mimw.check == 7
        del mimw.check          # and what was there before comes back
        assert callable(mimw.check)
    """)


def test_rooms_are_attributes():
    fresh("import mimw\nassert mimw.errors.DataRace and mimw.kernels and mimw.testing.compare")


def test_what_is_not_there():
    with pytest.raises(AttributeError, match="module 'mimw' has no attribute 'jitter'"):
        mimw.jitter
    with pytest.raises(ImportError, match="cannot import name 'jitter'"):
        from mimw import jitter  # noqa: F401
    assert not hasattr(mimw, "__wrapped__")
    assert set(mimw.__all__) <= set(dir(mimw))


def test_aliases_and_jit_in_a_script(tmp_path):
    (tmp_path / "script.py").write_text(textwrap.dedent("""
        import mimw
        mimw.install_aliases()
        import numpy as np
        import triton
        import triton.language as tl
        import triton.language.extra.tlx as tlx

        @triton.jit
        def double(x, N: tl.constexpr):
            tile = tlx.local_alloc((N, ), tl.float32, 1)
            at = tl.arange(0, N)
            tlx.local_store(tile[0], 2 * tl.load(x + at))
            tl.store(x + at, tlx.local_load(tile[0]))

        assert triton.jit is mimw.jit and tlx is mimw.tlx
        x = np.ones(32, np.float32)
        mimw.simulate(double, (1, ), x, 32)
        assert (x == 2).all()
    """))
    subprocess.run([sys.executable, tmp_path / "script.py"], check=True)


def test_type_checkers_see_every_name():
    """The block for type checkers names what `__getattr__` answers, from where it comes."""
    import ast
    import inspect
    tree = ast.parse(inspect.getsource(mimw))
    (block, ) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    assert seen == {**mimw._HOMES, "tle": None, "tlx": None}
    assert sorted([*seen, "__version__", "install_aliases"]) == mimw.__all__
