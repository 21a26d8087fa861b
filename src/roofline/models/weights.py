"""One weight of a model: its shape, its storage format, and the scales stored beside it.

>>> Weight("up_proj", (11008, 4096)).elements
45088768
>>> Storage("fp8_e4m3", "fp32", (128, 128)).nbytes((7168, 2048))           # one fp32 scale for each 128 x 128 block
14683648
>>> Storage("nvfp4").nbytes((64, 64)) == 64 * 64 // 2 + 64 * 64 // 16
True
"""

from __future__ import annotations

from functools import cache
from math import prod

from roofline import dtypes
from roofline.errors import InputError, quoted
from roofline.frozen import NamedTuple, dataclass, replace
from roofline.sizes import Size


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


@dataclass(frozen=True, slots=True)
class Storage:
    """A weight's format.

    Attributes
        ``scale``    format of separate scales; empty for formats that contain theirs (mxfp4)
        ``block``    (rows, columns) that share one scale; 0 stands for the whole dimension
        ``zero``     format of the zero point beside each scale, in asymmetric quantisation
        ``nested``   how many scales share an fp32 scale of their own; 0: none do
        ``compute``  arithmetic of the matrix product (fp8 where activations are quantised too); empty: that of the
                     wider operand
    """

    dtype: str
    scale: str = ""
    block: tuple[int, int] = (0, 0)
    compute: str = ""
    zero: str = ""
    nested: int = 0

    def __post_init__(self) -> None:
        for size in (*self.block, self.nested):
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
        return tuple(found)

    @cache  # noqa: B019 - there are a few
    def computing(self, arithmetic: str) -> Storage:
        """The same storage, whose products are in another arithmetic."""
        return replace(self, compute=arithmetic)

    def nbytes(self, shape: tuple[int, ...]) -> Size:
        """Bytes of a weight of ``shape`` with its scales."""
        beside = (dtypes.get(dtype).nbytes(count) for _, dtype, count in self.beside(shape))
        return dtypes.get(self.dtype).nbytes(prod(shape)) + sum(beside)


def join_path(*names: str) -> str:
    """A module path of the names that are not empty."""
    return ".".join(filter(None, names))
