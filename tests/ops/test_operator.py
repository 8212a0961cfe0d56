"""`Operator` itself: which calls go past torch's dispatcher, plans, launches for other tensors, the note of a simulation."""

import contextlib
import subprocess
import sys
import warnings
from typing import NamedTuple

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from mimw import ops  # noqa: E402
from mimw.ops.launching import Launch  # noqa: E402
from mimw.ops.operator import OPERATORS, Operator  # noqa: E402
from mimw.ops.plans import Plans, look  # noqa: E402


class Noting(TorchDispatchMode):
    """Which operators were called."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


class Own(torch.Tensor):
    """A class of tensors that says itself what a call is."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return f"{func.__name__} of ours" if "matmul" in str(func) else super().__torch_function__(func, types, args, kwargs or {})


A, B = torch.eye(3), torch.arange(9.0).view(3, 3)


@pytest.fixture
def dispatched(monkeypatch):
    """The names of the operators that went through torch's dispatcher in spite of a shorter way."""
    operator, names = OPERATORS["matmul"], []

    def op(*args):
        names.append("matmul")
        return torch.ops.mimw.matmul.default(*args)

    monkeypatch.setattr(operator, "op", op)
    return names


def test_plain_calls_go_past_the_dispatcher(dispatched):
    ops.matmul(A, B)
    ops.matmul(torch.nn.Parameter(A), B).sum().backward()
    with torch.no_grad():
        ops.matmul(A.clone().requires_grad_(), B)
    with torch.inference_mode():
        ops.matmul(A, B.clone())
    assert dispatched == []


def test_calls_that_somebody_listens_to_go_through_it(dispatched):
    with Noting() as mode:
        ops.matmul(A, B)
    assert "mimw::matmul" in mode.names
    with torch.autocast("cpu", torch.bfloat16):
        assert ops.matmul(A, B).dtype is torch.bfloat16
    with torch.profiler.profile() as profile:
        ops.matmul(A, B)
    assert "mimw::matmul" in {event.name for event in profile.events()}
    assert ops.matmul(A.to("meta"), B.to("meta")).is_meta
    assert len(dispatched) == 4


def test_transforms():
    """torch.func's grad and vmap, and both at once."""
    sums = B.sum(1).expand(3, 3)
    assert torch.equal(torch.func.grad(lambda a: ops.matmul(a, B).sum())(A), sums)
    batch = torch.stack([A, B, A + B, A * 0])
    torch.testing.assert_close(torch.vmap(ops.matmul, (0, None))(batch, B), batch @ B)
    torch.testing.assert_close(torch.vmap(ops.matmul, (None, 1))(A, batch.transpose(0, 1)), A @ batch)
    found = torch.vmap(torch.func.grad(lambda a: (ops.matmul(a, B)**2).sum()))(batch)
    torch.testing.assert_close(found, 2 * batch @ B @ B.T)
    values, indices = torch.vmap(lambda x: ops.topk(x, 2))(batch)
    assert torch.equal(values, batch.topk(2)[0]) and torch.equal(batch.gather(-1, indices), values)


def test_tensors_that_are_not_what_they_seem(dispatched):
    """A negated view's memory holds the other sign; a subclass has its own word."""
    negated = torch.view_as_complex(torch.stack([A, B], -1)).conj().imag
    assert negated.is_neg() and torch.equal(ops.matmul(A, negated), -B)
    assert "of ours" in ops.matmul(A.as_subclass(Own), B)
    assert len(dispatched) == 2


def test_forward_derivatives_are_refused_and_not_forgotten():
    import torch.autograd.forward_ad as forward
    with forward.dual_level(), pytest.raises(NotImplementedError, match="forward mode"):
        ops.matmul(forward.make_dual(A, B), B)
    with pytest.raises(NotImplementedError, match="forward mode"):
        torch.func.jvp(lambda a: ops.matmul(a, B), (A, ), (B, ))


def test_an_operator_without_a_derivative_says_so():
    out, lse = ops.sparse_mla(torch.zeros(1, 1, 2, 8, requires_grad=True), torch.zeros(1, 3, 1, 8), torch.zeros(1, 1, 1, 4).int(),
                              torch.zeros(1, 1, 1).int(), 4)
    with pytest.raises(NotImplementedError, match="mimw::sparse_mla has no derivative"):
        out.sum().backward()


