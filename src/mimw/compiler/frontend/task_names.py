"""Names that a task assigns, read after the region: the value that the task assigned stays the task's own.

Input: assignments and reads of names, in and after a region of tasks. Output: a warning with the lines of the
assignment and of the read where the name has a value from before the region; a refusal with both lines where the name
has none. For example:

    acc = tl.zeros(...)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            acc = tlx.async_dot(a, b, acc)       # a copy of the task's
    tl.store(c, acc)                             # still zeros: a warning with both lines
"""

from __future__ import annotations

import ast

from ...errors import KernelWarning, TaskError, excerpt
from ...ir import Site, warn_at


class TaskNames:
    """Mixin over Triton's `CodeGenerator`. The mixin of task regions says when a task begins and ends."""

    def __init__(self, *args, **keywords):
        super().__init__(*args, **keywords)
        self._left: dict[str, Site] = {}        # names that a task before here has assigned, and nothing since: where
        self._assigned: set[str] = set()        # in the task being recorded

    def begin_task(self) -> dict[str, Site]:
        """Give the result to `end_task`."""
        self._assigned = set()
        return dict(self._left)

    def end_task(self, body: list, before: dict[str, Site]) -> dict[str, Site]:
        """The names that the task with this body has assigned. Names have, as before the region, the values of `before`."""
        names = {node.id: node for statement in body for node in ast.walk(statement)
                 if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in self._assigned}
        self._left = before
        return {name: self._site(node) for name, node in names.items()}

    def leave_region(self, assigned: dict[str, Site]) -> None:
        """Tasks assigned these names."""
        self._left = {**self._left, **assigned}

    def set_value(self, name: str, value) -> None:
        super().set_value(name, value)
        self._left.pop(name, None)
        self._assigned.add(name)

    def visit_Name(self, node):
        left = self._left.get(node.id) if isinstance(node.ctx, ast.Load) else None
        if left is None:
            return super().visit_Name(node)
        here = self._site(node)
        try:
            value = super().visit_Name(node)
        except NameError:
            raise TaskError(f"`{node.id}` is not defined after the task region: it was assigned only in a task, where it stays",
                            here, left, hint=f"assign `{node.id}` before the region, or hand the value over in a buffer: "
                            "tlx.local_store in the task, tlx.local_load behind the region") from None
        if (node.id, here) not in self.builder.warned:
            self.builder.warned.add((node.id, here))
            self._warn(node.id, here, left)
        return value

    def _warn(self, name: str, here: Site, left: Site) -> None:
        text = (f"`{name}` at {here} has the value from before the task region: what a task assigns, at {left}, stays its own\n"
                "Mend: use another name in the task, or hand the value over in a buffer (tlx.local_store, tlx.local_load)\n"
                f"{excerpt(here)}\n{excerpt(left)}")
        warn_at(KernelWarning, text, here)

    def _site(self, node) -> Site:
        return self.builder.create_loc(self.file_name, self.begin_line + node.lineno, self.begin_col + node.col_offset).site
