"""TTGIR and compiled kernels for a named target, on a machine without a GPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from triton._C.libtriton import ir as mlir
from triton.compiler import make_backend

from mimw.compiler.pipeline import Kernel, gpu_target
from mimw.runtime.compile_kernel import compile_kernel
from mimw.runtime.compiled import Compiled
from mimw.target import target as find_target


@dataclass(frozen=True)
class Case:
    """One specialisation of a kernel."""

    kernel: Any
    signature: dict[str, str] = field(default_factory=dict)
    constexprs: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    attrs: dict | None = None

    @property
    def name(self) -> str:
        return self.kernel.__name__

    def compiled(self, target: str = "sm_90a", by=compile_kernel, **options) -> Compiled:
        """Through Triton's backend to the binary, or as far as `by` goes (`tests.compiling`)."""
        return by(self.kernel, self.signature, self.constexprs, target, {**self.options, **options}, attrs=self.attrs)

    def lowered(self, target: str = "sm_90a") -> str:
        """TTGIR right after our `lower`, without source locations: none of Triton's passes has run."""
        fn, chip = self.kernel, find_target(target)
        while not hasattr(fn, "arg_names"):
            fn = fn.fn
        constexprs = {name: parameter.default for name, parameter in fn.signature.parameters.items()
                      if name not in self.signature} | self.constexprs
        backend = make_backend(gpu_target(chip))
        context = mlir.context()
        mlir.load_dialects(context)
        backend.load_dialects(context)
        kernel = Kernel(fn, {name: self.signature.get(name, "constexpr") for name in fn.arg_names},
                        {(fn.arg_names.index(name), ): value for name, value in constexprs.items()},
                        self.attrs or {})
        options = backend.parse_options({"enable_fp_fusion": True, **self.options})
        return kernel.lower(chip, options, backend, context).str_nodebug()
