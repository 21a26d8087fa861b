"""``python -m roofline``: the command line."""

from roofline.cli import run

run()
