"""Weights of a model: their shapes, the formats that they are stored in, and what quantisers say of those.

>>> Weight("up_proj", (11008, 4096)).elements
45088768
>>> Storage("fp8_e4m3", "fp32", (128, 128)).nbytes((7168, 2048))           # one fp32 scale for each 128 x 128 block
14683648
>>> Storage("nvfp4").nbytes((64, 64)) == 64 * 64 // 2 + 64 * 64 // 16
True

The ``quantization_config`` of a ``config.json`` says which modules are stored in which format, and which are not.
Understood are ``fp8`` (per tensor or in blocks, DeepSeek's with fp4 experts), ``compressed-tensors``, ``modelopt``
(its algorithms but ``NVFP4_SVD``, mixed by layer too), ``mxfp4``, ``mxfp8``, ``nvfp4``, ``fouroversix``, ``gptq``,
``awq``, ``auto-round``, ``bitsandbytes`` (8 and 4 bits), ``bitnet``, ``fbgemm_fp8``, ``torchao``, ``quark``, ``hqq``,
``quanto``, ``eetq``, ``aqlm``, ``metal``, MLX's without a name, and SGLang's ``w8a8_int8``, ``w8a8_fp8`` and
``blockwise_int8``. Anything else is an error that lists them.

>>> found = read_quantisation({"quant_method": "fp8", "weight_block_size": [128, 128]})
>>> found.storage("model.layers.0.mlp.up_proj", "linear").dtype, found.storage("lm_head", "head")
('fp8_e4m3', None)
>>> found = read_quantisation({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]})
>>> found.storage("model.layers.3.self_attn.q_proj", "linear") is None
True
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from math import prod
from typing import Any

from roofline import dtypes
from roofline.errors import InputError, check_one_of, quoted, suggest
from roofline.files import MOST_LAYERS, MOST_PATTERNS, checked_expression
from roofline.frozen import Frozen, NamedTuple, Same, dataclass, field, replace
from roofline.sizes import Size, ceil_div, grouped


class Weight(NamedTuple):
    """One parameter tensor of a block: its module's name, its stored shape, and its kind.

    ``kind`` is linear (a matrix a quantiser converts), expert (one matrix for each expert, the first dimension),
    router, head, embedding, norm, bias, adapter, or other (never converted). ``dtype`` fixes a format (``fp32``) that
    neither the model's dtype nor a quantiser changes.
    """

    name: str
    shape: tuple[int, ...]
    kind: str = "linear"
    dtype: str = ""

    @property
    def elements(self) -> int:
        """Parameters it holds."""
        return prod(self.shape)

    @property
    def is_of_experts(self) -> bool:
        """Whether it has a part for each expert: a matrix or a bias of each."""
        return self.kind == "expert" or (self.kind == "bias" and len(self.shape) == 2)


class ServedAdapters(NamedTuple):
    """Adapters (LoRA) that are served beside a model: ``number`` of them lie in memory, all of one ``rank``.

    ``sides`` are (out, in) of a chip's part of an adapter, by name and local shape of a matrix that chips split.
    """

    rank: int
    number: int
    sides: Mapping[tuple[str, tuple[int, ...]], tuple[int, int]] = Frozen()

    def split(self, whole: Iterable[Weight], local: Iterable[Weight], ways: int) -> ServedAdapters:
        """The part that each of ``ways`` chips has where they split matrices: equal parts of A's inputs, B's outputs.

        Chips add up or gather what they make of their parts. Beside a matrix that every chip holds whole, each holds
        the adapter whole too.

        Source: Sheng et al., "S-LoRA", arXiv:2311.03285, section 6; ``--fully-sharded-loras`` of vLLM.

        >>> local = Weight("q_proj", (2048, 4096))
        >>> half = ServedAdapters(16, 1).split([Weight("q_proj", (4096, 4096))], [local], 2)
        >>> half.part(local), half.part(Weight("kv_a_proj", (576, 4096)))
        ((2048, 2048), (576, 4096))
        """
        shapes = {weight.name: weight.shape for weight in whole if weight.kind == "linear"}
        found = dict(self.sides)
        for weight in local:
            shape = shapes.get(weight.name, weight.shape)
            if shape != weight.shape:
                key = (weight.name.rpartition(".")[2], weight.shape)
                parts = [ceil_div(side, ways) for side in shape[-2:]]
                n, k = map(min, found.get(key, parts), parts)
                found[key] = (n, k)
        return self._replace(sides=Frozen(found))

    def part(self, weight: Weight) -> tuple[int, int]:
        """Outputs and inputs of a chip's part of an adapter beside a matrix, which is a chip's part too."""
        n, k = weight.shape[-2:]
        return self.sides.get((weight.name.rpartition(".")[2], weight.shape), (n, k))

    def elements(self, weight: Weight) -> int:
        """Parameters that all of them have beside a matrix of a layer: A is rank x in, B out x rank.

        >>> ServedAdapters(16, 8).elements(Weight("q_proj", (4096, 1024)))
        655360
        """
        return self.number * self.rank * sum(self.part(weight)) if weight.kind == "linear" else 0

    def __str__(self) -> str:
        many = "an adapter" if self.number == 1 else f"{self.number:,} adapters"
        return f"{many} of rank {self.rank:,} (LoRA)"


@dataclass(frozen=True, slots=True)
class Storage:
    """A weight's format.

    Attributes
        ``scale``    format of separate scales; empty for formats that contain theirs (mxfp4)
        ``block``    (rows, columns) that share one scale; 0 stands for the whole dimension
        ``zero``     format of the zero point beside each scale, in asymmetric quantisation
        ``nested``   how many scales share an fp32 scale of their own; 0: none do
        ``table``    numbers of a table in fp16 that all of a matrix's weights are looked up in
        ``compute``  arithmetic of the matrix product (fp8 where activations are quantised too); empty: that of the
                     wider operand
    """

    dtype: str
    scale: str = ""
    block: tuple[int, int] = (0, 0)
    compute: str = ""
    zero: str = ""
    nested: int = 0
    table: int = 0

    def __post_init__(self) -> None:
        for size in (*self.block, self.nested, self.table):
            if isinstance(size, bool) or not isinstance(size, int) or size < 0:
                raise InputError(f"a block of weights is {quoted(size)} wide", hint="a whole number, 0 for all of them")

    def scales(self, shape: tuple[int, ...]) -> int:
        """Number of scales of a weight of ``shape`` (…, rows, columns)."""
        if not self.scale:
            return 0
        sizes = (1, *shape) if len(shape) == 1 else shape
        count = prod(sizes[:-2])
        for size, block in zip(sizes[-2:], self.block, strict=True):
            count *= -(-size // block) if block else 1
        return count

    def beside(self, shape: tuple[int, ...]) -> tuple[tuple[str, str, int], ...]:
        """Scales, zero points and scales of scales of a weight of ``shape``: name, format and number.

        >>> Storage("int4", "fp16", (1, 128), zero="int4").beside((256, 512))
        (('scale', 'fp16', 1024), ('zero', 'int4', 1024))
        """
        count = self.scales(shape)
        found = [(name, dtype, count) for name, dtype in (("scale", self.scale), ("zero", self.zero)) if dtype]
        if self.nested:
            found.append(("scale.scale", "fp32", -(-count // self.nested)))
        if self.table:
            found.append(("table", "fp16", self.table * prod(shape[:-2])))
        return tuple(found)

    @cache  # noqa: B019 - there are a few
    def computing(self, arithmetic: str) -> Storage:
        """The same storage, whose products are in another arithmetic."""
        return replace(self, compute=arithmetic)

    def nbytes(self, shape: tuple[int, ...]) -> Size:
        """Bytes of a weight of ``shape`` with its scales."""
        beside = (dtypes.get(dtype).nbytes(count) for _, dtype, count in self.beside(shape))
        return dtypes.get(self.dtype).nbytes(prod(shape)) + sum(beside)


@lru_cache(8192)
def join_path(*names: str) -> str:
    """A module path of the names that are not empty; those of a model are asked for in each of its steps."""
    return ".".join(filter(None, names))


#: A section of a configuration, or a part of it.
Section = Mapping[str, Any]

#: How transformers looks for names of modules that stay as they are.
_BETWEEN_DOTS = "*.{}"
_LAYER = re.compile(r"(?<=layers\.)(\d+|\{[\d,-]+\})(?=\.|$)")
#: The number of one expert in a module path, and the place where a path of all experts has none.
_EXPERT = re.compile(r"(?<=\bexperts\.)\d+(?=\.)")
_EXPERTS = re.compile(r"(?<![a-z_])experts\.(?=[a-z])")


@dataclass(frozen=True, slots=True)
class Modules:
    """Patterns of module paths, with the layer number taken out so that a list of thousands stays a few."""

    exact: Mapping[str, frozenset[int] | None]
    wild: tuple[tuple[re.Pattern[str], frozenset[int] | None], ...]

    def hold(self, path: str) -> bool:
        """Say whether a module, or one it stands in, is named."""
        if not self.exact and not self.wild:
            return False
        number = _LAYER.search(path)
        layer = int(number[1]) if number else -1
        generic = _LAYER.sub("#", path)
        parts = generic.split(".")
        for end in range(len(parts), 0, -1):
            name = ".".join(parts[:end])
            if name in self.exact and (self.exact[name] is None or layer in (self.exact[name] or ())):
                return True
        return any(
            (layers is None or layer in layers) and pattern.match(path if layers is None else generic)
            for pattern, layers in self.wild
        )


@dataclass(frozen=True, slots=True)
class Quantisation:
    """The quantisation of a checkpoint: storage by module, and the format of keys and values.

    ``gaps`` are what its section says that is not modelled.
    """

    method: str
    default: Storage | None = None
    experts: Storage | None = None
    listed: tuple[tuple[Modules, Storage | None], ...] = ()
    kept: Modules = field(default_factory=lambda: Modules({}, ()))
    kv: str | None = None
    gaps: tuple[str, ...] = ()

    def storage(self, path: str, kind: str) -> Storage | None:
        """Storage of a module's weight, None where it stays in the model's own format."""
        return _storage(Same(self), path, kind) if kind in ("linear", "expert", "head", "embedding") else None

    def has(self, dtype: str) -> bool:
        """Whether some of its weights lie in a format that a caller names: ``fp8`` is any of its kinds.

        >>> [read_quantisation({"quant_method": "fp8"}).has(dtype) for dtype in ("fp8", "fp8_e5m2", "int4")]
        [True, False, False]
        """
        return any(lies_in(each, dtype) for each in self._storages)

    def is_all(self, dtype: str) -> bool:
        """Whether all weights that it stores in a format of its own lie in the one that a caller names."""
        return all(lies_in(each, dtype) for each in self._storages)

    @property
    def _storages(self) -> tuple[Storage, ...]:
        return tuple(filter(None, (self.default, self.experts, *(found for _, found in self.listed))))


@lru_cache(maxsize=1 << 14)
def _storage(section: Same[Quantisation], path: str, kind: str) -> Storage | None:
    """What :meth:`Quantisation.storage` gives, looked up once: every layout of a model asks for each of its weights."""
    found = section.value
    # sections name each expert, or all of a layer together
    paths = (path, _EXPERTS.sub("experts.0.", path)) if kind == "expert" else (path,)
    for named, storage in found.listed:
        if any(map(named.hold, paths)):
            return storage
    if kind in ("head", "embedding") or any(map(found.kept.hold, paths)):
        return None
    return found.experts if kind == "expert" and found.experts else found.default


def lies_in(storage: Storage, dtype: str) -> bool:
    """Whether a weight that is stored so lies in a format that a caller names, with its scales or not."""
    return dtype in (storage.dtype, dtypes.arithmetic_name(storage.dtype))


def read_quantisation(section: Section, expert_dtype: str | None = None) -> Quantisation:
    """Read a section; ``expert_dtype`` is DeepSeek-V4's own field for it."""
    method = section.get("quant_method") or ("modelopt" if "quant_algo" in section else None)
    if method is None and (section.get("load_in_4bit") or section.get("load_in_8bit")):
        method = "bitsandbytes"
    if method is None and {"bits", "group_size"} <= section.keys():
        method = "mlx"
    section = {**section, "expert_dtype": section.get("expert_dtype") or expert_dtype}
    if section.get("quant_algo") and method == "fp8":
        method = "modelopt"
    known = (*_METHODS, *_ONE_FORMAT)
    if not isinstance(method, str) or method not in known:
        hint = suggest("" if method in _NOT_MODELLED else str(method), known, what="methods")
        raise InputError(f"quantisation method {quoted(method)} is not understood", hint=hint)
    try:
        if method not in _ONE_FORMAT:
            return _METHODS[method](section)
        storage, kept = _ONE_FORMAT[method]
        found = storage if isinstance(storage, Storage) else storage(section)
        names = [*(section.get(kept) or []), *_ALWAYS_KEPT.get(method, ())]
        return Quantisation(method, found, kept=modules(names, _BETWEEN_DOTS))
    except InputError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"the {method} section is not of its usual form: {error}", hint="is it cut short?") from error


