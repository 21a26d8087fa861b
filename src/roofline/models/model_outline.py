"""A model in outline: a number of parameters and of cached elements a token, where there is no configuration yet.

Enough for the first estimates of serving (does it fit, how long is a step, how large a batch):

>>> from roofline.models import serve_bound
>>> model = outline(70e9, kv=2 * 80 * 8 * 128, dtype="int8")
>>> model
Model(outline: 70,000,000,000 parameters, 1 layers)
>>> model.kv_bytes_per_token("int8")
163840
>>> step = serve_bound(model, "decode", on="v5e", batch=1, context=2047, weights="int8", kv="int8", policy="streamed")
>>> sum(step.bytes.values()) == 70 * 10**9 + 2048 * 163840
True
"""

from __future__ import annotations

from roofline import dtypes
from roofline.frozen import dataclass
from roofline.models.description import Block, Cached, Layer, Model
from roofline.models.operation_builder import OperationBuilder
from roofline.models.weights import Weight
from roofline.ops.masks import CAUSAL, FULL
from roofline.signatures import takes
from roofline.sizes import Size, check, is_zero, plain_numbers
from roofline.work import Op, Tensor, Work


@dataclass(frozen=True, slots=True)
class Parameters(Block):
    """All matrices together: each of ``count`` parameters serves every token once."""

    count: int

    def weights(self) -> tuple[Weight, ...]:
        return (Weight("", (self.count, 1)),)

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        (matrix, *beside), own = builder.read_weight(self.weights()[0])
        tokens = builder.step.tokens
        out = builder.output("", *x.dims)
        work = Work.flops("matrix", own or dtypes.arithmetic([x.dtype, matrix.dtype]), 2 * tokens * self.count)
        sizes = {"tokens": tokens, "parameters": self.count}
        builder.add(Op("", "contraction", work, (x, matrix, *beside), (out,), sizes), "")
        return out


@dataclass(frozen=True, slots=True)
class Cache(Block):
    """Keys and values, ``kept`` elements a token; each is used by ``queries`` heads, where that is known."""

    kept: int
    queries: int | None = None

    def cache(self, length: Size) -> tuple[Cached, ...]:
        return (Cached("keys and values", length * self.kept),)

    def kv_per_token(self) -> float:
        return self.kept

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        step = builder.step
        read = []
        if not is_zero(step.past):
            read.append(Tensor(builder.path("cache"), (step.batch, step.past, self.kept), step.kv, "kv"))
        new = Tensor(builder.path("new"), (step.tokens, self.kept), step.kv, "kv")
        pairs = (FULL if step.full else CAUSAL).pairs(step.new, step.length)
        work = Work.flops("matrix", step.activations, 2 * step.batch * pairs * self.kept * (self.queries or 0))
        builder.add(Op("", "attention", work, (x, *read), (new,), {"pairs": pairs}), "")
        return x


@plain_numbers
@takes()
def outline(
    parameters: float, *, kv: int = 0, queries: int | None = None, dtype: str = "bf16", name: str = "outline"
) -> Model:
    """A model of ``parameters``, all used by every token, that keeps ``kv`` elements of keys and values a token.

    ``queries`` is the number of query heads that share a head of keys. Without it attention's arithmetic is left out,
    and the answer says so. The model has no norms, activations or embedding tables.
    """
    blocks: list[Block] = [Parameters("parameters", check("parameters", parameters))]
    gaps: tuple[str, ...] = ()
    if kv:
        heads = None if queries is None else check("queries", queries)
        blocks.append(Cache("attention", check("kv", kv), heads))
        if heads is None:
            gaps = ("attention's arithmetic is not counted: how many query heads share keys is not said",)
    return Model(
        name=name,
        family="outline",
        width=0,
        vocabulary=0,
        layers=(Layer(tuple(blocks)),),
        dtype=dtypes.get(dtype).name,
        head=False,
        gaps=gaps,
        notes=(f"a model in outline: {'parameters and' if kv else 'parameters alone, no'} keys and values",),
    )
