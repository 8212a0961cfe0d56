"""`mimw.jit`: Triton's decorator, with our compiler behind it.

Input: a Python function with words of `tl`, `tlx` and `tle`. Output: a `MimwFunction`, launched as a kernel of
`triton.jit`:

    @mimw.jit
    def double(x, n, BLOCK: tl.constexpr): ...
    double[(2, )](x, 256, BLOCK=128)           on the GPU; on the simulator where there is none, or with MIMW_SIMULATE=1

Everything that a caller of `triton.jit` relies on is Triton's own code: argument binding, specialisation, the in-memory
and the on-disk cache, hooks, launch. We replace the source object (the thing that is compiled), take our launch options
out before Triton sees them, and run on the simulator where there is no GPU.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, overload

from ..compiler.launch import (
    CLUSTERS,
    KEYWORDS,
    canonical_keywords,
    check_cluster_target,
    check_numbers,
    divided_grid,
    extents_of,
    grid_extents,
)
from ..compiler.pipeline import (
    CLUSTER,
    PREFERRED,
    STAMPS,
    WAITS,
    MimwSource,
    Rebind,
    chip_of,
    compile_source,
    compiler_hash,
    device_numbers,
    gpu_target,
    key_of_values,
    launch_key,
    seen_by,
)
from ..compiler.triton_port.no_gpu import stand_in
from ..compiler.triton_port.runtime import (
    ASTSource,
    ContentKeys,
    JITFunction,
    MockTensor,
    active_target,
    compute_cache_key,
    create_function_from_signature,
    default_warps,
    driver,
    gpu_is_active,
    is_gluons,
    knobs,
    make_backend,
    stock_compile,
)
from ..errors import LaunchError, MimwError, OutsideKernel
from ..ir.callers import cut, ends_at_call
from ..ir.shown import Shown
from ..ir.site import site_of
from ..target import asking, wanted
from .before_launch import check_launch, checking
from .call import MEMORY, Given, bound, check_arguments
from .decorated import kernel_source, without_source
from .handles import SimulatedLauncher, loaded
from .host import as_bytes, as_launched, check_descriptors, check_on_gpu, check_structs, meant_bytes
from .simulating import simulating
from .standing_still import meanwhile
from .watchdog import Launch, seconds

if TYPE_CHECKING:
    from .freeze import FrozenLaunch
    from .simulate import SimulatedLaunch

_STAMPS = "time_stamps"     # `mimw.profile` launches with it
_WAITS = "wait_stamps"      # a watchdog launches with it
_OURS = frozenset((*KEYWORDS, _STAMPS, _WAITS, MEMORY))
_LAUNCH = JITFunction.run
_OF_AN_ARGUMENT = ("failed to specialize argument", "Pointer argument", "tensor map descriptor")     # in texts of Triton's errors


class _AskedByUs(dict):
    """The globals of a function, for a `triton.jit` kernel that calls it: that refuses to be launched once they have changed. A
    launch of the function itself has looked whether they did, and is of the new values: Triton goes through none of them there."""

    def items(self):
        return ().__iter__()


class MimwFunction(Shown, JITFunction):
    """A kernel or helper of ours. Calls, attributes and caches are those of Triton's `JITFunction`; in a notebook it is shown as a
    page with its source, and storage and barriers as it was last simulated or checked."""

    note: Callable[..., bool] | None = None     # what takes a compilation before the compiler does: `mimw.compile_ahead`

    def __init__(self, fn: Callable[..., Any], **options: Any):
        super().__init__(fn, **options)
        without_a_gpu()

    @property
    def cache_key(self) -> str:
        """Of all that the function's text and its helpers name, as it is now: Triton asks for it where the function is a helper of
        a `triton.jit` kernel or an argument, and in keys of what an autotuner keeps on disk."""
        seen = seen_by(self)
        self.used_global_vals = _AskedByUs(seen.globals())
        return hashlib.sha256(f"{compiler_hash()}{seen.digest}{seen.native_key()}".encode()).hexdigest()

    __hash__ = object.__hash__      # Triton's is of the content, which may change; two functions of one text are two all the same

    def create_binder(self):
        key = launch_key(self)
        kernels, _, *rest = super().create_binder() if gpu_is_active() else self._binder_for(wanted_target())
        self.ASTSource, self.compile = MimwSource, compile_source
        return kernels, ContentKeys(key, key_of_values), *rest

    def _binder_for(self, target):
        backend = make_backend(target)
        return {}, {}, target, backend, create_function_from_signature(self.signature, self.params, backend)

    @ends_at_call
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """In a kernel, a call of a helper; the code generator inlines it and never comes here."""
        raise OutsideKernel(f"Cannot call @triton.jit'd outside of the scope of a kernel: launch it by {self.__name__}[grid](...), "
                            f"or run it without a GPU by mimw.simulate({self.__name__}, grid, ...)")

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """`kernel[grid]`: straight to Triton's launch where nothing of ours has to happen."""
        if simulating():
            return ends_at_call(super().__getitem__(grid))

        def launch(*args, **kwargs):
            try:
                run = _LAUNCH if _OURS.isdisjoint(kwargs) and seconds() is None and not checking() else MimwFunction.run
                try:
                    return run(self, *args, grid=grid, warmup=False, **kwargs)
                except Rebind:
                    return launch(*args, **kwargs)
                except KeyError as error:
                    if not meant_bytes(error):
                        self._refuse_arguments(grid, args, kwargs, error)
                        raise
                    return run(self, *as_bytes(args), grid=grid, warmup=False, **_bytes_by_name(kwargs))
                except (OverflowError, RuntimeError, TypeError) as error:
                    check_descriptors(self.arg_names, args, kwargs)     # Triton's own class leaves some limits to the driver
                    self._refuse_arguments(grid, args, kwargs, error)
                    if any(part in str(error) for part in _OF_AN_ARGUMENT):
                        check_structs(self.params, args, kwargs)
                        check_on_gpu(self.arg_names, args, kwargs)
                    raise
            except MimwError as error:
                cut(error)
                raise

        return launch

    def _refuse_arguments(self, grid, args, kwargs, error) -> None:
        """Say what is wrong with the arguments or the grid of a launch that failed, if they are wrong: Triton passes them on as
        they are, and asking before every launch would take longer than the launch."""
        if isinstance(error, MimwError):
            return
        check_arguments(self, args, kwargs, error)
        own = {name: value for name, value in kwargs.items() if name in self.arg_names}
        try:
            grid_extents(extents_of(grid, bound(self, args, own)), chip_of(active_target()).max_grid)
        except LaunchError as refusal:
            raise refusal from error

    @ends_at_call
    def warmup(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        return super().warmup(*args, grid=grid, **kwargs)

    @ends_at_call
    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        try:
            return self._run(*args, grid=grid, warmup=warmup, **kwargs)
        except Rebind:
            return self.run(*args, grid=grid, warmup=warmup, **kwargs)
        except (KeyError, TypeError) as error:
            if not meant_bytes(error):
                if not isinstance(error, MimwError):
                    check_arguments(self, args, kwargs, error)
                raise
        return self._run(*as_bytes(args), grid=grid, warmup=warmup, **_bytes_by_name(kwargs))

    def _run(self, *args, grid, warmup, **kwargs):
        kwargs = canonical_keywords(kwargs, self.arg_names)
        kwargs, memory = _without_memory(kwargs, self.arg_names)
        limit = None if warmup else seconds()
        if not warmup and checking():
            own = {name: value for name, value in kwargs.items() if name not in (_STAMPS, _WAITS)}
            check_launch(self, grid, args, own | memory)
        if not warmup and simulating():
            for hook in self.pre_run_hooks:
                hook(*args, **kwargs)
            if limit is None:
                return self.simulated(grid, args, kwargs, memory)
            from .watchdog import watched_simulation
            return watched_simulation(Launch(self, args, kwargs, grid), limit, lambda: self.simulated(grid, args, kwargs, memory))
        if warmup:
            check_structs(self.params, args, kwargs)
        if warmup and not gpu_is_active():
            return self._compile_only(args, kwargs)
        shapes = {name: kwargs[name] for name in CLUSTERS if name in kwargs and name not in self.arg_names}
        if shapes:
            grid = divided_grid(grid, shapes)
        launch = super().run
        if limit is None:
            return launch(*args, grid=grid, warmup=warmup, **kwargs)
        from .watchdog import watched
        return watched(Launch(self, args, kwargs, grid), limit,
                       lambda grid, more: launch(*args, grid=grid, warmup=warmup, **kwargs, **more))

    @ends_at_call
    def freeze(self, grid: Any, /, *args: Any, **kwargs: Any) -> FrozenLaunch:
        """A launch that is specialised, compiled, loaded and checked now, and then costs little more than the driver's own call.

            frozen = kernel.freeze(grid, *args, **meta)     takes what `kernel[grid](*args, **meta)` takes, and launches nothing
            frozen()                                        the same launch; `frozen(*other_args)` another of its specialisation

        returns:   a `FrozenLaunch` of runtime/freeze, which says what may change; on the simulator one that simulates
        errors:    those of a launch, CheckFailed under MIMW_CHECK=1 among them; LaunchError also for a tensor on another than the
                   current device
        """
        from .freeze import freeze
        check_structs(self.params, args, kwargs)
        if checking():
            check_launch(self, grid, args, canonical_keywords(kwargs, self.arg_names))
        return freeze(self, grid, args, kwargs)

    def _page(self):
        from ..report.page import Page

        programs = list(self.__dict__.get("_simulated_programs", {}).values())
        last = dict(program=programs[-1][0], target=wanted()) if programs else {}
        known = "as last simulated or checked" if programs else "not simulated or checked yet"
        return Page(self.__name__, (known, ), sites=(site_of(self.fn), ), **last)

    def simulated(self, grid, args, kwargs, memory) -> SimulatedLaunch:
        """The launch on the simulator; what takes launches in place of that returns what it likes."""
        return simulated_launch(self, grid, args, {**kwargs, **memory}, lambda: self._compile_only(args, kwargs))

    def _compile_only(self, args, kwargs):
        """`warmup` on a machine without a GPU: compile for MIMW_TARGET (sm_90a by default) and keep the result."""
        args, kwargs = as_launched(args), {name: as_launched(value) for name, value in kwargs.items()}
        kwargs["debug"] = kwargs.get("debug", self.debug) or knobs.runtime.debug
        target = wanted_target()
        device = f"no GPU, but {target}"
        if device not in self.device_caches:
            self.device_caches[device] = self.create_binder()
        kernels, keys, _, backend, binder = self.device_caches[device]
        values, specialization, options = binder(*args, **kwargs)
        key = compute_cache_key(keys, specialization, options)
        kernel = kernels.get(key)
        if kernel is None:
            options, signature, constants, attrs = self._pack_args(backend, kwargs, values, specialization, options)
            kernel = self._do_compile(key, signature, device, constants, options, attrs, True)
        return kernel

    def _do_compile(self, key, signature, device, constexprs, options, attrs, warmup):
        if self.note is not None and self.note(self, key, self.device_caches[device][2], signature, constexprs, options, attrs):
            return None
        return super()._do_compile(key, signature, device, constexprs, options, attrs, warmup)

    def _pack_args(self, backend, kwargs, bound_args, specialization, options):
        """Our own options leave the keywords here, the cluster among the attributes; Triton's check of unknown ones stays."""
        ours = {name: kwargs[name] for name in _OURS if name in kwargs and name not in self.arg_names}
        kwargs = {name: value for name, value in kwargs.items() if name not in ours}
        cluster = ours.get("ctas_per_cga")
        check_numbers(kwargs, self.arg_names)
        if ours:
            check_cluster_target(cluster, ours.get("preferred_ctas_per_cga"), chip_of(backend.target))
        options, signature, constants, attrs = super()._pack_args(backend, _with_fp_fusion(kwargs), bound_args, specialization,
                                                                  options)
        found = {CLUSTER: cluster, PREFERRED: ours.get("preferred_ctas_per_cga"), STAMPS: ours.get(_STAMPS),
                 WAITS: ours.get(_WAITS)}
        return options, signature, constants, attrs | {path: value for path, value in found.items() if value is not None}


def simulated_launch(fn, grid, args, keywords: dict[str, Any], compile: Callable[[], Any] = lambda: None) -> SimulatedLaunch:
    """A launch on the simulator; what takes launches in place of that returns what it likes. `compile()` gives the kernel that a
    GPU would have run."""
    from .case import taken
    from .simulate import SimulatedLaunch, SimulatedRun, simulate  # and so the simulator: when it is wanted
    expected, tolerance = taken()       # of a command that launches a case
    done = simulate(Given(fn, keywords), grid, *args, expected=expected, tolerance=tolerance)
    return SimulatedLaunch(**vars(done), compile=compile) if isinstance(done, SimulatedRun) else done


def _without_memory(kwargs: dict[str, Any], own: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(keywords of a launch, those of them that only the simulator needs): a GPU reaches all of its memory."""
    if MEMORY not in kwargs or MEMORY in own:
        return kwargs, {}
    return {name: value for name, value in kwargs.items() if name != MEMORY}, {MEMORY: kwargs[MEMORY]}


def _bytes_by_name(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: as_bytes(value) for name, value in kwargs.items()}


def wanted_target():
    """The target that is simulated, and compiled for on a machine without a GPU: that of the launch under way, else
    MIMW_TARGET's, else sm_90a."""
    return gpu_target(wanted())


def wanted_numbers():
    """The known numbers of that target's device."""
    return device_numbers(wanted())


def without_a_gpu(even_beside_one: bool = False) -> None:
    """Let Triton's driver answer for that target where there is no GPU, or none is to be used."""
    stand_in(wanted_target, wanted_numbers, _launcher, loaded, even_beside_one)


def _launcher(src, metadata) -> SimulatedLauncher:
    """The launcher of a compiled kernel. One of stock `triton.jit`, as of a module that took the name before it was ours, is
    simulated as one of ours; one of Gluon's by what Gluon makes of it."""
    if isinstance(src.fn, MimwFunction):
        return SimulatedLauncher(src, simulated_launch)
    options = metadata._asdict()
    if (warps := default_warps(metadata)) is not None:
        options["num_warps"] = warps
    fn = src.fn if is_gluons(src.fn) else jit(src.fn)
    return SimulatedLauncher(SimpleNamespace(fn=fn, constants=src.constants, options=options, cluster=None), simulated_launch)


def triton_compile(src, target=None, options=None, _env_vars=None):
    """`triton.compile` for scripts: with its arguments, and for kernels of ours, too.

    args:      src     - an `ASTSource` of a kernel, whose compile-time parameters may be left out of the signature; or what
                         Triton's own takes
               target  - a `GPUTarget`; by default the GPU's or, without one, MIMW_TARGET's
               options - num_warps, ..., and those for clusters
    returns:   Triton's compiled kernel, with `.asm` and `.metadata`
    """
    if not isinstance(src, ASTSource) or not isinstance(src.fn, MimwFunction):
        return stock_compile(src, target=target, options=options, _env_vars=_env_vars)
    target = target or (driver.active.get_current_target() if gpu_is_active() else wanted_target())
    options = _with_fp_fusion(canonical_keywords(options or {}))
    cluster, preferred = options.pop("ctas_per_cga", None), options.pop("preferred_ctas_per_cga", None)
    check_cluster_target(cluster, preferred, chip_of(target))
    check_numbers(options)
    if not isinstance(src, MimwSource):
        signature = {name: src.signature.get(name, "constexpr") for name in src.fn.arg_names}
        src = MimwSource(src.fn, signature, src.constants, {**src.attrs, CLUSTER: cluster, PREFERRED: preferred})
    with asking(chip_of(target)):
        return compile_source(src, target, options, _env_vars=_env_vars)


def _with_fp_fusion(options: dict[str, Any]) -> dict[str, Any]:
    """Said explicitly: Triton 3.10 turns the default off."""
    if "enable_fp_fusion" in options or "TRITON_DEFAULT_FP_FUSION" in os.environ:
        return options
    return {**options, "enable_fp_fusion": True}


@overload
def jit(fn: Callable[..., Any], *, version: Any = None, repr: Callable[..., str] | None = None,
        launch_metadata: Callable[..., Any] | None = None, do_not_specialize: Iterable[int | str] | None = None,
        do_not_specialize_on_alignment: Iterable[int | str] | None = None, debug: bool | None = None, noinline: bool | None = None,
        source: str | None = None) -> MimwFunction: ...


@overload
def jit(fn: None = None, *, version: Any = None, repr: Callable[..., str] | None = None,
        launch_metadata: Callable[..., Any] | None = None, do_not_specialize: Iterable[int | str] | None = None,
        do_not_specialize_on_alignment: Iterable[int | str] | None = None, debug: bool | None = None, noinline: bool | None = None,
        source: str | None = None) -> Callable[[Callable[..., Any]], MimwFunction]: ...


@ends_at_call
def jit(fn: Callable[..., Any] | None = None, *, version: Any = None, repr: Callable[..., str] | None = None,
        launch_metadata: Callable[..., Any] | None = None, do_not_specialize: Iterable[int | str] | None = None,
        do_not_specialize_on_alignment: Iterable[int | str] | None = None, debug: bool | None = None, noinline: bool | None = None,
        source: str | None = None) -> MimwFunction | Callable[[Callable[..., Any]], MimwFunction]:
    """Compile a Python function to a GPU kernel; a drop-in for `triton.jit`, with its arguments.

    A kernel that calls nothing of tlx or tle is compiled by Triton's own path. Helpers called from it may be decorated with
    either decorator. `kernel[grid](...)` launches (on the simulator where there is no GPU, or with MIMW_SIMULATE=1),
    `kernel.warmup(..., grid=...)` compiles. A launch on the simulator takes `memory=[...]`, as `mimw.simulate` does; on a GPU that
    keyword changes nothing.

    args:      fn       a function, or a kernel of either decorator, which keeps the options that are not given here
               source   the text that `fn` came out of by `exec`, where Python does not know its lines
    errors:    NotAKernel for what has no `def` whose source can be read: lambdas, classes, methods, functions out of `exec`
    """
    options = dict(version=version, do_not_specialize=do_not_specialize, debug=debug, noinline=noinline, repr=repr,
                   do_not_specialize_on_alignment=do_not_specialize_on_alignment, launch_metadata=launch_metadata)

    @ends_at_call
    def decorate(function: Callable[..., Any]) -> MimwFunction:
        if isinstance(function, MimwFunction) and all(option is None for option in options.values()):
            return function
        function, chosen = kernel_source(function, options, source)
        try:
            return MimwFunction(function, **chosen)
        except ValueError as error:         # Triton's, around what Python said
            if not isinstance(error.__cause__, OSError):
                raise
            raise without_source(function) from error.__cause__

    return decorate(fn) if fn is not None else decorate


jit.meanwhile = meanwhile    # for classes that launch frozen kernels by themselves

__all__ = ["MimwFunction", "MockTensor", "jit"]
