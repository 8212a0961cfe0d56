"""`with tlx.async_tasks():` becomes one `warp_specialize` op with a region per task.

Input: the `with` statement. Output: the op with its `Task`s; a region with one task only is recorded in place. For
example:

    with tlx.async_tasks():
        with tlx.async_task("default"): ...         the region of the default task
        with tlx.async_task(num_warps=4): ...       the region of a task of 4 warps

Each task body is recorded with the names of the enclosing kernel as they are at region entry; a name that the body
assigns stays the task's own, and after the region every outer name has its old value (spec/tlx.md section 2). Replicas
are recorded one by one, each with its own `async_task_replica_id`.
"""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass, replace

from ...errors import TaskError
from ...ir import Site, Task
from ...language.refuse import refuse
from ...language.tlx.async_task import async_task, async_tasks
from ..triton_port.codegen import base_value, constexpr, unwrap_constexpr

_ROLE = re.compile(r"#\s*(?:role:\s*)?([A-Za-z][\w -]{0,19}?)\s*(?:$|[:.,;(])")


@dataclass(frozen=True)
class Instance:
    """One task of a region about to be recorded: the place of its body, and its warps."""

    body: list
    task: Task


class TaskRegions:
    """Mixin over Triton's `CodeGenerator`."""

    @property
    def task(self) -> Task | None:
        """The task being recorded, in whatever helper; None outside every region."""
        return self.builder.task

    def visit_With(self, node):
        manager = self._task_manager(node)
        if manager is async_tasks:
            return self._visit_async_tasks(node)
        if manager is async_task:
            raise TaskError("`async_task` stands outside `async_tasks`", self.builder.site,
                            hint="open the region first: `with tlx.async_tasks():`, and put each `async_task` directly in it")
        return super().visit_With(node)

    def _task_manager(self, node):
        call = node.items[0].context_expr
        if isinstance(call, ast.Call):
            return self.visit(call.func)
        if isinstance(call, (ast.Name, ast.Attribute)) and self.visit(call) in (async_task, async_tasks):
            form = '("default")' if self.visit(call) is async_task else "()"
            raise TaskError(f"`{ast.unparse(call)}` stands without brackets", self.builder.site,
                            hint=f"call it: `with {ast.unparse(call)}{form}:`")
        return None

    def _construct(self, node):
        call = node.items[0].context_expr
        args = [self.visit(arg) for arg in call.args]
        keywords = dict(self.visit(keyword) for keyword in call.keywords)
        manager = self.visit(call.func)
        try:
            inspect.signature(manager).bind(*args, **keywords)
        except TypeError as error:
            raise self.refused(call, f"{ast.unparse(call.func)}: {error}", "a task has num_warps, num_regs and replicate; its name "
                               "is the comment on its line: `with tlx.async_task(num_warps=4):  # load`") from None
        return manager(*args, _semantic=self.semantic, **keywords)

    def _visit_async_tasks(self, node):
        if self.task is not None:
            raise TaskError("task regions do not nest: `async_tasks` inside a task", self.builder.site,
                            hint="end the outer region first, or make the inner roles tasks of the outer region")
        if len(node.items) > 1:
            raise self.refused(node, "`async_tasks` and `async_task` stand in one `with`", "write one `with` inside the other")
        region = self._construct(node)
        self.builder.uses_words = True
        if region.mbarrier_try_wait_suspend_ns is not None:
            self.builder.launch_facts = self.builder.launch_facts.with_suspend(region.mbarrier_try_wait_suspend_ns)
        found = list(self._tasks_of(node.body))
        self.cur_node = node
        instances = self._instances(found)
        if len(instances) == 1:
            return self._record_inline(instances[0])
        self._record_region(instances, region)

    def _tasks_of(self, statements):
        """(with statement, `async_task` object) of each task left after the constexpr conditions are resolved."""
        for statement in statements:
            if isinstance(statement, ast.Pass):
                continue
            if isinstance(statement, ast.If):
                condition = self.visit(statement.test)
                if isinstance(condition, base_value) and not isinstance(condition, constexpr):
                    raise self._unsupported(statement, "an `if` directly in `async_tasks` needs a constexpr condition")
                yield from self._tasks_of(statement.body if unwrap_constexpr(condition) else statement.orelse)
            elif isinstance(statement, ast.With) and self._task_manager(statement) is async_task:
                self.cur_node = statement  # where an error about its arguments shows
                self.builder.set_loc(self.builder.create_loc(self.file_name, self.begin_line + statement.lineno,
                                                             self.begin_col + statement.col_offset))
                description = self._construct(statement)
                if description.task_ids is not None:
                    raise self._unsupported(
                        statement, f"async_task({list(description.task_ids)}): the old form with task ids is not supported; write "
                        'async_task("default") for the kernel\'s own warps and async_task(num_warps=...) for others')
                yield statement, description
            else:
                raise self.refused(
                    statement, "`async_tasks` may only hold `with async_task(...)` blocks and constexpr `if`s around them",
                    "put what all tasks need before `with tlx.async_tasks():`, anything else into a task")

    def _instances(self, found) -> list[Instance]:
        """One instance per replica, the default task first."""
        defaults = [item for item in found if item[1].is_default]
        if len(defaults) != 1:
            refuse(AssertionError, "Default task must be one and only one",
                   mend='one `tlx.async_task("default")` runs on the kernel\'s own warps, every other task on '
                        'num_warps=... of its own')
        kernel_warps = self.builder.options.num_warps
        instances, numbered = [], 0
        for statement, description in sorted(found, key=lambda item: not item[1].is_default):
            location = self.builder.create_loc(self.file_name, self.begin_line + statement.lineno,
                                               self.begin_col + statement.col_offset)
            role = self.role_of(statement)
            if role is None and not description.is_default:
                numbered += 1
            warps = kernel_warps if description.is_default else description.num_warps
            name = role or ("default" if description.is_default else f"task {numbered}")
            for replica in range(description.replicate):
                instances.append(Instance(statement.body, Task(
                    name, warps, description.is_default and replica == 0, description.num_regs, replica,
                    description.replicate, location.site)))
        self._check_requests([instance.task for instance in instances], [description for _, description in found],
                             kernel_warps)
        return instances

    def _check_requests(self, tasks, descriptions, kernel_warps):
        extra = [task for task in tasks if not task.is_default]
        asking = [task for task in extra if task.registers is not None]
        if asking and len(asking) != len(extra):
            silent = next(task for task in extra if task.registers is None)
            raise TaskError(
                f"registers are requested for {len(asking)} of {len(extra)} non-default tasks; {silent.name!r} asks for none",
                silent.site, asking[0].site, hint="give `num_regs` to all non-default tasks or to none")
        starts = [(d.warp_group_start_id, d.num_warps * d.replicate) for d in descriptions
                  if not d.is_default and d.warp_group_start_id is not None]
        others = [d for d in descriptions if not d.is_default]
        if starts and len(starts) != len(others):
            raise TaskError("`warp_group_start_id` is given for some non-default tasks only", self.builder.site,
                            hint="give it to all non-default tasks or to none")
        taken = [(0, kernel_warps), *sorted(starts)]
        for (start, count), (following, _) in zip(taken, taken[1:]):
            if start + count > following:
                raise TaskError(f"warps [{start}, {start + count}) and those from {following} on overlap", self.builder.site,
                                hint="start each task's warps after those of the kernel and of the other tasks")

    def role_of(self, statement) -> str | None:
        """The role that the author's comment on the `with` line names."""
        lines = self.jit_fn.src.split("\n")
        found = _ROLE.search(lines[statement.lineno - 1]) if statement.lineno <= len(lines) else None
        return found.group(1).strip() if found else None

    def _record_inline(self, instance: Instance):
        outer, definitions = self.lscope.copy(), self.local_defs.copy()
        assigned = self._visit_task_body(instance.body, replace(instance.task))
        self.lscope, self.local_defs = outer, definitions
        self.leave_region(assigned)

    def _record_region(self, instances: list[Instance], region):
        outer, definitions = self.lscope, self.local_defs
        point, location = self._get_insertion_point_and_loc()
        blocks, assigned = [], {}
        for instance in instances:
            block = self.builder.create_block()
            self.builder.set_insertion_point_to_start(block)
            self.lscope, self.local_defs = outer.copy(), {}
            assigned |= self._visit_task_body(instance.body, instance.task)
            blocks.append(block)
        self.lscope, self.local_defs = outer, definitions
        self.leave_region(assigned)
        self._set_insertion_point_and_loc(point, location)
        op = self.builder.record_tasks([instance.task for instance in instances], blocks)
        if getattr(region, "exclusive", False):
            op.set_attr("exclusive", True)
        if getattr(region, "no_ending_cluster_sync", False):
            op.set_attr("no_ending_sync", True)

    def _visit_task_body(self, body, task: Task) -> dict[str, Site]:
        """Record `body` as that of `task`; the names that it assigns, which are the task's own."""
        for statement in body:
            returns = next((child for child in ast.walk(statement) if isinstance(child, ast.Return)), None)
            if returns is not None:
                raise self.refused(returns, "a task body cannot `return`; use an `if` around what follows",
                                   "put what follows under an `if` with the opposite condition")
        stack, self.scf_stack, self.builder.task = self.scf_stack, [], task
        before = self.begin_task()
        try:
            self.visit_compound_statement(body)
        finally:
            self.scf_stack, self.builder.task = stack, None
        return self.end_task(body, before)
