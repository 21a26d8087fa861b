"""Facts about PyTorch's operations and functions, read off their schemas and tags.

Under autocast some calls run in the lower format and some in fp32, as PyTorch lists them.

PyTorch's own casting asks for tensors on the device in question, and stand-ins are on none. Which call is cast how is
from the reference of ``torch.amp``, sections "CUDA ops" and "CPU ops".

Shapes of results, kept: PyTorch works them out in Python, layer by layer alike, which takes longer than all else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from types import FunctionType
from typing import Any
from unittest import mock

import torch

from roofline.frozen import NamedTuple
from roofline.programs.pytorch.tensors import always, map_tensors, tensors_in

#: Operations that make a constant out of nothing.
CONSTANT_FACTORIES = frozenset((
    "arange", "zeros", "ones", "full", "eye", "linspace", "logspace", "scalar_tensor", "tril_indices",
    "triu_indices", "hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window",
))  # fmt: skip

#: The same in the shape, format or place of another tensor, whose values they do not look at.
SHAPED_LIKE = frozenset(("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"))

#: A single random number is taken to be the middle of what it is drawn from, so that code which asks for it goes on.
MIDDLES: dict[str, Callable[[Any], float]] = {
    "rand": lambda args: 0.5,
    "randn": lambda args: 0.0,
    "randint": lambda args: sum(_bounds(args)) // 2,
}

_RANDOM = frozenset((
    "rand", "randn", "randint", "randperm", "normal", "normal_", "uniform_", "bernoulli", "bernoulli_",
    "native_dropout", "multinomial", "random_", "exponential_", "geometric_", "cauchy_", "log_normal_",
    "rand_like", "randn_like", "randint_like", "poisson",
))  # fmt: skip
_HEAVY = frozenset((
    "mm", "bmm", "addmm", "baddbmm", "convolution", "mv", "linear", "matmul", "_scaled_mm", "_grouped_mm",
    "_int_mm",
))  # fmt: skip
_FREE = frozenset((
    "empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "empty_permuted", "lift",
    "lift_fresh", "resize_", "set_", "_assert_async", "_assert_scalar", "_functional_assert_async",
    "sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "is_same_size",
    "_has_compatible_shallow_copy_type", "record_stream", "_local_scalar_dense", "is_pinned", "_backward",
    "_version", "detach_", "requires_grad_", "_nested_tensor_size", "_fused_sdp_choice", "_fw_primal",
    "_assert_tensor_metadata", "dense_dim", "_linalg_check_errors", "transpose_", "t_",
    "squeeze_", "unsqueeze_", "swapaxes_", "swapdims_", "as_strided_",
    "sparse_dim", "is_coalesced", "_has_same_storage_numel", "_resize_output", "resize_as_", "_print",
    "_functional_sym_constrain_range",
    "_functional_sym_constrain_range_for_size", "sym_constrain_range", "sym_constrain_range_for_size",
))  # fmt: skip
_VALUE = frozenset({"_local_scalar_dense", "equal", "is_nonzero", "item", "allclose"})
_SHAPE_FROM_VALUES = frozenset((
    "nonzero", "masked_select", "_to_sparse", "unique_consecutive", "_unique", "_unique2", "unique_dim",
    "repeat_interleave",
))  # fmt: skip
#: What operations write beside their results while ``training``, though their schemas do not say so.
_UPDATED = dict.fromkeys(
    ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"), ("running_mean", "running_var")
)
#: Operations that write only where indices name: done in place, the rest of the tensor stays what it was.
_IN_PARTS = frozenset((
    "index_put", "_index_put_impl", "_unsafe_index_put", "scatter", "scatter_add", "scatter_reduce", "index_add",
    "index_copy", "index_fill", "masked_scatter", "put", "index_reduce",
))  # fmt: skip


def _bounds(args: Any) -> tuple[int, int]:
    """The lowest and the highest number of ``randint``."""
    numbers = [value for value in args if isinstance(value, int)]
    return (numbers[0] if len(numbers) > 1 else 0), numbers[-1] - 1


class OperatorTraits(NamedTuple):
    """What holds for an operation of the dispatcher, whatever its arguments."""

    full_name: str
    name: str
    arguments: tuple[str, ...]
    defaults: tuple[Any, ...]
    mutated: tuple[str, ...]
    out_names: tuple[str, ...]
    only_written: frozenset[str]
    is_view: bool
    free: bool
    pointwise: bool
    reduction: bool
    random: bool
    heavy: bool
    takes_device: bool
    value_asked: bool
    shape_from_values: bool
    in_parts: bool

    @property
    def may_be_view(self) -> bool:
        """Whether a result that shares storage with an argument is a view of it."""
        return self.full_name.startswith("aten.") and not self.mutated

    def bound(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """Every argument of the schema with its value, given or by default."""
        for place, (name, default) in enumerate(zip(self.arguments, self.defaults, strict=True)):
            yield name, args[place] if place < len(args) else kwargs.get(name, default)

    def written(self, args: Any, kwargs: Any) -> Iterator[Any]:
        """The arguments the operation writes into."""
        given = dict(zip(self.arguments, args, strict=False)) | kwargs
        updated = _UPDATED.get(self.name, ()) if given.get("training") else ()
        yield from (given[name] for name in (*self.mutated, *updated) if name in given)

    def returned(self, result: Any, args: Any, kwargs: Any) -> Any:
        """The result, in which arguments that were written into stand for themselves."""
        held = dict(zip(self.mutated, self.written(args, kwargs), strict=False))
        if not self.out_names:
            return result
        if len(self.out_names) == 1 and not isinstance(result, list | tuple):
            return held.get(self.out_names[0], result)
        return tuple(held.get(name, item) for name, item in zip(self.out_names, result, strict=True))


@cache
def traits_of(func: Any) -> OperatorTraits:
    """Read the traits of an operation off its schema and tags."""
    schema = func._schema
    space, _, name = schema.name.partition("::")
    tags = set(func.tags)
    aliases = {
        alias: item.name
        for item in schema.arguments
        if item.alias_info is not None and item.alias_info.is_write
        for alias in item.alias_info.before_set
    }
    outs = tuple(_alias(item, aliases) for item in schema.returns)
    plain = name.rstrip("_") or name
    return OperatorTraits(
        full_name=f"{space}.{plain if not name.startswith('__') else name}",
        name=plain if not name.startswith("__") else name,
        arguments=tuple(item.name for item in schema.arguments),
        defaults=tuple(item.default_value for item in schema.arguments),
        mutated=tuple(i.name for i in schema.arguments if i.alias_info is not None and i.alias_info.is_write),
        out_names=outs if any(outs) else (),
        only_written=frozenset(item.name for item in schema.arguments if item.is_out),
        is_view=bool(func.is_view),
        free=space == "aten" and (name in _FREE or plain in _FREE),
        pointwise=torch.Tag.pointwise in tags,
        reduction=torch.Tag.reduction in tags,
        random=name in _RANDOM or torch.Tag.nondeterministic_seeded in tags,
        heavy=name in _HEAVY,
        takes_device=any(item.name == "device" for item in schema.arguments),
        value_asked=name in _VALUE,
        shape_from_values=torch.Tag.dynamic_output_shape in tags
        or (name in _SHAPE_FROM_VALUES and not (name == "repeat_interleave" and func._overloadname != "Tensor")),
        in_parts=plain in _IN_PARTS,
    )


def _alias(item: Any, aliases: dict[str, str]) -> str:
    if item.alias_info is None:
        return ""
    return next((aliases[alias] for alias in item.alias_info.before_set if alias in aliases), "")


_CHECKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


@cache
def opened(func: Any) -> Any:
    """A Python function of torch whose own check for overrides is off, so that what it calls is seen.

    It is a copy: the function itself is left as it is. None for functions that are not written in Python.
    """
    if not isinstance(func, FunctionType) or not set(func.__code__.co_names) & set(_CHECKS):
        return None
    names = {**func.__globals__, **dict.fromkeys(_CHECKS, lambda *_: False)}
    copy = FunctionType(func.__code__, names, func.__name__, func.__defaults__, func.__closure__)
    copy.__kwdefaults__ = func.__kwdefaults__
    return copy


_CONVOLUTIONS = [f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)]

#: Calls that run in the format autocast names.
LOWER = frozenset((
    *_CONVOLUTIONS, "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "linear", "addmm", "addbmm", "baddbmm",
    "einsum", "scaled_dot_product_attention", "lstm", "gru", "rnn_tanh", "rnn_relu", "bilinear",
))  # fmt: skip
_LOWER_ON_CUDA = frozenset({"mv", "addmv", "addr", "chain_matmul", "multi_dot", "prelu"})

_LOSSES = frozenset((
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "nll_loss", "nll_loss_nd", "cross_entropy",
    "cross_entropy_loss", "kl_div", "binary_cross_entropy_with_logits", "soft_margin_loss", "cosine_embedding_loss",
    "hinge_embedding_loss", "margin_ranking_loss", "multi_margin_loss", "multilabel_margin_loss",
    "poisson_nll_loss", "triplet_margin_loss", "ctc_loss",
))  # fmt: skip

#: Calls that run in fp32, by device.
FULL = {
    "cuda": _LOSSES
    | {
        "__pow__", "__rdiv__", "__rpow__", "__rtruediv__", "acos", "asin", "cosh", "cdist", "cosine_similarity",
        "cumprod", "cumsum", "dist", "erfinv", "exp", "expm1", "group_norm", "layer_norm", "log", "log10",
        "log_softmax", "log1p", "log2", "norm", "normalize", "pow", "prod", "reciprocal", "rsqrt", "sinh", "softmax",
        "softmin", "softplus", "sum", "renorm", "tan", "rms_norm",
    },
    "cpu": _LOSSES | {"binary_cross_entropy", "avg_pool3d", "adaptive_avg_pool3d", "prod", "cdist", "trace", "stft"},
}  # fmt: skip


class Autocast:
    """Casts the arguments of calls; weights are cast once in a region, as PyTorch keeps them."""

    def __init__(self) -> None:
        self._cast: dict[int, tuple[Any, Any]] = {}

    def arguments(self, func: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments as autocast gives them to a call."""
        device = next((name for name in ("cuda", "cpu") if torch.is_autocast_enabled(name)), None)
        if device is None:
            self._cast.clear()
            return args, kwargs
        name = getattr(func, "__name__", "")
        if name in LOWER or (device == "cuda" and name in _LOWER_ON_CUDA):
            wanted = torch.get_autocast_dtype(device)
        elif name in FULL[device]:
            wanted = torch.float32
        else:
            return args, kwargs

        def cast(tensor: Any) -> Any:
            return self._one(tensor, wanted)

        return map_tensors(args, cast), map_tensors(kwargs, cast)

    def _one(self, tensor: Any, wanted: Any) -> Any:
        if not tensor.is_floating_point() or tensor.dtype in (torch.float64, wanted):
            return tensor
        if not (tensor.is_leaf and tensor.requires_grad):
            return tensor.to(wanted)
        if id(tensor) not in self._cast:
            self._cast[id(tensor)] = (tensor, tensor.to(wanted))
        return self._cast[id(tensor)][1]


