"""Masks that an ONNX graph writes out: scores that something is added to, or chosen against, before their softmax.

>>> from onnx import helper
>>> names = {"MatMul": "q k s", "Where": "seen s low m", "Softmax": "m p", "Gemm": "p v y"}
>>> nodes = [helper.make_node(op, words.split()[:-1], words.split()[-1:]) for op, words in names.items()]
>>> masked(nodes)
(('p',), ('s', 'y'))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

_PRODUCTS = ("MatMul", "Einsum", "Gemm", "FusedMatMul", "MatMulInteger", "QLinearMatMul")
_MASKS = ("Add", "Where", "Sum", "Min")
#: What scores and weights go through one for one, beside what masks them.
_THROUGH = ("Cast", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Mul", "Div", "Clip",
            "QuantizeLinear", "DequantizeLinear", "Tanh")  # fmt: skip


def masked(nodes: Sequence[Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name the softmaxes of scores that may be masked, and the products that make the scores and use the weights."""
    makers = {word: node for node in nodes for word in node.output}
    users: dict[str, list[Any]] = {}
    for node in nodes:
        for word in node.input:
            users.setdefault(word, []).append(node)
    softmaxes: list[str] = []
    products: dict[str, None] = {}
    for node in nodes:
        if node.op_type != "Softmax":
            continue
        back = list(_before(node, makers))
        made = [found for found, masks in back if masks]
        used = [after for after in _after(node, users) if after.op_type in _PRODUCTS]
        if made and used:
            softmaxes.append(label(node))
            products |= dict.fromkeys(label(product) for product in (*made, *used))
    return tuple(softmaxes), tuple(products)


def label(node: Any) -> str:
    """What a node is called: its name, else its first result."""
    return str(node.name or (node.output[0] if node.output else ""))


def _before(node: Any, makers: dict[str, Any]) -> Iterator[tuple[Any, bool]]:
    """Products that lead to a softmax, and whether something masks them on the way."""
    left, seen = [(word, False) for word in node.input[:1]], set()
    while left:
        word, hidden = left.pop()
        maker = makers.get(word)
        if maker is None or word in seen:
            continue
        seen.add(word)
        if maker.op_type in _PRODUCTS:
            yield maker, hidden
        elif maker.op_type in _THROUGH or maker.op_type in _MASKS:
            left += [(given, hidden or maker.op_type in _MASKS) for given in maker.input]


def _after(node: Any, users: dict[str, list[Any]]) -> Iterator[Any]:
    """Products that use the weights of a softmax."""
    left, seen = list(node.output), set()
    while left:
        word = left.pop()
        if word in seen:
            continue
        seen.add(word)
        for user in users.get(word, ()):
            yield user
            if user.op_type in _THROUGH or user.op_type == "Where":
                left += user.output
