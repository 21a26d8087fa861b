"""What PyTorch's operations cost, as plain data by their names: the tables of every reader of them, PyTorch or not.

>>> FUNCTIONS["clamp_min"], STATED_FORMULAS["tanh_backward"]
('maximum', (3, 0, 'g·(1 − y²)'))
>>> TAPS["bicubic"]
4
"""

from __future__ import annotations

#: Functions of :data:`~roofline.ops.elementwise.PER_ELEMENT` by PyTorch's name.
FUNCTIONS = {
    "add": "add", "sub": "subtract", "rsub": "subtract", "mul": "multiply", "div": "divide", "maximum": "maximum",
    "minimum": "minimum", "where": "where", "masked_fill": "where", "pow": "power", "relu": "relu",
    "leaky_relu": "leaky_relu", "hardtanh": "clip", "gelu": "gelu", "sigmoid": "sigmoid", "silu": "silu",
    "tanh": "tanh", "exp": "exp", "log": "log", "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sin", "cos": "cos",
    "erf": "erf", "square": "square", "abs": "abs", "neg": "neg", "reciprocal": "reciprocal", "sign": "sign",
    "sgn": "sign", "floor": "floor", "ceil": "floor", "round": "round", "trunc": "round", "clamp": "clip",
    "clamp_min": "maximum", "clamp_max": "minimum", "softplus": "softplus", "mish": "mish", "hardswish": "hardswish",
    "elu": "elu", "expm1": "exp", "log1p": "log", "log2": "log", "log10": "log", "exp2": "exp", "sinh": "exp",
    "cosh": "exp", "tan": "sin", "asin": "sin", "acos": "cos", "atan": "sin", "atan2": "sin", "erfc": "erf",
    "erfinv": "erf",
    "floor_divide": "divide", "remainder": "divide", "fmod": "divide", "isin": "compare", "eq": "compare",
    "ne": "compare",
    "lt": "compare", "le": "compare", "gt": "compare", "ge": "compare", "heaviside": "compare", "copysign": "abs",
    "threshold": "relu", "relu6": "relu6", "quantize_per_tensor": "quantise", "quantize_per_channel": "quantise",
    "dequantize": "dequantise",
}  # fmt: skip

