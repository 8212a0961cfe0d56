"""The tasks of a pipeline: who loads, who multiplies, who makes the first sums small, who reads the last ones, and their barriers.

Input: a `pipelines.Plan` and the names of its arrays. Output: tasks, and the lines of each; what synchronises is marked for the
mutator. Rings are c0 (of A, or of both operands), c1 (of B alone), c2 (of sums) and c3 (of what is multiplied again):

    tlx.barrier_wait(c2_free[t % 2], ((t // 2) & 1) ^ 1)            # multiply: a buffer for the sums of item t
    tlx.async_dot(b0[c % 3], b1[c % 3], bt0[t % 2], use_acc=k > 0, mBarriers=[c0_free[c % 3]])
    tlx.tcgen05_commit(c2_full[t % 2])
"""

from __future__ import annotations

from dataclasses import replace

from .draws import Draws
from .elements import ELEMENTS
from .maker import Maker
from .orchestrate import Task
from .tree import Line, Mark
from .words.tiles import offsets


class Ring:
    """`slots` buffers with barriers, used number `count` times: for a fill, and for giving back."""

    def __init__(self, name: str, slots: int, count: str, readers: int, arrivals: int = 1):
        self.name, self.slots, self.count, self.readers, self.arrivals = name, slots, count, readers, arrivals

    @property
    def at(self) -> str:
        return "0" if self.slots == 1 else f"{self.count} % {self.slots}"

    @property
    def phase(self) -> str:
        return f"{self.count} & 1" if self.slots == 1 else f"({self.count} // {self.slots}) & 1"

    @property
    def full(self) -> str:
        return f"{self.name}_full[{self.at}]"

    @property
    def free(self) -> str:
        return f"{self.name}_free[{self.at}]"

    def mark(self, role: str) -> Mark:
        return Mark(role, self.name, (("slots", self.slots), ("readers", self.readers)))

    def declared(self) -> list:
        free = Line(f"{self.name}_free = tlx.alloc_barriers({self.slots}, {self.readers})", self.mark("free count"))
        return [f"{self.name}_full = tlx.alloc_barriers({self.slots}, {self.arrivals})", free]


