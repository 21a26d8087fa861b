"""Feed-forward blocks: two matrices with an activation between, or three where one gates; mixtures of such experts.

A mixture has a router, the routed experts, and experts that every token uses.

>>> sum(weight.elements for weight in Mlp("mlp", 4096, 11008).weights()) == 3 * 4096 * 11008
True
>>> touched_experts(8, 2, 1), touched_experts(8, 2, 4)                     # of 8 experts, 2 a token
(2.0, 5.46875)
>>> touched_experts(4, 1, 2, skew=(0.7, 0.1, 0.1, 0.1)) < touched_experts(4, 1, 2)
True
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline import dtypes
from roofline.errors import SizeError
from roofline.frozen import dataclass, replace
from roofline.hardware.machine import MeshAxis
from roofline.models.blocks.attention import Attention, rotate
from roofline.models.blocks.collectives import Algorithm, collective_operation
from roofline.models.description import RecordedBlock
from roofline.models.operation_builder import ForwardPass, OperationBuilder, product_arithmetic
from roofline.models.weights import join_path
from roofline.ops.collectives.choice import AUTO, Chooser
from roofline.ops.collectives.registry import link_groups
from roofline.ops.collectives.routing import Density, TopKRouting
from roofline.ops.contraction import contraction
from roofline.ops.elementwise import PER_ELEMENT
from roofline.ops.reduction import SOFTMAX_PER_ELEMENT
from roofline.sizes import Size, ceil_div, exact_div, maximum, minimum, product
from roofline.work import Tensor, Work

#: Activations by the name configurations give them → the elementwise function that prices them.
ACTIVATIONS = {
    **dict.fromkeys(("silu", "swish", "swigluoai", "quick_gelu", "situ"), "silu"),
    **dict.fromkeys(("gelu_new", "gelu_fast", "gelu_pytorch_tanh"), "gelu_tanh"),
    **{name: name for name in ("gelu", "relu", "relu2", "sigmoid", "tanh", "xielu")},
}

#: The numbers that xIELU has of its own in each layer.
_OWN = ("act_fn.alpha_p", "act_fn.alpha_n")

#: Activations that have a fused form with a gate.
_FUSED = {"silu": "swiglu", "gelu": "geglu"}


@dataclass(frozen=True, slots=True)
class Mlp(RecordedBlock):
    """``down(act(gate(x))·up(x))`` where ``gated``, else ``down(act(up(x)))``; ``names`` are gate, up, down.

    ``norm`` is the function of a norm before ``down``, which alone has a bias where ``down_bias``; ``cut`` sets gate
    values below a quantile to zero, ``gate_scale`` multiplies each channel of the gate by a number of its own. With an
    ``adapter_rank`` a product over so many numbers is added to gate and up, by matrices of the layer's own where
    layers share these.
    """

    inputs: int
    hidden: int
    gated: bool = True
    activation: str = "silu"
    bias: bool = False
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
    norm: str = ""
    cut: bool = False
    adapter_rank: int = 0
    down_bias: bool = False
    gate_scale: bool = False

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        return self.apply(builder, x)

    def apply(self, builder: OperationBuilder, x: Tensor, within: str = "") -> Tensor:
        """Run on the rows of ``x``; ``within`` names the module it stands in inside a larger block."""
        gate, up, down = (join_path(within, name) for name in self.names)
        u = builder.linear(up, x, self.hidden, bias=self.bias)
        g = builder.linear(gate, x, self.hidden, bias=self.bias) if self.gated else None
        if self.adapter_rank and g is not None:
            narrow = builder.linear(join_path(within, "adapter"), x, self.adapter_rank)
            made = [builder.linear(f"{name}_adapter", narrow, self.hidden) for name in (gate, up)]
            g, u = (
                builder.elementwise("add", (whole, more), f"{more.ident.rpartition('.')[0]}.add", like=whole)
                for whole, more in zip((g, u), made, strict=True)
            )
        if self.cut and g is not None:
            # values below mean + z·deviation become zero: sum, difference, square and its sum, difference, maximum
            g = builder.vector("norm", (g,), join_path(within, "cut"), *g.dims, each=6)
        if self.gate_scale and g is not None:
            read = (g, *builder.declare_and_read({join_path(within, "gate_scale"): self.hidden}))
            g = builder.elementwise("multiply", read, join_path(within, "gate_scaled"), like=g)
        hidden = activate(builder, self.activation, u, g, join_path(within, "act"))
        if self.activation == "xielu":
            own = builder.declare_and_read({join_path(within, name): 1 for name in _OWN})
            builder.mark(reads=(*builder.ops[-1].reads, *own))
        if self.norm:
            shift = self.norm == "layer_norm"
            hidden = builder.norm(self.norm, hidden, join_path(within, "ffn_sub_norm"), shift=shift)
        return builder.linear(down, hidden, self.inputs, bias=self.bias or self.down_bias)


def activate(builder: OperationBuilder, activation: str, up: Tensor, gate: Tensor | None, part: str) -> Tensor:
    """Apply the activation, to the gate where there is one and multiply."""
    function = ACTIVATIONS[activation]
    if gate is None:
        return builder.elementwise(function, (up,), part)
    if function in _FUSED:
        return builder.elementwise(_FUSED[function], (gate, up), part)
    return builder.elementwise("multiply", (builder.elementwise(function, (gate,), part), up), f"{part}.gate")


@dataclass(frozen=True, slots=True)
class ExpertExchange:
    """The exchange of tokens between chips with whole experts: an AllToAll over ``axes``, and another one back.

    ::

        dispatch    own·c rows from each chip, less those for chips that have the token. c: the chips that hold some of
                    a token's k experts. A row that leaves a node goes once to each node with some of the experts
        combine     as many rows back. A token's results are weighted and added up on each expert's chip, then on each
                    node, then on the token's own chip
        not once    own·k rows each way, one for each expert, weighted and added up on the token's own chip

    Rows are sent in the formats ``dispatch`` and ``combine``; an empty one is the activations' format. Chips of the
    ``tensor`` axes hold the same tokens, and in decode those of the ``context`` axes too: each sends a part, and an
    AllGather returns all results, unless tokens are ``scattered`` between blocks. With ``group``, copies of the model
    share experts. Shared experts are whole on every chip, or ``split`` over the ``tensor`` axes.

    Sources: Lepikhin et al., arXiv:2006.16668; DeepSeek-V3, arXiv:2412.19437, section 3.2.2 (once to a node); DeepEP's
    kernels for throughput (once to a chip) and for low latency (once for each expert).
    """

    axes: tuple[MeshAxis, ...]
    tensor: tuple[MeshAxis, ...] = ()
    context: tuple[MeshAxis, ...] = ()
    group: bool = False
    scattered: bool = False
    split: bool = False
    dispatch: str = ""
    combine: str = ""
    algorithm: Algorithm = None
    once: bool = True

    def axes_of_same_tokens(self, step: ForwardPass) -> tuple[MeshAxis, ...]:
        """The axes whose chips hold the same tokens."""
        return self.tensor if step.ring else (*self.context, *self.tensor)

    def own_tokens(self, step: ForwardPass) -> Size:
        """Tokens that one chip sends."""
        return exact_div(step.tokens, self._sharing(step))

    def all_tokens(self, step: ForwardPass) -> Size:
        """Tokens of all the chips that share experts."""
        if self.group:
            return (step.batch if step.group is None else step.group) * step.new
        return step.batch * step.new if self.context else step.tokens

    def chips_with_each_token(self, step: ForwardPass) -> int:
        """Chips that lie together and have each token before it is sent."""
        ways = self._sharing(step)
        return 1 if self.scattered or not isinstance(ways, int) else ways

    def _sharing(self, step: ForwardPass) -> Size:
        return product(axis.size for axis in self.axes_of_same_tokens(step))

    def send(
        self, builder: OperationBuilder, way: str, x: Tensor, rows: Size, made: Size, density: Density = 1
    ) -> Tensor:
        """Send the rows that are ``made`` of a chip's tokens to the experts or back; return the ``rows`` that arrive.

        The busiest chip's link sets the time: it gets more than it sends, or the other way round.
        """
        width = x.dims[1]
        stated = self.dispatch if way == "dispatch" else self.combine
        dtype = stated or builder.step.activations
        out = builder.output(f"{way}.all_to_all", rows, width, dtype=dtype)
        nbytes = dtypes.get(dtype).nbytes(made * width) * product(axis.size for axis in self.axes)
        op = collective_operation("AllToAll", self.axes, nbytes, x, out, self.algorithm, density)
        builder.add(replace(op, role="quantised") if stated else op, f"{way}.all_to_all")
        return out

    def describe(self) -> str:
        """How often a token is sent."""
        if not self.once:
            return "a token is sent once for each of its experts"
        said = "a token is sent once to each chip that has some of its experts"
        tiers = link_groups(self.axes)
        name = self.algorithm.name("AllToAll") if isinstance(self.algorithm, Chooser) else self.algorithm
        if any(group.topology == "torus" for group in tiers):
            return f"{said}, and once over each link on its way"
        passed_on = len(tiers) > 1 and name in (None, AUTO, "hierarchical")
        return f"{said}, and once to each node" if passed_on else said


def touched_experts(experts: int, top_k: int, tokens: Size, skew: Sequence[float] | None = None) -> Size:
    """Experts that a batch of tokens is expected to touch, each token choosing ``top_k`` of them.

    ::

        uniform      E·(1 − (1 − k/E)^tokens)
        with a skew  Σ (1 − (1 − min(1, k·p))^tokens) over the share p of the tokens' choices that an expert gets
    """
    if skew is None:
        return experts * (1 - ((experts - top_k) / experts) ** tokens)
    total = sum(skew)
    return _touched_of([share / total for share in skew], top_k, tokens)


def touched_on_a_chip(count: int, chips: Size, touched: Size) -> Size:
    """Experts that some chip reads at least, wherever copies lie, of so many ``touched`` ones of ``count``.

    Of x touched experts some chip reads ⌈x ÷ chips⌉. For an expected x that is at least the largest convex function
    below it ::

        max(x ÷ chips, c − (count − x) ÷ (count − (c − 1)·chips)),    c = ⌈count ÷ chips⌉

    >>> touched_on_a_chip(150, 144, 150), touched_on_a_chip(150, 144, 36), touched_on_a_chip(8, 16, 8)
    (2, 0.25, 1)
    """
    mean = exact_div(touched, chips)
    if not isinstance(chips, int) or count % chips == 0:
        return mean
    most = ceil_div(count, chips)
    return maximum(mean, most - exact_div(count - touched, count - (most - 1) * chips))


def _touched_of(shares: Sequence[float], top_k: int, tokens: Size) -> Size:
    return sum(1 - (1 - minimum(1, top_k * share)) ** tokens for share in shares)


@dataclass(frozen=True, slots=True)
class MixtureOfExperts(RecordedBlock):
    """``top_k`` of ``count`` experts for each token, beside the ``shared`` expert that every token uses.

    Attributes
        ``hidden``         width of an expert
        ``shared_gate``    whether a sigmoid weighs the shared expert
        ``router_bias``    whether the router has a trained bias; ``router_scales`` its further vectors (name, size)
        ``expert_bias``    whether the experts' matrices have biases
        ``latent``         width of the space the routed experts run in, between the projections ``latent_names``;
                           ``latent_norms`` are norms behind the first and before the second
        ``expert_norm``    a norm of the row that an expert returns
        ``scoring``        the router's function
        ``group_limit``    how many groups a token's experts may be of, and how many there are; the experts of a group
                           lie together
        ``shared_scored``  how many shared experts the router scores too, which weighs them
        ``added``          name of a trained vector that is added to what the experts give
        ``idle``           further experts that return their input (LongCat); ``top_k`` is the average of the others
        ``names``          the router, the experts and the shared expert
        ``ways``           chips that hold whole experts: one has ⌈count ÷ ways⌉ of them, the busiest under a skew;
                           without one, rows are even, as further copies of some experts can make them
        ``exchange``       how these chips send each other tokens, if they do
    """

    inputs: int
    hidden: int
    count: int
    top_k: int
    gated: bool = True
    activation: str = "silu"
    shared: Mlp | None = None
    shared_gate: bool = False
    router_bias: bool = False
    router_scales: tuple[tuple[str, int], ...] = ()
    expert_bias: bool = False
    latent: int | None = None
    latent_names: tuple[str, str] = ("fc1_latent_proj", "fc2_latent_proj")
    latent_norms: tuple[str, str] = ("", "")
    expert_norm: str = ""
    scoring: str = "softmax"
    group_limit: tuple[int, int] = (1, 1)
    shared_scored: int = 0
    idle: int = 0
    added: str = ""
    names: tuple[str, str, str] = ("gate", "experts", "shared_experts")
    ways: int = 1
    exchange: ExpertExchange | None = None

    def active(self) -> int:
        parts = ((each.elements, each.is_of_experts) for each in self.weights())
        return sum(count // self.count * self.top_k if is_routed else count for count, is_routed in parts)

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        exchange, every = self.exchange, x
        tokens = builder.step.tokens if exchange is None else exchange.own_tokens(builder.step)
        x = x if exchange is None else replace(x, dims=(tokens, *x.dims[1:]))
        router, experts, shared = self.names
        scored = self.count + self.idle + self.shared_scored
        logits = builder.linear(router, x, scored, kind="router", bias=self.router_bias)
        chosen = self._choose(builder, logits, tokens)
        routed = builder.linear(self.latent_names[0], x, self.latent) if self.latent else x
        if self.latent and self.latent_norms[0]:
            routed = builder.norm("rms_norm", routed, self.latent_norms[0])
        out = self._experts(builder, routed, tokens, chosen, experts)
        if self.added:
            out = builder.elementwise(
                "add", (out, *builder.declare_and_read({self.added: self.inputs})), f"{self.added}.add", like=out
            )
        if self.idle:
            out = builder.vector("reduction", (x, chosen, out), "idle", tokens, self.inputs, each=2)
        if self.latent:
            if self.latent_norms[1]:
                out = builder.norm("rms_norm", out, self.latent_norms[1])
            out = builder.linear(self.latent_names[1], out, self.inputs)
        if self.shared is not None:
            beside = self._shared(builder, self.shared, x, every, tokens)
            if self.shared_scored:
                beside = builder.elementwise("multiply", (beside, chosen), f"{shared}.weigh", like=beside)
            if self.shared_gate:
                gate = builder.linear(f"{shared}_gate", x, 1, kind="router")
                opened = builder.elementwise("sigmoid", (gate,), f"{shared}_gate.act")
                beside = builder.elementwise("multiply", (beside, opened), f"{shared}_gate.multiply", like=beside)
            out = builder.elementwise("add", (out, beside), "add")
        return out if exchange is None else self._gathered(builder, exchange, out, every)

    def _shared(self, builder: OperationBuilder, shared: Mlp, x: Tensor, every: Tensor, tokens: Size) -> Tensor:
        """Run the expert that every token uses: on a chip's own tokens, or a slice of it on all."""
        module, exchange = self.names[2], self.exchange
        if exchange is None or not exchange.split:
            return shared.apply(builder, x, module)
        step = builder.step
        rows = step.tokens if step.ring else exact_div(step.tokens, product(axis.size for axis in exchange.context))
        parts = shared.apply(builder, replace(every, dims=(rows, *every.dims[1:])), module)
        out = builder.output(f"{module}.sum", tokens, *parts.dims[1:])
        nbytes, algorithm = parts.traffic_bytes, exchange.algorithm
        summed = collective_operation("ReduceScatter", exchange.tensor, nbytes, parts, out, algorithm)
        builder.add(summed, f"{module}.sum")
        return out

    def _gathered(self, builder: OperationBuilder, exchange: ExpertExchange, out: Tensor, every: Tensor) -> Tensor:
        same = exchange.axes_of_same_tokens(builder.step)
        if exchange.scattered or not same:
            return out
        whole = builder.output("gather", builder.step.tokens, *every.dims[1:])
        gathered = collective_operation("AllGather", same, whole.traffic_bytes, out, whole, exchange.algorithm)
        builder.add(gathered, "gather")
        return whole

    def _choose(self, builder: OperationBuilder, logits: Tensor, tokens: Size) -> Tensor:
        """Score every expert; which are largest costs no arithmetic."""
        elements = tokens * (self.count + self.idle + self.shared_scored)
        each = SOFTMAX_PER_ELEMENT if self.scoring == "softmax" else sum(PER_ELEMENT["sigmoid"][:2])
        read = (logits, *builder.declare_and_read(dict(self.router_scales)))
        picks = self.top_k + self.idle * self.top_k // self.count
        return builder.vector("softmax", read, "choice", tokens, picks, each=each, elements=elements)

    def _held(self, skew: Sequence[float]) -> tuple[float, Sequence[float]]:
        """Rows that a token makes on the busiest chip, and the share of all choices of each expert there.

        Experts lie on chips in order, and none gets a token twice.
        """
        held, total = ceil_div(self.count, self.ways), sum(skew)
        chips = [[share / total for share in skew[start : start + held]] for start in range(0, self.count, held)]
        rows = [sum(minimum(1, self.top_k * share) for share in chip) for chip in chips]
        return max(rows), chips[rows.index(max(rows))]

    def _experts(
        self, builder: OperationBuilder, x: Tensor, tokens: Size, chosen: Tensor, module: str,
    ) -> Tensor:  # fmt: skip
        step, exchange = builder.step, self.exchange
        every = step.tokens if exchange is None else exchange.all_tokens(step)
        if step.skew is not None:
            if len(step.skew) != self.count:
                said = f"the skew has {len(step.skew)} shares, and there are {self.count} experts"
                raise SizeError(said, hint="one for each")
            TopKRouting(self.count, self.top_k, skew=step.skew)  # refuses shares that are not possible
        if self.ways > 1 and step.skew is not None:
            busiest, shares = self._held(step.skew)
            most, rows = tokens * busiest * self.ways, every * busiest
            touched = _touched_of(shares, self.top_k, every)
        else:
            most, rows = tokens * self.top_k, exact_div(every * self.top_k, self.ways)
            touched = touched_experts(self.count, self.top_k, every, step.skew)
            touched = touched_on_a_chip(self.count, self.ways, touched)
        if exchange is None:
            found = self._applied(builder, x, rows, touched, module, tokens * self.top_k)
            return weighted(builder, found, chosen, rows, tokens, module)
        if not exchange.once:
            x = exchange.send(builder, "dispatch", x, rows, most)
            found = self._applied(builder, x, rows, touched, module, rows)
            found = exchange.send(builder, "combine", found, tokens * self.top_k, most)
            return weighted(builder, found, chosen, tokens * self.top_k, tokens, module)
        picks = TopKRouting(self.count, self.top_k, *self.group_limit, tuple(step.skew or ()), even=step.skew is None)
        there = exact_div(every * picks.expected_units(self.ways, busiest=True), self.ways)
        back, made = tokens * picks.expected_units(self.ways), tokens * self.top_k
        copied = replace(picks, copies=exchange.chips_with_each_token(step))
        x = exchange.send(builder, "dispatch", x, there, made, copied)
        found = self._applied(builder, x, rows, touched, module, there * self.top_k)
        found = weighted(builder, found, chosen, rows, there, module)
        found = exchange.send(builder, "combine", found, back, made, picks)
        part, elements = join_path(module, "sum"), (back - tokens) * found.dims[1]
        out = builder.vector("reduction", (found,), part, tokens, found.dims[1], elements=elements)
        builder.mark(role="linear")
        return out

    def _applied(
        self, builder: OperationBuilder, x: Tensor, rows: Size, touched: Size, module: str, choices: Size
    ) -> Tensor:
        """Run the experts on the rows that tokens here make, of all ``choices`` of these tokens."""
        held, back = ceil_div(self.count, self.ways), self.latent or self.inputs

        def matrix(name: str, x: Tensor, outputs: int) -> Tensor:
            size = (held, outputs)
            return grouped(builder, join_path(module, name), size, x, rows, touched, choices, self.expert_bias)

        up = matrix("up_proj", x, self.hidden)
        gate = matrix("gate_proj", x, self.hidden) if self.gated else None
        hidden = activate(builder, self.activation, up, gate, join_path(module, "act"))
        found = matrix("down_proj", hidden, back)
        if self.expert_norm:
            found = builder.norm("rms_norm", found, self.expert_norm)
        return found


