"""Networks as ONNX graphs from their layer lists, weights without values; the lists are those of ``networks.py``."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto, helper

from tests.programs.onnx_models import model, runtime, value, weight


class Graph:
    """A graph that is being written: every call adds a node and gives the name of its result."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def runtime(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        names = [f"v{len(self.nodes)}", *(f"v{len(self.nodes)}_{i}" for i in range(1, outputs))]
        self.nodes.append(runtime(kind, inputs, names, **attributes))
        return names[0]

    def weight(self, *dims: int) -> str:
        self.weights.append(weight(f"w{len(self.weights)}", *dims))
        return str(self.weights[-1].name)

    def numbers(self, *values: int) -> str:
        self.weights.append(helper.make_tensor(f"w{len(self.weights)}", TensorProto.INT64, [len(values)], values))
        return str(self.weights[-1].name)

    def model(self, given: Any, out: str) -> Any:
        return model(self.nodes, [given], [value(out)], self.weights)

    def conv(self, x: str, cin: int, cout: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: bool = True,
             bias: bool = False) -> str:  # fmt: skip
        """A convolution with a bias, or with the batch norm after it."""
        weights = [self.weight(cout, cin // groups, kernel, kernel), *([self.weight(cout)] if bias else [])]
        y = self.add("Conv", x, *weights, pads=[kernel // 2] * 4, strides=[stride] * 2, group=groups)
        if not bias:
            y = self.add("BatchNormalization", y, *(self.weight(cout) for _ in range(4)))
        return self.add("Relu", y) if act else y

    def dense(self, x: str, cin: int, cout: int, bias: bool = True) -> str:
        y = self.add("MatMul", x, self.weight(cin, cout))
        return self.add("Add", y, self.weight(cout)) if bias else y


def vgg16() -> Any:
    g, x, size = Graph(), "x", 3
    for item in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        pooled = item == 0
        x = g.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]) if pooled else g.conv(x, size, item, bias=True)
        size = item or size
    x = g.add("Flatten", x)
    for cin, cout in ((25088, 4096), (4096, 4096), (4096, 1000)):
        x = g.dense(x, cin, cout)
    return g.model(value("x", "N", 3, 224, 224), x)


def mobilenet_v1() -> Any:
    g = Graph()
    x = g.conv("x", 3, 32, stride=2)
    pairs = ((32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2))
    for cin, cout, stride in (*pairs, *((512, 512, 1),) * 5, (512, 1024, 2), (1024, 1024, 1)):
        x = g.conv(g.conv(x, cin, cin, stride=stride, groups=cin), cin, cout, 1)
    x = g.add("Flatten", g.add("GlobalAveragePool", x))
    return g.model(value("x", "N", 3, 224, 224), g.dense(x, 1024, 1000))


def resnet50() -> Any:
    g, cin = Graph(), 64
    x = g.add("MaxPool", g.conv("x", 3, 64, 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for width, blocks, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for index in range(blocks):
            stride = first if index == 0 else 1
            y = g.conv(g.conv(g.conv(x, cin, width, 1), width, width, 3, stride), width, 4 * width, 1, act=False)
            x = g.conv(x, cin, 4 * width, 1, stride, act=False) if stride > 1 or cin != 4 * width else x
            x, cin = g.add("Relu", g.add("Add", x, y)), 4 * width
    x = g.add("Flatten", g.add("GlobalAveragePool", x))
    return g.model(value("x", "N", 3, 224, 224), g.dense(x, 2048, 1000))


def _norm(g: Graph, x: str, d: int) -> str:
    return g.add("LayerNormalization", x, g.weight(d), g.weight(d))


def _self_attention(g: Graph, x: str, d: int, heads: int) -> str:
    """Written out, as exporters write it."""
    parts = []
    for turned in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)):
        split = g.add("Reshape", g.dense(x, d, d), g.numbers(0, 0, heads, d // heads))
        parts.append(g.add("Transpose", split, perm=turned))
    weights = g.add("Softmax", g.add("MatMul", parts[0], parts[1]))
    mixed = g.add("Transpose", g.add("MatMul", weights, parts[2]), perm=[0, 2, 1, 3])
    return g.dense(g.add("Reshape", mixed, g.numbers(0, 0, d)), d, d)


def _mlp(g: Graph, x: str, d: int, hidden: int) -> str:
    return g.dense(g.runtime("Gelu", g.dense(x, d, hidden)), hidden, d)


def gpt2() -> Any:
    g = Graph()
    words, places = g.weight(50257, 768), g.weight(1024, 768)
    x = g.add("Add", g.add("Gather", words, "x"), places)
    for _ in range(12):
        x = g.add("Add", x, _self_attention(g, _norm(g, x, 768), 768, 12))
        x = g.add("Add", x, _mlp(g, _norm(g, x, 768), 768, 3072))
    turned = g.add("Transpose", words, perm=[1, 0])
    return g.model(value("x", "N", 1024, dtype=TensorProto.INT64), g.add("MatMul", _norm(g, x, 768), turned))


def bert_of_the_runtime(sequence: int = 128) -> Any:
    """BERT as ONNX Runtime fuses it."""
    g, d = Graph(), 768
    ids = value("x", "N", sequence, dtype=TensorProto.INT32)
    tables = [g.weight(30522, d), g.weight(512, d), g.weight(2, d)]
    x = g.runtime("EmbedLayerNormalization", "x", "x", *tables, g.weight(d), g.weight(d), outputs=2)
    for _ in range(12):
        y = g.runtime("Attention", x, g.weight(d, 3 * d), g.weight(3 * d), num_heads=12)
        y = g.add("MatMul", y, g.weight(d, d))
        x = g.runtime("SkipLayerNormalization", y, x, g.weight(d), g.weight(d), g.weight(d))
        y = g.runtime("BiasGelu", g.add("MatMul", x, g.weight(d, 4 * d)), g.weight(4 * d))
        y = g.add("MatMul", y, g.weight(4 * d, d))
        x = g.runtime("SkipLayerNormalization", y, x, g.weight(d), g.weight(d), g.weight(d))
    first = g.add("Gather", x, g.numbers(0), axis=1)
    return g.model(ids, g.add("Tanh", g.dense(g.add("Squeeze", first, g.numbers(1)), d, d)))


def llama_of_the_runtime(layers: int = 32, d: int = 4096, hidden: int = 11008, vocab: int = 32000) -> Any:
    """Llama-2-7B as ONNX Runtime's exporter writes it, without a cache."""
    g = Graph()
    x = g.add("Gather", g.weight(vocab, d), "x")
    cos, sin = ("tables_cos", "tables_sin")
    g.weights += [weight(cos, 4096, 64), weight(sin, 4096, 64)]
    for _ in range(layers):
        h = g.runtime("SimplifiedLayerNormalization", x, g.weight(d))
        qkv = [g.dense(h, d, d, bias=False) for _ in range(3)]
        h = g.runtime("GroupQueryAttention", *qkv, "", "", "", "", cos, sin, num_heads=32, kv_num_heads=32, do_rotary=1)
        x = g.add("Add", x, g.dense(h, d, d, bias=False))
        h = g.runtime("SimplifiedLayerNormalization", x, g.weight(d))
        gate, up = g.dense(h, d, hidden, bias=False), g.dense(h, d, hidden, bias=False)
        h = g.add("Mul", g.add("Mul", gate, g.add("Sigmoid", gate)), up)
        x = g.add("Add", x, g.dense(h, hidden, d, bias=False))
    x = g.runtime("SimplifiedLayerNormalization", x, g.weight(d))
    return g.model(value("x", "N", "S", dtype=TensorProto.INT64), g.dense(x, d, vocab, bias=False))
