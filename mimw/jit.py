"""`mimw.jit`: Triton's decorator, with our compiler behind it.

Everything that a caller of `triton.jit` relies on is Triton's own code: argument binding, specialisation, the in-memory and
the on-disk cache, hooks, launch. We replace the source object (what is compiled), take our launch options out before
Triton sees them, and run on the simulator where there is no GPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from .compile import MimwSource, compile_source, gpu_target
from .simulate import simulate, simulating
from .target import target as find_target
from .triton_port.runtime import JITFunction, MockTensor, create_function_from_signature, gpu_is_active, make_backend

OURS = ("ctas_per_cga", "cluster_dims", "preferred_ctas_per_cga", "launch_cluster")


class MimwFunction(JITFunction):
    """A kernel or helper of ours. Calls, attributes and caches are those of Triton's `JITFunction`."""

    def create_binder(self):
        if gpu_is_active():
            binder = super().create_binder()
        else:
            target = gpu_target(find_target(os.environ.get("MIMW_TARGET", "sm_90a")))
            backend = make_backend(target)
            binder = {}, {}, target, backend, create_function_from_signature(self.signature, self.params, backend)
        self.ASTSource, self.compile = MimwSource, compile_source
        return binder

    def run(self, *args, grid, warmup, **kwargs):
        if not warmup and simulating():
            return simulate(self, grid, *args, **{name: value for name, value in kwargs.items() if name not in OURS})
        if warmup and not gpu_is_active():
            return self._compile_only(args, kwargs)
        return super().run(*args, grid=grid, warmup=warmup, **kwargs)

    def _compile_only(self, args, kwargs):
        """`warmup` on a machine without a GPU: compile for MIMW_TARGET (sm_90a by default) and keep the result."""
        kwargs = {"debug": self.debug, **kwargs}
        kernels, _, _, backend, binder = self.device_caches["no gpu"]
        bound, specialization, options = binder(*args, **kwargs)
        key = str(specialization) + str(options)
        if key not in kernels:
            options, signature, constants, attrs = self._pack_args(backend, kwargs, bound, specialization, options)
            self._do_compile(key, signature, "no gpu", constants, options, attrs, True)
        return kernels[key]

    def _pack_args(self, backend, kwargs, bound_args, specialization, options):
        """Our own options leave the keywords here; Triton's check of unknown ones stays."""
        kwargs = {name: value for name, value in kwargs.items() if name not in OURS or name in self.arg_names}
        if "enable_fp_fusion" not in kwargs and "TRITON_DEFAULT_FP_FUSION" not in os.environ:
            kwargs["enable_fp_fusion"] = True  # said explicitly: Triton 3.10 turns the default off
        return super()._pack_args(backend, kwargs, bound_args, specialization, options)


def jit(fn: Callable | None = None, *, version: Any = None, repr: Callable | None = None,
        launch_metadata: Callable | None = None, do_not_specialize: Iterable[int | str] | None = None,
        do_not_specialize_on_alignment: Iterable[int | str] | None = None, debug: bool | None = None,
        noinline: bool | None = None):
    """Compile a Python function to a GPU kernel; a drop-in for `triton.jit`, with its arguments.

    A kernel that uses none of our words is compiled by Triton's own path. Helpers called from it may be decorated with
    either decorator. `kernel[grid](...)` launches (on the simulator where there is no GPU, or with MIMW_SIMULATE=1),
    `kernel.warmup(..., grid=...)` compiles.
    """

    def decorate(function: Callable) -> MimwFunction:
        return MimwFunction(function, version=version, do_not_specialize=do_not_specialize,
                            do_not_specialize_on_alignment=do_not_specialize_on_alignment, debug=debug, noinline=noinline,
                            repr=repr, launch_metadata=launch_metadata)

    return decorate(fn) if fn is not None else decorate


__all__ = ["MimwFunction", "MockTensor", "jit"]