def weighted(builder: OperationBuilder, x: Tensor, chosen: Tensor, rows: Size, tokens: Size, module: str) -> Tensor:
    """Weigh the rows that experts return, and add them up to a row for each token that is here."""
    part, width = join_path(module, "combine"), x.dims[1]
    return builder.vector("reduction", (x, chosen), part, tokens, width, each=2, elements=rows * width)


def grouped(
    builder: OperationBuilder, name: str, size: tuple[int, int], x: Tensor, rows: Size, touched: Size, choices: Size,
    has_bias: bool = False,
) -> Tensor:  # fmt: skip
    """One matrix of every expert, applied to the rows that were sent to it, of all ``choices`` of the tokens here.

    ``size`` is how many experts there are, and how many outputs each has.
    """
    builder.declare(name, (*size, x.dims[1]), "expert")
    if has_bias:
        builder.declare(f"{name}.bias", size, "bias")
    weight = builder.weights[name]
    (matrix, *beside), compute = builder.read_weight(weight, touched)
    _, n, k = weight.shape
    out = builder.output(name, rows, n)
    arithmetic = compute or product_arithmetic(builder.step.activations, matrix.dtype)
    op = contraction("", (x, matrix), (out,), m=rows, n=n, k=k, unit="matrix", compute=arithmetic)
    op = replace(op, reads=(x, matrix, *beside), dims={**op.dims, "groups": touched, "choices": choices})
    bias = builder.weights.get(f"{name}.bias")
    if bias is not None:
        added, _ = builder.read_weight(bias, touched)
        sums = Work.flops("vector", builder.arithmetic, rows * n)
        op = replace(op, reads=(*op.reads, *added), work=op.work + sums)
    builder.add(op, name)
    return out


