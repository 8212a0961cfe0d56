"""The code of a launch with given arguments, on a machine without a GPU.

    ptx = ptx_of(gemm.kernel, *gemm.arguments(a, b, c, programs)[1:])       what a GPU would get for these arrays

Input: a kernel of the library, the args and meta that its `arguments` gives. Output: its PTX for sm_90a.
"""

from __future__ import annotations

from mimw.runtime.host import specialise
from tests.compiling import to_assembly


def ptx_of(kernel, args: tuple, meta: dict) -> str:
    fn = kernel
    while not hasattr(fn, "arg_names"):
        fn = fn.fn
    options = {name: value for name, value in meta.items() if name not in fn.arg_names}
    given = dict(zip(fn.arg_names, args)) | meta
    arguments = {parameter.name: given[parameter.name] if parameter.name in given else parameter.default for parameter in fn.params}
    signature, constants, _ = specialise(fn, arguments)
    return to_assembly(kernel, {name: type_ for name, type_ in signature.items() if type_ != "constexpr"},
                       constants, "sm_90a", options).stage("ptx")
