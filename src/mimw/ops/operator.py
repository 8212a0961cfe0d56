"""`Operator`: one function of tensors as an operator of torch, with all that torch asks of one.

Input: a schema, what computes the results, what their shapes are, and the derivative. Output: `torch.ops.mimw.NAME`, and an
object that calls it:

    SQUARE = Operator("square(Tensor x) -> Tensor", run=square, fake=torch.empty_like, save=keep_x, backward=times_two_x)
    SQUARE(x)                           the call; under torch.compile, in modes and under transforms it is torch.ops.mimw.square
    torch.ops.mimw.square(x)            the same

The operators are made by `torch.library.Library` itself: a `custom_op` takes 15 us a call more
(benchmarks/notes/launching.md, "Operators").
A call goes past torch's dispatcher where the dispatcher would do nothing, or note a derivative alone: plain tensors, no mode, no
transform.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor
from torch.fx.node import has_side_effect
from torch.utils.flop_counter import register_flop_formula

from mimw.runtime.in_place import InPlace

from .contract import Contract
from .held import held
from .planned import Planned

_LIBRARY = torch.library.Library("mimw", "FRAGMENT")
_KEY, _SET, _C = torch._C.DispatchKey, torch._C.DispatchKeySet, torch._C
_included, _excluded, _keys = _C._dispatch_tls_local_include_set, _C._dispatch_tls_local_exclude_set, _C._dispatch_keys
_has_function_mode, _profiling = _C._is_torch_function_mode_enabled, _C._autograd._profiler_enabled
_is_compiling, _grad_enabled, _forward = torch.compiler.is_compiling, torch.is_grad_enabled, torch.autograd.forward_ad
_current_device = getattr(_C, "_cuda_getDevice", torch.cuda.current_device)     # builds for the CPU lack it
_DEVICES = {"cuda": "CUDA", "cpu": "CPU"}
_CAST = torch.float32, torch.float16, torch.bfloat16     # by autocast
_TYPES = frozenset((Tensor, torch.nn.Parameter))    # other classes may say themselves what a call of them is
OPERATORS: dict[str, Operator] = {}
LOWER = "lower"     # autocast: to the type of the region, as torch.matmul


class Operator:
    """An operator `mimw::NAME`.

    args:      schema    torch's, without the namespace: "mm(Tensor a, Tensor b) -> Tensor", tensors first; no result may be, or
                         share memory with, an argument. One with mutated arguments, "(Tensor(a!) out, ...)", has no derivative, and
                         takes what mimw.runtime.in_place says may be written
               run       computes: gets the arguments in order, tensors of one CUDA device, which is the current one, or of the CPU;
                         or a `Planned`, which makes that function of the schema and the contract
               fake      the operator's contract, which checks its arguments by the schema's names and says what the results are; or
                         a function of tensors without data, whose extents may be symbols: empty results of the right shape, strides
                         and type, and the same errors
               save      `save(ctx, inputs, output)`, as `setup_context` of torch.library.register_autograd
               backward  `backward(ctx, *gradients)`: a gradient for each argument of the schema, None for what has none; those
                         behind the last one that has may be left out, and one alone need be no tuple
               autocast  under torch.autocast: LOWER for the type of the region; a dtype for that one on a GPU, while on the CPU,
                         whose list in torch lacks these functions, arguments stay; None leaves them everywhere. fp64 stays, too
               kept      names of tensors that autocast leaves as they are
    errors:    ValueError for a schema in which a tensor comes after something else;
               NotImplementedError on `backward()` through an operator without a derivative, with the operator's name
    """

    def __init__(self, schema: str, run: Callable | Planned, fake: Callable | Contract, save: Callable | None = None,
                 backward: Callable | None = None, autocast: str | torch.dtype | None = None, kept: tuple[str, ...] = ()):
        self.name = schema.partition("(")[0].strip()
        self._mutates, self.contract, self.planned = "!" in schema, None, None
        if isinstance(fake, Contract):
            self.contract, fake = fake, self._fake
        if isinstance(run, Planned):
            self.planned, run = run, run.function(schema, self.contract)
        if self._mutates:
            rule = InPlace(f"mimw::{self.name}", schema)
            run, fake = rule.around(run), rule.around_fake(fake)
        self.run, self.schema = run, schema
        arguments = [one.split() for one in schema[schema.index("(") + 1:].partition(") ->")[0].split(",")]
        kinds = [kind.startswith("Tensor") for kind, *_ in arguments]
        self._kept = frozenset(number for number, (_, name) in enumerate(arguments) if name.partition("=")[0] in kept)
        self._tensors = sum(kinds)
        if not all(kinds[:self._tensors]) or self._tensors == 0:
            raise ValueError(f"the schema {schema!r} must begin with its tensors")
        self.differentiable, self.autocast = backward is not None, autocast
        _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag, ))
        self.op = getattr(torch.ops.mimw, self.name).default
        self._arguments = [(one.name, one.default_value) for one in self.op._schema.arguments]
        if "str group_name" in schema:      # A call of all ranks: torch's graphs must not leave it out where a rank does not use
            has_side_effect(self.op)        # the result, as the others would wait.
        for type_, key in _DEVICES.items():
            _LIBRARY.impl(self.name, held(self._on_cuda if type_ == "cuda" else run), key)
            if autocast is not None:
                _LIBRARY.impl(self.name, held(_autocast(self, self.op, type_)), f"Autocast{key}", with_keyset=True)
        torch.library.register_fake(f"mimw::{self.name}", held(fake), lib=_LIBRARY)
        if not self._mutates:
            backward = _padded(backward) if backward else self._without_derivative
            torch.library.register_autograd(f"mimw::{self.name}", held(backward), setup_context=save and held(save), lib=_LIBRARY)
            self._graded = _graded(self.name, self._on_cuda, save, backward)
            self._transformed = _transformed(self, save, backward)
        if self.contract is not None and self.contract.flops is not None:
            register_flop_formula(getattr(torch.ops.mimw, self.name), get_raw=True)(held(self._operations))
        OPERATORS[self.name] = self

    def __call__(self, *args):
        """The operator of these arguments, in the schema's order; trailing ones may be left to their defaults in `run`, too."""
        if _is_compiling() or self._mutates:
            return self.op(*args)
        # Whether torch's dispatcher would do nothing but call `run`, or note a derivative: nothing is lazy, nobody listens. Every
        # test takes 50 to 300 ns, the dispatcher 3 us, with a derivative to note 20.
        graded = False
        for one in args[:self._tensors]:
            if one is not None:
                if type(one) not in _TYPES or _keys(one).raw_repr() not in _PLAIN_KEYS:
                    return self._listened_to(args)
                graded = graded or one.requires_grad
        if ((_included().raw_repr(), _excluded().raw_repr()) not in _AT_REST or _has_function_mode() or _profiling()
                or _forward._current_level >= 0):
            return self._listened_to(args)
        if graded and _grad_enabled():
            return self._graded.apply(*args)
        return self._on_cuda(*args)

    def _listened_to(self, args: tuple):
        """By the dispatcher; but torch.library's operators know no torch.func, and lose forward derivatives without a word."""
        if _forward._current_level >= 0 and any(map(_has_tangent, args[:self._tensors])):
            raise NotImplementedError(f"mimw::{self.name} has no derivative in forward mode")
        transform = _C._functorch.peek_interpreter_stack()
        if transform is None or transform.key() is _C._functorch.TransformType.Functionalize:
            return self.op(*args)
        return self._transformed.apply(*args)

    def named(self, *args) -> dict[str, Any]:
        """The arguments by the schema's names, those that are left out with their defaults."""
        return {name: args[at] if at < len(args) else default for at, (name, default) in enumerate(self._arguments)}

    def cast(self, args: tuple, device_type: str) -> tuple:
        """The arguments of a call as they are under autocast of a device."""
        if self.autocast is None or self.autocast != LOWER and device_type == "cpu":
            return args
        dtype, on = torch.get_autocast_dtype(device_type) if self.autocast == LOWER else self.autocast, (device_type, "meta")
        return tuple(one.to(dtype) if isinstance(one, Tensor) and one.dtype in _CAST and one.device.type in on and
                     number not in self._kept else one for number, one in enumerate(args))

    def _fake(self, *args):
        return self.contract.fake(**self.named(*args))

    def _operations(self, *args, out_val=None, **named) -> int:
        return self.contract.operations(**self.named(*args) | named)

    def _on_cuda(self, *args):
        """`run` with the tensors' device as the current one, as torch's own operators have it."""
        first = args[0]
        if first.is_cuda and first.get_device() != _current_device():
            with torch.cuda.device(first.device):
                return self.run(*args)
        return self.run(*args)

    def _without_derivative(self, ctx, *gradients):
        raise NotImplementedError(f"mimw::{self.name} has no derivative: call it under torch.no_grad(), or on tensors that require "
                                  "none")


