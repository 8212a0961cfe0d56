"""Real programs as text: every program of the fixed fuzz set, the library's kernels and the tutorials are read back equal, before
and after the passes; they simulate to the same arrays and lower to the same TTGIR."""

import copy
import importlib
import sys
import warnings
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest

import mimw
from mimw.compiler.pipeline import Kernel, gpu_target
from mimw.compiler.triton_port.codegen import mlir_context
from mimw.compiler.triton_port.runtime import make_backend
from mimw.ir import ALONE
from mimw.simulator import run
from mimw.target import target
from tests.fuzz.fixed import SEEDS
from tests.fuzz.launch import arrays_of, bound, launch_meta, shared
from tests.ir.same import read_back, same_text
from tests.kernels import test_attention, test_gemm, test_moe_align, test_sparse_mla, test_topk

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
prepare = importlib.import_module("mimw.runtime.simulate").prepare
TUTORIALS = sorted((Path(__file__).parents[2] / "tutorials").glob("[0-9]*.py"))


class Capture(Exception):
    """Stands for a machine: takes the first launch, and runs nothing."""

    def launch(self, kernel, grid, *args, target=None, races=False, **meta):
        self.taken = prepare(kernel, grid, args, meta, target)
        raise self


def captured(use):
    machine = Capture()
    with pytest.raises(Capture), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        use(machine)
    return machine.taken


LIBRARY = {
    "gemm": lambda machine: test_gemm.product(machine, "bf16", (136, 264, 208), test_gemm.SCHEDULES["cooperative"]),
    "gemm, ping-pong": lambda machine: test_gemm.product(machine, "bf16", (136, 264, 208), test_gemm.SCHEDULES["ping_pong"]),
    "attention": lambda machine: test_attention.check(machine, 1, 1, 1, 130, 130, 64, causal=True),
    "topk": lambda machine: test_topk.check_topk(machine, np.arange(64, dtype=np.float32).reshape(2, 32)[:, ::-1].copy(), 4),
    "moe_align": lambda machine: test_moe_align.run(machine, test_moe_align.zipf(100, 8), 8, 16, test_moe_align.FORMS["grid"]),
    "sparse_mla": lambda machine: test_sparse_mla.run(machine, test_sparse_mla.problem(topk=128)),
}


def same_results(launch, again) -> None:
    ours, theirs = copy.deepcopy(launch.values), copy.deepcopy(launch.values)
    one, other = (run(program, launch.grid, values, seed=3) for program, values in ((launch.program, ours), (again, theirs)))
    assert (one.cycles, one.counts) == (other.cycles, other.counts)
    for path, value in ours.items():
        left, right = (getattr(each, "base", each) for each in (value, theirs[path]))
        if isinstance(left, np.ndarray):
            assert left.tobytes() == right.tobytes()


def same_module(launch) -> None:
    """With what a launch knows of its arguments: attributes of parameters. `same_text` has read the rest in both forms."""
    special = launch.specialisation
    chip = target(special.target)
    backend = make_backend(gpu_target(chip))
    options = dict(special.options)
    cluster = options.pop("ctas_per_cga", None)
    parsed = backend.parse_options({"enable_fp_fusion": True, **options})
    kernel = Kernel(special.fn, special.signature, special.constants, special.attrs, cluster or ALONE)
    program = kernel.record(chip, parsed, backend)
    texts = []
    for kernel.program in (program, read_back(program, forms=(True, ))):
        context = mlir_context()
        backend.load_dialects(context)
        texts.append(str(kernel.lower(chip, parsed, backend, context)))
    assert texts[0] == texts[1] and len(texts[0]) > 1000


def fuzzed(seed):
    program, kernel = shared(seed)
    arguments = bound(program, arrays_of(program), mimw.TensorDescriptor.from_tensor)
    return prepare(kernel, program.launched, arguments, launch_meta(program))


@pytest.mark.parametrize("seed", SEEDS)
def test_fuzzed_programs(seed):
    """Each fourth is lowered as well."""
    launch = fuzzed(seed)
    same_results(launch, same_text(launch))
    if seed in SEEDS[::4]:
        same_module(launch)


@pytest.mark.long(but=["gemm", "topk", "sparse_mla"], everywhere=True)
@pytest.mark.parametrize("name", LIBRARY)
def test_library(name):
    launch = captured(LIBRARY[name])
    same_results(launch, same_text(launch))
    same_module(launch)


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials(path, monkeypatch):
    """The launch that the tutorial makes without a GPU."""
    monkeypatch.setattr(sys, "argv", [str(path)])
    monkeypatch.syspath_prepend(str(path.parent))
    spec = importlib.util.spec_from_file_location("__main__", path)  # as a script, which its harness runs at its end
    script = importlib.util.module_from_spec(spec)

    def use(machine):
        monkeypatch.delitem(sys.modules, "harness", raising=False)
        monkeypatch.setattr("mimw.testing.gpu_available", lambda: False)
        monkeypatch.setattr(mimw, "check", MagicMock())      # which comes first, of the same launch
        monkeypatch.setattr(mimw, "simulate", machine.launch)
        spec.loader.exec_module(script)

    launch = captured(use)
    again = same_text(launch)
    if launch.gpus == 1:    # the heaps of a copied world lie elsewhere than its table says
        same_results(launch, again)
    same_module(launch)
