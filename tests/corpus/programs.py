"""Small torch, JAX and ONNX programs, each one an expression, and what it is traced with."""

from __future__ import annotations

from typing import Any

from tests.corpus.answers import Question

#: torch: an expression that gives a function or a module, and its inputs.
TORCH: tuple[tuple[str, tuple[str, ...]], ...] = (
    *(
        (f"torch.{name}", ("bf16[8, 16, 64]",))
        for name in (
            "relu",
            "sigmoid",
            "tanh",
            "exp",
            "log",
            "sqrt",
            "rsqrt",
            "abs",
            "neg",
            "sin",
            "cos",
            "erf",
            "sign",
            "floor",
            "round",
            "square",
            "reciprocal",
            "sum",
            "mean",
            "amax",
            "amin",
            "prod",
            "argmax",
            "var",
            "std",
            "norm",
            "logit",
            "isnan",
            "clone",
            "ravel",
            "log1p",
            "expm1",
            "trunc",
            "frac",
            "tan",
            "atan",
            "lgamma",
            "digamma",
            "sort",
        )
    ),
    *(
        (f"F.{name}", ("bf16[8, 16, 64]",))
        for name in (
            "gelu",
            "silu",
            "mish",
            "hardswish",
            "elu",
            "selu",
            "celu",
            "softplus",
            "softsign",
            "leaky_relu",
            "relu6",
            "hardtanh",
            "hardsigmoid",
            "logsigmoid",
            "tanhshrink",
            "softshrink",
            "glu",
            "normalize",
        )
    ),
    *(
        (f"lambda x: {body}", ("fp32[8, 16, 64]",))
        for body in (
            "F.gelu(x, approximate='tanh')",
            "x.softmax(-1)",
            "x.log_softmax(-1)",
            "x.softmax(1)",
            "x.cumsum(-1)",
            "x.cumprod(1)",
            "x.cummax(-1)",
            "x.logsumexp(-1)",
            "x.topk(4)",
            "x.transpose(1, 2).contiguous()",
            "x.add(x, alpha=2)",
            "x.addcmul(x, x, value=0.5)",
            "x.clamp(0, 1)",
            "x + 1",
            "x * x + x",
            "x / 3",
            "x ** 2",
            "x ** 0.5",
            "x.to(torch.bfloat16)",
            "x.masked_fill(x > 0, 0.0)",
            "torch.where(x > 0, x, -x)",
            "x[:, 3]",
            "x[..., ::2].contiguous()",
            "x.reshape(-1).view(64, -1)",
            "torch.cat([x, x], 1)",
            "torch.stack([x, x])",
            "x.repeat(2, 1, 1)",
            "x.expand(3, 8, 16, 64).clone()",
            "x.flip(-1)",
            "x.roll(2, -1)",
            "x.tril()",
            "F.pad(x, (1, 1))",
            "F.dropout(x, 0.5, True)",
            "F.layer_norm(x, (64,))",
            "F.rms_norm(x, (64,))",
            "x.gather(-1, torch.zeros(8, 16, 4, dtype=torch.int64, device=x.device))",
            "x.index_select(1, torch.zeros(4, dtype=torch.int64, device=x.device))",
            "x.unfold(-1, 4, 2).contiguous()",
            "torch.cdist(x, x)",
            "torch.bmm(x, x.transpose(1, 2))",
            "torch.einsum('bsd,btd->bst', x, x)",
            "x @ x.transpose(-1, -2)",
            "torch.outer(x[0, 0], x[0, 0])",
            "torch.fft.fft(x)",
            "x.var(-1, keepdim=True)",
            "x.norm(dim=-1)",
            "F.cosine_similarity(x, x, -1)",
            "F.mse_loss(x, x)",
            "F.l1_loss(x, x)",
            "F.smooth_l1_loss(x, x)",
            "F.kl_div(x, x)",
            "F.scaled_dot_product_attention(x, x, x)",
            "F.scaled_dot_product_attention(x, x, x, is_causal=True)",
            "x.unique()",
            "F.cross_entropy(x.flatten(0, 1), torch.zeros(128, dtype=torch.int64, device=x.device))",
            "F.one_hot(torch.zeros(8, dtype=torch.int64), 32)",
            "torch.linalg.cholesky(x @ x.mT)",
            "torch.linalg.qr(x)",
            "torch.linalg.solve(x @ x.mT, x)",
            "torch.linalg.svd(x)",
            "torch.linalg.inv(x @ x.mT)",
        )
    ),
    *(
        (f"lambda x: {body}", ("fp16[4, 32, 28, 28]",))
        for body in (
            "F.max_pool2d(x, 3, 2, 1)",
            "F.max_pool2d(x, 2)",
            "F.avg_pool2d(x, 3, 1, 1)",
            "F.adaptive_avg_pool2d(x, 1)",
            "F.adaptive_max_pool2d(x, 7)",
            "F.interpolate(x, scale_factor=2)",
            "F.interpolate(x, scale_factor=2, mode='bilinear')",
            "F.interpolate(x, scale_factor=2, mode='bicubic')",
            "F.group_norm(x, 8)",
            "F.instance_norm(x)",
            "F.batch_norm(x, None, None, training=True)",
            "F.pixel_shuffle(x, 2)",
            "F.unfold(x, 3)",
            "F.lp_pool2d(x, 2, 2)",
            "F.local_response_norm(x, 5)",
            "F.pad(x, (1, 1, 1, 1), mode='reflect')",
            "F.dropout2d(x)",
        )
    ),
    ("F.linear", ("bf16[8, 64]", "bf16[128, 64]")),
    ("torch.mm", ("int8[8, 64]", "int8[64, 16]")),
    ("torch.addmm", ("fp32[16]", "fp32[8, 64]", "fp32[64, 16]")),
    ("torch.matmul", ("bf16[B, D]", "bf16[D, F]")),
    ("torch.dot", ("fp32[64]", "fp32[64]")),
    ("torch.mv", ("fp32[8, 64]", "fp32[64]")),
    ("F.conv1d", ("fp32[4, 8, 100]", "fp32[16, 8, 5]")),
    ("F.conv2d", ("bf16[4, 8, 28, 28]", "bf16[16, 8, 3, 3]")),
    ("F.conv3d", ("fp32[2, 4, 8, 8, 8]", "fp32[8, 4, 3, 3, 3]")),
    ("F.conv_transpose2d", ("fp32[4, 8, 14, 14]", "fp32[8, 16, 2, 2]")),
    ("lambda x, w: F.conv2d(x, w, stride=2, padding=1, groups=8)", ("fp32[4, 8, 28, 28]", "fp32[8, 1, 3, 3]")),
    ("lambda x, w: F.conv2d(x, w, padding=2, dilation=2)", ("fp32[4, 8, 28, 28]", "fp32[8, 8, 3, 3]")),
    ("lambda i, w: F.embedding(i, w)", ("int64[8, 16]", "bf16[1000, 64]")),
    (
        "lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        ("bf16[2, 8, 16, 64]", "bf16[2, 8, 64, 64]", "bf16[2, 8, 64, 64]"),
    ),
    (
        "lambda q, k, v: F.scaled_dot_product_attention(q, k, v)",
        ("bf16[2, 8, 16, 64]", "bf16[2, 8, 64, 64]", "bf16[2, 8, 64, 64]"),
    ),
    (
        "lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True)",
        ("bf16[2, 8, 16, 64]", "bf16[2, 2, 64, 64]", "bf16[2, 2, 64, 64]"),
    ),
    ("lambda x, s: x.scatter_add(0, torch.zeros_like(x, dtype=torch.int64), s)", ("fp32[8, 64]", "fp32[8, 64]")),
    ("nn.Linear(64, 128)", ("fp32[8, 64]",)),
    ("nn.Conv2d(3, 16, 3, stride=2, padding=1)", ("fp32[2, 3, 32, 32]",)),
    ("nn.LSTM(64, 128, 2, batch_first=True)", ("fp32[4, 10, 64]",)),
    ("nn.GRU(64, 128)", ("fp32[10, 4, 64]",)),
    ("nn.RNN(64, 128)", ("fp32[10, 4, 64]",)),
    ("nn.LSTMCell(64, 128)", ("fp32[4, 64]",)),
    ("nn.GRUCell(64, 128)", ("fp32[4, 64]",)),
    ("nn.MultiheadAttention(64, 8, batch_first=True)", ("fp32[4, 16, 64]",) * 3),
    ("nn.TransformerEncoderLayer(64, 8, 256)", ("fp32[16, 4, 64]",)),
    ("nn.TransformerDecoderLayer(64, 8, 256)", ("fp32[16, 4, 64]",) * 2),
    ("nn.BatchNorm2d(16)", ("fp32[4, 16, 8, 8]",)),
    ("nn.LayerNorm(64)", ("bf16[8, 64]",)),
    ("nn.GroupNorm(4, 16)", ("bf16[8, 16, 8, 8]",)),
    ("nn.RMSNorm(64)", ("bf16[8, 64]",)),
    ("nn.Embedding(1000, 64)", ("int64[8, 16]",)),
    ("nn.EmbeddingBag(1000, 64)", ("int64[8, 16]",)),
    ("nn.Bilinear(8, 16, 32)", ("fp32[4, 8]", "fp32[4, 16]")),
    ("nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))", ("bf16[8, 64]",)),
    ("networks.on_shapes(networks.resnet50).eval()", ("fp32[1, 3, 224, 224]",)),
    ("networks.on_shapes(networks.Bert).eval()", ("int64[1, 128]",)),
    ("networks.on_shapes(networks.GPT2).eval()", ("int64[1, 256]",)),
    ("networks.on_shapes(networks.mixtral, 2).to(torch.bfloat16)", ("int32[1, 256]",)),
)

