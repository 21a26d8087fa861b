"""Shapes of convolutions and pooling: a window that moves over one to three spatial dimensions.

``o = floor((i + 2·pad − dilation·(k − 1) − 1) / stride) + 1``; padding ``same`` gives ``ceil(i / stride)``.
A transposed convolution gives ``o = (i − 1)·stride − 2·pad + dilation·(k − 1) + output_pad + 1``.
Source of both: the shape formulas of PyTorch's ConvNd and ConvTransposeNd documentation.

The options of a step are complete and of one form: ``stride``, ``dilation`` and ``output_pad`` tuples with a number
for each spatial dimension, ``pad`` such a tuple or ``"same"``, ``groups`` a number, or the label of the channels
where a depthwise convolution has a named size.

>>> from roofline.notation import canonical, program
>>> canonical(program("conv(bf16[B, 224, 224, 3], bf16[7, 7, 3, 64], stride=2, pad=3)")).rpartition("-> ")[2]
'bf16[B, 112, 112, 64]'
>>> program("conv(bf16[B, H, W, C], bf16[3, 3, C, O], same)").steps[0].output.labels
('B', 'H', 'W', 'O')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.notation.result import finish
from roofline.notation.scope import Scope, Wanted, rename
from roofline.notation.structure import Axis, CallNode, Shape

_LAYOUTS = {
    "conv": "conv(x[B, spatial…, C], w[kernel…, C/groups, O]) with 1 to 3 spatial dimensions",
    "conv_transpose": "conv_transpose(x[B, spatial…, C], w[kernel…, C, O/groups]) with 1 to 3 spatial dimensions",
    "pool": "pool(x[B, spatial…, C], window=2) with 1 to 3 spatial dimensions",
}


def convolution(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """A convolution or a transposed one: x, weights, and perhaps a bias."""
    x, weights = shapes[0], shapes[1]
    spatial = len(x.axes) - 2
    if not 1 <= spatial <= 3 or len(weights.axes) != len(x.axes):
        shown = f"{call.function} of {scope.show_axes(x.axes)} and {scope.show_axes(weights.axes)}"
        raise scope.fail(shown, call.span, f"the form is {_LAYOUTS[call.function]}")
    transposed = call.function == "conv_transpose"
    options = _options(scope, call, spatial, stride=1)
    operands = _pair_channels(scope, call, list(shapes), options)
    x, weights = operands[0], operands[1]
    kernel = [scope.sizes.get(label) for label in weights.labels[:spatial]]
    places = [
        _transposed_out(scope, call, axis, k, options, i) if transposed else _out(scope, call, axis, k, options, i)
        for i, (axis, k) in enumerate(zip(x.axes[1:-1], kernel, strict=True))
    ]
    channels = weights.axes[-1]
    if transposed and options["groups"] != 1:
        size = scope.sizes.get(channels.label)
        channels = Axis(scope.number(size * options["groups"] if size else None), channels.shard)
    return _windowed(scope, call, operands, (x.axes[0], *places, channels), options, wanted)


def pooling(scope: Scope, call: CallNode, shapes: Sequence[Shape], wanted: Wanted) -> Shape:
    """Pooling: as a convolution with a window of given size and no weights; the stride is the window's size."""
    (x,) = shapes
    spatial = len(x.axes) - 2
    if not 1 <= spatial <= 3:
        shown = f"{call.function} of {scope.show_axes(x.axes)}"
        raise scope.fail(shown, call.span, f"the form is {_LAYOUTS['pool']}")
    if "window" not in call.options:
        raise scope.fail("pool needs window=", call.span, "as in pool(x, window=2) or window=3x3")
    window = _tuple(scope, call, "window", spatial, 1)
    options = {"window": window, **_options(scope, call, spatial, stride=window)}
    options.pop("groups")
    places = [_out(scope, call, axis, window[i], options, i) for i, axis in enumerate(x.axes[1:-1])]
    return _windowed(scope, call, [x], (x.axes[0], *places, x.axes[-1]), options, wanted)


def _windowed(
    scope: Scope,
    call: CallNode,
    operands: Sequence[Shape],
    given: tuple[Axis, ...],
    options: dict[str, Any],
    wanted: Wanted,
) -> Shape:
    own = {label for shape in operands for label in shape.labels}
    computed = [axis.label for i, axis in enumerate(given) if 0 < i < len(given) - 1 or axis.label not in own]
    return finish(scope, call, operands, given, wanted, computed=computed, options=options)


