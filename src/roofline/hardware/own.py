"""Where the user's own machine files lie."""

from __future__ import annotations

import os


def own_file(name: str) -> str:
    """Name a file or folder of the user's own, such as the one of this machine's measured figures, ``this.toml``."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "roofline", name)