#: FLOPs and transcendentals an element of what has no forward function of its own; the formula is stated.
STATED_FORMULAS: dict[str, tuple[int, int, str]] = {
    "addcmul": (3, 0, "a + v·b·c"),
    "addcdiv": (3, 0, "a + v·b/c"),
    "lerp": (3, 0, "a + w·(b − a)"),
    "gelu_backward": (11, 2, "g·(½·(1 + erf(x/√2)) + x·exp(−x²/2)/√(2π))"),
    "silu_backward": (8, 1, "g·s·(1 + x·(1 − s)), s = 1/(1 + exp(−x))"),
    "sigmoid_backward": (3, 0, "g·(1 − y)·y"),
    "tanh_backward": (3, 0, "g·(1 − y²)"),
    "threshold_backward": (1, 0, "select(x > 0, g, 0)"),
    "hardtanh_backward": (2, 0, "select(low < x < high, g, 0)"),
    "leaky_relu_backward": (2, 0, "select(x > 0, g, a·g)"),
    "elu_backward": (4, 1, "select(x > 0, g, g·a·exp(x))"),
    "hardswish_backward": (5, 0, "g·select(x < −3, 0, x < 3: x/3 + ½, 1)"),
    "softplus_backward": (4, 1, "g·e/(e + 1), e = exp(x)"),
    "mish_backward": (10, 3, "g·(t + x·s·(1 − t²)), t = tanh(log(1 + exp(x)))"),
    "glu": (5, 1, "a·1/(1 + exp(−b)), for each half"),
    "glu_backward": (8, 1, "the gradient of a·σ(b) for both"),
    "log_sigmoid_forward": (3, 2, "min(x, 0) − log(1 + exp(−|x|))"),
    "log_sigmoid_backward": (4, 1, "g·(1 − σ(x))"),
    "hardsigmoid_backward": (2, 0, "select(−3 < x < 3, g/6, 0)"),
    "_prelu_kernel": (2, 0, "max(x, 0) + a·min(x, 0)"),
    "_prelu_kernel_backward": (4, 0, "select(x > 0, g, a·g) and select(x > 0, 0, x·g)"),
    "rrelu_with_noise": (2, 0, "select(x > 0, x, a·x)"),
    "xlogy": (1, 1, "x·log(y)"),
    "celu": (3, 1, "select(x > 0, x, a·(exp(x/a) − 1)), as elu"),
    "hardsigmoid": (4, 0, "min(max(x + 3, 0), 6)·1/6"),
    "hardshrink": (3, 0, "select(|x| > λ, x, 0): two comparisons and a choice"),
    "softshrink": (3, 0, "select(|x| > λ, x ∓ λ, 0)"),
    "hardshrink_backward": (3, 0, "select(|x| > λ, g, 0)"),
    "softshrink_backward": (3, 0, "select(|x| > λ, g, 0)"),
    "rrelu_with_noise_backward": (2, 0, "select(x > 0, g, a·g)"),
    "logit": (2, 1, "log(x/(1 − x))"),
    "logit_backward": (3, 0, "g/(x·(1 − x))"),
    "hypot": (3, 1, "√(a² + b²)"),
    "sinc": (2, 1, "sin(π·x)/(π·x)"),
    "soft_margin_loss_backward": (6, 1, "−g·y·z/(1 + z), z = exp(−y·x)"),
    "fake_quantize_per_tensor_affine_cachemask": (7, 0, "(clip(round(x/s) + z) − z)·s, and where it is clipped"),
    "fake_quantize_per_channel_affine_cachemask": (7, 0, "(clip(round(x/s) + z) − z)·s, and where it is clipped"),
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": (7, 0, "the same"),
    "_fused_moving_avg_obs_fq_helper": (9, 0, "the same, and the largest and the smallest that were met"),
    "_fused_dropout": (2, 0, "select(mask, x·1/(1 − p), 0); the random numbers are not counted"),
    "_masked_scale": (2, 0, "x·mask·scale"),
    "_add_relu": (2, 0, "max(a + b, 0)"),
    "addr": (3, 0, "a + v·b·c, an outer product"),
    "_thnn_fused_lstm_cell": (5, 1, "3 sigmoids, 2 tanh, 4 products and sums for every four gates"),
    "_weight_norm_interface": (4, 0, "g·v/√Σv²"),
    "_weight_norm_interface_backward": (8, 0, "the gradient of g·v/√Σv²"),
    "logaddexp": (4, 2, "max + log(1 + exp(−|a − b|))"),
    "polar": (2, 2, "a·cos, a·sin"),
    "native_dropout": (2, 0, "select(mask, x·1/(1 − p), 0); the random numbers are not counted"),
    "native_dropout_backward": (2, 0, "g·mask·scale"),
}

#: FLOPs and roots a parameter of a whole optimizer step in one kernel.
OPTIMIZERS: dict[str, tuple[int, int, str]] = {
    **dict.fromkeys(
        ("_fused_adam", "_fused_adamw"),
        (16, 1, "m = m + (1 − β₁)(g − m), v = β₂v + (1 − β₂)g², p −= lr·(λp) + lr·m/(√v/c + ε)"),
    ),
    "_fused_sgd": (4, 0, "v = μv + g, p −= lr·v"),
    "_fused_adagrad": (6, 1, "s = s + g², p −= lr·g/(√s + ε)"),
}

#: Functions of :data:`~roofline.ops.reduction.PER_RESULT` by PyTorch's name.
REDUCTIONS = {
    "sum": "sum", "nansum": "sum", "mean": "mean", "prod": "prod", "amax": "max", "amin": "min", "max": "max",
    "min": "min", "argmax": "argmax", "argmin": "argmin", "any": "sum", "all": "sum", "var": "variance",
    "std": "variance", "var_mean": "variance", "std_mean": "variance", "logsumexp": "logsumexp",
    "linalg_vector_norm": "norm", "norm": "norm", "aminmax": "max", "count_nonzero": "sum",
    "_is_all_true": "sum", "_is_any_true": "sum", "hash_tensor": "sum",
}  # fmt: skip

#: FLOPs an element of a loss over all elements and of its gradient: subtract, square (or the like), add.
ELEMENT_OF_LOSS = 3

#: Matmuls of the gradient of an attention kernel, which works the scores out again.
ATTENTION_BACKWARD = 5

#: Elements of the input that one element of the result is mixed from, by dimension.
TAPS = {"nearest": 1, "linear": 2, "bilinear": 2, "trilinear": 2, "bicubic": 4}