@contextmanager
def autocast_without_a_device() -> Iterator[None]:
    """Let ``torch.autocast("cuda")`` stand where there is no such device, for as long as this lasts."""
    with (
        mock.patch.object(torch.cuda.amp.common, "amp_definitely_not_available", always(False)),
        mock.patch.object(torch.cuda, "is_bf16_supported", always(True)),
    ):
        yield


#: Results that are kept; past them all are forgotten.
MOST = 4096

#: Arguments that say themselves what they are.
_PLAIN = (int, float, bool, str, complex, type(None), torch.dtype, torch.layout, torch.device, torch.memory_format)

#: Results by operation and arguments, as :func:`_made` makes others like them.
KEPT: dict[Any, Any] = {}


class _UnlikeOthersError(Exception):
    """An argument or a result that is more than a shape."""


def results_of(func: Any, args: Any, kwargs: Any) -> Any:
    """What an operation of PyTorch's own gives of shapes that shares no memory with its arguments; worked out once.

    Tensors of one number are left to PyTorch, which takes those that stand for a number of Python's for another type.
    """
    try:
        if func.namespace != "aten" or torch._C._functorch.peek_interpreter_stack() is not None:
            raise _UnlikeOthersError
        key = (func, torch.get_default_dtype(), _key(args), _key(kwargs))
    except _UnlikeOthersError:
        return func(*args, **kwargs)
    if (kept := KEPT.get(key)) is not None:
        return _made(kept)
    found = func(*args, **kwargs)
    given, outs = {id(tensor): tensor for tensor in tensors_in((args, kwargs))}, tensors_in(found)
    with suppress(_UnlikeOthersError):
        shape = _shape(found)
        storages = {tensor.untyped_storage()._cdata for tensor in (*given.values(), *outs)}
        if len(storages) == len(given) + len(outs):
            if len(KEPT) >= MOST:
                KEPT.clear()
            KEPT[key] = shape
    return found