def _fp8(section: Section) -> Quantisation:
    dtype = "fp8_e5m2" if section.get("fmt") == "e5m2" else "fp8_e4m3"
    scale = "fp8_e8m0" if section.get("scale_fmt") == "ue8m0" else "fp32"
    storage = Storage(dtype, scale, _block(section), "fp8")
    # experts are in fp4: DeepSeek says so of expert_dtype, MiMo of store_dtype
    field = "expert_dtype" if section.get("expert_dtype") else "store_dtype"
    wanted = section.get(field) or "fp8"
    check_one_of(f"{field} {quoted(wanted)} is not understood", str(wanted), ("fp8", "fp4", "mxfp4"), "known")
    experts = None if wanted == "fp8" else Storage("mxfp4", compute="fp8")
    kept = section.get("modules_to_not_convert") or section.get("ignored_layers") or []
    return Quantisation("fp8", storage, experts, kept=modules(kept, _BETWEEN_DOTS), kv=_kv(section))


def _block(section: Section) -> tuple[int, int]:
    block = section.get("weight_block_size")
    return (0, 0) if block is None else (block[0], block[1])


def _compressed(section: Section) -> Quantisation:
    groups = section.get("config_groups") or {}
    listed, default = [], None
    for group in groups.values():
        storage = _group(group)
        targets = group.get("targets") or ["Linear"]
        if any(target == "Linear" or target.startswith("class:") for target in targets):
            default = storage
        else:
            listed.append((modules(targets), storage))
    sparse = "marlin-24" in str(section.get("format")) or "2:4" in (section.get("sparsity_config") or {}).values()
    gaps = ["weights that are 2:4 sparse are counted as dense ones, in bytes and FLOPs"] if sparse else []
    if default is None and not listed and not gaps:
        raise InputError("the quantisation section has no config_groups", hint="each names its weights' format")
    kept = modules(section.get("ignore") or [])
    return Quantisation("compressed-tensors", default, None, tuple(listed), kept, _kv(section), tuple(gaps))


