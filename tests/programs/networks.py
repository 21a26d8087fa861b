"""Networks from their layer lists, in plain torch.nn: what torchvision and transformers would build."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


def on_shapes(build: Any, *arguments: Any, **named: Any) -> Any:
    """Build a network without memory for its weights."""
    with torch.device("meta"):
        return build(*arguments, **named)


def vgg16() -> nn.Module:
    """Simonyan and Zisserman, arXiv:1409.1556, configuration D."""
    layers: list[nn.Module] = []
    channels = 3
    for item in (64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"):
        if item == "M":
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(channels, item, 3, padding=1), nn.ReLU()]
            channels = item
    head = [nn.Linear(25088, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers, nn.Flatten(), *head)


def _conv(
    cin: int, cout: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: Any = nn.ReLU
) -> list[nn.Module]:
    layers: list[nn.Module] = [
        nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(cout),
    ]
    return [*layers, act()] if act is not None else layers


def mobilenet_v1() -> nn.Module:
    """Howard et al., arXiv:1704.04861, table 1."""
    layers = _conv(3, 32, stride=2)
    pairs = ((32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2))
    for cin, cout, stride in (*pairs, *((512, 512, 1),) * 5, (512, 1024, 2), (1024, 1024, 1)):
        layers += [*_conv(cin, cin, stride=stride, groups=cin), *_conv(cin, cout, kernel=1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000))


class InvertedResidual(nn.Module):
    """Expand, depthwise, project."""

    def __init__(self, cin: int, cout: int, stride: int, expand: int) -> None:
        super().__init__()
        hidden = cin * expand
        layers = _conv(cin, hidden, kernel=1, act=nn.ReLU6) if expand != 1 else []
        layers += _conv(hidden, hidden, stride=stride, groups=hidden, act=nn.ReLU6)
        self.body = nn.Sequential(*layers, *_conv(hidden, cout, kernel=1, act=None))
        self.skip = stride == 1 and cin == cout

    def forward(self, x: Any) -> Any:
        return x + self.body(x) if self.skip else self.body(x)


def mobilenet_v2() -> nn.Module:
    """Sandler et al., arXiv:1801.04381, table 2."""
    layers = _conv(3, 32, stride=2, act=nn.ReLU6)
    cin = 32
    for t, c, n, s in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                       (6, 320, 1, 1)):  # fmt: skip
        for index in range(n):
            layers.append(InvertedResidual(cin, c, s if index == 0 else 1, t))
            cin = c
    layers += _conv(320, 1280, kernel=1, act=nn.ReLU6)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 with a shortcut."""

    def __init__(self, cin: int, width: int, stride: int) -> None:
        super().__init__()
        layers = [*_conv(cin, width, 1), *_conv(width, width, 3, stride), *_conv(width, 4 * width, 1, act=None)]
        self.body = nn.Sequential(*layers)
        same = stride == 1 and cin == 4 * width
        self.shortcut = nn.Identity() if same else nn.Sequential(*_conv(cin, 4 * width, 1, stride, act=None))

    def forward(self, x: Any) -> Any:
        return F.relu(self.body(x) + self.shortcut(x))


def resnet50() -> nn.Module:
    """He et al., arXiv:1512.03385, with the stride in the 3x3 convolution."""
    layers = [*_conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    cin = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for index in range(blocks):
            layers.append(Bottleneck(cin, width, stride if index == 0 else 1))
            cin = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*_conv(width, width), *_conv(width, width, act=None))

    def forward(self, x: Any) -> Any:
        return F.relu(x + self.body(x))


def resnet18_start() -> nn.Module:
    """The stem and the first stage of ResNet-18."""
    net = nn.Sequential(*_conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1))
    net.add_module("layer1", nn.Sequential(BasicBlock(64), BasicBlock(64)))
    return net


class Attention(nn.Module):
    """Multi-head attention with one projection for q, k and v."""

    def __init__(self, d: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.heads, self.causal = heads, causal

    def forward(self, x: Any) -> Any:
        B, S, D = x.shape
        q, k, v = self.qkv(x).view(B, S, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(B, S, D))


class Layer(nn.Module):
    """Attention and a GELU feed-forward layer, normed before or after."""

    def __init__(self, d: int, heads: int, hidden: int, causal: bool = False, after: bool = False) -> None:
        super().__init__()
        self.attention, self.after = Attention(d, heads, causal), after
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, hidden), nn.GELU(), nn.Linear(hidden, d))

    def forward(self, x: Any) -> Any:
        if self.after:
            x = self.norm1(x + self.attention(x))
            return self.norm2(x + self.mlp(x))
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """Dosovitskiy et al., arXiv:2010.11929, B/16."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 768, 16, 16)
        self.cls, self.positions = nn.Parameter(torch.empty(1, 1, 768)), nn.Parameter(torch.empty(1, 197, 768))
        self.layers = nn.Sequential(*(Layer(768, 12, 3072) for _ in range(12)))
        self.norm, self.head = nn.LayerNorm(768), nn.Linear(768, 1000)

    def forward(self, x: Any) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls.expand(x.shape[0], -1, -1), x), 1) + self.positions
        return self.head(self.norm(self.layers(x))[:, 0])


class Bert(nn.Module):
    """Devlin et al., arXiv:1810.04805, base, with the pooler."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.types = nn.Embedding(30522, 768), nn.Embedding(512, 768), nn.Embedding(2, 768)
        self.norm = nn.LayerNorm(768)
        self.layers = nn.Sequential(*(Layer(768, 12, 3072, after=True) for _ in range(12)))
        self.pooler = nn.Linear(768, 768)

    def forward(self, ids: Any) -> Any:
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.words(ids) + self.places(places) + self.types(torch.zeros_like(ids))
        return torch.tanh(self.pooler(self.layers(self.norm(x))[:, 0]))


