"""Writes or compares the record of a server: what `record_vllm` and `record_sglang` do.

Input: the server, the names that its adaptors stand on, and a wheel. Output: `src/mimw/integrations/recorded_SERVER.json`. For
example:

    main("vllm", names, ["vllm-0.33.0-cp38-abi3-manylinux_2_28_x86_64.whl"])                writes the file
    main("vllm", names, ["vllm-0.33.0-cp38-abi3-manylinux_2_28_x86_64.whl", "--check"])     says what differs, and fails if so
"""

import argparse
import json
from collections.abc import Iterable

from mimw.integrations.contracts import record_of, said

from .sources import Sources


def text_of(found: dict) -> str:
    """The record as JSON, a name a line."""
    lines = (f"  {json.dumps(name)}: {json.dumps(contract)}" for name, contract in found["contracts"].items())
    return f'{{\n "version": {json.dumps(found["version"])},\n "contracts": {{\n' + ",\n".join(lines) + "\n }\n}\n"


def main(server: str, names: Iterable[str], argv: list[str] | None = None) -> int:
    """The exit status: 0, or 1 where the wheel lacks a name or, with --check, has another contract."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.integrations.record_{server}")
    parser.add_argument("wheel", help=f"the wheel of {server} (pip download --no-deps {server}==VERSION), or a folder with an "
                        "unpacked one; nothing of it is imported")
    parser.add_argument("--check", action="store_true", help="compare with the record, and write nothing")
    given = parser.parse_args(argv)
    sources = Sources(given.wheel)
    found = {"version": sources.version, "contracts": {name: sources.contract(name) for name in sorted(set(names))}}
    lacking = [name for name, contract in found["contracts"].items() if contract is None]
    for name in lacking:
        print(f"{server} {sources.version} has no {name}")
    if given.check:
        before = json.loads(record_of(server).read_text())
        changed = [name for name in found["contracts"] if found["contracts"][name] != before["contracts"].get(name)]
        for name in changed:
            print(f"{name}: recorded of {before['version']}: {said(before['contracts'].get(name))}; in {sources.version}: "
                  f"{said(found['contracts'][name])}")
        print(f"{len(found['contracts'])} names, {len(changed)} changed")
        return int(bool(changed))
    if not lacking:
        record_of(server).write_text(text_of(found))
        print(f"{record_of(server).name}: {len(found['contracts'])} names of {server} {sources.version}")
    return int(bool(lacking))