def _group(group: Section) -> Storage:
    weights, inputs = group.get("weights") or {}, group.get("input_activations")
    bits, kind, size = weights.get("num_bits"), weights.get("type"), weights.get("group_size") or 0
    narrow = None if not inputs else f"{'fp' if inputs.get('type') == 'float' else 'int'}{inputs.get('num_bits')}"
    if (bits, kind, size) == (8, "float", 32):
        return Storage("mxfp8", compute=narrow or "")
    if (bits, kind) == (8, "float"):
        return Storage("fp8_e4m3", "bf16", _sharing_a_scale(weights), narrow or "")
    if (bits, kind) == (4, "float"):
        return Storage("mxfp4" if size == 32 else "nvfp4", compute=narrow or "")
    if kind == "int" and bits in (2, 4, 8):
        zero = "" if weights.get("symmetric", True) else f"int{bits}"
        return Storage(f"int{bits}", "bf16", _sharing_a_scale(weights), narrow or "", zero)
    wrong = f"weights of {bits} bits of type {quoted(kind)} are not understood"
    raise InputError(wrong, hint="8 or 4 float, 8, 4 or 2 int")


def _sharing_a_scale(weights: Section) -> tuple[int, int]:
    """Rows and columns of one scale, as compressed-tensors' ``QuantizationArgs`` read a strategy, or a group without.

    >>> [_sharing_a_scale(each) for each in ({}, {"group_size": -1}, {"strategy": "block", "block_structure": [8, 4]})]
    [(0, 0), (1, 0), (8, 4)]
    """
    size = weights.get("group_size") or 0
    usual = "group" if size > 0 else "channel" if size else "tensor"
    rows, columns = weights.get("block_structure") or (0, 0)
    shared = {"tensor": (0, 0), "channel": (1, 0), "group": (1, size), "block": (rows, columns)}
    strategy = weights.get("strategy") or usual
    _check_known(strategy, shared, "a strategy of compressed-tensors")
    return shared[strategy]


