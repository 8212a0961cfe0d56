"""Exported launchers built by the C compiler of this machine, against the driver of `driver.c`, which prints what it is asked for.

    lines(exported.files, "double", "double_launch(&kernel, 0, 2, 1, 1, 0x1000, 256)", sizes=(8, 4, 8, 8))

gives the lines that loading and this launch print, and its status. `cuda.h` is the one in Triton's package.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import triton

CUDA = Path(triton.__file__).parent / "backends/nvidia/include"
HERE = Path(__file__).parent
COMPILER = shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")

_MAIN = """\
#include "{name}.h"
#include <stdio.h>
const int sizes[] = {{{sizes}, 0}};
extern int driver_version, fails;
int main(void) {{
  {name}_kernel kernel;
  {before}
  CUresult status = {name}_load(&kernel);
  if (!status) status = {call};
  printf("status %d\\n", status);
  return 0;
}}
"""


def driver_library() -> Path:
    """The driver's library on this machine, for the linker: the one that this process would load."""
    from triton.backends.nvidia.driver import libcuda_dirs
    return Path(libcuda_dirs()[0], "libcuda.so.1")


def lines(files, name: str, call: str, sizes, before: str = "") -> list[str]:
    """What the stand-in of the driver prints of `NAME_load` and of `call`."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for file in (f"{name}.h", f"{name}.c"):
            (folder / file).write_text(files[file])
        (folder / "main.c").write_text(_MAIN.format(name=name, sizes=", ".join(map(str, sizes)), call=call, before=before))
        strict = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O0", f"-isystem{CUDA}"]
        for sources, flags in (([f"{name}.c", "main.c"], strict), ([HERE / "driver.c"], ["-O0", f"-isystem{CUDA}"])):
            subprocess.run([COMPILER, *flags, "-c", *map(str, sources)], cwd=folder, check=True)
        subprocess.run([COMPILER, f"{name}.o", "main.o", "driver.o", "-o", "program"], cwd=folder, check=True)
        return subprocess.run([folder / "program"], capture_output=True, text=True, check=True).stdout.splitlines()
