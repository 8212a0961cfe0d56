"""A program as one file that shows its failure alone: kernel, meaning, arguments, and the stage that fails.

Path("small.py").write_text(written(program, "gpu", "mismatch", detail))
"""

from __future__ import annotations

import re

from .elements import ELEMENTS
from .launch import PRELUDE, launch_meta
from .tree import Argument, Program


def written(program: Program, stage: str, kind: str, detail: str) -> str:
    """A file that runs alone: the kernel, its meaning in numpy, the arguments, and the stage that fails."""
    chip = stage.removeprefix("compile ") if stage.startswith("compile") else program.chip
    detail = detail.replace("\\", "/").replace('"', "'")
    note = "\n".join("    " + line[:110] for line in detail.strip().split("\n")[:12])
    return f'''"""{program.family} {program.seed}, {stage}: {kind}

{note}

Run it where the packages of mimw are: python FILE. It ends with an assertion if it still fails.
"""

{program.kernel}

# ---- what it means: numpy, one CTA after the other, as if there were neither tasks nor barriers ----

{_bare(PRELUDE)}

{program.reading}

# ---- the launch ----

STAGE, CHIP, GRID, LAUNCHED, CLUSTER = {stage!r}, {chip!r}, {program.grid!r}, {program.launched!r}, {program.cluster}
META = {launch_meta(program)!r}
ARRAYS = {{
{chr(10).join(_array(one) for one in program.arguments if one.kind == "array")}
}}
OUTPUTS = {{{", ".join(f"{one.name!r}: ({one.tolerance}, {one.copies})" for one in program.arguments if one.output)}}}
ORDER = {[_argument(one) for one in sorted(program.arguments, key=lambda one: one.kind == "constant")]!r}


def arguments(arrays, descriptor):
    return [arrays[what] if how == "array" else descriptor(arrays[what[0]], list(what[1])) if how == "descriptor" else what
            for how, what in ORDER]


def compared(arrays, want):
    for name, (tolerance, copies) in OUTPUTS.items():
        expected = want[name].reshape(-1)[:want[name].size // copies]
        np.testing.assert_allclose(wide(arrays[name]).reshape(-1), np.concatenate([wide(expected)] * copies), rtol=tolerance,
                                   atol=tolerance, err_msg=name)


def main():
    import os
    want = {{name: make() for name, make in ARRAYS.items()}}
    numbers = {{name: value for name, value in {_numbers(program)!r}.items()}}
    read(program, GRID, CLUSTER, {{**want, **numbers}})
    if STAGE.startswith("compile"):
        os.environ["MIMW_TARGET"] = CHIP
        from triton.runtime.jit import MockTensor
        types = {_types(program)}
        given = [MockTensor(types[value.dtype.name]) if isinstance(value, np.ndarray) else value
                 for value in arguments({{name: make() for name, make in ARRAYS.items()}}, mimw.TensorDescriptor.from_tensor)]
        assert any(kernel.warmup(*given, grid=LAUNCHED, **META).asm.get(name) for name in ("cubin", "hsaco"))
    elif STAGE == "check":
        report = mimw.check(kernel, LAUNCHED, *arguments({{name: make() for name, make in ARRAYS.items()}},
                                                         mimw.TensorDescriptor.from_tensor), seeds=3, target=CHIP, **META)
        assert report.ok, str(report)
    elif STAGE == "sim":
        for seed in range(2):
            arrays = {{name: make() for name, make in ARRAYS.items()}}
            mimw.simulate(kernel, LAUNCHED, *arguments(arrays, mimw.TensorDescriptor.from_tensor), seed=seed, target=CHIP, **META)
            compared(arrays, want)
    else:
        from mimw.testing.machines import Gpu
        for _ in range(3):
            arrays = {{name: make() for name, make in ARRAYS.items()}}
            Gpu().launch(kernel, LAUNCHED, *arguments(arrays, mimw.TensorDescriptor.from_tensor), **META)
            compared(arrays, want)


if __name__ == "__main__":
    main()
    print("no failure")
'''


def _bare(text: str) -> str:
    """The prelude without its docstring."""
    return text.split('"""', 2)[2].strip()


def _array(one: Argument) -> str:
    fill = re.sub(r"\b(inf|nan)\b(?!')", r"np.\1", repr(one.fill))     # as numbers; the kinds of edges are texts
    return f"    {one.name!r}: lambda: filled({fill}, {one.shape}, {ELEMENTS[one.element].reading}),"


def _argument(one: Argument):
    return {"array": ("array", one.name), "descriptor": ("descriptor", (one.of, one.block))}.get(
        one.kind, ("number", one.value)
    )


def _numbers(program: Program) -> dict:
    return {one.name: one.value for one in program.arguments if one.kind in ("number", "constant")}


def _types(program: Program) -> str:
    used = {one.element for one in program.arguments if one.kind == "array"}
    return (
        "{" + ", ".join(f"np.dtype({ELEMENTS[name].reading}).name: {ELEMENTS[name].tl}" for name in sorted(used)) + "}"
    )
