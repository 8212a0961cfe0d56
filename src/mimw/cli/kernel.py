"""The arguments that `compile` and `explain` share: which kernel, with which argument types and constants, for which chip.

Input: the parsed options. Output: the `Compiled` of the kernel, or a `CommandError`. The types are read in
steps:

    split_types("*bf16, tensordesc<bf16[128,64]>")        ["*bf16", "tensordesc<bf16[128,64]>"]
    without_hints({"x": "*fp16:16", "n": "i32:1"})        {"x": "*fp16", "n": "constexpr"}, {"n": 1}, and 16 divides x
"""

from __future__ import annotations

import ast
import inspect
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any

from .errors import CommandError
from .gpus import add_gpus, several
from .load import kernel_of, launch_named, load, names_launch

_OPENING, _CLOSING = "<[(", ">])"
_HINTED = re.compile(r"([^()]*?)\s*:\s*(\w+)")


def add_kernel_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("kernel", metavar="FILE:KERNEL", help=(
        "the kernel; also MODULE:KERNEL, or FILE:FUNCTION that returns (kernel, grid, args, meta)"))
    parser.add_argument("--target", metavar="CHIP", help=(
        "sm_90a (default, unless MIMW_TARGET says more), sm_100a, gfx942, gfx950; ascend_910b, as far as the checks"))
    parser.add_argument("--signature", action="append", default=[], metavar="TYPES", help=(
        "argument types as Triton writes them: '*bf16', i32, 'tensordesc<bf16[128,64]>'; '*bf16:16' and i32:16 for multiples of "
        "16, i32:1 for 1, as a launch would see them. In the order of the run-time arguments, or NAME=TYPE; comma-separated, "
        "repeatable"))
    parser.add_argument("--constexpr", action="append", default=[], metavar="NAME=VALUE",
                        help="a compile-time argument; VALUE is a Python literal, a dtype as tl.bfloat16, or text")
    parser.add_argument("--num-warps", type=int, default=4, metavar="N", help="warps of the default task (default 4)")
    parser.add_argument("--num-stages", type=int, metavar="N", help="stages of Triton's own software pipelining")
    add_gpus(parser)


def compile_named(options: Namespace, **keywords: Any) -> Any:
    """Compile what the options name, for a chip without a compiler here as far as the checks; returns its `Compiled`.
    `keywords` go to `compile_kernel`. The options' `target` is the chip's name from then on, also where the environment names
    it."""
    from ..target import wanted

    several(options)
    chip = wanted(options.target)
    if chip.binary:
        from ..runtime.compile_kernel import compile_kernel as make
    else:
        from ..runtime.compile_kernel import record_kernel as make
    options.target = chip.name
    named = load(options.kernel)
    if names_launch(named):
        return _compile_launch(named, make, options, keywords)
    kernel = kernel_of(named, options.kernel)
    if options.gpus is not None:
        raise CommandError(f"--gpus {options.gpus}: the code of {options.kernel} is the same for any number of GPUs; leave it out, "
                           "or give a function that names a launch with a mimw.World().")
    constants = dict(_constant(text) for text in options.constexpr)
    types = [item for text in options.signature for item in split_types(text)]
    signature, constants = bind(kernel.fn, types, constants)
    signature, hinted, attrs = without_hints(signature)
    check_types(signature)
    constants |= hinted
    chosen = {"num_warps": options.num_warps}
    if options.num_stages is not None:
        chosen["num_stages"] = options.num_stages
    more = {"attrs": attrs} if attrs else {}
    return make(kernel, signature, constants, target=options.target, options=chosen, **more, **keywords)


def _compile_launch(function: Any, make: Callable[..., Any], options: Namespace, keywords: dict[str, Any]) -> Any:
    """Compile the kernel as the launch that `function` names specialises it: by its arrays, their addresses, and its options."""
    from ..runtime.simulate import prepare

    if options.signature or options.constexpr:
        raise CommandError(f"{options.kernel} is no kernel but a function that names the launch; it takes no --signature and no "
                           "--constexpr.")
    kernel, grid, args, meta = launch_named(function, options.kernel)
    found = prepare(kernel, grid, args, dict(meta), options.target).specialisation
    return make(found.fn, found.signature, found.constants, target=options.target, options=found.options, attrs=found.attrs,
                **keywords)


def alignment_note(compiled: Any) -> str:
    """The note on code in which addresses count as unaligned; "" if every pointer's type says what divides it."""
    names = getattr(compiled, "unaligned", ())
    return (f"{', '.join(names)}: addresses count as unaligned, so this code differs from what a launch gets, which sees the "
            "addresses. Write '*fp32:16' for a pointer, and i32:16 for an integer, that is a multiple of 16.") if names else ""


