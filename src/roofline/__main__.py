"""``python -m roofline``: the command line."""

from roofline.cli import run

if __name__ == "__main__":
    run()
