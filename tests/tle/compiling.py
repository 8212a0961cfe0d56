"""What tests of the distributed words share: refusals while recording, and what the launcher would be told."""

import pytest
from triton.compiler.errors import CompilationError

from mimw.runtime.compile_kernel import compile_kernel


def refused(error, match, kernel, signature, options=None, **constants):
    """The kernel is refused while it is recorded, and the error's cause is an `error` whose message has `match`."""
    with pytest.raises(CompilationError) as found:
        compile_kernel(kernel, signature, constants, options=options)
    cause = found.value
    while cause.__cause__ is not None:
        cause = cause.__cause__
    assert type(cause) is error and match in str(cause), repr(cause)


def launched(kernel, signature, constants):
    """(warps, CTAs of a program, shared bytes) as Triton's launcher is told, for a kernel compiled without a GPU."""
    from mimw.compiler.pipeline import MimwSource, compile_source, gpu_target
    from mimw.target import target
    paths = {(kernel.arg_names.index(name), ): value for name, value in constants.items()}
    types = {name: "constexpr" if name in constants else signature[name] for name in kernel.arg_names}
    return compile_source(MimwSource(kernel, types, paths), gpu_target(target("sm_90a")), {}).packed_metadata