def _key(value: Any) -> Any:
    """An argument as a part of a key: a tensor as its shape, strides, place and type."""
    if isinstance(value, torch.Tensor):
        if not _is_shape(value) or not value.dim():
            raise _UnlikeOthersError
        return torch.Tensor, value.shape, value.stride(), value.storage_offset(), value.dtype
    if type(value) in _PLAIN:
        return type(value), value
    if isinstance(value, list | tuple):
        return type(value), *map(_key, value)
    if isinstance(value, dict):
        return tuple((name, _key(each)) for name, each in value.items())
    raise _UnlikeOthersError


def _is_shape(tensor: Any) -> bool:
    is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.is_meta
    if not is_plain or tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg():
        return False
    return all(type(size) is int for size in (*tensor.shape, *tensor.stride(), tensor.storage_offset()))


def _shape(found: Any) -> Any:
    """A result as what :func:`_made` makes one like it of."""
    if isinstance(found, torch.Tensor):
        size = found.untyped_storage().nbytes()
        shape = torch.Size, (found.shape, found.stride()), found.dtype
        if not _is_shape(found) or _made(shape).untyped_storage().nbytes() != size or found.storage_offset():
            raise _UnlikeOthersError
        return shape
    if type(found) in (list, tuple):
        return type(found), tuple(map(_shape, found)), None
    if found is None:
        return None
    raise _UnlikeOthersError


def _made(kept: Any) -> Any:
    if kept is None:
        return None
    kind, parts, dtype = kept
    if kind is torch.Size:
        return torch.empty_strided(*parts, dtype=dtype, device="meta")
    return kind(map(_made, parts))