#: JAX: the same.
JAX: tuple[tuple[str, tuple[str, ...]], ...] = (
    *(
        (f"jnp.{name}", ("bf16[8, 16, 64]",))
        for name in (
            "exp",
            "log",
            "sqrt",
            "tanh",
            "abs",
            "sign",
            "floor",
            "sum",
            "mean",
            "max",
            "argmax",
            "prod",
            "var",
            "cumsum",
            "sort",
            "square",
            "sin",
        )
    ),
    *(
        (f"jax.nn.{name}", ("fp32[8, 16, 64]",))
        for name in ("relu", "gelu", "silu", "softmax", "log_softmax", "sigmoid", "elu", "softplus", "logsumexp")
    ),
    ("jnp.matmul", ("bf16[8, 64]", "bf16[64, 16]")),
    ("jnp.matmul", ("bf16[B, D]", "bf16[D, F]")),
    ("lambda x: x.T @ x", ("fp32[8, 64]",)),
    ("lambda a, b: jnp.einsum('bsd,btd->bst', a, b)", ("bf16[8, 16, 64]", "bf16[8, 32, 64]")),
    ("lambda x: jnp.concatenate([x, x])", ("fp32[8, 64]",)),
    ("lambda x: x[:, 3:9] * 2", ("fp32[8, 64]",)),
    ("lambda x: x.at[2].set(0.0)", ("fp32[8, 64]",)),
    ("lambda x: x.at[2].add(1.0)", ("fp32[8, 64]",)),
    ("lambda t, i: t[i]", ("bf16[1000, 64]", "int32[8, 16]")),
    ("lambda x: jax.lax.top_k(x, 4)", ("fp32[8, 64]",)),
    ("lambda x: jnp.fft.fft(x)", ("fp32[8, 64]",)),
    ("lambda x: jax.lax.scan(lambda c, r: (c + r, c), jnp.zeros(64), x)", ("fp32[8, 64]",)),
    ("lambda x: jax.lax.fori_loop(0, 5, lambda i, c: c @ c, x)", ("fp32[8, 8]",)),
    ("lambda x: jax.lax.cond(True, lambda y: y @ y, lambda y: y, x)", ("fp32[8, 8]",)),
    ("lambda x: jnp.where(x > 0, x, 0)", ("fp32[8, 64]",)),
    ("jax.grad(lambda w, x: ((x @ w) ** 2).sum())", ("fp32[64, 16]", "fp32[8, 64]")),
    ("lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True)", ("bf16[2, 16, 8, 64]",) * 3),
    (
        "lambda q, k, v: jax.nn.dot_product_attention(q, k, v)",
        ("bf16[2, 16, 8, 64]", "bf16[2, 32, 8, 64]", "bf16[2, 32, 8, 64]"),
    ),
    ("lambda x, w: jax.lax.conv_general_dilated(x, w, (2, 2), 'SAME')", ("fp32[4, 8, 28, 28]", "fp32[16, 8, 3, 3]")),
    ("lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2), (1, 2, 2), 'VALID')", ("fp32[8, 16, 64]",)),
    ("lambda a: jnp.linalg.cholesky(a)", ("fp32[4, 16, 16]",)),
    ("lambda a, b: jnp.linalg.solve(a, b)", ("fp32[16, 16]", "fp32[16, 4]")),
    ("jax.vmap(lambda x: x @ x.T)", ("bf16[8, 16, 64]",)),
    ("jax.checkpoint(lambda x: jnp.tanh(x @ x))", ("fp32[16, 16]",)),
)

