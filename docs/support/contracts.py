"""Writes what operators take and give into docs/OPERATORS.md, from their contracts.

    python docs/support/contracts.py

Input: the operators of `mimw.ops`. Output: the text between the page's two marks, one block of lines for each operator:

    matmul
        a: bf16|fp16|fp32|fp8 (..., m, k) or (k)
        -> c: out_dtype|=a|bf16 (..., m, n)
"""

from __future__ import annotations

from pathlib import Path

from mimw.ops.operator import OPERATORS

PAGE = Path(__file__).parents[1] / "OPERATORS.md"
BEGIN, END = "<!-- contracts: python docs/support/contracts.py -->", "<!-- end of contracts -->"


def written() -> str:
    """The section's text."""
    blocks = []
    for name, operator in sorted(OPERATORS.items()):
        if operator.contract is not None and operator.run.__module__.startswith("mimw.ops"):
            lines = [*operator.contract.text, *([f"operations: {operator.contract.flops}"] if operator.contract.flops else [])]
            blocks.append("\n".join([name, *(f"    {line}" for line in lines)]))
    return "\n".join(["```text", *blocks, "```"])


def main() -> None:
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{written()}\n\n{END}{after}")


if __name__ == "__main__":
    import mimw.ops.distributed  # noqa: F401
    main()
