"""A package for `kernels`: compile each launch, and write binaries, the code that launches them and the host's code into a folder.

Input: a `Plan`. Output: a `Package`, whose files lie as `get_local_kernel` looks for them:

    hub_package(Plan("scale-rows", [case()]), target="sm_90a").write("build")
    build/scale-rows/README.md, build/scale-rows/build/torch-universal/{__init__.py, metadata.json, forms.json, *.cubin, ...}

The variant is the universal one, which any torch and any machine loads: what needs a GPU is asked for when an operator is called.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files as resources
from pathlib import Path

from ....errors import LaunchError
from ..made import VERSION, Exported, export
from .metadata import checked_name, identity, metadata, python_name
from .plan import Plan
from .rows import row_of, schema_of

VARIANT = "torch-universal"
_RUN_TIME = ("driver.py", "forms.py", "operators.py")
_HOST = ("SCHEMA", "outputs", "call")

_INIT = '''\
"""{about}

{function}{schema}

It runs on {chips} and has no derivative; torch.compile and torch.export take it. mimw {version} wrote this package; it needs torch
2.4 or newer and CUDA's driver, neither mimw nor Triton.
"""

from pathlib import Path

{host}from .driver import Driver, DriverError
from .forms import Forms, NoForm
from .operators import operator{plain}

_FOLDER = Path(__file__).parent
FORMS = Forms.read(_FOLDER, Driver)
{names}_operator = operator("{id}::{function}", "{schema}", {run}, FORMS)


def {function}(*arguments, **named):
    """{function}{schema}. NoForm where no form was compiled for such a call."""
    return _operator(*arguments, **named)


__all__ = ["DriverError", "FORMS", "NoForm", "{function}"]
'''

_CARD = """\
---
license: {license}
tags:
- kernels
---

# {name}

{about} Compiled ahead by mimw {version} for {chips}; it needs torch 2.4 or newer and CUDA's driver, no compiler.

```python
from kernels import get_kernel

{function} = get_kernel("OWNER/{name}", version={number}).{function}
```

`{function}{schema}`

| Form | Chip | What it was compiled for |
| --- | --- | --- |
{rows}
"""


@dataclass(frozen=True)
class Package:
    """A package as files: those of the variant by name, and the card, which is the page of the repository. `id` is the name under
    which the package and its operators are in a process."""

    name: str
    id: str
    files: Mapping[str, bytes]
    card: str

    def write(self, folder: str | Path) -> list[Path]:
        """Write FOLDER/NAME/README.md and FOLDER/NAME/build/torch-universal/..., whose other files go. OSError where that cannot
        be."""
        variant = Path(folder) / self.name / "build" / VARIANT
        variant.mkdir(parents=True, exist_ok=True)
        for old in variant.iterdir():       # a binary of a form that is no more would not be in the digest
            if old.is_file() and old.name not in self.files:
                old.unlink()
        written = [Path(folder) / self.name / "README.md", *(variant / name for name in self.files)]
        for path, content in zip(written, (self.card.encode(), *self.files.values())):
            path.write_bytes(content)
        return written


def hub_package(plan: Plan, target: str | None = None, version: int = 1, license: str = "mit") -> Package:
    """Compile every form of a plan, and write the package.

    args:      plan     launches, host code and name
               target   "sm_90a", "sm_100a"; by default MIMW_TARGET or sm_90a
               version  of the package, as `get_kernel(..., version=)` asks for it; `license` its identifier
    returns:   Package
    errors:    LaunchError for a name or a host file that do not fit, and as `mimw.export.export`
    """
    name, forms = checked_name(plan.name), plan.forms
    if not forms:
        raise LaunchError(f"{name} has no launches to compile", hint="give at least one (kernel, grid, args, meta)")
    exported = [_exported(form.launch, target, plan.writes) for form in forms]
    if len({one.parameters for one in exported}) > 1:
        raise LaunchError(f"the launches of {name} are of kernels with different parameters: a package holds one kernel",
                          hint="write a package for each")
    binaries = [f"{name}-{at}.cubin" for at in range(len(forms))]
    rows = [row_of(*one) for one in zip(exported, binaries, (form.select for form in forms))]
    host = None if plan.host is None else Path(plan.host).read_text()
    schema, parameters = schema_of(exported) if host is None else (schema_in(host, str(plan.host)), [])
    files = {"forms.json": (json.dumps({"name": name, "forms": rows}, indent=1) + "\n").encode(),
             **{file: _cubin(one) for file, one in zip(binaries, exported)},
             **{file: resources(f"{__package__}.packaged").joinpath(file).read_bytes() for file in _RUN_TIME},
             **({} if host is None else {"host.py": host.encode()})}
    id, chips = identity(name, files), sorted({one.facts.chip for one in exported})
    told = dict(function=python_name(name), schema=schema, version=VERSION, chips=", ".join(chips),
                about=plan.about or f"The kernel {exported[0].facts.symbol}.")
    files["__init__.py"] = _INIT.format(
        **told, id=id, host="" if host is None else "from . import host\n", plain=", plain" if host is None else "",
        names=f"_launch = plain({parameters!r})\n" if host is None else "",
        run="*_launch" if host is None else "host.outputs, host.call").encode()
    files["metadata.json"] = metadata(name, chips, files, version, license.upper(), id).encode()
    card = _CARD.format(**told, name=name, license=license, number=version, rows="\n".join(map(_told, rows)))
    return Package(name, id, files, card)


def _exported(launch: tuple, target: str | None, writes) -> Exported:
    kernel, grid, args, meta = launch
    return export(kernel, grid, *args, target=target, writes=writes, **meta)


def _cubin(one: Exported) -> bytes:
    return one.files[f"{one.facts.name}.cubin"]


def schema_in(text: str, where: str) -> str:
    """SCHEMA of a file of host code, which is read and not run; LaunchError if it lacks what a package calls."""
    found, tree = {}, ast.parse(text, where)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            found |= {target.id: node.value.value for target in node.targets if isinstance(target, ast.Name)}
    if missing := [name for name in _HOST if name not in found]:
        raise LaunchError(f"{where} has no {', '.join(missing)}, which a package's host code needs",
                          hint='write SCHEMA = "(Tensor x) -> Tensor", outputs(x) and call(forms, results, x)')
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level]
    if theirs := {name.partition(".")[0] for name in names} & {"mimw", "triton"}:
        raise LaunchError(f"{where} imports {', '.join(sorted(theirs))}, and a package runs without",
                          hint="host code imports torch and Python's own modules")
    return found["SCHEMA"]


def _told(row: Mapping) -> str:
    """The line of a form in the card."""
    types = ", ".join(dict.fromkeys(one["element"] for one in row["arguments"] if "element" in one))
    sixteens = [one["name"] for one in row["arguments"] if one["is"] == "number" and one["aligned"]]
    said = [types, *(f"{name} {value}" for name, value in row["select"].items()),
            *(f"{name} = {value}" for name, value in row["fixed"].items() if value is not None)]
    if sixteens:
        said.append(f"multiples of 16: {', '.join(sixteens)}")
    return f"| {row['file']} | {row['chip']} | {'; '.join(said)} |"