#: ONNX: an expression that gives a model, and options.
ONNX: tuple[tuple[str, dict[str, Any]], ...] = (
    *(
        (f"onnx_networks.{name}()", {"batch": 1})
        for name in ("vgg16", "mobilenet_v1", "resnet50", "gpt2", "bert_of_the_runtime")
    ),
    ("onnx_networks.llama_of_the_runtime(layers=2)", {"batch": 1, "sizes": {"S": 512}}),
    *(
        (
            f"onnx_models.model([helper.make_node({kind!r}, ['x'], ['y'])], "
            "[onnx_models.value('x', 8, 16, 64)], [onnx_models.value('y')])",
            {},
        )
        for kind in (
            "Relu",
            "Sigmoid",
            "Tanh",
            "Exp",
            "Log",
            "Sqrt",
            "Erf",
            "Softmax",
            "LogSoftmax",
            "ReduceSum",
            "ReduceMean",
            "Neg",
            "Abs",
            "Transpose",
            "Softplus",
            "HardSwish",
            "Elu",
            "Selu",
            "Identity",
            "Flatten",
            "GlobalAveragePool",
            "Sign",
            "Floor",
        )
    ),
    *(
        (
            f"onnx_models.model([helper.make_node({kind!r}, ['x', 'w'], ['y'])], "
            "[onnx_models.value('x', 8, 64), onnx_models.value('w', 64, 64)], [onnx_models.value('y')])",
            {},
        )
        for kind in (
            "MatMul",
            "Gemm",
        )
    ),
)


