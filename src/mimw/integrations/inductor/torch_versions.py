"""What differs between versions of torch, and the few names of torch that are not public: all of them are here.

Input: torch 2.11 to 2.13. Output: the passes of inductor's configuration, extended and put back. For example:

    before = add("post_grad_custom_post_pass", Products(settings))
    put_back("post_grad_custom_post_pass", before)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from inspect import signature
from typing import Any

import torch
from torch._dynamo.utils import get_metrics_context
from torch._guards import tracing
from torch._higher_order_ops.flex_attention import flex_attention as FLEX
from torch._inductor import compile as compiled
from torch._inductor import config
from torch._inductor import custom_graph_pass as passes
from torch.fx import Graph, GraphModule, Node
from torch.utils._python_dispatch import _disable_current_modes

LOWEST = (2, 11)
GraphPass = passes.CustomGraphPass
PLACES = ("pre_grad_custom_pass", "post_grad_custom_post_pass")
VMAP_LEVELS = frozenset(("lazy_load_decompositions", "_vmap_increment_nesting", "_vmap_decrement_nesting"))
_PREDISPATCH = getattr(torch._functorch, "predispatch", None)
_BLOCK_PARTS = 17      # in 2.13; before it there were no orders
_ORDERS = "dq_write_order", "dq_write_order_full", "dq_kv_order", "dq_kv_order_spt"
_TAKES_LISTS = hasattr(passes, "get_custom_graph_passes")       # from 2.13 on; before it a place holds one pass


def check_version() -> None:
    """Refuse a torch without the places that the passes need.

    errors:    RuntimeError below torch 2.11, or where a later torch has renamed a place
    """
    found = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    lacking = [place for place in PLACES if not hasattr(config, place)]
    if found < LOWEST or lacking:
        raise RuntimeError(
            f"mimw.integrations.inductor needs torch 2.11 or later; this is {torch.__version__}"
            + (f", whose torch._inductor.config lacks {', '.join(lacking)}" if lacking else "")
            + ". Install another one, or call mimw.ops in the model, which needs no passes")


def add(place: str, ours: Callable) -> Any:
    """Put a pass behind those that are there, and give what was there.

    errors:    RuntimeError where a pass is there and this torch takes one only
    """
    before = getattr(config, place)
    if before is None:
        setattr(config, place, ours)
    elif _TAKES_LISTS:
        setattr(config, place, [*passes.get_custom_graph_passes(before), ours])
    else:
        raise RuntimeError(f"torch._inductor.config.{place} holds {before!r} already, and torch {torch.__version__} takes one pass "
                           "there; set it to None, or use torch 2.13, which takes a list")
    return before


def put_back(place: str, before: Any) -> None:
    """Undo `add`."""
    setattr(config, place, before)


def blocks_of(block_mask: tuple) -> dict[str, Any] | None:
    """The parts of flex attention's block mask, as its operator takes it, by name; None of a torch that has others."""
    names = ("queries", "keys", *(f"{full}{side}_{what}" for side, full in (("kv", ""), ("kv", "full_"), ("q", ""), ("q", "full_"))
                                  for what in ("num_blocks", "indices")),
             *(() if len(block_mask) == _BLOCK_PARTS - len(_ORDERS) else _ORDERS),
             "block_queries", "block_keys", "mask_mod")
    return dict(zip(names, block_mask)) if len(names) == len(block_mask) else None


def recorded_functions(names: Iterable[str]) -> list[Callable]:
    """Functions of these names that Dynamo records: torch's, Python's operators, and what torch.vmap leaves."""
    rooms = torch, operator, torch.nn.functional, torch._C._nn, _PREDISPATCH
    return [getattr(room, name) for room in rooms for name in names if hasattr(room, name)]


def example_of(node: Node) -> torch.Tensor | None:
    """The real tensor with which a graph's input was called when it was recorded, while it is there."""
    recorded = node.meta.get("grapharg")
    try:
        found = None if recorded is None else recorded.example
    except (AssertionError, AttributeError, RuntimeError):      # it is kept by a weak reference
        return None
    return found if type(found) is torch.Tensor else None


def without_passes() -> AbstractContextManager:
    """Inside, torch.compile has none of our passes."""
    return config.patch(dict.fromkeys(PLACES))


