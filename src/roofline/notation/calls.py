"""The functions a line of notation may call, by name: how many operands they take and which options.

Adding a function touches this table and the cost rule of its family in :mod:`roofline.ops`; a test checks that the
two agree.

>>> FUNCTIONS["softmax"].family, FUNCTIONS["conv2d"].name
('softmax', 'conv')
>>> longest_match("softmax_T"), longest_match("rms_norm_D"), longest_match("AllGather_X")
(('softmax', 'T'), ('rms_norm', 'D'), ('AllGather', 'X'))

Function calls: the shapes in and out of each family. One rule for each family, found by name.

A rule takes the scope, the call, its operands and what is written as the result, and adds one step.

>>> from roofline.notation import program
>>> program("sum_T(bf16[B, T])").steps[0].output.labels
('B',)
>>> program("where([B, D], fp32[B, D], fp32[D])").steps[0].inputs[0].dtype
'bool'
>>> program("attention(q[B, S, N, H], k[B, T, K, H], v[B, T, K, V])").steps[0].output.labels
('B', 'S', 'N', 'V')
>>> program("embedding(bf16[V, D], tokens[B, S])").steps[0].inputs[1].dtype
'int32'

A collective changes how a tensor is sharded. ``AllGather_X`` takes X off the dimension it shards;
``ReduceScatter_{X,K}`` sums partial results over X and shards K; ``AllReduce_X`` sums them and keeps every copy;
``AllToAll_{X,J}`` moves X from its dimension to J.

>>> [program(f"{text}(bf16[I_X, J])").steps[0].output.written for text in ("AllGather_X", "AllToAll_{X,J}")]
['bf16[I, J]', 'bf16[I, J_X]']

A window of a convolution or pooling moves over one to three spatial dimensions.
``o = floor((i + 2·pad − dilation·(k − 1) − 1) / stride) + 1``; padding ``same`` gives ``ceil(i / stride)``.
A transposed convolution gives ``o = (i − 1)·stride − 2·pad + dilation·(k − 1) + output_pad + 1``.
Source of both: the shape formulas of PyTorch's ConvNd and ConvTransposeNd documentation.

The options of a step are complete and of one form: ``stride``, ``dilation`` and ``output_pad`` tuples with a number
for each spatial dimension, ``pad`` such a tuple or ``"same"``, ``groups`` a number, or the label of the channels
where a depthwise convolution has a named size.

>>> from roofline.notation import canonical
>>> canonical(program("conv(bf16[B, 224, 224, 3], bf16[7, 7, 3, 64], stride=2, pad=3)")).rpartition("-> ")[2]
'bf16[B, 112, 112, 64]'
>>> program("conv(bf16[B, H, W, C], bf16[3, 3, C, O], same)").steps[0].output.labels
('B', 'H', 'W', 'O')
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from roofline import dtypes
from roofline.errors import did_you_mean
from roofline.frozen import Frozen, NamedTuple
from roofline.notation.result import broadcast, finish, match
from roofline.notation.scope import Scope, Wanted, is_unnamed, rename
from roofline.notation.structure import Axes, CallNode, Dim, Labels, Shape, TensorDim, TensorNode
from roofline.quantity import in_a_row


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


def _spellings(name: str) -> tuple[str, ...]:
    """Write ``AllGather`` as libraries do, ``all_gather``; XLA calls a Permute ``CollectivePermute``."""
    snake = ["".join(f"_{c.lower()}" if c.isupper() else c for c in name)[1:]]
    return (*snake, "CollectivePermute", "collective_permute") if name == "Permute" else tuple(snake)


def _functions() -> dict[str, Function]:
    rows = [Function(name, "elementwise", help="one result per element") for name in UNARY_ELEMENTWISE]
    rows += [
        Function(name, "elementwise", 3 if name == "where" else 2, 3 if name == "where" else 2)
        for name in BINARY_ELEMENTWISE
    ]
    rows += [Function(name, "reduction", suffix="labels", help="over the named axes, or all") for name in REDUCTIONS]
    rows += [Function(name, "scan", suffix="labels", help="running value along one axis") for name in SCANS]
    rows += [Function(name, "collective", suffix="axes", aliases=_spellings(name)) for name in COLLECTIVES]
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
    hint = f"did you mean {near!r}?" if near else f"{in_a_row(others)} {'have' if others[1:] else 'has'} it"
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


Rule = Callable[[Scope, CallNode, Sequence[Shape], Wanted], Shape]

#: Formats of operands that nobody would write in the default dtype.
OPERAND_DTYPES: Mapping[str, tuple[str, ...]] = Frozen({"embedding": ("bf16", "int32"), "where": ("bool",)})

#: Formats of results that do not follow the operands.
RESULT_DTYPES: Mapping[str, str] = Frozen({"compare": "bool", "argmax": "int32", "argmin": "int32"})


def resolve_call(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """Resolve one call by its family's rule."""
    return RULES[FUNCTIONS[call.function].family](scope, call, shapes, wanted)