#: Model Optimizer's names, as its ``convert_hf_config`` and TensorRT-LLM's ``QuantAlgo`` explain them.
_ALGORITHMS = {
    "FP8": Storage("fp8_e4m3", "fp32", (0, 0), "fp8"),
    "FP8_PER_CHANNEL_PER_TOKEN": Storage("fp8_e4m3", "fp32", (1, 0), "fp8"),
    "FP8_BLOCK_SCALES": Storage("fp8_e4m3", "fp32", (128, 128), "fp8"),
    "FP8_PB_WO": Storage("fp8_e4m3", "fp32", (128, 128)),
    **dict.fromkeys(("NVFP4", "NVFP4_AWQ"), Storage("nvfp4", compute="fp4")),
    "W4A16_NVFP4": Storage("nvfp4"),
    "MXFP8": Storage("mxfp8", compute="fp8"),
    **dict.fromkeys(("W4A8_NVFP4", "W4A8_NVFP4_FP8"), Storage("nvfp4", compute="fp8")),
    "W4A16_MXFP4": Storage("mxfp4"),
    **dict.fromkeys(("W4A8_MXFP4_FP8", "W4A8_MXFP4_MXFP8"), Storage("mxfp4", compute="fp8")),
    "W4A16_AWQ": Storage("int4", "bf16", (1, 128)),
    "W4A8_AWQ": Storage("int4", "bf16", (1, 128), "fp8"),
    "W8A16": Storage("int8", "bf16", (1, 0)),
    **dict.fromkeys(("INT8", "W8A8_SQ_PER_CHANNEL"), Storage("int8", "fp32", (1, 0), "int8")),
}


#: Methods of Model Optimizer, with the algorithm of those that name one.
_OF_MODELOPT = {"modelopt": "", "modelopt_fp4": "NVFP4", "modelopt_fp8": "FP8", "modelopt_mxfp8": "MXFP8"}


def _modelopt(section: Section) -> Quantisation:
    usual = _OF_MODELOPT.get(str(section.get("quant_method")), "")
    name = str(section.get("quant_algo") or usual).upper()
    ignored = section.get("ignore") or section.get("exclude_modules") or section.get("modules_to_not_convert")
    kept = modules(ignored or [])
    layers = (section.get("quantized_layers") or {}).items()
    by_storage = grouped((_algorithm(str(entry.get("quant_algo")), entry), path) for path, entry in layers)
    listed = tuple((modules(paths), storage) for storage, paths in by_storage.items())
    if name != "MIXED_PRECISION":
        return Quantisation("modelopt", _algorithm(name, section), listed=listed, kept=kept, kv=_kv(section))
    if not listed:
        wrong = "the quantisation section says mixed precision and lists no layers"
        raise InputError(wrong, hint="it needs quantized_layers")
    rest = _fp8(section) if section.get("quant_method") == "fp8" else None
    if rest is not None:  # the modules it ignores are those NVFP4 leaves in the checkpoint's own fp8
        return Quantisation("modelopt", rest.default, listed=listed, kv=_kv(section))
    return Quantisation("modelopt", None, listed=listed, kept=kept, kv=_kv(section))


def _algorithm(name: str, section: Section) -> Storage:
    """The format of an algorithm; of integers in groups the section may say how many weights share a scale."""
    check_one_of(f"quant_algo {quoted(name)} is not understood", name.upper(), _ALGORITHMS, "algorithms")
    found, group = _ALGORITHMS[name.upper()], section.get("group_size")
    return replace(found, block=(1, group)) if found.dtype == "int4" and group else found


def _integer(section: Section) -> Storage:
    kind, bits = section.get("data_type") or "int", section.get("bits") or section.get("w_bit")
    if kind != "int":
        dtype = f"{str(kind).replace('_', '')[:4]}{bits}"  # mx_fp_rceil to 4 bits is mxfp4
        _check_known(dtype, ("mxfp8", "mxfp4", "nvfp4"), "weights of auto-round")
        inputs = section.get("act_bits") or 16
        return Storage(dtype, compute="" if inputs > 8 else f"fp{inputs}")
    size = section.get("group_size") or section.get("q_group_size") or 0
    if bits not in (2, 3, 4, 8):
        raise InputError(f"quantisation to {quoted(bits)} bits is not understood", hint="known are 2, 3, 4 and 8")
    uneven = section.get("zero_point", True) if section["quant_method"] == "awq" else not section.get("sym", True)
    return Storage(f"int{bits}", "fp16", (1, 0 if size == -1 else size), zero=f"int{bits}" if uneven else "")


