"""The binaries among which flash-linear-attention's autotuners choose on an H200, compiled and packed where no GPU is.

    export TRITON_DEFAULT_FP_FUSION=1           every variable of Triton's key is as it will be on the GPU's machine
    python -m benchmarks.fla_ahead gla,simple/8x1024x8x64/training gdn/8x1024x8x64 --cache fla-cache --jobs 2
    python -m benchmarks.fla_ahead gdn/8x1024x8x64 --cache fla-cache --triton other/triton --at /tmp/fla-cache --pack fla.txz
    tar xJf fla.txz -C /tmp && TRITON_CACHE_DIR=/tmp/fla-cache python -m benchmarks.linear_attention gdn --shapes 8x1024x8x64

Input: runs of benchmarks.linear_attention, FAMILIES/SHAPES/WAYS with commas between several, the most wanted first; the folder of
the Triton that will look the binaries up, where that is another wheel of the same version: its files are part of each key. Output:
folders of Triton's cache, lines about progress and about what does not compile, and a pack of them (benchmarks/fla_pack.py).

The benchmark itself runs, on tensors without data, while Triton's driver and torch say what an H200 says. There an autotuner
compiles and times one configuration after the other, for minutes; here it launches all of them, and a launch is noted instead of
compiled. Processes then compile what the cache has not got, each binary once. What a chip has too little shared memory for is
compiled too, as there, and refused by the launch.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import pkgutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
import triton
from torch.autograd.graph import _engine_run_backward
from torch.overrides import TorchFunctionMode
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime import cache, driver
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from mimw.compiler.triton_port.no_gpu import NoGpuDriver
from mimw.tools.processes import DONE, run

from . import linear_attention
from .fla_pack import pack
from .linear_attention import FAMILIES, GATES, SHAPES, SMALL, WAYS, both_ways, measure

TARGET = GPUTarget("cuda", 90, 32)
NUMBERS = {"max_shared_mem": 232448, "multiprocessor_count": 132, "max_num_regs": 65536, "warpSize": 32}
CUDA = {"get_device_name": lambda device=None: "NVIDIA H200", "get_device_capability": lambda device=None: (9, 0),
        "device_count": lambda: 1, "current_device": lambda: 0, "device": contextlib.nullcontext}
FIRST = torch.device("cuda", 0)
LIMIT = 600.0       # seconds for a binary


class Run(NamedTuple):
    """One measurement of benchmarks.linear_attention."""

    family: str
    shape: str
    way: str


class Job(NamedTuple):
    """A binary that a launch needs."""

    source: ASTSource
    options: Any

    def compile(self) -> None:
        triton.compile(self.source, target=TARGET, options=self.options.__dict__)


def runs_of(text: str) -> list[Run]:
    """The runs that a word of the command line names, in its order."""
    known, words = (FAMILIES, SHAPES, WAYS), text.split("/")
    if len(words) > len(known):
        raise argparse.ArgumentTypeError(f"{text} is not FAMILIES/SHAPES/WAYS")
    parts = [word.split(",") for word in words] + [list(names) for names in known[len(words):]]
    for names, part in zip(known, parts):
        if wrong := [name for name in part if name not in names]:
            raise argparse.ArgumentTypeError(f"{', '.join(wrong)} is none of {', '.join(names)}")
    return [Run(*one) for one in itertools.product(*parts)]


class _WithoutData(TorchFunctionMode):
    """Tensors for a GPU have a shape and no memory, and say that they are on the first one. Their `data_ptr()` is the offset in
    their storage, which torch aligns there."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function == torch.Tensor.device.__get__ and args[0].is_meta:
            return FIRST
        if function is torch.device:
            return function(*args, **(kwargs or {}))
        return function(*map(_without_gpu, args), **{name: _without_gpu(one) for name, one in (kwargs or {}).items()})


def _backward(*args, **keywords):
    """Autograd's engine, in the mode, which torch leaves for the time of `torch.autograd.grad`."""
    with _WithoutData():
        return _engine_run_backward(*args, **keywords)


def _without_gpu(value: Any) -> Any:
    return "meta" if isinstance(value, torch.device | str) and str(value).startswith("cuda") else value


