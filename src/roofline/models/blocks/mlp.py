"""The feed-forward block: two matrices with an activation between, or three where one gates.

>>> sum(weight.elements for weight in Mlp("mlp", 4096, 11008).weights()) == 3 * 4096 * 11008
True
"""

from __future__ import annotations

from roofline.frozen import dataclass, replace
from roofline.models.description import Block
from roofline.models.operation_builder import OperationBuilder
from roofline.models.weights import Weight, join_path
from roofline.sizes import Size
from roofline.work import Tensor

#: Activations by the name configurations give them → the elementwise function that prices them.
ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "swigluoai": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "relu2": "relu2",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "xielu": "xielu",
    "situ": "silu",
}

#: The numbers that xIELU has of its own in each layer.
_OWN = ("act_fn.alpha_p", "act_fn.alpha_n")

#: Activations that have a fused form with a gate.
_FUSED = {"silu": "swiglu", "gelu": "geglu"}


@dataclass(frozen=True, slots=True)
class Mlp(Block):
    """``down(act(gate(x))·up(x))`` where ``gated``, else ``down(act(up(x)))``; ``names`` are gate, up, down.

    ``norm`` is a norm before ``down``; ``cut`` sets gate values below a quantile to zero.
    """

    inputs: int
    hidden: int
    gated: bool = True
    activation: str = "silu"
    bias: bool = False
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
    norm: bool = False
    cut: bool = False

    def weights(self) -> tuple[Weight, ...]:
        gate, up, down = self.names
        found = [Weight(gate, (self.hidden, self.inputs))] if self.gated else []
        found += [Weight(up, (self.hidden, self.inputs)), Weight(down, (self.inputs, self.hidden))]
        if self.bias:
            found += [Weight(f"{w.name}.bias", w.shape[:1], "bias") for w in found]
        if self.activation == "xielu":
            found += [Weight(name, (1,), "other") for name in _OWN]
        if self.norm:
            found.append(Weight("ffn_sub_norm", (self.hidden,), "norm"))
        return tuple(found)

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        return self.apply(builder, x, builder.step.tokens)

    def apply(self, builder: OperationBuilder, x: Tensor, rows: Size, within: str = "") -> Tensor:
        """Run on ``rows`` rows; ``within`` names the module it stands in inside a larger block."""
        gate, up, down = (join_path(within, name) for name in self.names)
        u = builder.linear(up, x, rows)
        g = builder.linear(gate, x, rows) if self.gated else None
        if self.cut and g is not None:
            g = _cut(builder, g, join_path(within, "cut"))
        hidden = activate(builder, self.activation, u, g, join_path(within, "act"))
        if self.activation == "xielu":
            own = builder.read_weights(*(join_path(within, name) for name in _OWN))
            builder.ops[-1] = replace(builder.ops[-1], reads=(*builder.ops[-1].reads, *own))
        if self.norm:
            hidden = builder.norm("rms_norm", hidden, join_path(within, "ffn_sub_norm"), rows, self.hidden)
        return builder.linear(down, hidden, rows)


def activate(builder: OperationBuilder, activation: str, up: Tensor, gate: Tensor | None, part: str) -> Tensor:
    """Apply the activation, to the gate where there is one and multiply."""
    function = ACTIVATIONS[activation]
    if gate is None:
        return builder.elementwise(function, (up,), part)
    if function in _FUSED:
        return builder.elementwise(_FUSED[function], (gate, up), part)
    return builder.elementwise("multiply", (builder.elementwise(function, (gate,), part), up), f"{part}.gate")


def _cut(builder: OperationBuilder, gate: Tensor, part: str) -> Tensor:
    """Set values below mean + z·deviation to zero: sum, difference, square and its sum, difference, maximum."""
    out = builder.output(part, *gate.dims)
    return builder.vector("norm", (gate,), out, part, flops=6 * gate.elements, elements=gate.elements)