def check_words(scope: Scope, call: CallNode) -> None:
    """Raise where a bare word among the operands names no tensor and is nearly one of the function's flags."""
    for argument in call.arguments if FUNCTIONS[call.function].flags else ():
        if not isinstance(argument, TensorNode) or argument.dims is not None or argument.name is None:
            continue
        if argument.name not in scope.names and argument.name not in scope.declared:
            error = misspelt_flag(FUNCTIONS[call.function], argument.name)
            if error:
                raise scope.fail(error[0], argument.span, error[1])


def elementwise(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """One result for each element; several operands broadcast. ``where`` computes in its last two operands' dtype."""
    if call.function == "cast" and not (wanted.output and wanted.output.dtype):
        raise scope.fail("cast needs the dtype of its result", call.span, "as in cast(x) -> int8")
    if call.function == "rope":
        axes, renamed = match(scope, shapes[0].axes, wanted, "rope")
        operands = [rename(shape, renamed) for shape in shapes]
    else:
        operands, axes = broadcast(scope, shapes, wanted, call.span, call.function)
    valued = operands[1:] if call.function == "where" else operands[:1] if call.function == "rope" else operands
    return scope.add(
        "function",
        call.function,
        operands,
        axes,
        typed_by=valued,
        dtype=RESULT_DTYPES.get(call.function),
        span=call.span,
        wanted=wanted,
        options=call.options,
    )


def along(scope: Scope, call: CallNode, shape: Shape) -> tuple[str, ...]:
    """The labels written after ``_``, none where nothing is written.

    ``_last``, and any word on a tensor of numbers only, mean the last dimension.
    """
    labels = shape.labels
    if not call.over:
        return ()
    if not labels:
        raise scope.fail(f"{call.function}_{call.over[0]} works along a dimension; this is a scalar", call.span)
    if call.over == ("last",) and "last" not in labels:
        return labels[-1:]
    if all(is_unnamed(label) for label in labels):
        scope.assume(f"{call.function}_{','.join(call.over)} of {shape.written} is along its last dimension")
        return labels[-1:]
    found = tuple(one_by_one(call.over, labels))
    missing = next((label for label in found if label not in labels), None)
    if missing is not None:
        hint = f"it has {scope.show_axes(shape.axes)}"
        raise scope.fail(f"{call.function}_{missing}: the operand has no {missing}", call.span, hint)
    return tuple(dict.fromkeys(found))


def one_by_one(words: Iterable[str], labels: Collection[str]) -> Iterator[str]:
    """The labels that words behind ``_`` name: one each, or several of one letter.

    >>> list(one_by_one(["ST", "batch"], ["batch", "S", "T"]))
    ['S', 'T', 'batch']
    """
    for word in words:
        yield from word if word not in labels and all(letter in labels for letter in word) else [word]


def last(scope: Scope, call: CallNode, shape: Shape) -> tuple[str, ...]:
    """The last dimension, as the default to work along; the answer says so."""
    if not shape.axes:
        raise scope.fail(f"{call.function} works along a dimension; this is a scalar", call.span)
    (label,) = usual_over(call.function, shape.labels)
    scope.assume(f"{call.function} is along the last dimension, {scope.show_label(label)}")
    return (label,)


def along_one(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """Softmax and running sums: the result is shaped as the operand."""
    over = along(scope, call, shapes[0]) or last(scope, call, shapes[0])
    if len(over) > 1:
        raise scope.fail(f"{call.function} works along one dimension, not {len(over)}", call.span)
    return _like_first(scope, call, shapes, wanted, over)


def top(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """The k largest along one dimension, which the result has k of; their places are written beside them."""
    (x,) = shapes
    (over, *more) = along(scope, call, x) or last(scope, call, x)
    if more:
        raise scope.fail(f"{call.function} works along one dimension, not {1 + len(more)}", call.span)
    k, size = call.options.get("k"), scope.sizes.get(over)
    if not isinstance(k, int):
        raise scope.fail(f"{call.function} needs k=, a whole number", call.place("k"), "as in topk_V(x, k=8)")
    if size is not None and k > size:
        raise scope.fail(f"{call.function} cannot take {k} of {size}", call.place("k"), f"k is at most {size}")
    taken = TensorDim(scope.number(k))
    given = [taken if axis.label == over else axis for axis in x.axes]
    return finish(scope, call, shapes, given, wanted, computed=[taken.label], over=(over,))


def fourier(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """A Fourier transform along one or several dimensions: complex results, as many as there are operands."""
    (x,) = shapes
    over = along(scope, call, x) or last(scope, call, x)
    dtype = "complex128" if dtypes.get(x.dtype).arithmetic == "fp64" else "complex64"
    return finish(scope, call, shapes, x.axes, wanted, dtype=dtype, over=over)


def norm(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """Layer, RMS, batch and group norm: x, then a scale and a shift that broadcast to it."""
    x = shapes[0]
    operands, axes = broadcast(scope, shapes, Wanted(), call.span, call.function)
    if len(axes) != len(x.axes):
        raise scope.fail(f"the scale of {call.function} has more dimensions than x", call.span)
    if call.function == "group_norm":
        if "groups" not in call.options:
            raise scope.fail("group_norm needs groups=", call.span, "as in group_norm(x, groups=32)")
        if len(x.axes) < 2:
            raise scope.fail("group_norm works on [B, …, C]", call.span)
        over = along(scope, call, operands[0]) or usual_over(call.function, operands[0].labels)
    else:
        over = along(scope, call, operands[0]) or last(scope, call, operands[0])
    return _like_first(scope, call, operands, wanted, over)


def _like_first(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted, over: tuple[str, ...]) -> Shape:
    dtype = None if len(shapes) == 1 else shapes[0].dtype
    return finish(scope, call, shapes, shapes[0].axes, wanted, dtype=dtype, over=over)


def reduction(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """Reductions: over the named dimensions. Else over those that the written result lacks, or over all."""
    x = shapes[0]
    over = along(scope, call, x)
    if not over and wanted.dims and all(dim.name for dim in wanted.dims):
        kept = {dim.name for dim in wanted.dims}
        over = tuple(label for label in x.labels if label not in kept)
    elif not over:
        over = usual_over(call.function, x.labels)
    given = tuple(axis for axis in x.axes if axis.label not in over)
    shards = tuple(a for axis in x.axes if axis.label in over for a in axis.shard)
    return finish(scope, call, [x], given, wanted, dtype=RESULT_DTYPES.get(call.function), over=over, unreduced=shards)


def attention(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """softmax(q·kᵀ)·v for each head: q[B,S,N,H], k[B,T,K,H], v[B,T,K,V] → [B,S,N,V].

    The same label for S and T is self attention; K < N shares each key head among N/K query heads. Without v the
    values are the first columns of the keys, as many as ``values`` says: the latents of multi-head latent attention.
    """
    own = call.options.get("values")
    if (own is None) == (len(shapes) == 2):
        what = "attention takes 3 operands, not 2" if own is None else "the values are given, and values= says others"
        hint = "attention(q, k, v), or attention(q, k, values=512) where the values are the first 512 columns of k"
        raise scope.fail(what, call.place("values"), hint)
    for shape in shapes:
        if len(shape.axes) != len(shapes[0].axes) or len(shape.axes) not in (3, 4):
            ranks = ", ".join(scope.show_axes(shape.axes) for shape in shapes)
            raise scope.fail(f"attention of {ranks}", call.span, f"it takes {ATTENTION_LAYOUT}")
    if {"causal", "full"} <= call.options.keys():
        raise scope.fail("attention is causal or full, not both", call.place("causal", "full"))
    if not isinstance(call.options.get("window", 1), int):
        raise scope.fail("the window of attention is one number", call.place("window"))
    batched, many = len(shapes[0].axes) == 4, len(shapes)
    pairs = [("length", 1, 2, -3), ("heads", 1, 2, -2), ("head size", 0, 1, -1)]
    pairs += [("batch", 0, 1, 0), ("batch", 1, 2, 0)] if batched else []
    operands = list(shapes)
    for what, first, second, position in (pair for pair in pairs if pair[2] < many):
        one, other = operands[first].labels[position], operands[second].labels[position]
        label = scope.pair(one, other)
        if label is None:
            who = "qkv"[first] + " and " + "qkv"[second]
            shown = f"{scope.show_label(one)} and {scope.show_label(other)}"
            place = scope.place(shapes[second], shapes[second].labels[position], call.span)
            raise scope.fail(f"the {what} of {who} differs: {shown}", place, f"attention takes {ATTENTION_LAYOUT}")
        renamed = {old: label for old in (one, other) if old != label}
        operands = [rename(shape, renamed) for shape in operands]
    q, k = operands[:2]
    heads, shared = scope.sizes.get(q.labels[-2]), scope.sizes.get(k.labels[-2])
    if heads and shared and heads % shared:
        message = f"{heads} query head{'' if heads == 1 else 's'} cannot share {shared} key heads evenly"
        raise scope.fail(message, call.span, f"N is a multiple of K in {ATTENTION_LAYOUT}")
    if own is None:
        return finish(scope, call, operands, (*q.axes[:-1], operands[2].axes[-1]), wanted)
    if not isinstance(own, int) or own > scope.sizes.get(k.labels[-1], own):
        message = f"values={own} of keys with {scope.show_label(k.labels[-1])} columns"
        raise scope.fail(message, call.place("values"), "the values are the first of these columns")
    return finish(scope, call, operands, (*q.axes[:-1], TensorDim(scope.number(own))), wanted)


def embedding(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """Rows of table[V, D] at indices[…] → […, D]."""
    table, indices = shapes
    if len(table.axes) != 2:
        message = f"the table of an embedding is [V, D], not {scope.show_axes(table.axes)}"
        raise scope.fail(message, call.span, "embedding(table[V, D], int32[B, S])")
    if dtypes.get(indices.dtype).family != "int":
        message = f"the indices of an embedding are whole numbers, not {indices.dtype}"
        raise scope.fail(message, call.span, "the table comes first: embedding(table[V, D], int32[B, S])")
    repeated = next((label for label in indices.labels if label in table.labels), None)
    if repeated:
        message = f"{repeated} stands in the table and in the indices"
        raise scope.fail(message, scope.place(indices, repeated, call.span), "give one of them another name")
    given = (*indices.axes, table.axes[1])
    return finish(scope, call, shapes, given, wanted, typed_by=(table,))


def transpose(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """A copy in the written order; without one the last two dimensions change places."""
    (x,) = shapes
    if len(x.axes) < 2:
        raise scope.fail(f"transpose needs two dimensions, not {scope.show_axes(x.axes)}", call.span)
    given = (*x.axes[:-2], x.axes[-1], x.axes[-2])
    if wanted.dims is not None:
        given = _permuted(scope, x, wanted) or given
    return finish(scope, call, shapes, given, wanted, unreduced=x.unreduced)


def _permuted(scope: Scope, x: Shape, wanted: Wanted) -> tuple[TensorDim, ...] | None:
    """The operand's axes in the written order; numbers go by size, from the last dimension on."""
    free = list(reversed(x.axes))
    found: list[TensorDim] = []
    for dim in wanted.dims or ():
        for axis in free:
            if dim.name == axis.label or (is_unnamed(axis.label) and scope.sizes.get(axis.label) == dim.size):
                found.append(axis)
                free.remove(axis)
                break
    return tuple(found) if not free and len(found) == len(x.axes) else None


_REDUCING = ("ReduceScatter", "AllReduce", "Reduce")
_RESHARDING = ("ReduceScatter", "AllToAll", "Scatter")
_GATHERING = ("AllGather", "AllToAll", "Gather")


def collective(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """Resolve a collective: ``over`` holds its mesh axes, the option ``dim`` the dimension that is sharded anew."""
    (x,) = shapes
    axes, targets = _axes_and_target(scope, call, x)
    sharding = {axis: axis_of for axis_of in x.axes for axis in axis_of.shard}
    unreduced, given = x.unreduced, x.axes
    if call.function in _GATHERING:
        for axis in axes:
            if axis not in sharding:
                hint = f"the axes that shard it: {', '.join(sharding) or 'none'}"
                raise scope.fail(f"{call.function}_{axis}: {axis} shards no dimension of the operand", call.span, hint)
        given = tuple(TensorDim(a.label, tuple(s for s in a.shard if s not in axes)) for a in given)
    if call.function in _REDUCING:
        unreduced = _reduced(scope, call, x, axes, sharding)
    options = {}
    if call.function in _RESHARDING:
        target = targets or _written_target(scope, call, axes, wanted)
        if target not in x.labels:
            hint = f"it has {scope.show_axes(x.axes)}"
            raise scope.fail(f"{call.function}: the operand has no dimension {target}", call.span, hint)
        if call.function == "AllToAll":
            _check_all_to_all(scope, call, x, axes, target)
        options["dim"] = target
        given = tuple(TensorDim(a.label, (*a.shard, *axes)) if a.label == target else a for a in given)
    made = _collective_result(scope, call, given, wanted)
    return scope.add(
        "collective", call.function, shapes, made, span=call.span, wanted=wanted, unreduced=unreduced, over=axes,
        options=options,
    )  # fmt: skip


def _axes_and_target(scope: Scope, call: CallNode, x: Shape) -> tuple[Labels, str]:
    """Tell mesh axes from the dimension among what stands after ``_``."""
    axes = tuple(word for word in call.over if word not in x.labels)
    dims = [word for word in call.over if word in x.labels]
    if not axes:
        raise scope.fail(f"{call.function} needs the mesh axes it goes over", call.span, f"as in {call.function}_X(…)")
    if dims and call.function not in _RESHARDING:
        raise scope.fail(f"{dims[0]} is a dimension of the operand; {call.function} goes over mesh axes", call.span)
    if len(dims) > 1:
        raise scope.fail(f"{call.function} shards one dimension, not {in_a_row(dims)}", call.span)
    return axes, dims[0] if dims else ""


def _check_all_to_all(scope: Scope, call: CallNode, x: Shape, axes: Labels, target: str) -> None:
    """Refuse an AllToAll that would move an axis to the dimension it shards already."""
    there = next((axis for one in x.axes if one.label == target for axis in one.shard if axis in axes), None)
    if there is not None:
        own, other = scope.show_label(target), next((name for name in x.labels if name != target), "")
        message = f"AllToAll_{there} moves {there} to another dimension, and it shards {own} already"
        hint = f"as in AllToAll_{{{there},{scope.show_label(other)}}}(…)" if other else "the operand has no other"
        raise scope.fail(message, call.span, hint)


def _reduced(scope: Scope, call: CallNode, x: Shape, axes: Labels, sharding: dict[str, TensorDim]) -> Labels:
    for axis in axes:
        if axis in sharding:
            label = scope.show_label(sharding[axis].label)
            hint = "partial sums over an axis are not sharded by it"
            raise scope.fail(f"{call.function}_{axis}: {axis} shards {label} of the operand", call.span, hint)
        if axis not in x.unreduced:
            scope.assume(f"the operand of {call.function}_{axis} holds partial sums over {axis}")
    return tuple(axis for axis in x.unreduced if axis not in axes)


def _written_target(scope: Scope, call: CallNode, axes: Labels, wanted: Wanted) -> str:
    """The dimension that the written result shards by these axes."""
    for dim in wanted.dims or ():
        if dim.name and set(axes) <= set(dim.axes):
            return dim.name
    example = f"{call.function}_{{{','.join(axes)},K}}(…)"
    raise scope.fail(f"{call.function} needs the dimension to shard", call.span, f"as in {example}")


def _collective_result(scope: Scope, call: CallNode, given: Axes, wanted: Wanted) -> Axes:
    dims = wanted.dims
    if wanted.output is None or dims is None:
        return given
    if len(dims) == len(given) and all(_same_layout(scope, dim, axis) for dim, axis in zip(dims, given, strict=True)):
        return given
    raise scope.fail(f"{call.function} gives {scope.show_axes(given)}", wanted.output.span, "write the result so")


def _same_layout(scope: Scope, dim: Dim, axis: TensorDim) -> bool:
    same = dim.name == axis.label if dim.name else scope.sizes.get(axis.label) == dim.size
    return same and set(dim.axes) == set(axis.shard)


_WINDOW_LAYOUTS = {
    "conv": "conv(x[B, spatial…, C], w[kernel…, C/groups, O]) with 1 to 3 spatial dimensions",
    "depthwise": "conv(x[B, spatial…, C], w[kernel…, 1, C], depthwise) with 1 to 3 spatial dimensions",
    "conv_transpose": "conv_transpose(x[B, spatial…, C], w[kernel…, C, O/groups]) with 1 to 3 spatial dimensions",
    "pool": "pool(x[B, spatial…, C], window=2) with 1 to 3 spatial dimensions",
}


def convolution(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """A convolution or a transposed one: x, weights, and perhaps a bias."""
    x, weights = shapes[0], shapes[1]
    spatial = len(x.axes) - 2
    if not 1 <= spatial <= 3 or len(weights.axes) != len(x.axes):
        shown = f"{call.function} of {scope.show_axes(x.axes)} and {scope.show_axes(weights.axes)}"
        form = _WINDOW_LAYOUTS["depthwise" if call.options.get("depthwise") else call.function]
        raise scope.fail(shown, call.span, f"the form is {form}")
    options = _window_options(scope, call, spatial, stride=1)
    kept = "pad=same keeps its sizes" if call.function == "conv" else "pad=1 takes one off each side"
    is_padded = {"pad", "same", "valid"} & set(call.options)
    layout = f"{call.function} has channels last, kernel sizes first"
    scope.assume(layout if is_padded else f"{layout}, and no padding: {kept}")
    if options.get("depthwise"):
        scope.assume("a depthwise convolution counts as products do: at the peak of the matrix unit where there is one")
    operands = _pair_channels(scope, call, list(shapes), options)
    x, weights = operands[0], operands[1]
    kernel = [scope.sizes.get(label) for label in weights.labels[:spatial]]
    places = _slide(scope, call, x.axes[1:-1], kernel, options)
    channels = weights.axes[-1]
    if call.function == "conv_transpose" and options["groups"] != 1:
        size = scope.sizes.get(channels.label)
        channels = TensorDim(scope.number(size * options["groups"] if size else None), channels.shard)
    return _windowed(scope, call, operands, (x.axes[0], *places, channels), options, wanted)


def pooling(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """Pooling: as a convolution with a window of given size and no weights; the stride is the window's size."""
    (x,) = shapes
    spatial = len(x.axes) - 2
    if not 1 <= spatial <= 3:
        shown = f"{call.function} of {scope.show_axes(x.axes)}"
        raise scope.fail(shown, call.span, f"the form is {_WINDOW_LAYOUTS['pool']}")
    if "window" not in call.options:
        raise scope.fail("pool needs window=", call.span, "as in pool(x, window=2) or window=3x3")
    window = _per_dimension(scope, call, "window", spatial, 1)
    options = {"window": window, **_window_options(scope, call, spatial, stride=window)}
    options.pop("groups")
    places = _slide(scope, call, x.axes[1:-1], window, options)
    return _windowed(scope, call, [x], (x.axes[0], *places, x.axes[-1]), options, wanted)


def _windowed(
    scope: Scope, call: CallNode, operands: Sequence[Shape], given: Axes, options: dict[str, Any], wanted: Wanted
) -> Shape:
    own = {label for shape in operands for label in shape.labels}
    computed = [axis.label for i, axis in enumerate(given) if 0 < i < len(given) - 1 or axis.label not in own]
    return finish(scope, call, operands, given, wanted, computed=computed, options=options)


def _window_options(scope: Scope, call: CallNode, spatial: int, *, stride: int | tuple[int, ...]) -> dict[str, Any]:
    given = call.options
    words = [word for word in ("same", "valid") if word in given]
    if len(words) + ("pad" in given) > 1:
        raise scope.fail("the padding is given twice", call.place("pad", *words), "pad=1, same or valid")
    word = words[0] if words else given.get("pad")
    pad: Any = (0,) * spatial if word == "valid" else word
    if word == "same" and call.function == "conv_transpose":
        raise scope.fail("conv_transpose has no padding 'same'", call.place("pad"), "give pad= as a number")
    if word not in ("same", "valid"):
        pad = _per_dimension(scope, call, "pad", spatial, 0)
    options = {
        "stride": _per_dimension(scope, call, "stride", spatial, stride),
        "pad": pad,
        "dilation": _per_dimension(scope, call, "dilation", spatial, 1),
        "groups": given.get("groups", 1),
    }
    if call.function == "conv_transpose":
        options["output_pad"] = _per_dimension(scope, call, "output_pad", spatial, 0)
    if given.get("depthwise"):
        options["depthwise"] = True
    return options


def _per_dimension(scope: Scope, call: CallNode, key: str, spatial: int, default: Any) -> tuple[int, ...]:
    value = call.options.get(key, default)
    if not isinstance(value, tuple):
        return (int(value),) * spatial
    if len(value) != spatial:
        message = f"{key} has {len(value)} numbers for {spatial} spatial dimension{'s' if spatial > 1 else ''}"
        raise scope.fail(message, call.place(key), f"{key}={value[0]} stands for all")
    return value


def _pair_channels(scope: Scope, call: CallNode, shapes: list[Shape], options: dict[str, Any]) -> list[Shape]:
    transposed = call.function == "conv_transpose"
    x, weights = shapes[0], shapes[1]
    channels, own = x.labels[-1], weights.labels[-2]
    if options.get("depthwise"):
        if call.options.get("groups") not in (None, scope.sizes.get(channels)):
            raise scope.fail("depthwise has as many groups as channels; groups= says otherwise", call.place("groups"))
        options["groups"] = scope.sizes.get(channels, channels)
        if not scope.is_one(own):
            message = f"the weights of a depthwise convolution are [kernel…, 1, O], not […, {scope.show_label(own)}, …]"
            raise scope.fail(message, scope.place(weights, own, call.span))
        _check_groups(scope, call, weights.labels[-1], options["groups"], "output channels")
    elif options["groups"] == 1 or transposed:
        _check_channels_last(scope, call, x, weights)
        shapes = _pair_labels(scope, call, shapes, (0, -1), (1, -2), "channels")
        _check_groups(scope, call, channels, options["groups"])
    else:
        _check_groups(scope, call, channels, options["groups"])
        _check_groups(scope, call, weights.labels[-1], options["groups"], "output channels")
        total, part = scope.sizes.get(channels), scope.sizes.get(own)
        if total is not None and part is not None and part * options["groups"] != total:
            expected = total // options["groups"]
            place = scope.place(weights, own, call.span)
            hint = f"each filter sees {expected} of them: [kernel…, {expected}, O]"
            raise scope.fail(f"{total} channels in {options['groups']} groups, weights for {part}", place, hint)
        if own == channels:
            place = scope.place(weights, own, call.span)
            hint = "the weights are [kernel…, C/groups, O]; write the number or another name"
            raise scope.fail(f"{own} is all channels, each group sees a part", place, hint)
    if len(shapes) == 3:
        if len(shapes[2].axes) != 1:
            raise scope.fail(f"the bias is [O], not {scope.show_axes(shapes[2].axes)}", call.span)
        if not (transposed and options["groups"] != 1):
            shapes = _pair_labels(scope, call, shapes, (1, -1), (2, -1), "bias")
    return shapes


def _check_channels_last(scope: Scope, call: CallNode, x: Shape, weights: Shape) -> None:
    """Refuse channels that stand first, as PyTorch has them: x[B, C, spatial…] and w[O, C, kernel…]."""
    compared = (x.labels[1], weights.labels[1], x.labels[-1], weights.labels[-2])
    first, other, last, behind = (scope.sizes.get(label, label) for label in compared)
    if first != other or last == behind:
        return
    batch, channels, *places = map(scope.show_label, x.labels)
    filters, _, *kernel = map(scope.show_label, weights.labels)
    said = f"{x.dtype}[{', '.join([batch, *places, channels])}]"
    said += f", {weights.dtype}[{', '.join([*kernel, channels, filters])}]"
    hint = f"channels are last and filters behind their kernel: {call.function}({said})"
    raise scope.fail(f"the channels of {call.function} stand first, as PyTorch has them", call.span, hint)


def _check_groups(scope: Scope, call: CallNode, label: str, groups: Any, what: str = "channels") -> None:
    size = scope.sizes.get(label)
    if isinstance(groups, int) and size is not None and size % groups:
        message = f"{size} {what} do not fall into {groups} groups"
        raise scope.fail(message, call.place("groups", "depthwise"), f"the form is {_WINDOW_LAYOUTS[call.function]}")


def _pair_labels(
    scope: Scope, call: CallNode, shapes: list[Shape], one: tuple[int, int], other: tuple[int, int], what: str
) -> list[Shape]:
    first, second = shapes[one[0]].labels[one[1]], shapes[other[0]].labels[other[1]]
    label = scope.pair(first, second)
    if label is None:
        place = scope.place(shapes[other[0]], second, call.span)
        message = f"the {what} of {call.function} differ: {scope.show_label(first)} and {scope.show_label(second)}"
        raise scope.fail(message, place, f"the form is {_WINDOW_LAYOUTS[call.function]}")
    renamed = {old: label for old in (first, second) if old != label}
    return [rename(shape, renamed) for shape in shapes]


def _slide(scope: Scope, call: CallNode, axes: Axes, window: Sequence[Any], options: Any) -> list[TensorDim]:
    """The spatial dimensions of a result: a window slides over each."""
    transposed = call.function == "conv_transpose"
    result = []
    for i, (axis, k) in enumerate(zip(axes, window, strict=True)):
        stride, dilation = options["stride"][i], options["dilation"][i]
        same = options["pad"] == "same"
        pad = 0 if same else options["pad"][i]
        if stride == 1 and not transposed and (same or (k is not None and 2 * pad == dilation * (k - 1))):
            result.append(axis)
            continue
        size, out = scope.sizes.get(axis.label), None
        if size is not None and same:
            out = -(-size // stride)
        elif size is not None and k is not None and transposed:
            out = (size - 1) * stride - 2 * pad + dilation * (k - 1) + options["output_pad"][i] + 1
        elif size is not None and k is not None:
            out = (size + 2 * pad - dilation * (k - 1) - 1) // stride + 1
        if out is not None and out < 1:
            message = f"a window of {k} does not fit a size of {size}"
            raise scope.fail(message, call.place("window"), "pad more, or take a smaller window")
        result.append(TensorDim(scope.number(out), axis.shard))
    return result


RULES: Mapping[str, Rule] = Frozen({
    "elementwise": elementwise, "reduction": reduction, "scan": along_one, "softmax": along_one, "norm": norm,
    "sort": top, "fft": fourier,
    "collective": collective, "attention": attention, "embedding": embedding, "copy": transpose,
    "convolution": convolution, "pooling": pooling,
})  # fmt: skip
