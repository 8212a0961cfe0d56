"""The site, built in a process of its own that any process of the tests can wait for.

    build = Build()             the process has started
    site, done = build.wait()   the folder of the site, and what subprocess.run(..., text=True) gives of the build
    build.end()                 nothing is left of the process and its folder

As long as the process lives it holds a lock on a file. To wait for it is to wait for that lock, as a fork of the process that has
started it can, too. `python site_build.py FOLDER` is that process.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SECONDS = 120       # what a build may take, on two cores that others use, too


class Build:

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mimw-site-"))
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self.process = subprocess.Popen([sys.executable, "-P", __file__, self.folder], pass_fds=[lock])
        os.close(lock)

    def wait(self) -> tuple[Path, subprocess.CompletedProcess]:
        with open(self.folder / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
        status, out, err = ((self.folder / name).read_text() for name in ("status", "out", "err"))
        return self.folder / "site", subprocess.CompletedProcess(self.process.args, int(status), out, err)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder)


def main(folder: Path) -> None:
    """What `make site` runs, into a folder of its own."""
    signal.alarm(SECONDS)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), number)
    from sphinx.cmd.build import main as sphinx
    status = sphinx(["-q", "-W", "--keep-going", "-n", "-b", "html", "-d", f"{folder / 'read'}", f"{ROOT / 'docs'}",
                     f"{folder / 'site'}"])
    sys.stdout.flush()
    sys.stderr.flush()
    (folder / "status").write_text(str(status))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
