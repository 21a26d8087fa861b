"""The vision tower of a model that reads images: patches of an image → tokens of the prompt.

An image is resized to a grid of patches, the tower's layers run over each image's patches (no mask), the projector
makes tokens as wide as the language model of them. Those tokens are part of the prompt.

>>> from roofline.models import load
>>> vision = load("qwen3-vl-2b-instruct").vision
>>> vision
Vision(tower 306,242,560 parameters, projector 100,714,496)
>>> vision.grid((1024, 768)), vision.tokens((1024, 768))
((64, 48), 768)
>>> vision.tokens()                                            # an image as large as the table of positions
576
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from roofline.errors import InputError, SizeError
from roofline.models.blocks.vision import Pool
from roofline.models.description import Model
from roofline.models.step import Step, is_zero
from roofline.sizes import Size, check, is_array, is_symbol
from roofline.work import Op, Tensor

if TYPE_CHECKING:
    from roofline.models.quantisation import Quantisation

#: Height and width in pixels.
ImageSize = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Vision:
    """A tower and its projector, each described as a model without embeddings or head.

    ``patch`` is the side of a patch in pixels; ``merge`` by ``merge`` of them become one token; ``fit`` says how an
    image becomes a grid of them (:data:`FITS`); ``most`` is the most tokens of an image, where it is made to fit;
    ``usual`` is the size of an image where none is given. ``both_ways`` says that the language model lets tokens of an
    image see later ones of it.
    """

    tower: Model
    projector: Model
    patch: int
    merge: int
    fit: str
    usual: ImageSize
    most: int | None = None
    both_ways: bool = False

    @property
    def parameters(self) -> int:
        """Parameters of tower and projector."""
        return self.tower.parameters + self.projector.parameters

    def parameters_by_part(self) -> dict[str, int]:
        """Parameters of the tower and of the projector apart."""
        return {"vision_tower": self.tower.parameters, "projector": self.projector.parameters}

    def counted(self) -> str:
        """Parameters apart, in a sentence."""
        return (
            f"beside the language part a vision tower of {self.tower.parameters:,} parameters and a projector of "
            f"{self.projector.parameters:,}, in memory and not run: the prompt holds no images"
        )

    def grid(self, size: ImageSize | None = None) -> tuple[int, int]:
        """Patches of an image: rows and columns."""
        height, width = self.usual if size is None else size
        for name, side in (("height", height), ("width", width)):
            check(f"image {name}", side)
        rows, columns = FITS[self.fit](self, height, width)
        return rows * self.merge, columns * self.merge

    def tokens(self, size: ImageSize | None = None) -> int:
        """Tokens an image becomes."""
        rows, columns = self.grid(size)
        return rows * columns // (self.merge * self.merge)

    def stored(self, dtype: str, quantisation: Quantisation | None) -> Vision:
        """The same with its weights in the format the checkpoint has them in."""
        return replace(
            self,
            tower=replace(self.tower, dtype=self.tower.dtype or dtype, quantisation=quantisation),
            projector=replace(self.projector, dtype=self.projector.dtype or dtype, quantisation=quantisation),
        )

    def weight_bytes(self) -> int:
        """Bytes of all its parameters."""
        from roofline.models.memory import weight_bytes

        return weight_bytes(self.tower) + weight_bytes(self.projector)

    def missing(self, images: Size) -> tuple[str, ...]:
        """What of images in the prompt is not counted."""
        if is_zero(images) or not self.both_ways:
            return ()
        return ("tokens of an image see later ones of it in some layers: these pairs are not counted",)

    def said(self, images: Size, size: ImageSize | None, split: bool = False) -> str:
        """What is run, in a sentence; ``split`` where several chips share the model."""
        if is_zero(images):
            return "no images in the prompt: the vision tower does not run; its weights are in memory"
        rows, columns = self.grid(size)
        count = "images in the prompt" if is_array(images) or is_symbol(images) else f"{images} in each prompt"
        return (
            f"images of {rows * self.patch}x{columns * self.patch} pixels, {count}: {rows * columns} patches and "
            f"{self.tokens(size)} of the prompt's tokens each; the vision tower keeps the checkpoint's formats"
            + (", and chips that split the language part each run all of it" if split else "")
        )

    def __repr__(self) -> str:
        return f"Vision(tower {self.tower.parameters:,} parameters, projector {self.projector.parameters:,})"


def seen(model: Model, step: Step, images: Size, size: ImageSize | None = None) -> tuple[tuple[Op, ...], list[Tensor]]:
    """Operations of ``images`` images in each sequence of ``step``, and what they hand to the language model."""
    vision = model.vision
    if vision is None:
        raise InputError(f"{model.name} has no vision tower that is modelled", hint="leave the images out")
    rows, columns = vision.grid(size)
    patches = rows * columns
    _room(model, step, check("images", images), vision.tokens(size))
    each = replace(step, batch=step.own * images, new=patches, past=0, wanted=patches, context=1, ring=False)
    tower = _part(vision.tower, each, "vision_tower", "pixels")
    pooled = any(isinstance(block, Pool) for block in vision.tower.after)
    rows_each = vision.tokens(size) if pooled else patches
    after = replace(each, new=rows_each, wanted=rows_each)
    projector = _part(vision.projector, after, "projector", tower[-1].writes[0].ident)
    ops = (*tower, *projector)
    read = {tensor.ident for op in ops for tensor in op.reads}
    return ops, [tensor for op in ops for tensor in op.writes if tensor.ident not in read]


def _part(part: Model, step: Step, place: str, given: str) -> list[Op]:
    """Run a part, its operations and tensors named for it; ``given`` is the tensor it starts from."""
    from roofline.models.operations import run

    def named(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return tuple(
            replace(tensor, ident=given if tensor.ident == "embedding" else f"{place}.{tensor.ident}")
            for tensor in tensors
        )

    _, *ops = run(part, step)
    return [replace(op, where=f"{place}.{op.where}", reads=named(op.reads), writes=named(op.writes)) for op in ops]


def _room(model: Model, step: Step, images: Size, tokens: int) -> None:
    if is_symbol(images) or is_symbol(step.new):
        return
    more = images * tokens > step.new
    if more.any() if is_array(more) else more:
        shown = "" if is_array(more) else f", and the prompt has {step.new:,} tokens"
        needed = "" if is_array(more) else f": {images * tokens:,} or more"
        raise SizeError(
            f"images of {tokens:,} tokens each do not fit into the prompt of {model.name}{shown}",
            hint=f"image tokens are part of the prompt{needed}",
        )


def _nearest(vision: Vision, height: int, width: int) -> tuple[int, int]:
    """Each side to the nearest multiple of a token's side, one at least (half to even)."""
    side = vision.patch * vision.merge
    return max(round(height / side), 1), max(round(width / side), 1)


def _padded(vision: Vision, height: int, width: int) -> tuple[int, int]:
    """Each side up to a multiple of a token's side."""
    side = vision.patch * vision.merge
    return -(-height // side), -(-width // side)


def _budget(vision: Vision, height: int, width: int) -> tuple[int, int]:
    """The largest of nearly the same shape that has at most ``most`` tokens.

    Both sides are scaled by f = sqrt(most·side²/(height·width)) and cut to whole tokens.
    """
    most = vision.most or 1
    factor = math.sqrt(most / (height * width))
    rows, columns = math.floor(factor * height), math.floor(factor * width)
    if not rows:
        return 1, min(width // height, most)
    return (rows, columns) if columns else (min(height // width, most), 1)


#: How an image becomes a grid of tokens, by name.
FITS: dict[str, Callable[[Vision, int, int], tuple[int, int]]] = {
    "nearest": _nearest,
    "padded": _padded,
    "budget": _budget,
}


__all__ = ["FITS", "ImageSize", "Vision", "seen"]