class Writer:
    """Writes the tasks of one plan."""

    def __init__(self, draws: Draws, make: Maker, plan, out: str, factor: str, start: str, items: str, steps: str):
        self.draws, self.make, self.plan = draws, make, plan
        self.out, self.factor, self.start, self.items, self.steps = out, factor, start, items, steps
        users = plan.multipliers
        self.rings = {"a": Ring("c0", plan.slots, "c", users, self._fillers("a"))}
        self.rings["b"] = self.rings["a"] if plan.joint else Ring("c1", plan.slots, "c", users, self._fillers("b"))
        both = plan.ctas
        self.sums = Ring("c2", plan.sums, "t", 1 if plan.chained == "two" else plan.readers * both, plan.multipliers)
        self.again = Ring("c3", plan.sums, "t", both, 1) if plan.chained else None
        self.number = 0

    def _fillers(self, name: str) -> int:
        """Arrivals that fill a slot: of both CTAs of a pair where they store."""
        fills = {one.name: one.fill for one in self.plan.operands}
        return self.plan.ctas if fills[name] == "st" else 1

    # ---- the kernel's head -----------------------------------------------------------------------------------------------

    def head(self) -> None:
        plan, lines = self.plan, self.make.head
        tmem = "tlx.storage_kind.tmem"
        if plan.paired:
            lines += ["rank = tlx.cluster_cta_rank()", "leader = rank - rank % 2", "even = rank % 2 == 0"]
        for one in plan.operands:
            where = f", {tmem}" if one.place == "tensor" else ""
            tl_name = ELEMENTS[plan.element].tl
            lines.append(f"{one.name} = tlx.local_alloc({one.stored}, {tl_name}, {plan.slots}{where})")
        result = ELEMENTS[plan.result].tl
        spec = ""
        if plan.chained and plan.aliased:
            lines.append(f"spec = tlx.storage_alias_spec({tmem})")
            spec = ", reuse=spec"
        lines.append(f"s = tlx.local_alloc({(plan.m, plan.n)}, {result}, {plan.sums}, {tmem}{spec})")
        if plan.chained:
            lines += [
                f"p = tlx.local_alloc({(plan.m, plan.n)}, tl.float16, {plan.sums}, {tmem}{spec})",
                f"o = tlx.local_alloc({(plan.m, plan.width)}, tl.float32, {plan.sums}, {tmem})",
                f"v = tlx.local_alloc({(plan.n, plan.width // plan.ctas)}, tl.float16, 1)",
                f"p_full = tlx.alloc_barriers({plan.sums}, {plan.ctas})",
            ]
            if spec:
                lines.append("spec.set_buffer_overlap(tlx.reuse_group(s, p))")
        rings = dict.fromkeys([*self.rings.values(), self.sums, *([self.again] if self.again else [])])
        for ring in rings:
            own = ring is self.sums and (plan.started or plan.chained == "one")
            lines += ring.declared()[: 1 if own else 2]
        if plan.started:
            lines.append(f"c2_ready = tlx.alloc_barriers({plan.sums}, {plan.ctas})")
        if plan.chained:
            shape = (plan.n, plan.width // plan.ctas)
            at = f"(rank % 2) * {shape[0] * shape[1]} + " if plan.paired else ""
            lines += [f"tlx.local_store(v[0], tl.load({self.factor} + {at}{offsets(shape)}))"]
            fenced = any(one.fill == "st" and one.place == "shared" for one in plan.operands)
            role = "covered fence" if fenced else "slot fence"
            lines.append(Line("tlx.fence('async_shared')", Mark(role, "c3", (("slots", 1), ("readers", 1)))))
            if plan.paired:
                lines.append("tlx.cluster_barrier()")

    # ---- the loops over items and steps ----------------------------------------------------------------------------------

    def loop(self, body: list[Line], steps: bool = True, asks: bool = False) -> list[Line]:
        """The items of work around a task's lines; `asks`: this task requests more."""
        plan = self.plan
        counters = [Line("c = 0")] if steps else []
        if not plan.claiming:
            kind = self.draws.pick(["range", "while"])
            if kind == "range":
                return [*counters, Line(f"for t in range({self.items}):"), *shifted([Line(f"w = pid * {plan.items} + t"), *body])]
            inside = [Line(f"w = pid * {plan.items} + t"), *body, Line("t += 1")]
            return [*counters, Line("t = 0"), Line(f"while t < {self.items}:"), *shifted(inside)]
        stage, phase = f"t % {plan.stages}", f"(t // {plan.stages}) & 1"
        claim = Line(f"tlx.clc_producer(claims, ({phase}) ^ 1, k={stage})", Mark("claim", "c2"))
        inside = [*([claim] if asks else []), *body, Line(f"w = tlx.clc_consumer(claims, {phase}, k={stage})"), Line("t += 1")]
        return [*counters, Line("t = 0"), Line("w = pid"), Line("while w != -1:"), *shifted(inside)]

    def each_step(self, body: list[Line]) -> list[Line]:
        plan = self.plan
        rounds = f"1 + (w // {plan.items} // {plan.ctas} + w % {plan.items}) % {plan.steps}" if plan.varied else self.steps
        return [Line(f"for k in range({rounds}):"), *shifted([*body, Line("c += 1")])]

    # ---- tasks -----------------------------------------------------------------------------------------------------------

    def free_wait(self, ring: Ring) -> Line:
        role = "claimed free wait" if self.plan.claiming else "free wait"
        return Line(f"tlx.barrier_wait({ring.free}, ({ring.phase}) ^ 1)", ring.mark(role))

    def tell(self, barrier: str, ring: Ring, role: str) -> Line:
        """An arrival where the products are issued: on the even CTA's barrier."""
        if not self.plan.paired:
            return Line(f"tlx.barrier_arrive({barrier})", ring.mark(role))
        return Line(f"tlx.barrier_arrive({barrier}, remote_cta_rank=leader)", ring.mark("even's " + role))

    def load(self, operands, asks: bool) -> tuple[int, list[Line]]:
        """Fill the slots of a ring with the tiles of one or both operands."""
        plan, ring = self.plan, self.rings[operands[0].name]
        size = ELEMENTS[plan.element].bytes
        body: list[Line] = []
        index = f"(w * {plan.steps} + k)"
        if operands[0].fill == "tma":
            count = sum(one.shape[0] * one.shape[1] * size for one in operands) * plan.ctas
            pred = ", pred=even" if plan.paired else ""
            body += [
                self.free_wait(ring),
                Line(f"tlx.barrier_expect_bytes({ring.full}, {count}{pred})", ring.mark("slot expect")),
            ]
            pair = ", two_ctas=True" if plan.paired else ""
            for one in operands:
                at = f"[{index} * {one.stored[0]}, 0]"
                body.append(
                    Line(f"tlx.async_descriptor_load({one.descriptor}, {one.name}[{ring.at}], {at}, {ring.full}{pair})")
                )
            return self.draws.pick([1, 4, 2]), self.loop(self.each_step(body), asks=asks)
        early = self.draws.chance(50)
        loads = [
            Line(f"{one.name}k = tl.load({one.array} + {index} * {one.shape[0] * one.shape[1]} + {offsets(one.stored)})")
            for one in operands
        ]
        body += [*loads, self.free_wait(ring)] if early else [self.free_wait(ring), *loads]
        body += [Line(f"tlx.local_store({one.name}[{ring.at}], {one.name}k)") for one in operands]
        if any(one.place == "shared" for one in operands):
            body.append(Line("tlx.fence('async_shared')", ring.mark("slot fence")))
        body.append(self.tell(ring.full, ring, "full arrive"))
        return 4, self.loop(self.each_step(body), asks=asks)

    def view(self, one, ring: Ring) -> str:
        slot = f"{one.name}[{ring.at}]"
        return f"tlx.local_trans({slot})" if one.across else slot

    def on_even(self, lines: list[Line]) -> list[Line]:
        """Waits of the task that multiplies, which only the even CTA has to make."""
        if not self.plan.paired or self.plan.guarded:
            return lines
        marks = [replace(line.mark, role="even's " + line.mark.role) for line in lines]
        return [Line(line.text[:-1] + ", pred=even)", mark) for line, mark in zip(lines, marks)]

    def multiply(self, which: int) -> tuple[int, list[Line]]:
        """Every item's products, or those of one half of the columns; the second product, too, if one task does both."""
        plan = self.plan
        a, b = plan.operands
        rings = list(dict.fromkeys(self.rings.values()))
        two = ", two_ctas=True" if plan.paired else ""
        waits = self.on_even([Line(f"tlx.barrier_wait({one.full}, {one.phase})", one.mark("full wait")) for one in rings])
        use = "True" if plan.started else "k > 0"
        pred = f", pred=(k % 2 == flag) | (k % 3 == {plan.steps % 3})" if plan.skipping else ""
        end = f", mBarriers=[{', '.join(one.free for one in rings)}]" if plan.release == "barriers" else ", force_async=True"
        commits = [Line(f"tlx.tcgen05_commit({one.free}{two})", one.mark("free commit")) for one in rings]
        if plan.release == "sync":  # each CTA that calls it waits, and so both may give back
            end, commits = "", [Line(f"tlx.barrier_arrive({one.free})", one.mark("free arrive")) for one in rings]
        right, into = self.view(b, rings[-1]), f"s[{self.sums.at}]"
        if plan.multipliers == 2:
            half = plan.n // 2
            start = [which * half, 0] if b.across else [0, which * half]
            shape = [half, plan.k] if b.across else [plan.k, half]
            right = f"tlx.local_slice(b[{rings[-1].at}], {start}, {shape})"
            right = f"tlx.local_trans({right})" if b.across else right
            into = f"tlx.subslice({into}, {which * half}, {half})"
        dot = f"tlx.async_dot({self.view(a, rings[0])}, {right}, {into}, use_acc={use}{pred}{end}{two})"
        body = [*waits, Line(dot), *(commits if plan.release != "barriers" else [])]
        done = Line(f"tlx.tcgen05_commit({self.sums.full}{two})", self.sums.mark("product commit"))
        first: list[Line] = []
        if plan.started:
            first = self.on_even(
                [Line(f"tlx.barrier_wait(c2_ready[{self.sums.at}], {self.sums.phase})", self.sums.mark("full wait"))]
            )
        elif plan.chained != "one":
            first = self.on_even([self.free_wait(self.sums)])
        item = [*first, *self.each_step(body), done]
        if plan.chained == "one":
            item += self.second_product()
        lines = self.loop(item)
        if plan.paired and plan.guarded and not plan.claiming:
            lines = [Line("if even:"), *shifted(lines)]
        return self.draws.pick([1, 4]), lines

    def second_product(self) -> list[Line]:
        """P times V into O; its end frees P, and S where both share columns."""
        plan, two = self.plan, ", two_ctas=True" if self.plan.paired else ""
        ring = self.again
        # What says that all is over comes last: behind it a CTA may leave, and nothing may arrive there any more.
        ends = ([self.sums.free] if plan.chained == "two" else []) + [ring.full]
        waits = [
            self.free_wait(ring),
            Line(f"tlx.barrier_wait(p_full[{ring.at}], {ring.phase})", ring.mark("full wait")),
        ]
        dot = f"tlx.async_dot(p[{ring.at}], v[0], o[{ring.at}], use_acc=False"
        if self.draws.chance(50):
            return [*self.on_even(waits), Line(f"{dot}, mBarriers=[{', '.join(ends)}]{two})")]
        roles = ["free commit", "product commit"][-len(ends):]
        commits = [
            Line(f"tlx.tcgen05_commit({end}{two})", (ring if role == "product commit" else self.sums).mark(role))
            for end, role in zip(ends, roles)
        ]
        return [*self.on_even(waits), Line(f"{dot}, force_async=True{two})"), *commits]

    def shrink(self) -> tuple[int, list[Line]]:
        """S to P, through registers."""
        ring = self.sums
        body = [
            Line(f"tlx.barrier_wait({ring.full}, {ring.phase})", ring.mark("full wait")),
            Line(f"x = tlx.local_load(s[{ring.at}])"),
            Line(f"tlx.local_store(p[{ring.at}], tl.minimum(tl.maximum(x, -3), 3).to(tl.float16))"),
            self.tell(f"p_full[{ring.at}]", self.again, "full arrive"),
        ]
        return 4, self.loop(body, steps=False)

    def read(self, which: int) -> tuple[int, list[Line]]:
        """The sums, or some of their columns, to global memory, in parts; the start of the sums, too, where they have one."""
        plan = self.plan
        ring, source = (self.again, "o") if plan.chained else (self.sums, "s")
        width = plan.width if plan.chained else plan.n
        mine = width // plan.readers
        size = max(8, mine // plan.parts)
        body: list[Line] = []
        if plan.started:
            whole = (plan.m, plan.n)
            at = f"w * {plan.m * plan.n} + {offsets(whole)}"
            body += [
                Line(f"tlx.local_store(s[{ring.at}], tl.load({self.start} + {at}))"),
                self.tell(f"c2_ready[{ring.at}]", ring, "full arrive"),
            ]
        body.append(Line(f"tlx.barrier_wait({ring.full}, {ring.phase})", ring.mark("full wait")))
        element = ELEMENTS["f16" if plan.small else plan.result].tl
        after: list[Line] = []
        for first in range(which * mine, (which + 1) * mine, size):
            name = f"x{first}_"
            part = f"{source}[{ring.at}]" if size == width else f"tlx.subslice({source}[{ring.at}], {first}, {size})"
            body.append(Line(f"{name} = tlx.local_load({part})"))
            value = f"tl.minimum(tl.maximum({name}, -1000), 1000)" if plan.small else name
            at = f"w * {plan.m * width} + tl.arange(0, {plan.m})[:, None] * {width} + {first} + tl.arange(0, {size})[None, :]"
            after.append(Line(f"tl.store({self.out} + {at}, ({value} * 2).to({element}))"))
        if not plan.started:
            body.append(self.tell(ring.free, ring, "free arrive"))
        return (plan.warps if which == 0 else 4), self.loop([*body, *after], steps=False)

    def written(self) -> tuple[list[Task], list[list[Line]]]:
        """All tasks, the default one first."""
        plan = self.plan
        self.head()
        made = [self.read(0)]
        made += [self.read(1)] if plan.readers == 2 else []
        groups = [plan.operands] if plan.joint else [[one] for one in plan.operands]
        made += [self.load(group, number == 0) for number, group in enumerate(groups)]
        made += [self.multiply(number) for number in range(plan.multipliers)]
        if plan.chained:
            made.append(self.shrink())
        if plan.chained == "two":
            second = self.loop(self.second_product(), steps=False)
            guarded = plan.paired and plan.guarded and not plan.claiming
            made.append((1, [Line("if even:"), *shifted(second)] if guarded else second))
        if plan.claiming:
            self.make.head.append(f"claims = tlx.clc_create_context({len(made) * self.make.cluster}, {plan.stages})")
        tasks = [Task(index, warps=warps) for index, (warps, _) in enumerate(made)]
        return tasks, [lines for _, lines in made]


def shifted(lines: list[Line]) -> list[Line]:
    return [Line("    " + line.text, line.mark) for line in lines]
