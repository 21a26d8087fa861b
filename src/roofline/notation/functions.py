"""The functions a line of notation may call, by name: how many operands they take and which options.

Adding a function touches this table and the cost rule of its family in :mod:`roofline.ops`; a test checks that the
two agree.

>>> FUNCTIONS["softmax"].family, FUNCTIONS["conv2d"].name
('softmax', 'conv')
>>> longest_match("softmax_T"), longest_match("rms_norm_D"), longest_match("AllGather_X")
(('softmax', 'T'), ('rms_norm', 'D'), ('AllGather', 'X'))
"""

from __future__ import annotations

from roofline.errors import did_you_mean
from roofline.frozen import NamedTuple


class Function(NamedTuple):
    """A callable name of the notation.

    ``suffix`` says what ``_…`` after the name lists: ``labels`` of dimensions, mesh ``axes``, or nothing (``""``).
    ``flags`` are bare words (``causal``); ``options`` are ``key=value`` with an int, a tuple of ints or a word.
    """

    name: str
    family: str
    least: int = 1
    most: int = 1
    suffix: str = ""
    flags: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    help: str = ""
    aliases: tuple[str, ...] = ()


#: The order of dimensions that attention takes its operands in.
ATTENTION_LAYOUT = "q[B, S, N, H], k[B, T, K, H], v[B, T, K, H], or all three without B"

UNARY_ELEMENTWISE = (
    "relu", "relu2", "leaky_relu", "relu6", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "exp", "log", "sqrt",
    "rsqrt", "square", "abs", "neg", "sin", "cos", "erf", "softplus", "mish", "hardswish", "elu", "reciprocal", "sign",
    "floor", "round", "clip", "cast", "copy", "dropout", "from_host",
)  # fmt: skip
BINARY_ELEMENTWISE = ("maximum", "minimum", "power", "compare", "where", "swiglu", "geglu")
REDUCTIONS = ("sum", "mean", "max", "min", "prod", "argmax", "argmin", "logsumexp", "variance", "norm")
SCANS = ("cumsum", "cumprod", "cummax")
COLLECTIVES = (
    "AllGather", "ReduceScatter", "AllReduce", "AllToAll", "Permute", "Broadcast", "Send", "Reduce",
    "Gather", "Scatter",
)  # fmt: skip


def _snake_case(name: str) -> tuple[str, ...]:
    """Write ``AllGather`` as libraries do: ``all_gather``."""
    return ("".join(f"_{c.lower()}" if c.isupper() else c for c in name)[1:],)


