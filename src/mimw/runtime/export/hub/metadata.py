"""metadata.json of a package: its name, what it runs on, and the hashes of its files, as `kernels` reads them.

Input: a name, chips, files. Output: the text, and the identity under which Python imports the package:

    identity("rms-norm", files)                         "_rms_norm_cuda_3f9a1c2"
    metadata("rms-norm", ["sm_90a"], files, 1, "MIT")   {"id": ..., "backend": {"type": "cuda", "archs": ["9.0a"]}, ...}

Two versions of a package have two identities, so one process can hold both. The form is that of kernels 0.17 (its `Metadata`).
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256

from ....errors import LaunchError

_NAME = re.compile(r"[a-z][a-z0-9-]*[a-z0-9]")
_CHIP = re.compile(r"sm_(\d+)(\d)([af]?)")


def checked_name(name: str) -> str:
    """The name, if a package may have it; LaunchError otherwise."""
    if not _NAME.fullmatch(name):
        raise LaunchError(f"{name!r} cannot be the name of a package for kernels",
                          hint="name it by --name, in two or more lower-case letters, digits and dashes, such as rms-norm")
    return name


def python_name(name: str) -> str:
    """The name as Python writes it: of the operator, and of the function."""
    return name.replace("-", "_")


def identity(name: str, files: Mapping[str, bytes]) -> str:
    """The name of the package and of its operators' namespace: its own, and a hash of all files."""
    found = sha256(b"".join(f"{file} {len(content)} ".encode() + content for file, content in sorted(files.items())))
    return f"_{python_name(name)}_cuda_{found.hexdigest()[:7]}"


def metadata(name: str, chips: Iterable[str], files: Mapping[str, bytes], version: int, license: str, id: str) -> str:
    """The text of metadata.json. `files` are all others of the package."""
    archs = sorted({"{}.{}{}".format(*_CHIP.fullmatch(chip).groups()) for chip in chips})
    return json.dumps({
        "id": id, "name": name, "version": version, "license": license, "kernels-minver": "0.10.0", "python-depends": [],
        "backend": {"type": "cuda", "archs": archs},
        "digest": {"algorithm": "sha256", "files": {file: b64encode(sha256(content).digest()).decode()
                                                    for file, content in sorted(files.items())}}}, indent=2) + "\n"
