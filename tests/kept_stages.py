"""A plugin of pytest: what Triton's backend makes of TTGIR is kept from one run of the tests to the next.

    python -m pytest --forked 2             the second time, only what is new goes through LLVM and ptxas
    python -m pytest --forked 2 --cold      nothing is kept, and nothing that was kept is taken

Input: the stages of Triton's backend for NVIDIA, from TTGIR to the cubin. Output: the same stages, which look into a folder of
pytest's cache first (`.pytest_cache`, ignored by git). No assertion is lost: recording, passes, solver, lowering and Triton's own
passes in our order run every time; only what is a function of their text, by Triton's and LLVM's code, is not asked twice.

The name of a result is a digest of everything that its stage reads: the text that goes in, with all locations; the options, and
the libraries that they name by content; the chip; Triton's sources and libtriton, and the ptxas in use, byte by byte; variables of
the environment. Of the metadata a stage is given none, so it cannot read any. A knob that a test has turned leads past the folder,
and so does an error: only results are kept. A file is believed if its digest, of name and contents, is right. Of the results
found one in FIFTY, others in each run, is made all the same: the test has what was made now, and if it differs, a warning.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import random
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from triton import knobs
from triton._C import libtriton
from triton.backends.nvidia import compiler
from triton.runtime.cache import triton_key

try:
    from triton import _instrumentation
except ImportError:     # Triton 3.8 has none
    _instrumentation = None

STAGES = ("make_llir", "make_ptx", "make_cubin")
FIFTY, DAYS = 50, 14        # how many results are found for one that is made again; how long one stays that nobody asks for
_READ = ("TRITON_", "MLIR_", "LLVM_", "PTXAS", "NVPTX_", "DISABLE_PTXAS", "USE_IR_LOC", "CUDA")      # how variables' names begin
_NOT_READ = {"TRITON_CACHE_DIR", "TRITON_HOME"}
_DIGEST = hashlib.sha256().digest_size


@functools.cache
def _file(path: str) -> str:
    with open(path, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def surroundings() -> str:
    """What the stages read besides their arguments: variables, and knobs that were turned in this process."""
    read = sorted((name, value) for name, value in os.environ.items() if name.startswith(_READ) and name not in _NOT_READ)
    turned = [{name: str(value) for name, value in vars(group).items()}
              for group in (knobs.compilation, knobs.nvidia, knobs.language)]
    return repr((read, turned, list(_instrumentation._callbacks) if _instrumentation else []))


def key_of(stage: str, backend, text: str, options, capability) -> str:
    """The name of what `stage` makes of `text`."""
    arch = backend.target.arch
    read = (stage, triton_key(), _file(compiler.get_ptxas(arch).path), surroundings(), repr(backend.target), options.hash(),
            repr(options), repr(capability), text)
    return hashlib.sha256("\0".join(read).encode()).hexdigest()


class Kept:
    """A folder of results: each a line of JSON, the metadata that the stage wrote, and then the text or the bytes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.again, self.usual = folder, random.randrange(FIFTY), surroundings()
        self.passing = str(Path(tempfile.gettempdir(), "pytest-of-"))       # files there have another name the next time

    def find(self, key: str) -> tuple[str | bytes, dict] | None:
        """What was kept by that name; None if nothing was, or not what is there now."""
        path = self.folder / key
        try:
            written = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        digest, contents = written[:_DIGEST], written[_DIGEST:]
        if hashlib.sha256(key.encode() + contents).digest() != digest:
            return None
        head, result = zlib.decompress(contents).split(b"\n", 1)
        is_text, metadata = json.loads(head)
        return result.decode() if is_text else result, metadata

    def keep(self, key: str, result: str | bytes, metadata: dict) -> None:
        is_text = isinstance(result, str)
        head = json.dumps([is_text, metadata]).encode()
        contents = zlib.compress(head + b"\n" + (result.encode() if is_text else result), 1)
        file, path = tempfile.mkstemp(dir=self.folder)
        with open(file, "wb") as opened:
            opened.write(hashlib.sha256(key.encode() + contents).digest() + contents)
        os.replace(path, self.folder / key)

    def stage(self, name: str, make: Callable) -> Callable:
        """The stage `make`, which looks here first."""

        @functools.wraps(make)
        def kept(backend, source, metadata, options, capability):
            text = str(source)
            if surroundings() != self.usual or self.passing in text:
                return make(backend, source, metadata, options, capability)
            found = self.find(key := key_of(name, backend, text, options, capability))
            if found is None or int(key[:8], 16) % FIFTY == self.again:
                wrote: dict = {}
                libtriton.llvm.init_targets()       # as make_llir does, which may have been found: without targets LLVM crashes
                made = make(backend, source, wrote, options, capability), wrote
                if found not in (None, made):
                    before = (self.folder / key).rename(self.folder / f"{key}.before")
                    warnings.warn(f"{name} makes something else of the same text than was kept, {before}: it reads what "
                                  "tests/kept_stages.py does not know of, or does not always do the same", stacklevel=2)
                if found != made:
                    self.keep(key, *made)
                found = made
            result, wrote = found
            metadata |= wrote
            return result

        return kept

    def forget(self) -> None:
        """Without what nobody has asked for lately."""
        oldest = time.time() - DAYS * 86400
        for path in self.folder.iterdir():
            if path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)


def pytest_addoption(parser):
    parser.addoption("--cold", action="store_true", help="take nothing that LLVM and ptxas made in an earlier run of the tests")


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    cache = getattr(config, "cache", None)
    if cache is None or config.getoption("cold"):
        return
    try:
        kept = Kept(Path(cache.mkdir("stages-of-triton")))
        kept.forget()
    except OSError:         # a checkout that cannot be written to
        return
    for name in STAGES:
        make = getattr(compiler.CUDABackend, name)
        setattr(compiler.CUDABackend, name, kept.stage(name, make))
        config.add_cleanup(functools.partial(setattr, compiler.CUDABackend, name, make))