def questions() -> list[Question]:
    """The programs as questions: forward, and the step of training of modules."""
    found: list[Question] = []
    for source, inputs in TORCH:
        found.append({"program": "torch", "source": source, "inputs": list(inputs)})
        if (
            inputs[0][:2] in ("fp", "bf")
            and "B" not in inputs[0]
            and not any(word in source for word in ("argmax", "isnan", "sign", "unique", "one_hot"))
        ):
            options: dict[str, Any] = (
                {"optimizer": "adamw"} if source.startswith(("nn.", "networks")) else {"backward": True}
            )
            found.append({"program": "torch", "source": source, "inputs": list(inputs), "options": options})
    found += [{"program": "jax", "source": source, "inputs": list(inputs)} for source, inputs in JAX]
    found += [{"program": "onnx", "source": source, "inputs": [], "options": options} for source, options in ONNX]
    return found


def traced(question: Question) -> dict[str, Any]:
    """Trace a program; its record, its counts and its bound on two machines under every policy."""
    from roofline.programs import trace

    program = eval(question["source"], names(question["program"]))
    options = question.get("options", {})
    inputs = [_with_gradient(text) if options.get("backward") else text for text in question["inputs"]]
    given = trace(program, *inputs, frontend=question["program"], **options)
    found: dict[str, Any] = {"trace": given}
    found["flops"] = {name: given.flops(name) for name in ("flops", "macs", "unmasked", "elementwise")}
    found["bytes"] = {name: given.bytes(name) for name in ("each-op", "fused", "minimal")}
    if not any(letter in "".join(question["inputs"]) for letter in "BDF"):
        for on, policy in (("h100", "each-op"), ("h100", "minimal"), ("v5e", "fused")):
            answer = given.bound(on, policy=policy)
            found[f"{on}, {policy}"] = {
                "lower": answer.lower,
                "op_by_op": answer.op_by_op,
                "upper": answer.upper,
                "bound_by": answer.bound_by,
            }
        found["bound"] = given.bound("h100")
    return found


def _with_gradient(text: str) -> Any:
    """Make an input whose gradient is wanted, where it has one."""
    import torch

    dtype, _, dims = text.rstrip("]").partition("[")
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
    if dtype not in kinds:
        return text
    return torch.empty([int(size) for size in dims.split(",")], dtype=kinds[dtype], device="meta", requires_grad=True)


def names(front_end: str) -> dict[str, Any]:
    """What the expressions of a front end may say."""
    if front_end == "torch":
        import torch
        from torch import nn

        from tests.programs import networks

        return {"torch": torch, "nn": nn, "F": nn.functional, "networks": networks}
    if front_end == "jax":
        import jax
        import jax.numpy as jnp

        return {"jax": jax, "jnp": jnp}
    from onnx import helper

    from tests.programs import onnx_models, onnx_networks

    return {"helper": helper, "onnx_models": onnx_models, "onnx_networks": onnx_networks}