def split_types(text: str) -> list[str]:
    """Cut at the commas outside brackets: `*bf16, tensordesc<bf16[128,64]>` is two types."""
    items, depth = [""], 0
    for char in text:
        depth += (char in _OPENING) - (char in _CLOSING)
        if char == "," and depth == 0:
            items.append("")
        else:
            items[-1] += char
    return [item.strip() for item in items if item.strip()]


def without_hints(signature: dict[str, str]) -> tuple[dict[str, str], dict[str, Any], dict[tuple[int, ...], list]]:
    """Cut Triton's hints off: `{"x": "*fp16:16", "n": "i32:1"}` is a pointer that 16 divides, and the constant 1.

    returns:   signature  without hints
               constants  the arguments that are 1
               attrs      by path, that 16 divides a pointer or an integer
    errors:    CommandError for any other hint
    """
    plain, constants, attrs = {}, {}, {}
    for index, (name, type_) in enumerate(signature.items()):
        found = _HINTED.fullmatch(type_)
        plain[name], hint = found.groups() if found else (type_, None)
        if hint == "16":
            attrs[index, ] = [["tt.divisibility", 16]]
        elif hint == "1" and not plain[name].startswith("*"):
            plain[name], constants[name] = "constexpr", 1
        elif hint is not None:
            raise CommandError(f"--signature {name}={type_}: {hint!r} is no hint. Triton's are 16, for a multiple of 16, and 1, "
                               "for an integer that is 1.")
    return plain, constants, attrs


def check_types(signature: dict[str, str]) -> None:
    """CommandError for the first type, without hints, that Triton does not know."""
    import triton.language as tl

    for name, type_ in signature.items():
        try:
            if type_ != "constexpr":
                tl.str_to_ty(type_, None)
        except (KeyError, ValueError, AttributeError, AssertionError, IndexError, TypeError):
            raise CommandError(f"--signature {name}={type_}: {type_!r} is no type of Triton's. Types are i32, fp32, bf16, ...; "
                               "'*fp32' for an address, 'tensordesc<bf16[128,64]>' for a descriptor.") from None


def bind(function: Any, types: list[str], constants: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Give every parameter of the kernel a type or a constant.

    Constants are the parameters annotated `constexpr` and any other that `constants` names; one without a given value
    takes its default. Returns Triton's signature, in parameter order with "constexpr" for constants, and the constants.
    CommandError for names that the kernel has not, for too many types, and for parameters without one.
    """
    params = inspect.signature(function).parameters
    positional = [item for item in types if "=" not in item]
    named = dict(_pair(item) for item in types if "=" in item)
    for name in [*named, *constants]:
        if name not in params:
            raise CommandError(f"the kernel has no argument {name!r}. It has: {', '.join(params)}.")
    signature, given = {}, {}
    runtime = [name for name, param in params.items() if name not in constants and not _is_constexpr(param)]
    waiting = [name for name in runtime if name not in named]
    if len(positional) > len(waiting):
        raise CommandError(f"--signature has {len(positional)} types for {len(waiting)} run-time arguments "
                           f"({', '.join(waiting)}).")
    named.update(zip(waiting, positional, strict=False))
    missing = []
    for name, param in params.items():
        if name in runtime:
            signature[name] = named.get(name, "")
            missing += [f"--signature {name}=TYPE"] if name not in named else []
            continue
        signature[name] = "constexpr"
        given[name] = constants.get(name, param.default)
        missing += [f"--constexpr {name}=VALUE"] if given[name] is inspect.Parameter.empty else []
    if missing:
        raise CommandError(f"some arguments of the kernel have no type or value. Add {' '.join(missing)}; or name a function that "
                           "returns (kernel, grid, args, meta), whose arguments have both.")
    return signature, given


def _is_constexpr(param: inspect.Parameter) -> bool:
    annotation = param.annotation
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return name.rpartition(".")[2] == "constexpr"


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip(), value.strip()


def _constant(text: str) -> tuple[str, Any]:
    name, value = _pair(text)
    if not re.fullmatch(r"\w+", name) or not value:
        raise CommandError(f"--constexpr {text!r} should be NAME=VALUE.")
    if value.startswith("tl."):
        import triton.language as tl
        if isinstance(dtype := getattr(tl, value[3:], None), tl.dtype):
            return name, dtype
        raise CommandError(f"{value} is no dtype of triton.language.")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