def _integers(section: Section) -> Quantisation:
    """Integers in groups, as GPTQ, AWQ and AutoRound store them; others by module, and the head where it says so.

    GPTQModel's ``dynamic`` has regular expressions, ``-:`` before those whose modules stay as they are. AutoRound's
    ``extra_config`` has names, 16 bits for modules that stay.

    >>> dynamic = {"-:.*attn": {}, "+:.*down_proj": {"bits": 8}}
    >>> found = read_quantisation({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": dynamic})
    >>> paths = ("mlp.up_proj", "mlp.down_proj", "self_attn.q_proj")
    >>> [getattr(found.storage(f"model.layers.0.{path}", "linear"), "dtype", None) for path in paths]
    ['int4', 'int8', None]

    Sources: GPTQModel's README ("Dynamic quantization"); auto-round's docs ("Customized settings").
    """
    default = _integer(section)
    listed: list[tuple[Modules, Storage | None]] = []
    for pattern, each in (section.get("dynamic") or {}).items():
        named = re.sub(r"^[+-]:", "", pattern)
        found = modules([f"re:{named}" if named.endswith("$") else f"re:{named}.*"])
        listed.append((found, None if pattern.startswith("-:") else _integer({**section, **each})))
    for path, each in (section.get("extra_config") or {}).items():
        narrow = each.get("bits", 0) < 16
        found = modules([f"re:{path}" if ".*" in path else path])
        listed.append((found, _integer({**section, **each}) if narrow else None))
    if section.get("lm_head"):
        listed.append((modules(["*lm_head"]), default))
    kept = modules(section.get(_NOT_CONVERTED) or [], "*{}*" if section["quant_method"] == "awq" else _BETWEEN_DOTS)
    return Quantisation(str(section["quant_method"]), default, listed=tuple(listed), kept=kept)


def _bitsandbytes(section: Section) -> Storage:
    """8 bits with a scale for each row, products in int8; or 4 bits with one for each 64 weights, widened before use.

    Quantised twice, the scales are 8 bits wide, with one of their own for each 256.
    """
    if section.get("load_in_8bit"):
        return Storage("int8", "fp32", (1, 0), "int8")
    if not section.get("load_in_4bit"):
        raise InputError("the bitsandbytes section says neither load_in_8bit nor load_in_4bit", hint="one of them")
    twice = bool(section.get("bnb_4bit_use_double_quant"))
    return Storage("int4", "int8" if twice else "fp32", (1, 64), nested=256 if twice else 0)


#: Formats of keys and values by the names sections give them.
KV_FORMATS = {"FP8": "fp8_e4m3", "NVFP4": "nvfp4", "INT8": "int8", "INT4": "int4"}


def _kv(section: Section) -> str | None:
    scheme = section.get("kv_cache_scheme") or section.get("kv_cache_quant_algo")
    if not scheme or (isinstance(scheme, str) and scheme.upper() in ("AUTO", "NONE", "{}")):
        return None
    # files that say no more than that scales are in the checkpoint are those of fp8 caches (AutoFP8, Hy3)
    known: dict[Any, str] = {
        (8, "float"): "fp8_e4m3", (4, "float"): "nvfp4", (8, "int"): "int8", (4, "int"): "int4", **KV_FORMATS,
        "STATIC": "fp8_e4m3",
    }  # fmt: skip
    asked = scheme.upper() if isinstance(scheme, str) else (scheme.get("num_bits"), scheme.get("type"))
    if asked not in known:
        wrong = f"keys and values of the form {quoted(scheme)} are not understood"
        raise InputError(wrong, hint="FP8, NVFP4, INT8 or INT4")
    return known[asked]


def modules(patterns: Iterable[str], inside: str = "") -> Modules:
    """Modules that any of the patterns names: paths, paths with ``*``, regular expressions after ``re:``.

    With ``inside`` a name without numbers may stand in the middle of a path, too: ``*.{}`` as words between its dots,
    ``*{}*`` as any part of it.
    """
    exact: dict[str, set[int] | None] = {}
    wild: dict[str, set[int] | None] = {}
    if isinstance(patterns, str | Mapping) or not all(isinstance(pattern, str) for pattern in patterns):
        raise InputError(f"modules are {quoted(patterns)}", hint="a list of texts, such as ['lm_head']")
    plain = [name for name in patterns if inside and not re.search(r"[*]|^re:|^model\.|\.\d+(\.|$)", name)]
    for pattern in (*patterns, *map(inside.format, plain)):
        expression = pattern.startswith("re:")
        pattern = pattern if expression else _EXPERT.sub("0", pattern.rstrip(".").removesuffix(".weight"))
        number = None if expression else _LAYER.search(pattern)
        generic = _LAYER.sub("#", pattern) if number else pattern
        table = wild if expression or "*" in generic else exact
        if number is None:
            table[generic] = None
        elif table.setdefault(generic, set()) is not None:
            table[generic] |= _numbers(number[1])  # type: ignore[operator]
    if len(wild) > MOST_PATTERNS:
        raise InputError(f"{len(wild):,} patterns name modules", hint=f"at most {MOST_PATTERNS:,}")
    return Modules(
        {name: None if layers is None else frozenset(layers) for name, layers in exact.items()},
        tuple((_regex(name), None if layers is None else frozenset(layers)) for name, layers in wild.items()),
    )


