"""Optimizers of PyTorch one by one, in one kernel, over many tensors at once; scaled gradients."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from roofline.errors import InputError  # noqa: E402
from roofline.models.training.stage import OPTIMIZERS as STEPS  # noqa: E402
from roofline.models.training.stage import Matrices, Parameters, orthogonal_flops  # noqa: E402
from roofline.programs import trace  # noqa: E402

SIZE = 100 * 100
MOMENTS = {"SGD": 1, "Adam": 2, "AdamW": 2, "Adagrad": 1}


def _on(place, step):
    return sum(op.work.total("flops", place) * op.repeat for op in step.ops)


def _step(name, **options):
    options |= {"lr": 0.1, "momentum": 0.9} if name == "SGD" else {}
    layer = nn.Linear(100, 100, bias=False)
    traced = trace(layer, "fp32[1, 100]", optimizer=lambda params: getattr(torch.optim, name)(params, **options))
    return traced.only(phase="optimizer")


@pytest.mark.parametrize(("name", "moments"), MOMENTS.items())
def test_a_step_in_one_kernel_reads_gradients_and_writes_weights_and_moments(name, moments):
    """Each of these once, whatever the policy; the counter of steps, a number or two, aside."""
    step = _step(name, fused=True)
    assert step.complete
    for policy in ("each-op", "minimal"):
        assert step.bytes(policy) == pytest.approx(4 * SIZE * (2 + 1 + 2 * moments), abs=20)
    assert step.bytes("minimal") == pytest.approx(_step(name, foreach=True).bytes("minimal"), abs=20)


def test_a_scaled_sum_is_a_product_and_a_sum():
    """SGD with momentum: b = 0.9·b + g, w += −0.1·b, however it is run."""
    for options in ({}, {"foreach": True}, {"fused": True}):
        assert _step("SGD", **options).flops("all") == pytest.approx(4 * SIZE, abs=4)


@pytest.mark.parametrize(
    ("name", "plain", "decay"), [("SGD", 4, 2), ("Adam", 12, 2), ("AdamW", 12, 1), ("Adagrad", 7, 2)]
)
def test_a_step_in_one_kernel_costs_no_more_than_one_operation_by_operation(name, plain, decay):
    """Adam folds its two divisions by numbers into the rate; decayed weights cost what they do apart."""
    for given, flops in ((0.0, plain), (0.1, plain + decay)):
        step = _step(name, fused=True, weight_decay=given)
        assert step.flops("all") == pytest.approx(flops * SIZE, abs=4)
        assert step.flops("all") <= _step(name, foreach=False, weight_decay=given).flops("all")


def test_training_pays_the_step_of_the_kernel():
    """With decayed weights, as AdamW has them."""
    assert STEPS["adamw"].flops == STEPS["adam"].flops == 12 + 1


@pytest.mark.parametrize("name", ["Rprop", "Adamax", "NAdam", "RAdam", "Adadelta", "ASGD", "RMSprop"])
def test_every_optimizer_over_many_tensors_at_once_is_counted(name):
    assert _step(name, foreach=True).complete


def test_adafactor_keeps_a_row_and_a_column_of_each_matrix():
    """In the state a row, a column and a step: read and written as the weights are; norms that it asks for are one."""
    step = trace(nn.Linear(100, 200, bias=False), "fp32[1, 100]", optimizer="adafactor").only(phase="optimizer")
    assert step.complete
    assert step.bytes("minimal") == 4 * (3 * 100 * 200 + 2 * (100 + 200 + 1))
    kept, flops = STEPS["adafactor"].of(Parameters(100 * 200, (Matrices(200, 100, 1),)))
    assert (kept, flops) == (100 + 200, pytest.approx(_on("vector", step), rel=0.01))


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this PyTorch has no Muon")
def test_an_optimizer_that_refuses_the_parameters_is_one_error():
    """A matrix it takes: five steps as they are written, 20m²n + 10m³ FLOPs; the floor has no more."""
    with pytest.raises(InputError, match="the optimizer refuses these parameters: ValueError: Muon only supports 2D"):
        trace(nn.Linear(8, 8), "fp32[1, 8]", optimizer="muon")
    layer = nn.Linear(100, 200, bias=False)
    step = trace(layer, "fp32[1, 100]", optimizer="muon").only(phase="optimizer")
    assert _on("matrix", step) == 20 * 100**2 * 200 + 10 * 100**3 >= orthogonal_flops(200, 100)
    kept, flops = STEPS["muon"].of(Parameters(100 * 200, (Matrices(200, 100, 1),)))
    assert kept == 100 * 200
    assert flops <= _on("vector", step)


def test_gradients_of_a_scaled_loss_are_unscaled_and_taken_to_be_finite():
    """Two FLOPs for each: a product, and whether it is finite."""
    layer = nn.Linear(100, 100, bias=False)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")

    def step(x):
        optimizer.zero_grad()
        scaler.scale(layer(x).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    found = trace(step, "fp32[1, 100]")
    assert found.complete
    assert found.flops("all") == pytest.approx(2 * 2 * SIZE + 2 * SIZE + 2 * SIZE, abs=120)


def test_an_optimizer_for_captured_graphs_runs_on_the_device_it_is_told():
    layer = nn.Linear(100, 100, bias=False)
    found = trace(layer, "fp32[1, 100]", optimizer=lambda p: torch.optim.Adam(p, capturable=True), device="cuda")
    assert found.only(phase="optimizer").bytes("minimal") == pytest.approx(7 * 4 * SIZE, abs=20)


@pytest.mark.parametrize(("name", "moments"), MOMENTS.items())
def test_an_optimizer_of_a_tensor_that_a_function_refers_to_reads_its_moments(name, moments):
    """The weight and what the optimizer keeps are read and written once; it and the weight are left as they were."""
    layer, leaf = nn.Linear(100, 100, bias=False), torch.ones(100, 100, requires_grad=True)
    options = {"lr": 0.1, "momentum": 0.9} if name == "SGD" else {}

    def steps_of(weight, optimizer):
        def step(x):
            optimizer.zero_grad()
            (x @ weight).sum().backward()
            optimizer.step()

        return step

    for weight in (leaf, layer.weight, nn.Parameter(torch.ones(100, 100))):
        optimizer = getattr(torch.optim, name)([weight], **options)
        state, weight.grad = dict(optimizer.state), torch.ones(100, 100)
        found = trace(steps_of(weight, optimizer), "fp32[1, 100]")
        assert found.bytes("minimal") == pytest.approx(4 * (100 + 2 * SIZE * (1 + moments)), abs=20)
        assert weight.grad.sum() == SIZE
        assert dict(optimizer.state) == state
        assert optimizer.param_groups[0]["params"] == [weight]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_gradients_of_a_modules_parameters_that_were_listed_outside(device):
    layer = nn.Linear(100, 100, bias=False, device=device)
    listed = list(layer.parameters())
    found = trace(lambda x: torch.autograd.grad(layer(x).sum(), listed), "fp32[1, 100]")
    assert found.bytes("minimal") == 4 * (100 + 2 * SIZE)


def test_an_optimizer_that_an_object_or_a_default_holds_reads_its_moments():
    class Trainer:
        def __init__(self):
            self.layer = nn.Linear(100, 100, bias=False)
            self.optimizer = torch.optim.AdamW(self.layer.parameters())

        def step(self, x):
            self.optimizer.zero_grad()
            self.layer(x).sum().backward()
            self.optimizer.step()

    trainer = Trainer()
    for program in (trainer.step, lambda x: trainer.step(x), lambda x, step=trainer.step: step(x)):
        assert trace(program, "fp32[1, 100]").bytes("minimal") == pytest.approx(4 * (100 + 6 * SIZE), abs=20)
        assert not trainer.optimizer.state
        assert trainer.layer.weight.grad is None
