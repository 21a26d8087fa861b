"""LSTM, GRU and plain recurrent layers, whole: two matmuls a step for every layer and direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from roofline.ops.recurrent import CELLS
from roofline.programs.pytorch.registry import Call, Priced, TensorOperand, operands_in, pricing, rule
from roofline.sizes import Size, exact_div, product
from roofline.work import Op, Tensor

#: Kinds of layers by the number that libraries give them.
MODES = ("rnn_relu", "rnn_tanh", "lstm", "gru")


@dataclass(frozen=True, slots=True)
class Recurrence:
    """Layers and directions of a recurrent layer: ``weights`` of all of them in order, ``state`` before the first step.

    A weight is one of the input, of the hidden state, their biases where there are any, and a projection.
    """

    kind: str
    x: TensorOperand
    state: tuple[TensorOperand, ...]
    weights: tuple[TensorOperand, ...]
    layers: int
    directions: int

    @property
    def parts(self) -> int:
        """Weights of one layer in one direction."""
        return len(self.weights) // (self.layers * self.directions)

    @property
    def steps(self) -> Size:
        """Steps of all sequences."""
        return product(self.x.shape[:-1])

    @property
    def is_projected(self) -> bool:
        """Whether the hidden state is projected to a smaller one."""
        return self.parts in (3, 5)

    @property
    def width(self) -> Size:
        """Elements that one direction gives a step."""
        return self.weights[self.parts - 1].shape[0] if self.is_projected else self.weights[1].shape[1]

    def label(self, index: int) -> str:
        """Layer and direction of one part, as in ``0f``."""
        return f"{index // self.directions}{'fb'[index % 2] if self.directions == 2 else ''}"

    def own(self, index: int) -> tuple[TensorOperand, ...]:
        """The weights of one layer in one direction."""
        return self.weights[index * self.parts : (index + 1) * self.parts]

    def results(self) -> list[tuple[tuple[Size, ...], str]]:
        """Shapes and formats of what comes out: every step, and the state after the last."""
        out = (*self.x.shape[:-1], self.width * self.directions)
        return [(out, self.x.dtype), *((item.shape, item.dtype) for item in self.state)]

    def products(self) -> list[int]:
        """Which weights are multiplied with: of the input, of the hidden state, of the projection."""
        return [0, 1, self.parts - 1] if self.is_projected else [0, 1]

    def between(self, out: Tensor, layer: int, what: str = "") -> Tensor:
        """What one layer hands to the next, or its gradient."""
        return Tensor(f"{out.ident}.layer{layer}{what}", out.dims, out.dtype)

    def half(self, tensor: Tensor) -> Tensor:
        """The share of one direction of what a layer gives."""
        return replace(tensor, touched=self.steps * self.width) if self.directions == 2 else tensor

    def layer_inputs(self, x: Tensor, out: Tensor) -> list[Tensor]:
        """What each layer takes, and what the last one gives."""
        return [x, *(self.between(out, layer) for layer in range(self.layers - 1)), out]

    def cell(self, label: str, own: Sequence[TensorOperand], macs: Size, passes: int = 1) -> Op:
        """One layer in one direction over all steps of all sequences, ``macs`` multiply-adds a step."""
        return pricing.recurrent(
            self.kind,
            label,
            (),
            (),
            steps=self.steps,
            hidden=exact_div(own[0].shape[0], CELLS[self.kind].gates),
            macs=macs,
            inner=own[0].shape[1] + own[1].shape[1],
            passes=passes,
            compute=own[0].dtype,
        )


def recurrence_of(call: Call) -> Recurrence:
    """Read a call of lstm, gru or rnn; a packed sequence has the sizes of its steps as second argument."""
    is_packed = "batch_sizes" in call.names or isinstance(call.args[3], list | tuple)
    hidden, weights, _, layers, _, _, both = call.args[2:9] if is_packed else call.args[1:8]
    return Recurrence(
        call.name, call.operands(0)[0], tuple(operands_in(hidden)), tuple(operands_in(weights)),
        layers, 2 if both else 1,
    )  # fmt: skip


@rule("lstm", "gru", "rnn_tanh", "rnn_relu")
def recurrent(call: Call) -> Priced:
    """A recurrent layer over a sequence."""
    return forward(call, recurrence_of(call))


@rule("_cudnn_rnn")
def cudnn(call: Call) -> Priced:
    """All layers and directions at once."""
    state = tuple(operands_in(call.args[4:6]))
    directions = 2 if call.args[13] else 1
    kind = MODES[call.args[6]]
    return forward(call, Recurrence(kind, call.args[0], state, call.tensors(1), call.args[9], directions))


@rule("mkldnn_rnn_layer")
def onednn(call: Call) -> Priced:
    """One layer in one direction."""
    state = tuple(operands_in(call.args[5:7]))
    weights = tuple(operands_in(call.args[1:5]))
    return forward(call, Recurrence(MODES[call.stated("mode")], call.args[0], state, weights, 1, 1))


@rule("mkldnn_rnn_layer_backward")
def onednn_backward(call: Call) -> Priced:
    """The gradients of one layer: of the weights and of what they met, twice the work."""
    weights = tuple(operands_in(call.args[1:5]))
    layer = Recurrence(MODES[call.stated("mode")], call.args[0], (), weights, 1, 1)
    macs = 2 * sum(weights[place].elements for place in layer.products())
    return replace(layer.cell(call.name, weights, macs, passes=2), reads=call.reads, writes=call.writes)


def forward(call: Call, layer: Recurrence) -> list[Op]:
    """One operation for every layer and direction: each weight once a step."""
    (x,), begun = call.read(layer.x), call.read(*layer.state)
    out, *ends = call.writes
    taken = layer.layer_inputs(x, out)
    last = [
        replace(end, touched=product(item.shape[1:] if len(item.shape) > 2 else item.shape))
        for end, item in zip(ends, layer.state, strict=False)
    ]
    found = []
    for index in range(layer.layers * layer.directions):
        own, number = layer.own(index), index // layer.directions
        macs = sum(own[place].elements for place in layer.products())
        cost = layer.cell(f"{layer.kind}[{layer.label(index)}]", own, macs)
        reads = (taken[number], *call.read(*own), *(begun if index == 0 else ()))
        found.append(replace(cost, reads=reads, writes=(layer.half(taken[number + 1]), *last)))
    return found