def test_the_tensors_device_is_current_while_it_runs(monkeypatch):
    """And no device is set where it is current already."""
    module, set_to = sys.modules["mimw.ops.operator"], []

    @contextlib.contextmanager
    def device(which):
        set_to.append(which)
        yield

    class OfDevice1:
        is_cuda, device = True, "cuda:1"

        def get_device(self):
            return 1

    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr(OPERATORS["matmul"], "run", lambda *args: list(set_to))
    monkeypatch.setattr(module, "_current_device", lambda: 1)
    assert OPERATORS["matmul"]._on_cuda(OfDevice1(), B) == []
    monkeypatch.setattr(module, "_current_device", lambda: 0)
    assert OPERATORS["matmul"]._on_cuda(OfDevice1(), B) == ["cuda:1"]


def test_tensors_come_first_in_a_schema():
    with pytest.raises(ValueError, match="must begin with its tensors"):
        Operator("wrong(int n, Tensor x) -> Tensor", None, None)


def test_what_a_plan_depends_on():
    x = torch.zeros(4, 8)
    others = (x[:, ::2], x.T, x.double(), torch.zeros(33)[1:].view(4, 8))
    assert look(x) == look(torch.ones(4, 8)) and look(x) not in [look(other) for other in others]


def test_plans_are_made_once_and_forgotten():
    made = []
    plans = Plans(lambda key: made.append(key) or key, 2)
    for key in "aabcab":
        plans[key] or plans.made(key, key)
    assert made == list("abcab"[:3]) + ["a", "b"] and len(plans) == 2


class Kernel:
    """A kernel of a GPU, which notes its launches."""

    def __init__(self):
        self.launches, self.frozen = [], []

    def __getitem__(self, grid):
        return lambda *args, **meta: self.launches.append((grid, args, meta))

    def freeze(self, grid, *args, **meta):
        kernel = self

        class Frozen:
            device = 0

            def forget(self):
                return self

            def launch_arrays(self, stream, *addresses):
                kernel.frozen.append((stream, addresses))

        return Frozen()


def test_a_launch_is_frozen_once_and_given_addresses(monkeypatch):
    import mimw
    monkeypatch.setattr(sys.modules["mimw.ops.launching"], "_stream_of", lambda device: 7)
    x, y, kernel = torch.zeros(16, 16), torch.zeros(4), Kernel()
    launch = Launch(x, kernel, (3, ), (mimw.TensorDescriptor.from_tensor(x, [8, 8]), y, 12), {"num_warps": 4})
    launch._device = 0
    other, target = torch.zeros(16, 16), torch.zeros(4)
    launch(other, target)
    (grid, args, meta), = kernel.launches
    assert grid == (3, ) and args[0].base is other and args[0].block_shape == [8, 8] and args[1] is target and args[2] == 12
    launch(x, y)
    assert kernel.frozen == [(7, (x.data_ptr(), y.data_ptr()))] and len(kernel.launches) == 1


class Given(NamedTuple):
    data: torch.Tensor
    steps: tuple


def test_tensors_in_tuples_come_with_the_call():
    x, kernel = torch.zeros(16, 16), Kernel()
    launch = Launch(x, kernel, (3, ), (Given(x, (16, 1)), 12, (x, None)), {})
    launch._device = 0
    first, second = torch.zeros(16, 16), torch.zeros(16, 16)
    launch(first, second)
    (_, (given, twelve, pair), _), = kernel.launches
    assert type(given) is Given and given.data is first and given.steps == (16, 1) and twelve == 12
    assert pair[0] is second and pair[1] is None


def test_the_note_comes_once_and_names_the_callers_line():
    sys.modules["mimw.ops.launching"].note_simulation.cache_clear()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            ops.matmul(A, B)
            torch.ops.mimw.matmul(A, B)
    note, = seen
    assert note.category is ops.SimulationWarning and note.filename == __file__


def test_without_torch_the_import_says_what_to_install():
    """And `help(mimw)`, which asks for every name, shows the others."""
    program = ("import sys\nsys.modules['torch'] = None\nimport mimw, pydoc\n"
               "assert 'PACKAGE' in pydoc.plain(pydoc.render_doc(mimw))\n"
               "try:\n  mimw.ops\nexcept AttributeError as e:\n  print(e)\n"
               "try:\n  from mimw import ops\nexcept ImportError as e:\n  print(e)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.count("pip install 'mimw[torch]'") == 2
