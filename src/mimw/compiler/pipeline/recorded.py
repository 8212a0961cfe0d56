"""What was recorded, as a part of the key that a binary is kept under; found without recording where nothing has changed.

    recorded_digest(source, given)      the digest of the program's text

Input: a source, and a digest of how it is specialised. Output: a digest. The binary is made of the program, so the program's text
is in its key, and a binary under that key is right whatever led to the program. To record costs thirty times what finding a binary
does; so beside the binaries there are notes: under the digest of all that recording looked at (`frontend.seen`), the digest of the
text that came of it. A note is found only where all of that is the same again. Where something could not be followed no note is
made or read, and the kernel is recorded once in every process.
"""

from __future__ import annotations

import hashlib
import re

from ...ir import print_program
from ..frontend.seen import content_of
from ..triton_port.codegen import mlir_context
from ..triton_port.runtime import keep_text, kept_text, make_backend
from .source_protocol import KernelSource

_NOTE = "mimw_recorded.txt"
_DIGEST = re.compile("[0-9a-f]{64}")


def recorded_digest(source: KernelSource, given: str) -> str:
    """The digest of what `source` records, for its target and options; `given` tells its specialisation from others."""
    if not source.has_program() and not source.seen.unknown:
        return source.seen.digest       # Triton's own, which makes its IR of the same texts and values, and of nothing else
    asked = repr((given, source.seen.digest, source.target, sorted(source.options.items(), key=str)))
    place = hashlib.sha256(asked.encode()).hexdigest()
    if not source.seen.unknown and _DIGEST.fullmatch(note := kept_text(place, _NOTE) or ""):
        return note
    digest = hashlib.sha256(_text(source).encode()).hexdigest()
    if not source.seen.unknown:
        keep_text(place, _NOTE, digest)
    return digest


def _text(source: KernelSource) -> str:
    """What the binary is made of; where it stands in files `seen.places` says."""
    if source.has_program():
        return print_program(source.recorded(), sites=False)
    backend, context = make_backend(source.target), mlir_context()
    backend.load_dialects(context)
    options = backend.parse_options(dict(source.options))
    return str(source.ttir(options, backend.get_codegen_implementation(options), backend.get_module_map(), context))


def content_of_constants(constants: dict) -> list[tuple]:
    """Compile-time arguments by content; functions among them are told apart by what they look at."""
    return sorted((path, content_of(value)) for path, value in constants.items())
