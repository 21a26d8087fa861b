"""Networks in plain JAX from their layer lists: a layer is the shapes of its parameters and what it does with them.

The papers and the layer lists are those of ``networks.py``, which has the same networks in torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class Layer(NamedTuple):
    """Shapes of the parameters (a pytree) and ``apply(parameters, x)``."""

    shapes: Any
    apply: Callable[[Any, Any], Any]


def weight(*dims: int, dtype: str = "float32") -> Any:
    return jax.ShapeDtypeStruct(dims, dtype)


def stacked(layers: int, shapes: Any, dtype: str) -> Any:
    """Parameters of many equal layers, to be scanned over."""
    return jax.tree.map(lambda s: weight(layers, *s.shape, dtype=dtype), shapes)


def serial(*layers: Layer) -> Layer:
    """One layer after the other."""

    def apply(parameters: Any, x: Any) -> Any:
        for layer, own in zip(layers, parameters, strict=True):
            x = layer.apply(own, x)
        return x

    return Layer([layer.shapes for layer in layers], apply)


def function(run: Callable[[Any], Any]) -> Layer:
    """Something without parameters."""
    return Layer((), lambda _, x: run(x))


def residual(body: Layer, shortcut: Layer | None = None, after: Callable[[Any], Any] = lambda x: x) -> Layer:
    """x + body(x), or shortcut(x) + body(x)."""
    other = shortcut or function(lambda x: x)
    return Layer((body.shapes, other.shapes), lambda p, x: after(other.apply(p[1], x) + body.apply(p[0], x)))


def conv(cin: int, cout: int, kernel: int = 3, stride: int = 1, groups: int = 1, pad: int | None = None) -> Layer:
    edge = kernel // 2 if pad is None else pad

    def apply(w: Any, x: Any) -> Any:
        return lax.conv_general_dilated(x, w, (stride,) * 2, ((edge, edge),) * 2, feature_group_count=groups)

    return Layer(weight(cout, cin // groups, kernel, kernel), apply)


def channels(size: int) -> Layer:
    """A batch norm in inference: its statistics joined with scale and shift."""
    return Layer((weight(size),) * 2, lambda p, x: x * p[0][:, None, None] + p[1][:, None, None])


def bias(size: int) -> Layer:
    return Layer(weight(size), lambda p, x: x + p[:, None, None])


def dense(cin: int, cout: int, bias: bool = True) -> Layer:
    if not bias:
        return Layer(weight(cin, cout), lambda p, x: x @ p)
    return Layer((weight(cin, cout), weight(cout)), lambda p, x: x @ p[0] + p[1])


def pool(window: int, stride: int, pad: int = 0) -> Layer:
    edges = ((0, 0), (0, 0), (pad, pad), (pad, pad))

    def run(x: Any) -> Any:
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, window, window), (1, 1, stride, stride), edges)

    return function(run)


relu, relu6 = function(jax.nn.relu), function(jax.nn.relu6)
flatten = function(lambda x: x.reshape(x.shape[0], -1))
mean = function(lambda x: x.mean((2, 3)))


def _conv(cin: int, cout: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: Layer | None = relu) -> Layer:
    layers = [conv(cin, cout, kernel, stride, groups), channels(cout)]
    return serial(*layers, *(() if act is None else (act,)))


def vgg16() -> Layer:
    layers: list[Layer] = []
    size = 3
    for item in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        layers += [pool(2, 2)] if item == 0 else [conv(size, item), bias(item), relu]
        size = item or size
    return serial(*layers, flatten, dense(25088, 4096), relu, dense(4096, 4096), relu, dense(4096, 1000))


def mobilenet_v1() -> Layer:
    pairs = ((32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2))
    layers = [_conv(3, 32, stride=2)]
    for cin, cout, stride in (*pairs, *((512, 512, 1),) * 5, (512, 1024, 2), (1024, 1024, 1)):
        layers += [_conv(cin, cin, stride=stride, groups=cin), _conv(cin, cout, kernel=1)]
    return serial(*layers, mean, dense(1024, 1000))


def mobilenet_v2() -> Layer:
    layers, cin = [_conv(3, 32, stride=2, act=relu6)], 32
    for t, c, n, s in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                       (6, 320, 1, 1)):  # fmt: skip
        for index in range(n):
            stride, hidden = s if index == 0 else 1, cin * t
            expand = [_conv(cin, hidden, kernel=1, act=relu6)] if t != 1 else []
            body = serial(
                *expand, _conv(hidden, hidden, stride=stride, groups=hidden, act=relu6), _conv(hidden, c, 1, act=None)
            )
            layers.append(residual(body) if stride == 1 and cin == c else body)
            cin = c
    return serial(*layers, _conv(320, 1280, kernel=1, act=relu6), mean, dense(1280, 1000))


def resnet50() -> Layer:
    layers, cin = [_conv(3, 64, 7, 2), pool(3, 2, 1)], 64
    for width, blocks, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for index in range(blocks):
            stride = first if index == 0 else 1
            body = serial(_conv(cin, width, 1), _conv(width, width, 3, stride), _conv(width, 4 * width, 1, act=None))
            same = stride == 1 and cin == 4 * width
            layers.append(residual(body, None if same else _conv(cin, 4 * width, 1, stride, act=None), jax.nn.relu))
            cin = 4 * width
    return serial(*layers, mean, dense(2048, 1000))


def layer_norm(size: int) -> Layer:
    def apply(p: Any, x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * p[0] + p[1]

    return Layer((weight(size),) * 2, apply)


def self_attention(d: int, heads: int, causal: bool = False) -> Layer:
    """Multi-head attention written out, with one projection for q, k and v."""
    into, out = dense(d, 3 * d), dense(d, d)

    def apply(p: Any, x: Any) -> Any:
        b, s, _ = x.shape
        q, k, v = jnp.moveaxis(into.apply(p[0], x).reshape(b, s, 3, heads, d // heads), 2, 0)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (d // heads) ** 0.5
        if causal:
            scores = jnp.where(jnp.tril(jnp.ones((s, s), bool)), scores, -jnp.inf)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)
        return out.apply(p[1], mixed.reshape(b, s, d))

    return Layer((into.shapes, out.shapes), apply)


def transformer(layers: int, d: int, heads: int, hidden: int, causal: bool = False, after: bool = False) -> Layer:
    """Equal layers, scanned over, normed before or after."""
    mlp = serial(dense(d, hidden), function(jax.nn.gelu), dense(hidden, d))
    mix, norm = self_attention(d, heads, causal), layer_norm(d)
    if after:
        block = serial(residual(mix), norm, residual(mlp), norm)
    else:
        block = serial(residual(serial(norm, mix)), residual(serial(norm, mlp)))

    def apply(p: Any, x: Any) -> Any:
        return lax.scan(lambda carry, own: (block.apply(own, carry), None), x, p)[0]

    return Layer(stacked(layers, block.shapes, "float32"), apply)


def vit() -> Layer:
    patches, body = serial(conv(3, 768, 16, 16, pad=0), bias(768)), transformer(12, 768, 12, 3072)
    head = serial(layer_norm(768), function(lambda x: x[:, 0]), dense(768, 1000))

    def apply(p: Any, x: Any) -> Any:
        x = patches.apply(p[0], x)
        x = x.reshape(*x.shape[:2], -1).swapaxes(1, 2)
        x = jnp.concatenate((jnp.broadcast_to(p[1], (x.shape[0], 1, 768)), x), 1) + p[2]
        return head.apply(p[4], body.apply(p[3], x))

    return Layer((patches.shapes, weight(1, 1, 768), weight(1, 197, 768), body.shapes, head.shapes), apply)


def bert() -> Layer:
    body, norm = transformer(12, 768, 12, 3072, after=True), layer_norm(768)
    pooler = serial(function(lambda x: x[:, 0]), dense(768, 768), function(jnp.tanh))

    def apply(p: Any, ids: Any) -> Any:
        x = p[0][ids] + p[1][jnp.arange(ids.shape[1])] + p[2][jnp.zeros_like(ids)]
        return pooler.apply(p[5], body.apply(p[4], norm.apply(p[3], x)))

    tables = weight(30522, 768), weight(512, 768), weight(2, 768)
    return Layer((*tables, norm.shapes, body.shapes, pooler.shapes), apply)


def gpt2() -> Layer:
    body, norm = transformer(12, 768, 12, 3072, causal=True), layer_norm(768)

    def apply(p: Any, ids: Any) -> Any:
        x = p[0][ids] + p[1][jnp.arange(ids.shape[1])]
        return norm.apply(p[3], body.apply(p[2], x)) @ p[0].T

    return Layer((weight(50257, 768), weight(1024, 768), body.shapes, norm.shapes), apply)