def _functions() -> dict[str, Function]:
    rows = [Function(name, "elementwise", help="one result per element") for name in UNARY_ELEMENTWISE]
    rows += [
        Function(name, "elementwise", 3 if name == "where" else 2, 3 if name == "where" else 2)
        for name in BINARY_ELEMENTWISE
    ]
    rows += [Function(name, "reduction", suffix="labels", help="over the named axes, or all") for name in REDUCTIONS]
    rows += [Function(name, "scan", suffix="labels", help="running value along one axis") for name in SCANS]
    rows += [Function(name, "collective", suffix="axes", aliases=_snake_case(name)) for name in COLLECTIVES]
    rows += [
        Function(
            "topk", "sort", suffix="labels", options=("k",), help="the k largest along one axis, and their places",
            aliases=("top_k",),
        ),
        Function(
            "fft", "fft", suffix="labels", help="Fourier transform along the named axes, or the last",
            aliases=("ifft",),
        ),
        Function("softmax", "softmax", suffix="labels", help="along the named axis, or the last"),
        Function("log_softmax", "softmax", suffix="labels"),
        Function("layer_norm", "norm", 1, 3, "labels", help="x, optional scale and shift", aliases=("layernorm",)),
        Function("rms_norm", "norm", 1, 2, "labels", help="x, optional scale", aliases=("rmsnorm",)),
        Function("batch_norm", "norm", 1, 3, "labels", help="inference form: scale and shift", aliases=("batchnorm",)),
        Function("group_norm", "norm", 1, 3, "labels", options=("groups",), aliases=("groupnorm",)),
        Function("rope", "elementwise", 1, 2, help="rotary embedding of x, optional table", aliases=("rotary",)),
        Function(
            "attention", "attention", 2, 3, flags=("causal", "full", "unfused"), options=("window", "values"),
            help="q[B,S,N,H], k[B,T,K,H], v[B,T,K,H]; GQA where K < N; bottom-right causal",
            aliases=("scaled_dot_product_attention", "sdpa", "flash_attention"),
        ),
        Function(
            "conv", "convolution", 2, 3, flags=("depthwise", "valid", "same"),
            options=("stride", "pad", "dilation", "groups"),
            help="x[B, spatial…, C], w[kernel…, C/groups, O], optional bias[O]; 1 to 3 spatial dims",
            aliases=("conv1d", "conv2d", "conv3d", "convolution"),
        ),
        Function(
            "conv_transpose", "convolution", 2, 3, options=("stride", "pad", "dilation", "groups", "output_pad"),
            help="x[B, spatial…, C], w[kernel…, C, O/groups], optional bias[O]",
            aliases=("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "deconv"),
        ),
        Function(
            "pool", "pooling", flags=("same",), options=("window", "stride", "pad", "dilation"),
            help="x[B, spatial…, C]; one operation per window element", aliases=("max_pool", "avg_pool"),
        ),
        Function(
            "embedding", "embedding", 2, 2, help="table[V, D], indices[…]: rows are gathered",
            aliases=("embed", "gather", "take"),
        ),
        Function("transpose", "copy", help="a copy with the axes in another order"),
    ]  # fmt: skip
    return {row.name: row for row in rows}


_CANONICAL = _functions()

#: Every callable name, aliases included.
#:
#: :meta hide-value:
FUNCTIONS: dict[str, Function] = {**_CANONICAL, **{alias: row for row in _CANONICAL.values() for alias in row.aliases}}


def canonical_functions() -> dict[str, Function]:
    """List the functions once each, without aliases."""
    return dict(_CANONICAL)


def usual_over(name: str, labels: tuple[str, ...]) -> tuple[str, ...]:
    """Which of a tensor's labels a function works along where none are written.

    >>> usual_over("sum", ("B", "S", "D")), usual_over("softmax", ("B", "S", "D")), usual_over("group_norm", ("B", "D"))
    (('B', 'S', 'D'), ('D',), ('D',))
    """
    if FUNCTIONS[name].family == "reduction":
        return labels
    return labels[1:] if FUNCTIONS[name].name == "group_norm" else labels[-1:]


def misspelt_flag(function: Function, word: str) -> tuple[str, str] | None:
    """Message and hint for a bare word that is nearly a flag of the function, or one of others; None for other words.

    >>> misspelt_flag(FUNCTIONS["attention"], "casual"), misspelt_flag(FUNCTIONS["attention"], "mask")
    (("attention has no option 'casual'", "did you mean 'causal'?"), None)
    >>> misspelt_flag(FUNCTIONS["softmax"], "causal")
    ("softmax has no option 'causal'", 'attention has it')
    """
    if word in function.options:
        return f"option {word} of {function.name} needs a value", f"as in {word}=2"
    near = did_you_mean(word, function.flags)
    others = [row.name for row in _CANONICAL.values() if word in row.flags and word not in function.flags]
    hint = f"did you mean {near!r}?" if near else f"{' and '.join(others)} {'have' if others[1:] else 'has'} it"
    if others and word == "unfused":
        hint += "; kernels of their own are operations of their own, as in m = max_T(x); e = exp(x - m)"
    return (f"{function.name} has no option {word!r}", hint) if near or others else None


def longest_match(name: str) -> tuple[str, str] | None:
    """Split ``name`` into the longest registered function name and the suffix after its ``_``.

    >>> longest_match("gelu"), longest_match("unknown_T")
    (('gelu', ''), None)
    """
    if name in FUNCTIONS:
        return name, ""
    position = len(name)
    while (position := name.rfind("_", 0, position)) > 0:
        if name[:position] in FUNCTIONS:
            return name[:position], name[position + 1 :]
    return None
