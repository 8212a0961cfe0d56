"""Runs a piece of assembly, in one thread or in the lane that a warp elects: what it copies, and what it moves in shared memory.

Input: PTX of a few integer instructions, and operands, those of the other lanes as well where the assembly shuffles. Output: the
copies, as the texts of their operands with numbers for registers; `shared`, from addresses to 16-byte pieces, is changed:

    run("mad.lo.u32 to, $0, 128, $1;  @on cp.async.bulk... [to], ...;", [3, 1024])        ["[1408], ..."]
"""

from __future__ import annotations

import re

_BINARY = {"add": lambda a, b: a + b, "and": lambda a, b: a & b, "xor": lambda a, b: a ^ b, "shr": lambda a, b: a >> b}
_TESTS = {"lt": lambda a, b: a < b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "ge": lambda a, b: a >= b}
_IGNORED = (".reg", "cvta", "fence", "cp.async.bulk.commit_group", "mov.b64")


def run(assembly: str, operands: list[int], shared: dict[int, object] | None = None, lanes: list[list[int]] = ()) -> list[str]:
    """`lanes` are the operands of all lanes of the warp, of which the first is elected."""
    registers: dict[str, object] = {}
    copies, steps, labels = [], [], {}

    def value(text: str):
        if text.startswith("$"):
            return operands[int(text[1:])]
        return registers[text] if text in registers else int(text)

    for line in assembly.strip().strip("{}").replace(";", ";\n").splitlines():
        if line.endswith(":"):
            labels[line[:-1]] = len(steps)
        elif line := line.strip().rstrip(";"):
            steps.append(line)
    at = 0
    while at < len(steps):
        statement, at = steps[at], at + 1
        if statement.startswith(_IGNORED):
            continue
        if statement.startswith("@"):
            condition, statement = statement[1:].split(" ", 1)
            if not registers[condition]:
                continue
        name, rest = statement.split(" ", 1)
        parts = [part.strip() for part in rest.split(",")]
        if name == "bra":
            at = labels[rest]
        elif name == "elect.sync":
            registers[parts[0].removeprefix("_|")] = True
        elif name == "shfl.sync.idx.b32":
            source, lane = parts[1], int(parts[2])
            registers[parts[0]] = lanes[lane][int(source[1:])] if source.startswith("$") else value(source)
        elif name.startswith("cp.async.bulk"):
            copies.append(re.sub(r"\b[a-z]\w*|\$\d+", lambda match: _shown(match[0], value), rest))
        elif name.startswith("ld.shared"):
            target, address = re.fullmatch(r"\{(.*)\}, \[(\w+)\]", rest).groups()
            piece = shared[value(address)]
            registers.update((one, (piece, index)) for index, one in enumerate(target.split(", ")))
        elif name.startswith("st.shared"):
            address, source = re.fullmatch(r"\[(\w+)\], \{(.*)\}", rest).groups()
            words = [registers[one] for one in source.split(", ")]
            assert [index for _, index in words] == [0, 1, 2, 3] and len({piece for piece, _ in words}) == 1
            shared[value(address)] = words[0][0]
        else:
            registers[parts[0]] = _computed(name.split("."), [value(part) for part in parts[1:]])
    return copies


def _shown(text: str, value) -> str:
    try:
        return str(value(text))
    except ValueError:
        return text


def _computed(kind: list[str], given: list):
    if kind[0] == "mov":
        return given[0]
    if kind[0] == "mad":
        return given[0] * given[1] + given[2]
    if kind[0] == "setp":
        return _TESTS[kind[1]](given[0], given[1]) and (kind[2] != "and" or given[2])
    return _BINARY[kind[0]](given[0], given[1])
