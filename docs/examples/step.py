"""A training step in plain JAX: attention layers scanned over, each worked out again in the backward pass."""

import jax
import jax.numpy as jnp


def layer(x, weights):
    """Causal attention of four heads and a feed-forward layer; x is [B, S, D]."""
    batch, length, d = x.shape
    with jax.named_scope("attention"):
        q, k, v = jnp.moveaxis((x @ weights["qkv"]).reshape(batch, length, 3, 4, d // 4), 2, 0)
        mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        x = x + mixed.reshape(x.shape) @ weights["out"]
    with jax.named_scope("mlp"):
        return x + jax.nn.gelu(x @ weights["up"]) @ weights["down"]


def loss(weights, x):
    """Scan over the layers; the loss is a stand-in."""
    body = jax.checkpoint(lambda carry, own: (layer(carry, own), None))
    return jnp.sum(jax.lax.scan(body, x, weights)[0].astype(jnp.float32) ** 2)


def step(qkv, out, up, down, x):
    """The loss and the new weights."""
    weights = {"qkv": qkv, "out": out, "up": up, "down": down}
    value, slopes = jax.value_and_grad(loss)(weights, x)
    with jax.named_scope("update"):
        return value, jax.tree.map(lambda w, g: w - 0.01 * g, weights, slopes)
