"""Kernels that Inductor would generate: the text that torch's own templates give for a shape, without a GPU.

Input: the name of a template, shapes and strides. Output: the text of a module with the kernel. For example:

    text_of("mm")               a module with `triton_mm(arg_A, arg_B, out_ptr0)`: sizes, strides and tiles are constants in it
    keep("mm", folder)          the same, as a file `mm.py` there

The templates and all that fills them in are torch's own (`torch._inductor.select_algorithm.TritonTemplate`); what they ask of a
GPU is answered for an H200. Only the decorators are others: `triton.jit` alone, where torch has a launcher of its own besides.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

MULTIPROCESSORS = 132
HALF = torch.bfloat16
HEAD = "import triton\nimport triton.language as tl\nfrom torch._inductor.runtime import triton_helpers\n"
HEAD += "from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math\n"
TILE = dict(BLOCK_M=128, BLOCK_N=128, BLOCK_K=64)


@dataclass(frozen=True)
class Rendering:
    """A template and what fills it in: its name in torch, inputs and output as (shape, strides, dtype), and its constants."""

    template: str
    inputs: tuple[tuple[tuple[int, ...], tuple[int, ...], torch.dtype], ...]
    output: tuple[tuple[int, ...], tuple[int, ...], torch.dtype]
    constants: dict[str, Any]


def _rows(*shape: int, dtype: torch.dtype = HALF) -> tuple[tuple[int, ...], tuple[int, ...], torch.dtype]:
    """An array row by row."""
    return shape, torch.empty(shape, device="meta").stride(), dtype


def _turned(*shape: int) -> tuple[tuple[int, ...], tuple[int, ...], torch.dtype]:
    """An array whose last two axes are exchanged in memory, as weights are that a linear layer has."""
    turned = torch.empty((*shape[:-2], shape[-1], shape[-2]), device="meta").transpose(-1, -2)
    return shape, turned.stride(), HALF


def _mm(name: str, m: int, n: int, k: int, **more: Any) -> Rendering:
    common = dict(EVEN_K=True, USE_FAST_ACCUM=False, ACC_TYPE="tl.float32", ALLOW_TF32=False, GROUP_M=8)
    return Rendering(name, (_rows(m, k), _rows(k, n)), _rows(m, n), common | TILE | more)


RENDERINGS: dict[str, Callable[[], Rendering]] = {
    "mm": lambda: _mm("mm", 4096, 4096, 4096),
    "mm_persistent_tma": lambda: _mm(
        "mm_persistent_tma", 4096, 4096, 4096, NUM_SMS=MULTIPROCESSORS, TMA_SIZE=128, TMA_EXPERIMENTAL_API=False,
        A_ROW_MAJOR=True, B_ROW_MAJOR=True),
    "bmm": lambda: Rendering(
        "bmm", (_rows(16, 2048, 1024), _rows(16, 1024, 2048)), _rows(16, 2048, 2048),
        dict(EVEN_K=True, ACC_TYPE="tl.float32", ALLOW_TF32=False, GROUP_M=8, **TILE)),
    "grouped_mm": lambda: Rendering(
        "grouped_mm", (_rows(4096, 2048), _turned(8, 2048, 4096), _rows(8, dtype=torch.int32)), _rows(4096, 4096),
        dict(SCALED=False, A_IS_2D=True, B_IS_2D=False, A_IS_K_MAJOR=True, B_IS_K_MAJOR=True, USE_FAST_ACCUM=False,
             NUM_SMS=MULTIPROCESSORS, USE_TMA_LOAD=True, USE_EXPERIMENTAL_MAKE_TENSOR_DESCRIPTOR=False, **TILE)),
}


def keep(name: str, folder: Path) -> None:
    """Write a kernel's module into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(text_of(name))


def text_of(name: str) -> str:
    """The text of a module with the kernel, as torch generates it.

    errors:    those of torch, where its templates are others than those of 2.13
    """
    import sympy
    from torch._inductor import ir
    from torch._inductor.codecache import PyCodeCache
    from torch._inductor.graph import GraphLowering
    from torch._inductor.kernel import bmm, mm, mm_grouped  # noqa: F401  (they make the templates)
    from torch._inductor.select_algorithm import TritonTemplate, identity
    from torch._inductor.virtualized import V
    made, texts = RENDERINGS[name](), []
    template, device = TritonTemplate.all_templates[made.template], torch.device("cuda", 0)

    def layout(one: tuple) -> Any:
        shape, strides, dtype = one
        return ir.FixedLayout(device, dtype, list(map(sympy.Integer, shape)), list(map(sympy.Integer, strides)))

    def load(code: str, *_: Any, **__: Any) -> Any:
        texts.append(code)
        raise _Made

    graph = GraphLowering(torch.fx.symbolic_trace(lambda: None))
    with V.set_graph_handler(graph), patch.object(PyCodeCache, "load", load), _h200(template), contextlib.suppress(_Made):
        inputs = [ir.StorageBox(ir.InputBuffer(name=f"in{at}", layout=layout(one))) for at, one in enumerate(made.inputs)]
        graph.graph_inputs.update({one.get_name(): ir.TensorBox(one) for one in inputs})
        nodes = tuple(ir.ReinterpretView(data=one, layout=one.data.layout) for one in inputs)
        template.generate_and_load(
            nodes, num_stages=3, num_warps=8, call_sizes=list(map(sympy.Integer, made.output[0])), prefix_args=0,
            suffix_args=0, epilogue_fn=identity, epilogue_fn_hash=None, subgraphs=None, workspace_arg=None,
            num_consumer_groups=0, num_buffers_warp_spec=0, layout=layout(made.output), kwargs=made.constants,
            generate_with_caching=False)
    return texts[0] if texts[0].lstrip().startswith("import") else HEAD + texts[0]


class _Made(Exception):
    """The text is there, and nothing is to be loaded."""


@contextlib.contextmanager
def _h200(template: Any) -> Iterator[None]:
    """While it is open, torch generates for an H200, and decorates with `triton.jit` alone."""
    with (patch("torch.cuda.get_device_capability", lambda *_: (9, 0)),
          patch.object(template.kernel_type, "jit_lines", lambda self: "@triton.jit")):
        yield