@contextlib.contextmanager
def on_an_h200() -> Iterator[dict[str, Job]]:
    """Meanwhile Triton and torch speak of an H200, and launches of stock Triton are noted: {Triton's key: what to compile}. fla
    asks for the chip when it is imported, so that comes in here first."""
    noted: dict[str, Job] = {}

    def note(kernel: JITFunction, key, signature, device, constants, options, attributes, warmup) -> None:
        source = ASTSource(kernel, signature, constants, attributes)
        variables = triton.compiler.compiler.get_cache_invalidating_env_vars()
        text = cache.get_cache_key(source, triton.compiler.make_backend(TARGET), options, variables)
        noted.setdefault(cache._base32(hashlib.sha256(text.encode()).hexdigest()), Job(source, options))

    def launch_all(tuner: Autotuner, *args, **keywords) -> None:
        tuner.nargs = dict(zip(tuner.arg_names, args))
        for configuration in tuner.prune_configs(keywords) if len(tuner.configs) > 1 else tuner.configs:
            tuner.fn.run(*args, **keywords, **configuration.all_kwargs())

    chip = NoGpuDriver(lambda: TARGET, lambda: NUMBERS, type(None), lambda binary: ())
    with (mock.patch.object(driver, "_active", chip), mock.patch.multiple(torch.cuda, **CUDA), _WithoutData(),
          mock.patch.object(torch.autograd, "_engine_run_backward", _backward),
          mock.patch.object(JITFunction, "_do_compile", note), mock.patch.object(Autotuner, "run", launch_all)):
        yield noted


def jobs_of(runs: list[Run]) -> dict[str, Job]:
    """What fla's launches of these runs need, and those of the small call ahead of them, by Triton's key."""

    def once(candidates: dict, at_least_ms: float) -> dict[str, float]:
        candidates["fla"]()
        return dict.fromkeys(candidates, 1.0)

    with on_an_h200() as noted, mock.patch.object(linear_attention, "alternate", once):
        for one in runs:
            both_ways(one.family, SMALL, "fla")
            for drawn in GATES:
                list(measure(one.family, one.shape, 0.0, ways=[one.way], drawn=drawn))
    return noted


def triton_key_of(folder: Path) -> str:
    """What `triton_key()` gives where the Triton in this folder is installed: digests of its files."""
    def modules(path: Path) -> Iterator[Path]:
        for found in pkgutil.iter_modules([str(path)]):
            yield Path(found.module_finder.find_spec(found.name).origin)
            if found.ispkg:
                yield from modules(path / found.name)

    files = [folder / "runtime" / "cache.py", *modules(folder / "compiler"), *modules(folder / "backends"),
             folder / "_C" / "libtriton.so", *modules(folder / "language")]
    return triton.__version__ + "-".join(hashlib.sha256(file.read_bytes()).hexdigest() for file in files)


def is_there(key: str, job: Job) -> bool:
    """Whether Triton's cache has this binary."""
    return cache.FileCacheManager(key).get_group(f"{job.source.name[:150]}.json") is not None


def compile_all(jobs: dict[str, Job], processes: int) -> list[str]:
    """Compile what the cache has not got, in this order; the keys of what did not compile."""
    missing = {key: job for key, job in jobs.items() if not is_there(key, job)}
    print(f"{len(jobs)} binaries, {len(missing)} to compile", flush=True)
    failed, began = [], time.monotonic()
    for count, ended in enumerate(run([(key, job.compile, ()) for key, job in missing.items()], processes, LIMIT), 1):
        if ended.how != DONE or not is_there(ended.key, jobs[ended.key]):
            failed.append(ended.key)
            print(f"{jobs[ended.key].source.name} {ended.key} {ended.how}: {ended.text[:300]}", flush=True)
        if count % 25 == 0 or count == len(missing):
            print(f"{count} of {len(missing)}, {time.monotonic() - began:.0f} s, {len(failed)} failed", flush=True)
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=runs_of, help="FAMILIES/SHAPES/WAYS; all shapes or ways where they are left out")
    parser.add_argument("--cache", type=Path, required=True, help="Triton's cache here")
    parser.add_argument("--triton", type=Path, help="the folder of the Triton that will look them up; by default the one here")
    parser.add_argument("--jobs", type=int, default=1, help="processes that compile; 0 notes and packs only")
    parser.add_argument("--pack", type=Path, help="write this tar.xz of what is compiled of these runs")
    parser.add_argument("--whole", action="store_true", help="pack the binaries with what debuggers and profilers read in them")
    parser.add_argument("--at", type=Path, default=Path("/tmp/fla-cache"), help="Triton's cache where the pack is unpacked")
    options = parser.parse_args()
    triton.knobs.cache.dir = str(options.cache.absolute())
    if options.triton is not None:
        key = triton_key_of(options.triton)
        cache.triton_key = lambda: key
    jobs = jobs_of(list(itertools.chain.from_iterable(options.runs)))
    if options.jobs:
        compile_all(jobs, options.jobs)
    if options.pack:
        keys = [key for key, job in jobs.items() if is_there(key, job)]
        size = pack(options.cache, keys, options.at, options.pack, options.whole)
        print(f"{options.pack}: {len(keys)} of {len(jobs)} binaries, {size / 1e6:.2f} MB", flush=True)


if __name__ == "__main__":
    main()