class GPT2(nn.Module):
    """Radford et al., 2019, 124M, its head tied to the table of words."""

    def __init__(self, causal: bool = True, layers: int = 12) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50257, 768), nn.Embedding(1024, 768)
        self.layers = nn.Sequential(*(Layer(768, 12, 3072, causal) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(768), nn.Linear(768, 50257, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: Any) -> Any:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.layers(x)))


class LlamaAttention(nn.Module):
    """Rotary attention with grouped keys and an optional cache (keys, values, position)."""

    def __init__(self, d: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        size = d // heads
        self.q, self.o = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.k, self.v = nn.Linear(d, kv_heads * size, bias=False), nn.Linear(d, kv_heads * size, bias=False)
        self.size = size

    def forward(self, x: Any, turn: Any, cache: Any = None) -> Any:
        B, S, D = x.shape
        q, k, v = (f(x).view(B, S, -1, self.size).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = _rotate(q, *turn), _rotate(k, *turn)
        if cache is not None:
            keys, values, at = cache
            keys[:, :, at : at + S] = k
            values[:, :, at : at + S] = v
            k, v = keys[:, :, : at + S], values[:, :, : at + S]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None, enable_gqa=q.shape[1] != k.shape[1])
        return self.o(y.transpose(1, 2).reshape(B, S, D))


def _rotate(x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class SwiGLU(nn.Module):
    """Gate, up, down."""

    def __init__(self, d: int, hidden: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(d, hidden, bias=False), nn.Linear(d, hidden, bias=False)
        self.down = nn.Linear(hidden, d, bias=False)

    def forward(self, x: Any) -> Any:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """Top-2 of 8 experts, their matmuls grouped."""

    def __init__(self, d: int, hidden: int, experts: int = 8, chosen: int = 2) -> None:
        super().__init__()
        self.router = nn.Linear(d, experts, bias=False)
        self.gate_up = nn.Parameter(torch.empty(experts, d, 2 * hidden))
        self.down = nn.Parameter(torch.empty(experts, hidden, d))
        self.chosen = chosen

    def forward(self, x: Any) -> Any:
        B, S, D = x.shape
        x = x.view(B * S, D)
        weights, experts = self.router(x).softmax(-1).topk(self.chosen, -1)
        order = experts.flatten().argsort()
        ends = F.one_hot(experts.flatten(), self.gate_up.shape[0]).sum(0).cumsum(0).to(torch.int32)
        rows = x[order // self.chosen]
        gate, up = torch._grouped_mm(rows, self.gate_up, offs=ends).chunk(2, -1)
        y = torch._grouped_mm(F.silu(gate) * up, self.down, offs=ends) * weights.flatten()[order, None]
        return torch.zeros_like(x).index_add(0, order // self.chosen, y).view(B, S, D)


class LlamaLayer(nn.Module):
    """Attention and a feed-forward layer or experts."""

    def __init__(self, d: int, heads: int, kv_heads: int, mlp: nn.Module) -> None:
        super().__init__()
        self.norm1, self.attention = nn.RMSNorm(d), LlamaAttention(d, heads, kv_heads)
        self.norm2, self.mlp = nn.RMSNorm(d), mlp

    def forward(self, x: Any, turn: Any, cache: Any = None) -> Any:
        x = x + self.attention(self.norm1(x), turn, cache)
        return x + self.mlp(self.norm2(x))


class Llama(nn.Module):
    """Touvron et al., arXiv:2307.09288, 7B; with ``experts`` Jiang et al., arXiv:2401.04088, Mixtral."""

    def __init__(
        self,
        layers: int = 32,
        d: int = 4096,
        heads: int = 32,
        kv_heads: int = 32,
        hidden: int = 11008,
        vocab: int = 32000,
        experts: bool = False,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab, d)
        mlp = Experts if experts else SwiGLU
        self.layers = nn.ModuleList(LlamaLayer(d, heads, kv_heads, mlp(d, hidden)) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(d), nn.Linear(d, vocab, bias=False)
        self.size = d // heads

    def forward(self, ids: Any, caches: Sequence[Any] | None = None, at: int = 0) -> Any:
        x = self.words(ids)
        places = torch.arange(at, at + ids.shape[1], device=ids.device).float()
        turns = torch.outer(places, 10000 ** (-torch.arange(0, self.size, 2, device=ids.device) / self.size))
        turns = torch.cat((turns, turns), -1)
        turn = turns.cos().to(x.dtype), turns.sin().to(x.dtype)
        for index, layer in enumerate(self.layers):
            x = layer(x, turn, None if caches is None else (*caches[index], at))
        return self.head(self.norm(x))


def mixtral(layers: int = 32) -> nn.Module:
    """Mixtral 8x7B."""
    return Llama(layers=layers, kv_heads=8, hidden=14336, experts=True)


@cache
def llama_decode(layers: int = 32, context: int = 2048) -> Any:
    """A decode step of Llama 2 7B with its keys and values, traced once for all tests."""
    from roofline.programs import trace

    kept = [(f"bf16[1, 32, {context + 1}, 128]",) * 2 for _ in range(layers)]
    return trace(on_shapes(Llama, layers=layers).to(torch.bfloat16), "int32[1, 1]", kept, context)
