"""The prompt of the debugger: commands as pdb has them, and their reverse.

Input: a `Session`, and lines as somebody types them, or as a file has them. Output: what each line asks for, printed. For example:

    (mimw) b full[1]
    stop 1: a phase of full[1]
    (mimw) c
    event 59, cycle 1,204: task 'load' of CTA (0, 0, 0) has completed phase 0 (parity 0) of full[1] by tma_load at row_sums.py:29

A line that is no command is an expression, and its value is printed. An empty line repeats the last command.
"""

from __future__ import annotations

import cmd
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

from ...errors import MimwError, SimulatorMisuse
from .looks import Text
from .session import Session
from .values import text

PROMPT = "(mimw) "
_CHOSEN = re.compile(r"(.*?)\s*(\(?\d+(?:, *\d+)*\)?)?")       # a task, whose name may have spaces, and a program id
HELP = """\
move     s [N]        the next event (or N of them): an op of any task, a wait, a landing, a completed phase
         n            the next line of this task
         t            until another task goes on
         ph [BARRIER] until a phase of a barrier completes: ph full[0], ph full, ph
         u PLACE      until a line (u 21, u gemm.py:21), a barrier (u full[0]), a buffer is written (u ring[1]), a task (u load),
                      a wait (u wait, u wait load); with a condition: u 21 if row == 3
         c            until breakpoint(), a stop, an error or the end
         g NUMBER     to the event of that number
back     rs rn rt rph ru rc      the same moves backwards
stops    b [PLACE]    stop there from now on; without a place: list the stops
         cl [NUMBER]  forget a stop, or all
look     w            each task: its line, what it waits for, since when
         l            the source around each task
         p EXPRESSION a tile, buffer, barrier or number: p total[0, :4], p ring[1].max(), p full[0].phase
         v            the names that have a value here
         barriers buffers pipes waits flights
         task NAME [CTA]   look at another task: task load, task load 1,0,0
         page FILE.html    the run as a page, with a slider over its events
leave    q
"""


