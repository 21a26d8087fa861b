"""What every layer gets of each token beside the hidden state: rows of a table of its own (Gemma 3n and 4).

A table has a row for each word, as long as all layers' inputs together; of it only the rows of the tokens move.

>>> table = PerLayerTable("", 100, 64, 8, 3)
>>> [weight.shape for weight in table.weights()], table.active()
([(100, 24), (24, 64), (8,)], 1568)
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.errors import InputError
from roofline.models.blocks.mlp import ACTIVATIONS
from roofline.models.description import Block, Weight
from roofline.models.trace import Trace
from roofline.ops.embedding import embedding
from roofline.work import Tensor

_HANDED = "the inputs of its layers"


def handed(trace: Trace, name: str) -> list[Tensor]:
    """What an earlier layer left for later ones; in a later stage of a pipeline there is none."""
    if name not in trace.handed:
        raise InputError(
            f"a stage of the pipeline needs {name} from an earlier one: that is not modelled",
            hint="pipeline 1; --tensor splits layers",
        )
    return trace.handed[name]


@dataclass(frozen=True, slots=True)
class PerLayerTable(Block):
    """Look the inputs of all ``layers`` up, ``each`` wide, and add a projection of the embedding to them."""

    rows: int
    width: int
    each: int
    layers: int

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        wide = self.layers * self.each
        return (
            Weight("embed_tokens_per_layer", (self.rows, wide), "embedding"),
            Weight("per_layer_model_projection", (wide, self.width)),
            Weight("per_layer_projection_norm", (self.each,), "norm"),
        )

    def active(self) -> int:
        """Parameters that one token uses."""
        return sum(weight.elements // (self.rows if weight.kind == "embedding" else 1) for weight in self.weights())

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        table, projection, scale = self.weights()
        step, count = trace.step, x.dims[0]
        tokens = Tensor("tokens", (step.own, step.new), "int32", "index")
        found = trace.made("rows", count, self.layers * self.each)
        trace.add(embedding(trace.stored(table)[0][0], tokens, found), table.name)
        made = trace.linear(projection, x, count)
        made = trace.norm("rms_norm", made, (scale,), scale.name, count * self.layers, self.each)
        trace.handed[_HANDED] = [trace.elementwise("add", (made, found), "per_layer_inputs", like=found)]
        return x


@dataclass(frozen=True, slots=True)
class PerLayerInput(Block):
    """Multiply a narrow projection of the hidden state by the layer's own input, and widen the result again."""

    width: int
    each: int
    activation: str

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        return (
            Weight("per_layer_input_gate", (self.each, self.width)),
            Weight("per_layer_projection", (self.width, self.each)),
            Weight("post_per_layer_input_norm", (self.width,), "norm"),
        )

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        gate, projection, scale = self.weights()
        count = x.dims[0]
        every = handed(trace, _HANDED)[0]
        narrow = trace.linear(gate, x, count)
        narrow = trace.elementwise(ACTIVATIONS[self.activation], (narrow,), "per_layer_act")
        own = Tensor(every.ident, (count, self.each), every.dtype)
        narrow = trace.elementwise("multiply", (narrow, own), "per_layer_multiply")
        wide = trace.linear(projection, narrow, count)
        return trace.norm("rms_norm", wide, (scale,), scale.name, count, self.width)
