"""`tle.raw.dialect` and `tle.raw.language`: declare a function in another language.

Input: the name of a dialect and the options of the decorator. Output: a decorator that makes a `RawFunction`. For example:

    @tle.raw.dialect(name="cuda", file="scale.cu")          NativeFunction("scale", cuda)
    def scale(x: InOut["memref<?xf32, 3>"], factor: Input["f32"]): ...

Which class serves a dialect stands in `DIALECTS`; a name with the suffix `:text` is the dialect where its source is text, from
`file=` or `source=`, and not the body of the Python function.
"""

from __future__ import annotations

from importlib import import_module

from .function import RawFunction

# The dialect's name: the module and the class that serves it. It is called with (fn, dialect, options).
DIALECTS: dict[str, tuple[str, str]] = {
    "cuda:text": (".native", "NativeFunction"),
    "mlir": ("..body.function", "BodyFunction"),
    "llvm:text": (".native", "NativeFunction"),
    "mlir:text": (".mlir_text", "mlir_function"),
    "ptx:text": (".native", "NativeFunction"),
}


def names() -> list[str]:
    """The names of all dialects."""
    return sorted({name.removesuffix(":text") for name in DIALECTS})


def dialect(*, name="mlir", file=None, source=None, extern_func_name="", deferred=False, reference=None, effects=None, fence=None,
            flags=(), **options):
    """Declare a function in another language; decorates a Python function whose parameters and result are the declaration.

    args:      name      - "cuda", "ptx", "llvm" or "mlir"
               file      - path of the source; a relative one from the file of the decorated function, or else as Python has it
               source    - the source itself, instead of `file`
               extern_func_name - the function in the source; by default the one of the same name, or the only one
               deferred  - read the file only when a kernel is compiled; the call then needs `output_indices`, and for cuda
                           `extern_func_name` must be given
               reference - a Python function that does the same on numpy arrays, which the simulator runs (docs/RAW.md)
               effects   - {parameter: "in" | "out" | "inout"}, for parameters whose annotation does not say it
               fence     - the fence that the code ends in: "async_shared" | "gpu" | "sys"; None: it has none
               flags     - options for the compiler of that source
    returns:   a decorator; what it makes is called in kernels by `tle.raw.call`
    errors:    ValueError for an unknown name or option, FileNotFoundError; when a kernel is compiled, RawCodeError
    """
    given = dict(file=file, source=source, extern_func_name=extern_func_name, deferred=deferred, reference=reference,
                 effects=effects, fence=fence, flags=flags)
    return _decorator("dialect", name, given, options)


def language(*, name="mlir", **options):
    """`tle.raw.dialect`, under the name that it has in the design of TLE; `hardware_constraint` may stand below it."""
    return _decorator("language", name, {}, options)


def _decorator(word: str, name: str, given: dict, options: dict):
    options = {**{key: value for key, value in given.items() if value not in (None, "", (), False)}, **options}
    textual = options.keys() & {"file", "source"}
    row = DIALECTS.get(f"{name}:text") if textual or name not in DIALECTS else DIALECTS[name]
    if row is None:
        known = ", ".join(names())
        takes = "has no source as text" if name in names() else "is unknown"
        raise ValueError(f"tle.raw.{word}: the dialect {name!r} {takes}; there are: {known}")
    served_by = getattr(import_module(row[0], __package__), row[1])

    def decorate(fn) -> RawFunction:
        return served_by(fn, name, options)

    return decorate