def _graded(name: str, run: Callable, save: Callable | None, backward: Callable) -> type:
    """The autograd function of calls that go past the dispatcher."""
    def forward(ctx, *args):
        output = run(*args)
        if save is not None:
            save(ctx, args, output)
        return output

    functions = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(f"mimw::{name}", (torch.autograd.Function, ), functions)


def _padded(backward: Callable) -> Callable:
    """The function, with None for the last arguments of a call."""
    def padded(ctx, *gradients):
        found = backward(ctx, *gradients)
        found = found if isinstance(found, tuple) else (found, )
        return *found, *[None] * (len(ctx.needs_input_grad) - len(found))

    return padded


def _transformed(operator: Operator, save: Callable | None, backward: Callable) -> type:
    """The autograd function of calls under torch.func's grad and vmap, which take one after the other off."""
    def vmap(info, dims, *args):
        """One call for each element of the batch."""
        calls = [operator(*(x.select(dim, at) if dim is not None else x for x, dim in zip(args, dims)))
                 for at in range(info.batch_size)]
        if isinstance(calls[0], tuple):
            return tuple(map(torch.stack, zip(*calls))), (0, ) * len(calls[0])
        return torch.stack(calls), 0

    functions = {"forward": operator.__call__, "setup_context": save or (lambda ctx, inputs, output: None), "backward": backward,
                 "vmap": vmap}
    return type(f"mimw::{operator.name}", (torch.autograd.Function, ), {name: staticmethod(one) for name, one in functions.items()})


