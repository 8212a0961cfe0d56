"""Calls words directly, as Triton's code generator would, and shows what they recorded."""

from types import SimpleNamespace

import triton.language as tl
from triton.language.semantic import TritonSemantic

from mimw import ir
from mimw.compiler.frontend.drafts import Handle
from mimw.compiler.frontend.recorder import Recorder
from mimw.ir.site import Site

USER_LINE = Site("kernel.py", 7)


class Kernel:
    """A kernel under construction for one target: `kernel(tlx.word, ...)` calls a word, `kernel.text()` prints the IR."""

    def __init__(self, arch: str = "sm90"):
        self.builder = Recorder()
        self.builder.options = SimpleNamespace(
            arch=arch, num_warps=4, supported_fp8_dtypes=("fp8e5", "fp8e4nv"), default_dot_input_precision="tf32",
            allowed_dot_input_precisions=("tf32", "tf32x3", "ieee"), max_num_imprecise_acc_default=0, sanitize_overflow=False)
        self.builder.set_loc(USER_LINE.file, USER_LINE.line, 1)
        self.semantic = TritonSemantic(self.builder)
        self.params = []

    def __call__(self, word, *args, **kwargs):
        return word(*args, **kwargs, _semantic=self.semantic)

    def _param(self, name: str, type_):
        handle = Handle(type_, USER_LINE)
        self.params.append((handle, name, (len(self.params), ), ()))
        return handle

    def tensor(self, name: str, dtype, *shape):
        """A run-time argument: a tile, or a scalar if no shape is given. `dtype` may be a pointer type."""
        type_ = tl.block_type(dtype, list(shape)) if shape else dtype
        return tl.tensor(self._param(name, type_.to_ir(self.builder)), type_)

    def descriptor(self, name: str, dtype, *block):
        """A descriptor argument with its shape and strides."""
        type_ = tl.block_type(dtype, list(block))
        handle = self._param(name, self.builder.create_tensor_descriptor_type(type_.to_ir(self.builder), True))
        extents = [self.tensor(f"{name}.shape.{i}", tl.int32) for i in range(len(block))]
        strides = [self.tensor(f"{name}.stride.{i}", tl.int64) for i in range(len(block))]
        return tl.tensor_descriptor(handle, extents, strides, type_)

    def program(self) -> ir.Program:
        program = self.builder.finish("kernel", self.params, 4, USER_LINE)
        ir.verify(program)
        return program

    def text(self) -> list[str]:
        """The ops recorded so far, one a line, constants left out."""
        lines = ir.print_program(self.program(), sites=False).splitlines()[1:-1]
        return [line.strip() for line in lines if " = constant " not in line]