def by_inductor(graph: Graph) -> Callable[..., Any]:
    """The function that inductor makes of a graph without gradients, at its first call, by the settings of then and without our
    passes. It may be called while inductor compiles another graph, where torch.compile leaves functions as they are."""
    made: list[Callable] = []

    def call(*given: torch.Tensor) -> Any:
        if not made:
            with without_passes(), config.patch({"triton.cudagraphs": False}), tracing(None):
                made.append(compiled(GraphModule({}, graph), list(given)))
        return made[0](*given)

    return call


def at_hints(x: torch.Tensor) -> torch.Tensor:
    """A tensor without data like x, with the numbers that its symbols stood for when they came up."""
    def hint(one: Any) -> Any:
        return one if isinstance(one, int) else one.node.hint

    shape, strides = tuple(map(hint, x.shape)), tuple(map(hint, x.stride()))
    if None in (*shape, *strides):
        return x
    with x.fake_mode:
        return torch.empty_strided(shape, strides, dtype=x.dtype, device=x.device)


def rounds_between() -> bool:
    """True if inductor is to round between operations that it fuses as it does where it fuses none."""
    return bool(getattr(config, "emulate_precision_casts", False))


def asserts_run(device: torch.device) -> bool:
    """True if an assertion that inductor compiles for the device runs: of Triton's nothing is left without this setting."""
    return device.type == "cpu" or config.assert_indirect_indexing


def is_autotuned() -> bool:
    """True while inductor compiles with mode="max-autotune" or its likes, so that it times several ways to compute a product, and
    does so in this process and calls them from Python, where functions that are given to it are there."""
    return (config.max_autotune or config.max_autotune_gemm) and not (config.autotune_in_subproc or config.cpp_wrapper)


def serve_choices(more: Callable[[Any, Any, str], list]) -> bool:
    """Let inductor, in this thread, time what `more` has for a product beside its own choices. False where choices were set
    by a program, which stay, or where this torch asks for them otherwise."""
    from torch._inductor.virtualized import V
    ours, theirs = _choices(more)
    if ours is None or type(V.choices) not in (ours, theirs):
        return False
    if type(V.choices) is theirs:
        V.set_choices_handler(ours())
    return True


@cache
def _choices(more: Callable[[Any, Any, str], list]) -> tuple[type | None, type]:
    """Inductor's class of choices with `more`, and without; None for a torch before 2.13."""
    from torch._inductor.choices import InductorChoices  # a second of imports

    class Candidates(InductorChoices):
        def get_template_configs(self, kernel_inputs: Any, templates: Any, op_name: str, *given: Any, **options: Any) -> list:
            found = super().get_template_configs(kernel_inputs, templates, op_name, *given, **options)
            return [*found, *more(kernel_inputs, templates, op_name)]

    own = getattr(InductorChoices, "get_template_configs", lambda: None)
    return Candidates if "op_name" in signature(own).parameters else None, InductorChoices


@cache
def extern_choice(function: Callable) -> Any:
    """The function as a choice of inductor's, which gives a new tensor. Code that inductor writes calls it by its name."""
    from torch._inductor.select_algorithm import ExternKernelChoice
    return ExternKernelChoice(function, has_out_variant=False)


@cache
def decomposed(function: Callable[[torch.Tensor], torch.Tensor]) -> Graph:
    """The graph of a function of one tensor, in the operators that inductor lowers."""
    from torch._inductor.decomposition import select_decomp_table
    from torch.fx.experimental.proxy_tensor import make_fx
    with with_real_tensors():
        return make_fx(lambda x: function(x), decomposition_table=select_decomp_table())(torch.empty(2, 2, device="meta")).graph


def with_real_tensors() -> AbstractContextManager:
    """Inside, tensors are made and computed although inductor traces."""
    return _disable_current_modes()


@contextmanager
def with_figures_of_its_own() -> Iterator[None]:
    """Inside, a function may be compiled while torch.compile compiles another one, gradients included.

    Torch notes figures of what it compiles, each once; those of the outer function are put aside."""
    figures = get_metrics_context()
    outer = figures._metrics, figures._edits
    figures._metrics, figures._edits = {}, []
    try:
        yield
    finally:
        figures._metrics, figures._edits = outer


__all__ = ["FLEX", "GraphPass", "PLACES", "VMAP_LEVELS", "add", "asserts_run", "at_hints", "blocks_of", "by_inductor",
           "check_version", "decomposed", "example_of", "extern_choice", "is_autotuned", "put_back", "recorded_functions",
           "rounds_between", "serve_choices", "with_figures_of_its_own", "with_real_tensors", "without_passes"]
