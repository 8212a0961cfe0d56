"""Published kernels write `import triton.language.extra.tlx as tlx`, `import triton.experimental.tle.language as tle`
and `@triton.jit`; here those names become ours.

Input: this package, before the published sources are imported. Output: those names mean it in this process. For example:

    mimw.install_aliases()
    import triton.language.extra.tlx as tlx         tlx is mimw.tlx, and triton.jit is mimw.jit

Only entries of `sys.modules` and attributes of imported modules change, in this process, when the caller asks for the
change. Triton's own device library (`tl.sum`, `tl.softmax`, ...) was decorated when Triton was imported and stays
stock.
"""

from __future__ import annotations

import pkgutil
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from ..ir.switches import switched_on
from ..target import Target, wanted
from .torch_cuda import SimulatedDevice, answer, once_imported

_PUBLISHED = "triton.language.extra.tlx"
_BESIDE_TLX = {"triton.language.extra.subtile_ops": "subtile_ops", "triton.language.extra.cuda.inline_ptx_lib": "inline_ptx_lib"}
_PUBLISHED_TLE = ("triton.experimental.tle", "triton.experimental.tle.language")
_TLE_FAMILIES = ("gpu", "dsa", "raw")
_FLAGTREE = "triton.experimental.flagtree"


def answer_published(package: ModuleType) -> None:
    """Let published TLX and TLE sources import under their own names in this process; `package` is mimw.

    `mimw.install_aliases` says what becomes what.
    """
    import triton
    import triton.language.extra as extra

    from ..compiler.triton_port.published import answer_benchmarks, answer_gluon, answer_scripts
    from .benchmarks import profiling, reporting, timed
    from .gluon_jit import gluon_jit
    from .jit import triton_compile, without_a_gpu
    from .simulating import simulating

    tlx = package.tlx
    extra.tlx = tlx
    sys.modules[_PUBLISHED] = tlx
    for name, module in _submodules(tlx):
        sys.modules[f"{_PUBLISHED}.{name}"] = module
    for place, name in _BESIDE_TLX.items():
        _answer(place, getattr(tlx, name))
    _answer_tle(package.tle)
    triton.jit = package.jit
    triton.Config = triton.runtime.Config = triton.runtime.autotuner.Config = package.Config
    triton.autotune = triton.runtime.autotune = package.autotune
    answer_scripts(triton_compile)
    answer_gluon(gluon_jit)
    answer_benchmarks(timed, reporting)
    once_imported("triton.profiler", profiling)
    without_a_gpu(switched_on("MIMW_SIMULATE"))
    answer(lambda: _device(wanted()) if simulating() else None)


def _device(chip: Target) -> SimulatedDevice | None:
    """The device of a target for torch; none for AMD's, which torch names otherwise."""
    if chip.backend != "cuda":
        return None
    major, minor = divmod(chip.arch, 10)
    return SimulatedDevice(f"simulated {chip}", major, minor, chip.multiprocessors, chip.shared_bytes, chip.registers_per_cta,
                           chip.warp_size)


def _answer_tle(tle: ModuleType) -> None:
    _answer(_PUBLISHED_TLE[0], tle)
    tle.language = tle
    for place in _PUBLISHED_TLE:
        sys.modules[place] = tle
        for family in _TLE_FAMILIES:
            sys.modules[f"{place}.{family}"] = getattr(tle, family)
        sys.modules[f"{place}.dsa.ascend"] = tle.dsa.ascend
        for name, module in tle.raw.MODULES.items():
            sys.modules[f"{place}.raw.{name}"] = module
    flagtree = ModuleType(_FLAGTREE, "The names of TLE-Raw before they were TLE's.")
    flagtree.__path__, flagtree.edsl, flagtree.language = [], tle.raw, tle
    _answer(_FLAGTREE, flagtree)
    sys.modules[f"{_FLAGTREE}.edsl"], sys.modules[f"{_FLAGTREE}.language"] = tle.raw, tle
    if "mlir" not in sys.modules and find_spec("mlir") is None:       # MLIR's own bindings stay what they are; bodies take either
        sys.modules.update(tle.raw.PUBLISHED)


def _answer(place: str, module: ModuleType) -> None:
    """`import place` gives `module`, also as an attribute of the package around it."""
    around, _, name = place.rpartition(".")
    setattr(import_module(around), name, module)
    sys.modules[place] = module


def _submodules(package: ModuleType) -> list[tuple[str, ModuleType]]:
    names = [info.name for info in pkgutil.iter_modules(package.__path__)]
    return [(name, import_module(f"{package.__name__}.{name}")) for name in names]