_CHOSEN = "the experts of attention that were chosen"


@dataclass(frozen=True, slots=True)
class MixtureOfAttention(Attention):
    """Attention whose queries and output are those of ``top_k`` of ``count`` experts, of which each has ``kv_heads``.

    Keys and values are one pair for all experts; ``heads`` are top_k·kv_heads. ::

        FLOPs a token = 2·inputs·(2·kv + count) + top_k·2·2·inputs·kv + attention,    kv = kv_heads·key

    Source: Shen et al. (JetMoE), arXiv:2404.07413, section 3.2.
    """

    count: int = 1
    top_k: int = 1

    def active(self) -> int:
        each = ((w, self.top_k if w.kind == "expert" else self.count) for w in self.weights())
        return sum(weight.elements * used // self.count for weight, used in each)

    def _apply(self, builder: OperationBuilder, name: str, x: Tensor, outputs: int) -> Tensor:
        """A matrix of every expert; no estimate of fused experts holds for it alone, so it counts as a product."""
        tokens = builder.step.tokens
        rows = tokens * self.top_k
        touched = touched_experts(self.count, self.top_k, tokens)
        out = grouped(builder, name, (self.count, outputs), x, rows, touched, rows)
        dims = {size: amount for size, amount in builder.ops[-1].dims.items() if size != "choices"}
        builder.mark(dims=dims)
        return out

    def _project(
        self, builder: OperationBuilder, x: Tensor, of_keys: Tensor, of_values: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
        tokens = builder.step.tokens
        logits, elements = builder.linear("router.layer", x, self.count, kind="router"), tokens * self.count
        sizes = {"each": SOFTMAX_PER_ELEMENT, "elements": elements}
        builder.kept[_CHOSEN] = [builder.vector("softmax", (logits,), "choice", tokens, self.top_k, **sizes)]
        wide = self.kv_heads * self.key
        q = self._apply(builder, "input_linear", x, wide)
        q = Tensor(q.ident, (tokens, self.heads * self.key), q.dtype)
        k = builder.linear("kv_proj.k", of_keys, wide)
        v = builder.linear("kv_proj.v", of_values, self.kv_heads * self.value)
        q = rotate(builder, q, "q_rope", tokens, self.heads, self.rotary)
        k = rotate(builder, k, "k_rope", tokens, self.kv_heads, self.rotary)
        return q, builder.write_to_cache(k), builder.write_to_cache(v), None

    def _output(self, builder: OperationBuilder, out: Tensor) -> Tensor:
        tokens, (chosen,) = builder.step.tokens, builder.from_earlier(_CHOSEN)
        rows = tokens * self.top_k
        out = Tensor(out.ident, (rows, self.kv_heads * self.value), out.dtype)
        found = self._apply(builder, "output_linear", out, self.inputs)
        found = weighted(builder, found, chosen, rows, tokens, "")
        (bias,) = builder.declare_and_read({"bias": self.inputs})
        return builder.elementwise("add", (found, bias), "add", like=found)
