"""`mimw.Config` and `mimw.autotune`: Triton's, with cluster shapes, and usable where there is no GPU to time on.

Input: a kernel and its configurations, as for `triton.autotune`. Output: a kernel that runs with the fastest
configuration on a GPU, with the first possible one on the simulator. For example:

    @mimw.autotune([mimw.Config({"BLOCK": 128}, ctas_per_cga=(2, 1, 1)), mimw.Config({"BLOCK": 64})], ["n"])
    @mimw.jit
    def kernel(x, n, BLOCK: tl.constexpr): ...
"""

from __future__ import annotations

from ..compiler.launch import canonical_keywords
from ..compiler.pipeline import seen_by
from ..compiler.triton_port.codegen import CompileTimeAssertionFailure, OutOfResources
from ..compiler.triton_port.runtime import StockAutotuner, StockConfig
from ..errors import LaunchError, NotAKernel
from ..ir.callers import ends_at_call
from ..ir.plainly import plainly
from .simulating import simulating
from .watchdog import file, has_hung, seconds, tell, trying


class Config(StockConfig):
    """One configuration to try. As `triton.Config`, and `ctas_per_cga` (or `cluster_dims`): the cluster's shape in CTAs,
    (x, y, z) or None.

    `minRegAutoWS` and `maxRegAutoWS` are accepted for published scripts (multiples of 8) and belong to automatic
    specialisation, which this package does not do.
    """

    def __init__(self, kwargs, num_warps=4, num_stages=3, num_ctas=1, maxnreg=None, pre_hook=None, ir_override=None,
                 ctas_per_cga=None, minRegAutoWS=None, maxRegAutoWS=None, **options):
        super().__init__(kwargs, num_warps, num_stages, num_ctas, maxnreg, pre_hook, ir_override)
        for name, value in (("minRegAutoWS", minRegAutoWS), ("maxRegAutoWS", maxRegAutoWS)):
            if value is not None and value % 8:
                raise ValueError(f"{name} must be divisible by 8, got {value}")
        self.options = canonical_keywords({"ctas_per_cga": ctas_per_cga, **options})
        self.ctas_per_cga = self.options.pop("ctas_per_cga", None)

    def __setstate__(self, state):
        super().__setstate__(state)
        self.ctas_per_cga, self.options = state.get("ctas_per_cga"), state.get("options", {})

    def all_kwargs(self):
        ours = {} if self.ctas_per_cga is None else {"ctas_per_cga": self.ctas_per_cga}
        return {**super().all_kwargs(), **self.options, **ours}

    def __str__(self):
        return super().__str__() + (f", ctas_per_cga: {self.ctas_per_cga}" if self.ctas_per_cga else "")


class Autotuner(StockAutotuner):
    """Triton's autotuner; on the simulator, where time means nothing, it takes the first configuration that the chip can
    hold. One that needs more than the chip has, or fails a `tl.static_assert`, is skipped everywhere; if there is no other,
    its error is raised."""

    def __init__(self, *args, **keywords):
        super().__init__(*args, **keywords)
        self._seen, self._measured = None, {}       # what the kernel names, and what was measured for each state of that

    def __getitem__(self, grid):
        return ends_at_call(super().__getitem__(grid))

    @ends_at_call
    def run(self, *args, **kwargs):
        if not simulating() or kwargs.get("warmup"):
            self._of_what_is_there_now()
            return super().run(*args, **kwargs)
        return next(self._possible(self.configs, args, kwargs, lambda merged: self.fn.run(*args, **merged)))

    def _of_what_is_there_now(self) -> None:
        """Select the measurements made with the present values of the globals that the kernel names: no others hold."""
        if self._seen is None or self._seen.still is not None and not self._seen.still():
            self._seen = seen_by(self.jit_function())
            self.cache = self._measured.setdefault(self._seen.digest, {} if self._measured else self.cache)

    @ends_at_call
    def warmup(self, *args, **kwargs):
        """The compiled kernels of all configurations that can be launched."""
        self.nargs = dict(zip(self.arg_names, args))
        configs = self.prune_configs(kwargs)
        found = list(self._possible(configs, args, kwargs, lambda merged: self.fn.warmup(*args, **merged), hooks=False))
        self.nargs = None
        return found

    def _possible(self, configs, args, kwargs, start, hooks=True):
        """The results of `start(keywords)`, one for each configuration that it takes."""
        refused, some = None, False
        for config in configs:
            merged = {**config.all_kwargs(), **kwargs}
            if hooks and config.pre_hook is not None:
                config.pre_hook({**dict(zip(self.arg_names, args)), **merged})
            try:
                given = start(merged)
            except (OutOfResources, CompileTimeAssertionFailure) as error:
                refused = refused or error
                continue
            some = True
            yield given
        if not some and refused is not None:
            raise refused

    def prune_configs(self, kwargs):
        """Under a watchdog without those that have hung under one before."""
        configs = super().prune_configs(kwargs)
        if seconds() is None:
            return configs
        fn = self.jit_function()
        hung = [config for config in configs if has_hung(fn, str(config))]
        for config in hung:
            tell(f"mimw: autotuning {fn.__name__!r} without the configuration {config}: it has hung before ({file()})")
        if len(hung) == len(configs):
            raise LaunchError(f"every configuration of {fn.__name__!r} has hung under a watchdog before",
                              hint=f"mend the kernel, or delete {file()} to try them again")
        return [config for config in configs if config not in hung]

    def _bench(self, *args, config, **meta):
        token = trying.set(str(config))
        try:
            return super()._bench(*args, config=config, **meta)
        finally:
            trying.reset(token)

    def jit_function(self):
        """The JIT function under heuristics."""
        fn = self.fn
        while not hasattr(fn, "params"):
            fn = fn.fn
        return fn


def autotune(configs, key, prune_configs_by=None, reset_to_zero=None, restore_value=None, pre_hook=None, post_hook=None,
             warmup=None, rep=None, use_cuda_graph=False, do_bench=None, cache_results=False):
    """A decorator with the arguments of `triton.autotune`."""

    @ends_at_call
    def decorate(fn):
        if not hasattr(fn, "arg_names"):
            name = getattr(fn, "__name__", type(fn).__name__)
            raise NotAKernel(f"mimw.autotune got {plainly(repr(fn))}, which is no kernel",
                             hint=f"write `@mimw.jit` below `@mimw.autotune(...)`, above `def {name}`")
        return Autotuner(fn, fn.arg_names, configs, key, reset_to_zero, restore_value, pre_hook=pre_hook,
                         post_hook=post_hook, prune_configs_by=prune_configs_by, warmup=warmup, rep=rep,
                         use_cuda_graph=use_cuda_graph, do_bench=do_bench, cache_results=cache_results)

    return decorate
