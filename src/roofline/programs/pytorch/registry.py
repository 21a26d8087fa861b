"""Calls of PyTorch operations as plain values, and the rules that price them.

A :class:`Call` says what is called: shapes, number formats and plain arguments. It does not say where it was seen: a
traced program and a row of a profile become the same call, and reading a profile needs no torch. ``rule("mm")`` prices
an operation of the dispatcher; a family of rules is one file of ``rules``. ``function(torch.nn.functional.linear)``
takes a call as the user wrote it, before PyTorch takes it apart; such rules need torch, and stand in ``functions``.
Adding an operation touches one file:

>>> @rule("mylib.swish2")
... def swish2(call):
...     return pricing.elementwise("silu", call.reads, call.writes, name=call.name)
>>> x = TensorOperand((64, 8), "fp32", Tensor("x", (64, 8), "fp32"))
>>> price(Call("mylib.swish2", "swish2", (x,), results=(x,))).work
Work(flops/vector/fp32: 2048)

What PyTorch's operations cost, as plain data by their names: the tables of every reader of them, PyTorch or not.

>>> FUNCTIONS["clamp_min"], STATED_FORMULAS["tanh_backward"]
('maximum', (3, 0, 'g·(1 − y²)'))
>>> TAPS["bicubic"]
4
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from roofline import dtypes
from roofline.errors import InputError
from roofline.frozen import NamedTuple, dataclass
from roofline.ops import pricing
from roofline.programs.rule_table import NAMED_ALIKE, Priced, PricedCall, RuleTable
from roofline.sizes import Size, maximum, product
from roofline.work import Op, Tensor

__all__ = [
    "UNTOLD", "Call", "PackedWeights", "TensorOperand", "Priced", "find", "find_function", "find_shape", "function",
    "is_operand", "known_names", "operands_in", "price", "pricing", "rule", "shape",
]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class TensorOperand:
    """A tensor that an operation takes or gives.

    ``tensor`` is what moves when it is read or written: None where it only takes a result. ``values`` is PyTorch's own
    tensor where its values are known, so that a mask can be looked at; they are the program's own if it
    ``is_constant``, else an example of what it is given. ``layout`` says where elements lie in its storage: strides,
    start and width in bytes. ``hidden`` are elements of scores or weights that a mask hides (``pytorch.needs``),
    ``formulas`` those of an open size that the program makes of positions alone (``programs.positions``).
    """

    shape: tuple[Size, ...]
    dtype: str
    tensor: Tensor | None = None
    is_sparse: bool = False
    values: Any = None
    is_constant: bool = False
    layout: tuple[tuple[int, ...], int, int] | None = None
    hidden: Any = None
    formulas: Any = None

    @property
    def elements(self) -> Size:
        """Elements of the whole shape."""
        return product(self.shape)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def is_complex(self) -> bool:
        """Whether its numbers are complex."""
        return dtypes.get(self.dtype).family == "complex"


class PackedWeights(NamedTuple):
    """Weights that PyTorch has packed, their bias, and the window (stride, padding …) of those of a convolution."""

    weight: TensorOperand
    bias: TensorOperand | None = None
    window: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Call(PricedCall):
    """One call of an operation.

    ``name`` is the operation without its namespace, overload and trailing underscore (``mm``); ``args`` are all
    arguments in the order of its schema, defaults among them, and ``names`` what the schema calls them. A tensor is a
    :class:`TensorOperand`. ``in_place`` says that the first argument is what is written.
    """

    full_name: str
    name: str
    args: tuple[Any, ...]
    names: tuple[str, ...] = ()
    results: tuple[TensorOperand, ...] = ()
    in_place: bool = False
    is_pointwise: bool = False

    def get(self, name: str, default: Any = None) -> Any:
        """A plain argument by its name in the schema; the default where it is not there or is not told."""
        if name not in self.names:
            return default
        place = self.names.index(name)
        value = self.args[place] if place < len(self.args) else UNTOLD
        return default if value is UNTOLD else value

    def stated(self, name: str, default: Any = None) -> Any:
        """The same, where a guess would be wrong: an argument that is there and not told is an error."""
        value = self.get(name, UNTOLD)
        if value is UNTOLD and name in self.names:
            raise InputError(f"the value of {name} of {self.full_name} is not told")
        return default if value is UNTOLD else value

    @property
    def is_backward(self) -> bool:
        """Whether it is the gradient of another operation."""
        return self.name.endswith("backward")

    @property
    def is_training(self) -> bool:
        """Whether a batch norm works out the statistics of its batch."""
        return bool(self.stated("training", self.stated("train", self.name == "_batch_norm_with_update")))

    def operand(self, name: str) -> TensorOperand | None:
        """A tensor argument by its name in the schema, None where none is given."""
        found = self.get(name)
        return found if isinstance(found, TensorOperand) else None

    def operands(self, *places: int) -> tuple[TensorOperand, ...]:
        """The tensors at these places; an error where one is not a tensor."""
        found = tuple(self.args[place] for place in places)
        if not all(isinstance(item, TensorOperand) for item in found):
            raise InputError(f"{self.full_name} has no tensor with a shape at one of the arguments {places}")
        return found

    def tensors(self, place: int) -> tuple[TensorOperand, ...]:
        """The tensors of a list."""
        found = tuple(operands_in(self.args[place])) if place < len(self.args) else ()
        if not found:
            raise InputError(f"{self.full_name} has no list of tensors of known formats at argument {place}")
        return found

    @property
    def reads(self) -> tuple[Tensor, ...]:
        """Everything that is read, each tensor once."""
        return tuple({tensor.ident: tensor for tensor in self.read(*operands_in(self.args))}.values())

    @property
    def writes(self) -> tuple[Tensor, ...]:
        """Everything that is written."""
        return tuple(item.tensor for item in self.results if item.tensor is not None)

    def read(self, *values: Any) -> tuple[Tensor, ...]:
        """What moves of these operands; what is no tensor is left out."""
        return tuple(item.tensor for item in values if isinstance(item, TensorOperand) and item.tensor is not None)

    def read_without(self, *values: Any) -> tuple[Tensor, ...]:
        """Everything that is read but these operands."""
        left_out = {tensor.ident for tensor in self.read(*values)}
        return tuple(tensor for tensor in self.reads if tensor.ident not in left_out)

    def unknown(self, reason: str = "no rule") -> Op:
        """A gap, under the name with its namespace."""
        return pricing.unknown(self.full_name, self.reads, self.writes, reason)


#: An argument whose value a profile does not tell.
UNTOLD: Any = type("Untold", (), {"__repr__": lambda self: "UNTOLD"})()


def is_operand(value: Any) -> bool:
    """Whether an argument is a tensor."""
    return isinstance(value, TensorOperand)


def operands_in(value: Any) -> Iterator[TensorOperand]:
    """All tensors among arguments, in order."""
    if isinstance(value, TensorOperand):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from operands_in(item)


Rule: TypeAlias = Callable[[Call], Priced]

#: A rule of a function as the user calls it. It gets the recorder, the function and its arguments; it returns what the
#: function would, or ``NotImplemented`` to leave the call to the dispatcher.
FunctionRule: TypeAlias = Callable[[Any, Any, Sequence[Any], dict[str, Any]], Any]

#: What an operation gives on shapes alone, where PyTorch itself cannot say. It gets the arguments; it returns empty
#: tensors on ``meta``, or ``NotImplemented`` to leave it to PyTorch.
ShapeRule: TypeAlias = Callable[[Sequence[Any], dict[str, Any]], Any]

_RULES: RuleTable[Rule] = RuleTable("roofline.programs.pytorch.rules", "aten")
_FUNCTIONS: RuleTable[FunctionRule] = RuleTable("roofline.programs.pytorch.functions")
_SHAPES: RuleTable[ShapeRule] = RuleTable("roofline.programs.pytorch.functions", "aten")

rule, find, known_names = _RULES.rule, _RULES.find, _RULES.names
function, find_function = _FUNCTIONS.rule, _FUNCTIONS.find
shape, find_shape = _SHAPES.rule, _SHAPES.find


def price(call: Call, *, pointwise: bool = False, reduction: bool = False) -> Priced:
    """Apply the rule of an operation; one tagged pointwise or a reduction by PyTorch needs no rule of its own."""
    chosen = find(call.full_name)
    if chosen is None and call.full_name.startswith("prims."):  # what gradients of gradients are taken apart into
        chosen = find(f"aten.{call.name}")
    if chosen is not None:
        return chosen(call)
    reads, writes = call.reads, call.writes
    if not reads and not writes:
        return None
    if pointwise:
        return call.elementwise(call.name)
    if reduction and reads and writes:
        results = writes[0].elements
        sizes = {"elements": maximum(reads[0].elements, results), "results": maximum(1, results)}
        return pricing.reduction(call.name, reads, writes, **sizes)
    return call.unknown()


#: Functions of :data:`~roofline.ops.elementwise.PER_ELEMENT` by PyTorch's name.
FUNCTIONS = {
    **NAMED_ALIKE,
    "rsub": "subtract", "maximum": "maximum", "minimum": "minimum", "where": "where", "masked_fill": "where",
    "relu": "relu", "leaky_relu": "leaky_relu", "hardtanh": "clip", "gelu": "gelu", "sigmoid": "sigmoid",
    "silu": "silu", "rsqrt": "rsqrt", "square": "square", "sgn": "sign", "trunc": "round", "clamp": "clip",
    "clamp_min": "maximum", "clamp_max": "minimum", "softplus": "softplus", "mish": "mish", "hardswish": "hardswish",
    "elu": "elu", "expm1": "exp", "log1p": "log", "log2": "log", "log10": "log", "exp2": "exp", "atan2": "sin",
    "erfc": "erf", "erfinv": "erf", "floor_divide": "divide", "remainder": "divide", "fmod": "divide",
    "isin": "compare", "eq": "compare", "ne": "compare", "lt": "compare", "le": "compare", "gt": "compare",
    "ge": "compare", "heaviside": "compare", "copysign": "abs", "threshold": "relu", "relu6": "relu6",
    "quantize_per_tensor": "quantise", "quantize_per_channel": "quantise", "dequantize": "dequantise",
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

#: FLOPs a parameter of a whole optimizer step in one kernel, roots among them, and those that its options add.
OPTIMIZERS: dict[str, tuple[int, int, dict[str, int], str]] = {
    "_fused_adam": (
        12, 1, {"weight_decay": 2, "amsgrad": 1},
        "g += λp; m += (1 − β₁)(g − m), v = β₂v + (1 − β₂)g², p −= α·m/(√v + ε)",
    ),
    "_fused_adamw": (12, 1, {"weight_decay": 1, "amsgrad": 1}, "the same, and p = (1 − lr·λ)p"),
    "_fused_sgd": (
        2, 0, {"weight_decay": 2, "momentum": 2, "dampening": 1, "nesterov": 2},
        "g += λp; v = μv + (1 − d)g; p −= lr·v, or lr·(g + μv)",
    ),
    "_fused_adagrad": (7, 1, {"weight_decay": 2}, "g += λp; s = s + g², p −= lr·g/(√s + ε)"),
}  # fmt: skip

#: Functions of :data:`~roofline.ops.reduction.PER_RESULT` by PyTorch's name.
REDUCTIONS = {
    "sum": "sum", "nansum": "sum", "mean": "mean", "prod": "prod", "amax": "max", "amin": "min", "max": "max",
    "min": "min", "argmax": "argmax", "argmin": "argmin", "any": "sum", "all": "sum", "var": "variance",
    "std": "variance", "var_mean": "variance", "std_mean": "variance", "logsumexp": "logsumexp",
    "linalg_vector_norm": "norm", "norm": "norm", "aminmax": "max", "count_nonzero": "sum",
    "_is_all_true": "sum", "_is_any_true": "sum", "hash_tensor": "sum",
}  # fmt: skip

#: Letters of the dimensions of products of two operands, and of the result; what is added stands before the operands.
OF_LETTERS: dict[str, tuple[tuple[str, str], str]] = {
    **dict.fromkeys(("mm", "_int_mm", "_scaled_mm", "addmm", "_addmm_activation"), (("mk", "kn"), "mn")),
    **dict.fromkeys(("bmm", "baddbmm"), (("bmk", "bkn"), "bmn")), "addbmm": (("bmk", "bkn"), "mn"),
    **dict.fromkeys(("mv", "addmv"), (("mk", "k"), "m")), **dict.fromkeys(("dot", "vdot"), (("k", "k"), "")),
    "addr": (("m", "n"), "mn"),
}  # fmt: skip

#: FLOPs and transcendentals an element of a loss, before the elements are added up, and of the gradient of one.
LOSSES: dict[str, tuple[int, int, str]] = {
    "mse_loss": (2, 0, "(x − y)²"),
    "l1_loss": (2, 0, "|x − y|"),
    "smooth_l1_loss": (6, 0, "d = |x − y|; select(d < β, d·d·½/β, d − ½·β)"),
    "huber_loss": (7, 0, "d = |x − y|; select(d < δ, d·d·½, δ·(d − ½·δ))"),
    "binary_cross_entropy": (5, 2, "(y − 1)·log(1 − x) − y·log(x)"),
    "binary_cross_entropy_with_logits": (6, 2, "(1 − y)·x − min(x, 0) + log(1 + exp(−|x|))"),
    "soft_margin_loss": (3, 2, "log(1 + exp(−x·y))"),
    "kl_div": (2, 1, "y·(log(y) − x)"),
    "mse_loss_backward": (2, 0, "2·g·(x − y)"),
    "smooth_l1_loss_backward": (4, 0, "clip(x − y, −β, β)·g/β"),
    "huber_loss_backward": (4, 0, "clip(x − y, −δ, δ)·g"),
    "binary_cross_entropy_backward": (5, 0, "g·(x − y)/((1 − x)·x)"),
}

#: Matmuls of the gradient of an attention kernel, which works the scores out again.
ATTENTION_BACKWARD = 5

#: Elements of the input that one element of the result is mixed from, by dimension.
TAPS = {"nearest": 1, "linear": 2, "bilinear": 2, "trilinear": 2, "cubic": 4, "bicubic": 4}
