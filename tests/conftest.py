"""Fixtures of every room: goldens, machines, a compile cache of this session's own, and the skip of what needs a GPU."""

import atexit
import gc
import os
import re
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path


def _new_cache() -> str:
    """In memory where there is plenty of it: Triton makes and removes a folder for each of the eight files that it
    keeps of a kernel, 25 ms in all on a disk. What runs that were killed have left there goes first."""
    memory = Path("/dev/shm")
    for left in memory.glob("mimw-test-cache-*"):
        if not Path("/proc", left.name.split("-")[3]).exists():
            shutil.rmtree(left, ignore_errors=True)
    plenty = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2**30
    return tempfile.mkdtemp(prefix=f"mimw-test-cache-{os.getpid()}-", dir=memory if plenty else None)


# A stale cache must never answer for the code under test; Triton reads the variable whenever it compiles. Workers inherit the one
# of the process that collects: what one has compiled, the others need not.
_CACHE = os.environ["TRITON_CACHE_DIR"] = _new_cache()
# Products of simulated tiles are small: a second thread would wait for them, busily, on the core of another worker. Numpy reads
# the variable when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Inductor compiles in a pool of processes, whose answers threads of the collecting process would read: a worker that is forked from
# it would wait for ever. Torch reads the variable when inductor is imported.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
# So are checks: a copy of a worker that has run some thousand tests costs more than it takes over. tests/check/test_processes.py is
# about those copies.
os.environ.setdefault("MIMW_JOBS", "1")
os.environ.setdefault("MIMW_PROGRESS", "0")     # what a command says depends on no machine's speed

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402
from hypothesis.internal.conjecture import providers  # noqa: E402
from triton.runtime.cache import triton_key  # noqa: E402

from mimw.compiler.pipeline import compiler_hash  # noqa: E402
from mimw.testing import Golden, gpu_available  # noqa: E402
from mimw.testing.machines import Gpu, Simulator  # noqa: E402
from tests import processes  # noqa: E402
from tests.process_server import PRELOADED  # noqa: E402

pytest_plugins = ["mimw.testing.plugin", "tests.browser", "tests.machine_code", "tests.cpu_seconds", "tests.compiled_ahead",
                  "tests.forked", "tests.kept_stages", "tests.long_cases", "tests.products_under_way"]

# The same examples in every run, and no time limit on a shared machine.
settings.register_profile("mimw", deadline=None, derandomize=True)
settings.load_profile("mimw")
# Nor do they depend on which modules are there: hypothesis tries the constants in the sources of all of them, too. To read these, a
# thousand files, takes 5 s in a clean clone, while only one core works.
if hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = lambda: providers._local_constants

_TESTS = Path(__file__).parent
_FORKING = {"distributed", "tuning"}        # folders of tests whose ranks and trials are forks of the test's process
_LEFT_OUT = pytest.StashKey[int]()


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden/ with what the tests see now")


def pytest_collection_modifyitems(config, items):
    """Tests that fork come first, while processes are small: a copy of one that has run some thousand tests takes 60 ms to make.
    What needs a GPU is left out where there is none, and counted: skipping two thousand tests one by one costs ten seconds.
    Asked for nothing else, pytest says of each that it is skipped."""
    items.sort(key=lambda item: _FORKING.isdisjoint(item.path.parts))
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    if not wanting or gpu_available():
        return
    if len(wanting) == len(items):
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
        return
    items[:] = [item for item in items if not item.get_closest_marker("gpu")]
    config.hook.pytest_deselected(items=wanting)
    config.stash[_LEFT_OUT] = len(wanting)


def pytest_terminal_summary(terminalreporter, config):
    if count := config.stash.get(_LEFT_OUT, 0):
        terminalreporter.write_line(f"{count} tests left out: they need a CUDA device, and there is none")


def pytest_collection():
    """Modules and tests are made to stay: looking for garbage among them, again at each quarter more, finds none."""
    gc.disable()


def pytest_collection_finish(session):
    """What has been imported stays: the garbage collector need not look through it again and again, nor after every 700 objects
    of a compiler that makes trees of them. A seventh of the time of the tests."""
    if session.config.getoption("forked"):      # what each worker would load and read for itself
        triton_key(), compiler_hash()
        of_operators = any("ops" in item.path.parts for item in session.items)
        for name in (*PRELOADED, *("torch._dynamo.backends.debugging" for _ in range(of_operators))):
            import_module(name)
    gc.enable()
    gc.freeze()     # what is garbage by now stays, too: looking for it takes 0.7 s of the only core that works
    gc.set_threshold(50_000, 20, 60)        # a collection of all takes 5 s in a worker that has run some thousand tests


def pytest_unconfigure():
    # Python takes everything apart at the end, which Triton's bindings want; before, pytest looks for garbage twice, a second each.
    atexit.register(gc.unfreeze)
    shutil.rmtree(_CACHE, ignore_errors=True)
    processes.end()


@pytest.fixture
def golden(request) -> Golden:
    """`golden(text)` compares with tests/golden/<room>/<test>/<case>.txt."""
    folder = _TESTS / "golden" / request.path.relative_to(_TESTS).with_suffix("")
    folder = folder.with_name(folder.name.removeprefix("test_"))
    case = re.sub(r"[^\w.-]+", "-", request.node.name.removeprefix("test_")).strip("-")
    return Golden(folder, case, request.config.getoption("--update-golden"))


@pytest.fixture(scope="module")
def little_to_collect():
    """For modules that collect garbage themselves, before each thing that they measure: half a second each time after some
    thousand tests, for the programs that these have left on their kernels. What there is now is left alone from here on; it is
    not collected first, which took a second of each such module for the garbage of one or two tests."""
    gc.freeze()


@pytest.fixture(params=["simulator", pytest.param("gpu", marks=pytest.mark.gpu)])
def machine(request):
    """`machine.launch(kernel, grid, *numpy_args, **meta)` on the simulator, then on the GPU; that half is skipped where there is
    none."""
    return Simulator() if request.param == "simulator" else Gpu()


@pytest.fixture(autouse=True)
def what_a_command_sets_ends_with_its_test():
    """A command run inside a test answers Triton's names with ours for the process, and sets variables of the environment for it;
    the next test finds Triton's names again, and the variables as they were."""
    import triton
    variables = _own_variables()
    places = [(triton, "jit"), (triton, "Config"), (triton, "autotune"), (triton.runtime, "Config"),
              (triton.runtime, "autotune"), (triton.runtime.autotuner, "Config")]
    gluon = sys.modules.get("triton.experimental.gluon")
    places += [] if gluon is None else [(gluon, "jit"), (gluon._runtime, "jit")]
    held = [(module, name, getattr(module, name)) for module, name in places]
    yield
    for module, name, value in held:
        setattr(module, name, value)
    for name in _own_variables():
        del os.environ[name]
    os.environ.update(variables)


def _own_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("MIMW_")}
