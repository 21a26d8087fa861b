"""Llama-2-7B and Mixtral-8x7B in plain JAX: layers scanned over, a cache for decoding, experts by ragged products."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.programs.jax_networks import Layer, stacked, weight


def _norm(scale: Any, x: Any) -> Any:
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale


def _turn(x: Any, at: int) -> Any:
    half = x.shape[-1] // 2
    angles = (jnp.arange(x.shape[1]) + at)[:, None] * 1e4 ** (-jnp.arange(half) / half)
    cos, sin = (f(angles).astype(x.dtype)[:, None] for f in (jnp.cos, jnp.sin))
    first, second = x[..., :half], x[..., half:]
    return jnp.concatenate((first * cos - second * sin, second * cos + first * sin), -1)


def _attend(p: Any, x: Any, cache: Any, at: int, size: int) -> tuple[Any, Any]:
    b, s, d = x.shape
    q, k, v = ((x @ p[name]).reshape(b, s, -1, size) for name in "qkv")
    q, k = _turn(q, at), _turn(k, at)
    if cache is not None:
        k, v = (lax.dynamic_update_slice(old, new, (0, at, 0, 0)) for old, new in zip(cache, (k, v), strict=True))
        cache = k, v
    q = q.reshape(b, s, k.shape[2], -1, size)
    scores = jnp.einsum("bqhgd,bkhd->bhgqk", q, k) * size**-0.5
    if cache is None:
        scores = jnp.where(jnp.tril(jnp.ones((s, s), bool)), scores, -jnp.inf)
    mixed = jnp.einsum("bhgqk,bkhd->bqhgd", jax.nn.softmax(scores, -1), v)
    return mixed.reshape(b, s, d) @ p["o"], cache


def _swiglu(p: Any, x: Any) -> Any:
    return (jax.nn.silu(x @ p["gate"]) * (x @ p["up"])) @ p["down"]


def _experts(p: Any, x: Any) -> Any:
    """Top 2 of 8: rows in the order of their experts, three ragged products, put back."""
    rows = x.reshape(-1, x.shape[-1])
    weights, chosen = lax.top_k(jax.nn.softmax(rows @ p["router"]), 2)
    order = jnp.argsort(chosen.ravel())
    sizes = jnp.bincount(chosen.ravel(), length=8)
    given = rows[order // 2]
    made = jax.nn.silu(lax.ragged_dot(given, p["gate"], sizes)) * lax.ragged_dot(given, p["up"], sizes)
    out = lax.ragged_dot(made, p["down"], sizes) * weights.ravel()[order, None]
    return jnp.zeros_like(rows).at[order // 2].add(out).reshape(x.shape)


def llama(
    layers: int = 32, d: int = 4096, heads: int = 32, kv_heads: int = 32, hidden: int = 11008, vocab: int = 32000,
    experts: int = 0, recompute: bool = False,
) -> Layer:  # fmt: skip
    """``apply(parameters, ids, caches, at)``; caches are [layers, B, S, kv heads, head size], keys and values."""
    size = d // heads
    attention = {"q": weight(d, d), "k": weight(d, kv_heads * size), "v": weight(d, kv_heads * size), "o": weight(d, d)}
    group = (experts,) if experts else ()
    mlp = {"gate": weight(*group, d, hidden), "up": weight(*group, d, hidden), "down": weight(*group, hidden, d)}
    mlp |= {"router": weight(d, experts)} if experts else {}
    feed = _experts if experts else _swiglu
    block = {"norm1": weight(d), "attention": attention, "norm2": weight(d), "mlp": mlp}

    def apply(p: Any, ids: Any, caches: Any = None, at: int = 0) -> Any:
        def step(x: Any, given: Any) -> tuple[Any, Any]:
            own, cache = given
            mixed, cache = _attend(own["attention"], _norm(own["norm1"], x), cache, at, size)
            x = x + mixed
            return x + feed(own["mlp"], _norm(own["norm2"], x)), cache

        x, made = lax.scan(jax.checkpoint(step) if recompute else step, p["words"][ids], (p["layers"], caches))
        logits = _norm(p["norm"], x) @ p["head"]
        return logits if caches is None else (logits, made)

    outer = {"words": weight(vocab, d), "norm": weight(d), "head": weight(d, vocab)}
    shapes = jax.tree.map(lambda s: weight(*s.shape, dtype="bfloat16"), outer)
    return Layer({**shapes, "layers": stacked(layers, block, "bfloat16")}, apply)


def mixtral(layers: int = 32) -> Layer:
    return llama(layers, kv_heads=8, hidden=14336, experts=8)
