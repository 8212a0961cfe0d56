"""Random loops with two products, of which the second one's sum goes round the loop.

    program = random_loop(seed)                                 0 to 3 trips, with other carried values, stores and moved tiles
    Evaluation(program, seed, {}, 0, 1).stored                  all that it stores, in order
"""

from mimw.ir import I32
from tests.analysis.sliced_programs import NUMBERS, N, RandomOps
from tests.building import FP64


def random_loop(seed):
    return _Loop(seed).program()


class _Loop(RandomOps):

    def chance(self, share):
        return self.rng.random() < share

    def number(self, value):
        return self.k.constant(value, I32)

    def program(self):
        self.weights, self.peaks = self.k.param("weights", NUMBERS), self.k.param("peaks", NUMBERS)
        self.x = self.load(self.numbers)
        start, step, trips = self.rng.randint(-5, 5), self.rng.randint(1, 4), self.rng.randint(0, 3)
        end = start + trips * step - self.rng.randint(0, step - 1)
        inits = [self.load(self.numbers), self.load(self.numbers), self.number(self.rng.randint(0, 9))]
        self.order = self.rng.sample(range(3), 3)       # of the sum, another tile and a number among what goes round
        inits = tuple(inits[place] for place in self.order)
        loop = self.k.regions("for", *map(self.number, (start, end, step)), inits)
        self.k.block(loop, self.body, (I32, *(init.type for init in inits)))
        for result in loop.results:
            if result.type != I32:
                self.k.op("descriptor_store", self.out, result, (self.zero, self.zero))
        return self.made()

    def body(self, trip, *carried):
        acc, other, position = (carried[self.order.index(place)] for place in range(3))
        rows = [trip, position, self.k.op("add", trip, position)]
        before = [self.x, self.load(self.numbers, self.rng.choice(rows))]
        if self.chance(0.05):
            before.append(self.rng.choice((acc, other)))        # the first product takes what goes round: mostly refused
        self.more(before, 2, products=False)
        left = self.rng.choice([one for one in before if one.type.shape == (N, N)])
        s = self.small(self.k.op("dot", left, before[1], self.k.constant(0.0, left.type), None, 0))
        pool = [s, self.x, acc, other]
        self.more(pool, 4, products=False)
        squares = [one for one in pool if one.type.shape == (N, N)]
        right = self.load(self.weights, self.rng.choice(rows))
        if self.chance(0.4):
            right = self.k.op("trans", right, (1, 0))
        if self.chance(0.05):
            right = self.rng.choice(squares)
        into = {0: lambda: acc, 1: lambda: self.small(self.k.op("fmul", acc, self.rng.choice(squares))),
                2: lambda: self.rng.choice(squares)}[self.rng.choice((0, 1, 1, 1, 2))]()
        made = self.k.op("dot", self.small(self.k.op("fadd", s, self.rng.choice(squares))), right, into, None, 0)
        if self.chance(0.5):
            self.k.op("descriptor_store", self.peaks, self.rng.choice(squares), (trip, self.zero))
        if self.chance(0.05):
            squares.append(made)
        yielded = [made, self.rng.choice(squares), self.k.op("add", position, self.number(self.rng.randint(0, 3)))]
        assert made.type.element == FP64
        return [yielded[place] for place in self.order]
