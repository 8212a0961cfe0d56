"""Runs a piece of assembly in each thread: what copies it starts, and what it moves in shared memory.

Input: PTX of a few integer instructions, and a thread's operands. Output: the copies, as the texts of their operands with numbers
for registers; `shared`, a dictionary from addresses to 16-byte pieces, is changed:

    run("mad.lo.u32 to, $0, 128, $1;  @on cp.async.bulk... [to], ...;", [3, 1024], {})        ["[1408], ..."]
"""

from __future__ import annotations

import re

_BINARY = {"add": lambda a, b: a + b, "and": lambda a, b: a & b, "xor": lambda a, b: a ^ b, "shr": lambda a, b: a >> b}
_TESTS = {"lt": lambda a, b: a < b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b}
_IGNORED = ("cvta", "fence", "cp.async.bulk.commit_group", "mov.b64")


def run(assembly: str, operands: list[int], shared: dict[int, object]) -> list[str]:
    registers: dict[str, object] = {}
    copies = []

    def value(text: str):
        if text.startswith("$"):
            return operands[int(text[1:])]
        return registers[text] if text in registers else int(text)

    for statement in re.split(r";\s*", assembly.strip().strip("{}").strip()):
        statement = statement.strip()
        if not statement or statement.startswith((".reg", *_IGNORED)):
            continue
        if statement.startswith("@"):
            condition, statement = statement[1:].split(" ", 1)
            if not registers[condition]:
                continue
        name, rest = statement.split(" ", 1)
        if name.startswith("cp.async.bulk"):
            copies.append(re.sub(r"\$?\b[a-z]\w*|\$\d+", lambda match: _shown(match[0], value), rest))
        elif name.startswith("ld.shared"):
            target, address = re.fullmatch(r"\{(.*)\}, \[(\w+)\]", rest).groups()
            piece = shared[value(address)]
            registers.update((one, (piece, index)) for index, one in enumerate(target.split(", ")))
        elif name.startswith("st.shared"):
            address, source = re.fullmatch(r"\[(\w+)\], \{(.*)\}", rest).groups()
            parts = [registers[one] for one in source.split(", ")]
            assert [index for _, index in parts] == [0, 1, 2, 3] and len({piece for piece, _ in parts}) == 1
            shared[value(address)] = parts[0][0]
        else:
            _compute(name, [part.strip() for part in rest.split(",")], registers, value)
    return copies


def _shown(text: str, value) -> str:
    try:
        return str(value(text))
    except ValueError:
        return text


def _compute(name: str, parts: list[str], registers: dict, value) -> None:
    kind, target, operands = name.split("."), parts[0], parts[1:]
    if kind[0] == "mov":
        registers[target] = value(operands[0])
    elif kind[0] == "mad":
        registers[target] = value(operands[0]) * value(operands[1]) + value(operands[2])
    elif kind[0] == "setp":
        found = _TESTS[kind[1]](value(operands[0]), value(operands[1]))
        registers[target] = found and (kind[2] != "and" or value(operands[2]))
    else:
        registers[target] = _BINARY[kind[0]](value(operands[0]), value(operands[1]))