def _options(scope: Scope, call: CallNode, spatial: int, *, stride: int | tuple[int, ...]) -> dict[str, Any]:
    given = call.options
    words = [word for word in ("same", "valid") if word in given]
    if len(words) + ("pad" in given) > 1:
        raise scope.fail("the padding is given twice", call.place("pad", *words), "pad=1, same or valid")
    word = words[0] if words else given.get("pad")
    pad: Any
    if word == "same":
        if call.function == "conv_transpose":
            raise scope.fail("conv_transpose has no padding 'same'", call.place("pad"), "give pad= as a number")
        pad = "same"
    else:
        pad = (0,) * spatial if word == "valid" else _tuple(scope, call, "pad", spatial, 0)
    options = {
        "stride": _tuple(scope, call, "stride", spatial, stride),
        "pad": pad,
        "dilation": _tuple(scope, call, "dilation", spatial, 1),
        "groups": given.get("groups", 1),
    }
    if call.function == "conv_transpose":
        options["output_pad"] = _tuple(scope, call, "output_pad", spatial, 0)
    if given.get("depthwise"):
        options["depthwise"] = True
    return options


def _tuple(scope: Scope, call: CallNode, key: str, spatial: int, default: int | tuple[int, ...]) -> tuple[int, ...]:
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
            message = "depthwise has as many groups as channels; groups= says otherwise"
            raise scope.fail(message, call.place("groups"))
        options["groups"] = scope.sizes.get(channels, channels)
        if not scope.is_one(own):
            message = f"the weights of a depthwise convolution are [kernel…, 1, O], not […, {scope.show_label(own)}, …]"
            raise scope.fail(message, scope.place(weights, own, call.span))
        _divides(scope, call, weights.labels[-1], options["groups"], "output channels")
    elif options["groups"] == 1 or transposed:
        shapes = _same(scope, call, shapes, (0, -1), (1, -2), "channels")
        _divides(scope, call, channels, options["groups"])
    else:
        _divides(scope, call, channels, options["groups"])
        _divides(scope, call, weights.labels[-1], options["groups"], "output channels")
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
            shapes = _same(scope, call, shapes, (1, -1), (2, -1), "bias")
    return shapes


def _divides(scope: Scope, call: CallNode, label: str, groups: Any, what: str = "channels") -> None:
    size = scope.sizes.get(label)
    if isinstance(groups, int) and size is not None and size % groups:
        raise scope.fail(f"{size} {what} do not fall into {groups} groups", call.place("groups", "depthwise"))


def _same(
    scope: Scope, call: CallNode, shapes: list[Shape], one: tuple[int, int], other: tuple[int, int], what: str
) -> list[Shape]:
    first, second = shapes[one[0]].labels[one[1]], shapes[other[0]].labels[other[1]]
    label = scope.pair(first, second)
    if label is None:
        place = scope.place(shapes[other[0]], second, call.span)
        shown = f"{scope.show_label(first)} and {scope.show_label(second)}"
        raise scope.fail(
            f"the {what} of {call.function} differ: {shown}", place, f"the form is {_LAYOUTS[call.function]}"
        )
    renamed = {old: label for old in (first, second) if old != label}
    return [rename(shape, renamed) for shape in shapes]


def _out(scope: Scope, call: CallNode, axis: Axis, k: int | None, options: dict[str, Any], i: int) -> Axis:
    stride, pad, dilation = options["stride"][i], options["pad"], options["dilation"][i]
    whole = pad == "same" or (k is not None and 2 * pad[i] == dilation * (k - 1))
    if stride == 1 and whole:
        return axis
    size = scope.sizes.get(axis.label)

    result: int | None = None
    if size is not None and pad == "same":
        result = -(-size // stride)
    elif size is not None and k is not None:
        result = (size + 2 * pad[i] - dilation * (k - 1) - 1) // stride + 1
    return _computed(scope, call, axis, size, k, result)


def _transposed_out(scope: Scope, call: CallNode, axis: Axis, k: int | None, options: dict[str, Any], i: int) -> Axis:
    stride, pad, dilation = options["stride"][i], options["pad"][i], options["dilation"][i]
    size = scope.sizes.get(axis.label)

    result: int | None = None
    if size is not None and k is not None:
        result = (size - 1) * stride - 2 * pad + dilation * (k - 1) + options["output_pad"][i] + 1
    return _computed(scope, call, axis, size, k, result)


def _computed(scope: Scope, call: CallNode, axis: Axis, size: int | None, k: int | None, result: int | None) -> Axis:
    if result is not None and result < 1:
        message = f"a window of {k} does not fit a size of {size}"
        raise scope.fail(message, call.place("window"), "pad more, or take a smaller window")
    return Axis(scope.number(result), axis.shard)