def _numbers(text: str) -> set[int]:
    """Read ``7`` or ``{0-5,8}``, the form the shipped configurations shorten their lists to."""
    found: set[int] = set()
    for part in text.strip("{}").split(","):
        first, _, last = part.partition("-")
        if not 0 <= int(first) <= int(last or first) < MOST_LAYERS:
            raise InputError(f"layers {quoted(text)}", hint=f"layers are numbered from 0 to {MOST_LAYERS - 1:,}")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def _regex(pattern: str) -> re.Pattern[str]:
    if pattern.startswith("re:"):
        return re.compile(checked_expression(pattern[3:]) + r"(?:\..*)?$")
    parts = re.split(r"\*+", pattern)
    checked_expression(".*".join("" for _ in parts))
    return re.compile(".*".join(map(re.escape, parts)) + r"(?:\..*)?$")


def _hqq(section: Section) -> Quantisation:
    """Groups of weights with a scale and a zero point, both in 16 bits unless they are quantised as well."""
    whole = section.get("quant_config") or section
    kept = modules(section.get("skip_modules") or ["lm_head"], _BETWEEN_DOTS)
    if "weight_quant_params" in whole or "nbits" in whole:
        return Quantisation("hqq", _hqq_storage(whole), kept=kept)
    by = {str(name): _hqq_storage(each) for name, each in whole.items()}
    # each stands for every layer's module of that name
    listed = tuple((modules([f"*.{name}"]), storage) for name, storage in by.items())
    return Quantisation("hqq", None, listed=listed, kept=kept)


def _hqq_storage(section: Section) -> Storage:
    weight = section.get("weight_quant_params") or section
    bits, group = weight.get("nbits", 4), weight.get("group_size", 64)
    _check_known(bits, (8, 4, 2, 1), "bits of HQQ")
    scales = section.get("scale_quant_params") or {}
    zeros = section.get("zero_quant_params") or {}
    return Storage(
        f"int{bits}", "int8" if scales else "fp16", (1, group or 0), zero="int8" if zeros else "fp16",
        nested=scales.get("group_size") or 0,
    )  # fmt: skip


def _quanto(section: Section) -> Storage:
    """8 bits with a scale a row; 4 and 2 bits in groups of 128 with a scale and a shift each, both in 16 bits."""
    formats = {
        "int8": Storage("int8", "bf16", (1, 0)),
        "float8": Storage("fp8_e4m3", "bf16", (1, 0)),
        "int4": Storage("int4", "bf16", (1, 128), zero="bf16"),
        "int2": Storage("int2", "bf16", (1, 128), zero="bf16"),
    }
    name, inputs = section.get("weights") or "int8", section.get("activations")
    _check_known(name, formats, "weights of Quanto")
    arithmetic = {None: "", "int8": "int8", "float8": "fp8"}
    _check_known(inputs, arithmetic, "activations of Quanto")
    return replace(formats[name], compute=arithmetic[inputs])


def _aqlm(section: Section) -> Storage:
    """Groups of weights as sums of vectors, one of each codebook: codes, a scale a row and the codebooks.

    Source: Egiazarian et al., "Extreme Compression of Large Language Models via Additive Quantization",
    arXiv:2401.06118, section 3.
    """
    names = "num_codebooks", "nbits_per_codebook", "in_group_size", "out_group_size"
    for name in names:
        _check_known(section.get(name, 1), range(1, 33), f"{name} of AQLM")
    books, bits, *sides = (int(section.get(name, 1)) for name in names)
    group = prod(sides)
    _check_known(books * bits / group, (8, 4, 2, 1), "bits of AQLM")
    return Storage(f"int{books * bits // group}", "fp16", (1, 0), table=books * 2**bits * group)


def _four_over_six(section: Section) -> Storage:
    """Blocks of NVFP4 whose largest weight is 4 or 6 (Cook et al., arXiv:2512.02010), or MXFP4."""
    dtype = section.get("weight_dtype") or section.get("dtype") or "nvfp4"
    _check_known(dtype, ("nvfp4", "mxfp4"), "weights of Four Over Six")
    return Storage(dtype, compute="fp4")


def _metal(section: Section, known: tuple[int, ...] = (8, 4, 2), whose: str = "Metal") -> Storage:
    """Apple's chips: groups of weights with a scale and a shift each, both in 16 bits."""
    bits = section.get("bits", 4)
    _check_known(bits, known, f"bits of {whose}")
    return Storage(f"int{bits}", "fp16", (1, section.get("group_size", 64)), zero="fp16")


def _mlx(section: Section) -> Quantisation:
    """MLX, whose sections name no method: tables and head as well, unless a module has a format of its own, or none.

    >>> found = read_quantisation({"bits": 4, "group_size": 64, "model.embed_tokens": {"bits": 8}, "lm_head": False})
    >>> paths = (("model.embed_tokens", "embedding"), ("lm_head", "head"), ("model.layers.0.mlp.up_proj", "linear"))
    >>> [getattr(found.storage(*each), "dtype", None) for each in paths]
    ['int8', None, 'int4']

    Source: ``quantize_model`` of mlx-lm.
    """

    def storage(own: Section) -> Storage:
        mode = own.get("mode") or "affine"
        _check_known(mode, ("affine", "mxfp4", "mxfp8", "nvfp4"), "a mode of MLX")
        return _metal(own, (8, 6, 5, 4, 3, 2), "MLX") if mode == "affine" else Storage(mode)

    default = storage(section)
    own = {path: each for path, each in section.items() if isinstance(each, Mapping | bool)}
    listed = [
        (modules([path]), storage({**section, **each}) if isinstance(each, Mapping) else default if each else None)
        for path, each in own.items()
    ]
    return Quantisation("mlx", default, listed=(*listed, (modules(["*"]), default)))


