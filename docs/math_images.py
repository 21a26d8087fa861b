r"""Formulas of the pages as pictures: LaTeX drawn by matplotlib as the site is built; no reader needs a network.

>>> drawn(r"T &= \frac{2 \, B \, D}{W} \\ U &= B").count("<svg")
2
"""

from __future__ import annotations

import hashlib
import html
import io
import re
from typing import Any


def drawn(latex: str) -> str:
    """Each line of a formula as a picture that has the colour of the text around it."""
    from matplotlib import rc_context
    from matplotlib.font_manager import FontProperties
    from matplotlib.mathtext import math_to_image

    body = re.sub(r"\\(?:begin|end)\{aligned\}|^%.*$", "", latex, flags=re.MULTILINE)
    pictures = []
    for line in filter(None, (part.replace("&", "").strip() for part in body.split(r"\\"))):
        picture = io.StringIO()
        with rc_context({"svg.hashsalt": line, "mathtext.fontset": "stix", "figure.facecolor": "none"}):
            text = " ".join(line.replace(r"\frac", r"\dfrac").split())
            math_to_image(f"${text}$", picture, FontProperties(size=14), format="svg", color="#010203")
        image = picture.getvalue()
        image = image[image.index("<svg") :].replace("#010203", "currentColor")
        image = re.sub(r"<metadata>.*?</metadata>", "", image, flags=re.DOTALL)
        own = hashlib.sha256(line.encode()).hexdigest()[:8]  # a page has several formulas, and one name for each letter
        image = re.sub(r'\b(id="|href="#)', rf"\g<1>{own}-", image)
        said = html.escape(line, quote=True)
        pictures.append(image.replace("<svg", f'<svg role="img" aria-label="{said}" style="max-width: 100%"', 1))
    return "\n".join(f'<div class="formula">{each}</div>' for each in pictures)


def _block(translator: Any, node: Any) -> None:
    from docutils.nodes import SkipNode

    translator.body.append(drawn(node.astext()))
    raise SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("drawn", (_block, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