def _has_tangent(tensor: Tensor | None) -> bool:
    return tensor is not None and _forward.unpack_dual(tensor).tangent is not None


def _autocast(operator: Operator, op: Callable, device_type: str) -> Callable:
    key = _SET(getattr(_KEY, f"Autocast{_DEVICES[device_type]}"))

    def cast(keys, *args):
        with _C._ExcludeDispatchKeyGuard(key):
            return op(*operator.cast(args, device_type))

    return cast


def _keys_of(device: str) -> tuple[int, int]:
    """The keys that torch's dispatcher sees in a plain tensor, and in one of inference mode."""
    plain = _SET(getattr(_KEY, device)) | _SET(getattr(_KEY, f"Autocast{device}"))
    return plain.raw_repr(), (plain | _SET(_KEY.ADInplaceOrView) | _SET(getattr(_KEY, f"Autograd{device}"))).raw_repr()


def _at_rest() -> frozenset[tuple[int, int]]:
    """The keys that modes, transforms and autocast add to a call's, and those that they take away, in a thread in which nothing
    is on, and in inference mode."""
    def both():
        with torch.inference_mode():
            inference = _included().raw_repr(), _excluded().raw_repr()
        return frozenset(((_included().raw_repr(), _excluded().raw_repr()), inference))

    with ThreadPoolExecutor(1) as fresh:
        return fresh.submit(both).result()


_PLAIN_KEYS = frozenset((*_keys_of("CUDA"), *_keys_of("CPU")))
_AT_REST = _at_rest()


__all__ = ["LOWER", "OPERATORS", "Operator"]