class Prompt(cmd.Cmd):
    """The commands of one session. `say` prints."""

    prompt = PROMPT

    def __init__(self, session: Session, say: Callable[[object], None] = print, *, in_launch: bool = False):
        """`in_launch`: the prompt stands in a launch of a program, which goes on behind the end of the run."""
        super().__init__()
        self.session, self._say, self._in_launch = session, say, in_launch
        self.left = False       # by `q`, or because nothing more is to be read

    # ---- reading ----------------------------------------------------------------------------------------------------

    def script(self, lines: Iterable[str]) -> None:
        """Do what the lines say, each shown behind the prompt; `#` begins a comment line."""
        for line in lines:
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            self._say(f"{self.prompt}{line}")
            if self.onecmd(line):
                return

    def interact(self) -> None:
        """Read from the terminal until the session is left."""
        while True:
            try:
                self.cmdloop()
                return
            except KeyboardInterrupt:
                self._say("\n(to leave: q)")

    def onecmd(self, line: str) -> bool:
        """Do one line; errors are printed, and the session goes on. True if the session is left."""
        try:
            return bool(super().onecmd(line))
        except MimwError as error:
            self._say(str(error).removeprefix("SimulatorMisuse: "))
        except Exception as error:
            self._say(f"{type(error).__name__}: {error}")
        return False

    def default(self, line: str) -> bool:
        if line == "EOF":
            return self.do_q("")
        self.do_p(line)
        return False

    def completenames(self, start: str, *_: Any) -> list[str]:
        commands = [name.removeprefix("do_") for name in self.get_names() if name.startswith("do_")]
        return sorted(name for name in commands if name.startswith(start)) + self.completedefault(start)

    def completedefault(self, start: str, *_: Any) -> list[str]:
        session = self.session
        return sorted(name for name in session.names.of((session.task, session.op)) if name.startswith(start))

    def moved(self, shown: Text) -> bool:
        """Print where the run stands now. In a launch of a program, the end without an error is the end of the session."""
        if self._in_launch and self.session.event is None and self.session.error is None:
            return True
        self._say(shown)
        return False

    # ---- moves ------------------------------------------------------------------------------------------------------

    def do_s(self, line: str) -> bool:
        return self.moved(self.session.step(_number(line, 1)))

    def do_rs(self, line: str) -> bool:
        return self.moved(self.session.step(_number(line, 1), back=True))

    def do_n(self, line: str) -> bool:
        return self.moved(self.session.next())

    def do_rn(self, line: str) -> bool:
        return self.moved(self.session.next(back=True))

    def do_t(self, line: str) -> bool:
        return self.moved(self.session.switch())

    def do_rt(self, line: str) -> bool:
        return self.moved(self.session.switch(back=True))

    def do_ph(self, line: str) -> bool:
        return self.moved(self.session.phase(line))

    def do_rph(self, line: str) -> bool:
        return self.moved(self.session.phase(line, back=True))

    def do_u(self, line: str) -> bool:
        return self.moved(self.session.until(_needed(line, "u", "a line, a barrier, a buffer, a task or `wait`")))

    def do_ru(self, line: str) -> bool:
        return self.moved(self.session.until(_needed(line, "ru", "a line, a barrier, a buffer, a task or `wait`"), back=True))

    def do_c(self, line: str) -> bool:
        if self._in_launch and self.session.event is None:
            return True
        return self.moved(self.session.go())

    def do_rc(self, line: str) -> bool:
        return self.moved(self.session.go(back=True))

    def do_g(self, line: str) -> bool:
        return self.moved(self.session.goto(_number(line)))

    # ---- stops ------------------------------------------------------------------------------------------------------

    def do_b(self, line: str) -> None:
        session = self.session
        if line:
            number = session.stop_at(line)
            self._say(f"stop {number}: {session.stops[number]}")
            return
        self._say("\n".join(f"stop {number}: {place}" for number, place in session.stops.items()) or "no stops")

    def do_cl(self, line: str) -> None:
        self.session.clear(_number(line) if line else None)

    # ---- looks ------------------------------------------------------------------------------------------------------

    def do_w(self, line: str) -> None:
        self._say(self.session.where())

    do_tasks = do_w

    def do_l(self, line: str) -> None:
        self._say(self.session.source())

    def do_p(self, line: str) -> None:
        value, others = self.session.value(_needed(line, "p", "an expression"))
        self._say(text(value) + "".join(f"\n({other})" for other in others))

    def do_v(self, line: str) -> None:
        self._say(self.session.variables())

    def do_barriers(self, line: str) -> None:
        self._say(self.session.barriers())

    def do_buffers(self, line: str) -> None:
        self._say(self.session.buffers())

    def do_pipes(self, line: str) -> None:
        self._say(self.session.pipes())

    def do_waits(self, line: str) -> None:
        self._say(self.session.waits())

    def do_flights(self, line: str) -> None:
        self._say(self.session.flights())

    def do_task(self, line: str) -> None:
        name, cta = (line, None) if line in self.session.tasks else _CHOSEN.fullmatch(line).groups()
        self._say(self.session.choose(name, tuple(int(number) for number in re.findall(r"\d+", cta)) if cta else None))

    def do_page(self, line: str) -> None:
        self.session.save_html(_needed(line, "page", "the name of a file"))
        self._say(f"page: {line}")

    # ---- the rest ---------------------------------------------------------------------------------------------------

    def do_h(self, line: str) -> None:
        self._say(HELP.rstrip())

    do_help = do_h

    def do_q(self, line: str) -> bool:
        self.left = True
        return True


def read(prompt: Prompt) -> None:
    """Let a person at the terminal give the commands, or whatever stands in the standard input."""
    if sys.stdin is not None and sys.stdin.isatty() or "ipykernel" in sys.modules:
        prompt.interact()
        return
    prompt.script(sys.stdin or ())


def _number(line: str, default: int | None = None) -> int:
    if not line and default is not None:
        return default
    if not line.isdecimal():
        raise SimulatorMisuse(f"{line!r} is no number", hint="a whole number, as in `s 10`, `g 131` or `cl 1`")
    return int(line)


def _needed(line: str, command: str, what: str) -> str:
    if not line:
        raise SimulatorMisuse(f"{command} needs {what}", hint="h lists the commands")
    return line
