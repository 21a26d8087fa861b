"""How a weight lies in memory: its format, the scales beside it, and the arithmetic it is used in.

>>> Storage("fp8_e4m3", "fp32", (128, 128)).nbytes((7168, 2048))           # one fp32 scale for each 128 x 128 block
14683648
>>> Storage("nvfp4").nbytes((64, 64)) == 64 * 64 // 2 + 64 * 64 // 16
True
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline import dtypes
from roofline.sizes import Size


@dataclass(frozen=True, slots=True)
class Storage:
    """A weight's format.

    ``scale`` is the format of the scales that formats such as mxfp4 do not hold themselves, one for each ``block`` of
    (rows, columns); zero stands for the whole dimension. ``zero`` is the format of a zero point beside each scale,
    where numbers do not lie evenly around 0; with ``nested``, every so many scales have an fp32 scale of their own.
    ``compute`` is the arithmetic the checkpoint was made for (fp8 where
    activations are quantised too), or nothing: then the wider operand's.
    """

    dtype: str
    scale: str = ""
    block: tuple[int, int] = (0, 0)
    compute: str = ""
    zero: str = ""
    nested: int = 0

    def scales(self, shape: tuple[int, ...]) -> int:
        """Number of scales beside a weight of ``shape`` (…, rows, columns)."""
        if not self.scale:
            return 0
        sizes = (1, *shape) if len(shape) == 1 else shape
        count = 1
        for size in sizes[:-2]:
            count *= size
        for size, block in zip(sizes[-2:], self.block, strict=True):
            count *= -(-size // block) if block else 1
        return count

    def beside(self, shape: tuple[int, ...]) -> tuple[tuple[str, str, int], ...]:
        """What lies beside a weight of ``shape``: scales, zero points, scales of scales; name, format and number.

        >>> Storage("int4", "fp16", (1, 128), zero="int4").beside((256, 512))
        (('scale', 'fp16', 1024), ('zero', 'int4', 1024))
        """
        count = self.scales(shape)
        found = [(name, dtype, count) for name, dtype in (("scale", self.scale), ("zero", self.zero)) if dtype]
        if self.nested:
            found.append(("scale.scale", "fp32", -(-count // self.nested)))
        return tuple(found)

    def nbytes(self, shape: tuple[int, ...]) -> Size:
        """Bytes of a weight of ``shape`` with its scales."""
        elements = 1
        for size in shape:
            elements *= size
        beside = (dtypes.get(dtype).nbytes(count) for _, dtype, count in self.beside(shape))
        return dtypes.get(self.dtype).nbytes(elements) + sum(beside)