def _torchao(section: Section) -> Quantisation:
    """One format for every matrix, or formats by module; older sections name the function in place of its class."""
    kind = section.get("quant_type")
    if isinstance(kind, Mapping):
        kind = kind.get("default", kind)
    else:
        name = "".join(part.capitalize() for part in str(kind).split("_"))
        kind = {"_type": f"{name}Config", "_data": section.get("quant_type_kwargs") or {}}
    kept = modules(section.get(_NOT_CONVERTED) or [], _BETWEEN_DOTS)
    data = kind.get("_data") or {}
    by = data.get("module_fqn_to_config") or data.get("fqn_to_config")
    if by is None:
        return Quantisation("torchao", _torchao_storage(kind), kept=kept)
    default = by.get("_default")
    listed: list[tuple[Modules, Storage | None]] = []
    # exact names come before patterns
    for name in sorted(by, key=lambda each: each.startswith("re:")):
        path = re.sub(r"\.weight$", "", name)
        if name != "_default":
            listed.append((modules([path]), None if by[name] is None else _torchao_storage(by[name])))
    made = None if default is None else _torchao_storage(default)
    if made is not None and section.get("include_input_output_embeddings"):
        listed.append((modules(["*lm_head"]), made))
    return Quantisation("torchao", made, listed=tuple(listed), kept=kept)


def _torchao_storage(config: Section) -> Storage:
    name, data = str(config.get("_type")), config.get("_data") or {}
    _check_known(name, _TORCHAO, "torchao configuration")
    return _TORCHAO[name](data)


def _granularity(data: Section, *names: str) -> tuple[int, int]:
    """Block of one scale: a whole matrix, a row, or a group within a row."""
    found = next((data[name] for name in names if data.get(name)), None)
    if isinstance(found, list):
        found = found[-1]
    if not isinstance(found, Mapping):
        return (0, 0)
    if found.get("_type") == "PerGroup":
        return (1, (found.get("_data") or {})["group_size"])
    return (0, 0) if found.get("_type") == "PerTensor" else (1, 0)


def _any_int(data: Section, compute: str) -> Storage:
    """Integers of the stated width, in groups or by row."""
    said = data.get("weight_dtype", "int8")
    dtype = str(said.get("_data") if isinstance(said, Mapping) else said).removeprefix("torch.")
    _check_known(dtype, [f"int{bits}" for bits in range(8, 0, -1)], "weights of torchao")
    block = _granularity(data, "weight_granularity", "granularity")
    mapping = str(data.get("weight_mapping_type", data.get("mapping_type", "SYMMETRIC")))
    zero = "int8" if "ASYMMETRIC" in mapping else ""
    return Storage(dtype, "bf16", block if block != (0, 0) else (1, 0), compute, zero)


def _torchao_group(data: Section, default: int) -> tuple[int, int]:
    return (1, data.get("group_size") or default)


_TORCHAO: dict[str, Callable[[Section], Storage]] = {
    "Int4WeightOnlyConfig": lambda data: Storage("int4", "bf16", _torchao_group(data, 128), zero="bf16"),
    "Int8WeightOnlyConfig": lambda data: Storage("int8", "bf16", _torchao_group(data, 0)),
    "Int8DynamicActivationInt8WeightConfig": lambda data: Storage("int8", "bf16", (1, 0), "int8"),
    "Int8DynamicActivationInt4WeightConfig": lambda data: Storage("int4", "bf16", _torchao_group(data, 32), "int8"),
    "Float8WeightOnlyConfig": lambda data: Storage("fp8_e4m3", "fp32", (1, 0)),
    "Float8DynamicActivationFloat8WeightConfig": lambda data: Storage(
        "fp8_e4m3", "fp32", _granularity(data, "granularity"), "fp8"
    ),
    "Float8DynamicActivationInt4WeightConfig": lambda data: Storage("int4", "bf16", (1, 128), "fp8", "bf16"),
    "IntxWeightOnlyConfig": lambda data: _any_int(data, ""),
    "Int8DynamicActivationIntxWeightConfig": lambda data: _any_int(data, "int8"),
    "NVFP4DynamicActivationNVFP4WeightConfig": lambda data: Storage("nvfp4", compute="fp4"),
    "NVFP4WeightOnlyConfig": lambda data: Storage("nvfp4"),
    "MXDynamicActivationMXWeightConfig": lambda data: Storage(
        "mxfp4" if "float4" in str(data.get("weight_dtype")) else "mxfp8",
        compute="fp4" if "float4" in str(data.get("activation_dtype")) else "fp8",
    ),
}


