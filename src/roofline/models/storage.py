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
    where numbers do not lie evenly around 0. ``compute`` is the arithmetic the checkpoint was made for (fp8 where
    activations are quantised too), or nothing: then the wider operand's.
    """

    dtype: str
    scale: str = ""
    block: tuple[int, int] = (0, 0)
    compute: str = ""
    zero: str = ""

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

    def nbytes(self, shape: tuple[int, ...]) -> Size:
        """Bytes of a weight of ``shape`` with its scales."""
        elements = 1
        for size in shape:
            elements *= size
        beside = (dtypes.get(name).nbytes(self.scales(shape)) for name in (self.scale, self.zero) if name)
        return dtypes.get(self.dtype).nbytes(elements) + sum(beside)