def _quark(section: Section) -> Quantisation:
    """AMD's: one format, others by module, and keys and values where its projections' outputs are quantised."""
    section = section.get("quant_config") or section
    general = (section.get("global_quant_config") or {}).get("weight")
    by = section.get("layer_quant_config") or {}
    keys = None
    projections = [each for pattern, each in by.items() if re.search(r"k_proj|v_proj|kv|qkv", pattern)]
    for each in (*projections, *(section.get("kv_cache_quant_config") or {}).values()):
        dtype = (each.get("output_tensors") or {}).get("dtype")
        keys = KV_FORMATS.get(dtype.upper().removesuffix("_E4M3"), keys) if isinstance(dtype, str) else keys
    listed = [(modules([pattern]), _quark_storage(each)) for pattern, each in by.items() if each.get("weight")]
    kept = modules(section.get("exclude") or [])
    if not general and not listed:
        raise InputError("the quark section says no format of weights", hint="global_quant_config holds it")
    made = _quark_storage(section["global_quant_config"]) if general else None
    return Quantisation("quark", made, listed=tuple(listed), kept=kept, kv=keys)


def _quark_storage(section: Section) -> Storage:
    """The format of one tensor; of one that is rounded twice (a list) the narrower is stored."""
    tensors = (section["weight"], section.get("input_tensors") or {})
    weight, inputs = (
        min(found, key=lambda each: re.findall(r"\d", each["dtype"])[:1]) if isinstance(found, list) else found
        for found in tensors
    )
    dtype, group = str(weight.get("dtype")), weight.get("group_size") or 0
    wide = {"fp8": "fp8", "fp8_e4m3": "fp8", "fp4": "fp4", "fp4_e2m1": "fp4", "int8": "int8"}
    wide |= dict.fromkeys(("fp6_e2m3", "fp6_e3m2"), "fp6")
    _check_known(dtype, (*wide, "int4", "uint4"), "weights of Quark")
    compute = wide.get(str(inputs.get("dtype")), "")
    if wide.get(dtype) in ("fp4", "fp6"):
        return Storage("nvfp4" if group == 16 else f"mx{wide[dtype]}", compute=compute)
    block = {"per_tensor": (0, 0), "per_channel": (1, 0)}.get(str(weight.get("qscheme")), (1, group))
    if wide.get(dtype) == "fp8":
        return Storage("fp8_e4m3", "fp32", block, compute)
    bits = "int8" if dtype == "int8" else "int4"
    return Storage(bits, "bf16", block, compute, "" if weight.get("symmetric", True) else bits)


def _check_known(found: Any, known: Any, what: str) -> None:
    if isinstance(found, list | dict) or found not in known:
        wrong = f"{what}: {quoted(found)} is not understood"
        raise InputError(wrong, hint=suggest(str(found), map(str, known), what="known"))


_NOT_CONVERTED = "modules_to_not_convert"

#: Methods that store every matrix in one format: that format, and the field that names modules which stay as they are.
_ONE_FORMAT: dict[str, tuple[Storage | Callable[[Section], Storage], str]] = {
    "bitsandbytes": (_bitsandbytes, "llm_int8_skip_modules"),
    # three values a weight, four of them packed in a byte, one scale a matrix; activations in 8 bits
    "bitnet": (Storage("int2", "bf16", (0, 0), "int8"), _NOT_CONVERTED),
    # one scale a row of fp8, tokens scaled as they come
    "fbgemm_fp8": (Storage("fp8_e4m3", "fp32", (1, 0), "fp8"), _NOT_CONVERTED),
    # 8 bits with a scale a row, widened before use
    "eetq": (Storage("int8", "fp16", (1, 0)), _NOT_CONVERTED),
    "quanto": (_quanto, _NOT_CONVERTED),
    # SGLang's: 8 bits with a scale a row or a block, tokens scaled as they come
    "w8a8_int8": (Storage("int8", "fp32", (1, 0), "int8"), "ignore"),
    "w8a8_fp8": (Storage("fp8_e4m3", "fp32", (1, 0), "fp8"), "ignore"),
    "blockwise_int8": (lambda section: Storage("int8", "fp32", _block(section), "int8"), "ignored_layers"),
    "aqlm": (_aqlm, "linear_weights_not_to_quantize"),
    # transformers' own: products of many tokens in the narrow format
    "nvfp4": (Storage("nvfp4", compute="fp4"), _NOT_CONVERTED),
    "fouroversix": (_four_over_six, _NOT_CONVERTED),
    "metal": (_metal, _NOT_CONVERTED),
}

#: Methods whose names are no misspelt ones.
_NOT_MODELLED = ("vptq", "spqr", "higgs", "fp_quant", "sinq", "qoq", "exl2", "exl3", "gguf")

#: Modules that a method never converts, whatever a section says.
_ALWAYS_KEPT = {"quanto": ("lm_head",)}

#: Readers of the other methods, by the name a section gives them.
_METHODS: dict[str, Callable[[Section], Quantisation]] = {
    "fp8": _fp8,
    "mxfp8": lambda section: replace(_fp8(section), method="mxfp8", default=Storage("mxfp8", compute="fp8")),
    "compressed-tensors": _compressed,
    **dict.fromkeys(_OF_MODELOPT, _modelopt),
    "mxfp4": lambda section: Quantisation(
        "mxfp4", None, Storage("mxfp4"), kept=modules(section.get(_NOT_CONVERTED) or [], _BETWEEN_DOTS)
    ),
    "hqq": _hqq,
    "mlx": _mlx,
    **dict.fromkeys(("gptq", "awq", "auto-round", "intel/auto-round"), _integers),
    "torchao": _torchao,
    "quark": _quark,
}
