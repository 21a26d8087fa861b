"""What all tests share: the same surroundings whoever runs them, and how many random examples to try."""

from __future__ import annotations

import gc
import linecache
import os
import random
import sys
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, settings

from tests.doc_blocks import ENVIRONMENT, REMOVED

#: Bad inputs that a fuzz test tries; ``make fuzz`` sets it high.
FUZZ_ROUNDS = int(os.environ.get("ROOFLINE_FUZZ", "600"))

#: Whether this is ``make test-long``; ``tests.strategies`` says so too, and loads the library, which comes later here.
LONG = "ROOFLINE_LONG" in os.environ

#: What tests of pages say where there is no browser.
NO_BROWSER = "no page was opened: install Debian's chromium (apt-get install chromium), and playwright for Python"

os.environ.update(ENVIRONMENT)
for name in REMOVED:
    os.environ.pop(name, None)

# Tests run in several processes: threads of their libraries beside them would only wait for each other.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# A formula has more parts than the thousand results that sympy keeps of each of its functions.
os.environ.setdefault("SYMPY_CACHE_SIZE", "20000")

# Modules and tests are compiled once, here and in the processes that tests start, not anew by each.
sys.dont_write_bytecode = os.environ.pop("PYTHONDONTWRITEBYTECODE", None) is None and sys.dont_write_bytecode

# The same examples on every run of `make test`; fresh ones, and more of them, under `make test-long` and `make fuzz`.
settings.register_profile(
    "test", deadline=None, max_examples=40, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", parent=settings.get_profile("test"), derandomize=False, max_examples=300)
settings.register_profile("fuzz", parent=settings.get_profile("long"), max_examples=FUZZ_ROUNDS)
# To one example in twenty Hypothesis gives a constant of a module of ours, for which it reads all that are loaded: four
# seconds of each process, and other examples wherever a module changes. Older versions read none.
if not LONG and "ROOFLINE_FUZZ" not in os.environ:
    with suppress(ImportError):
        from hypothesis.internal.conjecture import providers
        from hypothesis.internal.constants_ast import Constants

        providers._get_local_constants = Constants
settings.load_profile("fuzz" if "ROOFLINE_FUZZ" in os.environ else "long" if LONG else "test")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers of tests that ``make fuzz`` runs for long, and of those that ``make test`` leaves out."""
    config.addinivalue_line("markers", "fuzz: bad input at random; a short run in make test, a long one in make fuzz")
    config.addinivalue_line("markers", "long: seconds for a fact that others hold in part; in make test-long alone")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the long tests, unless they are asked for, also by name; shuffle as ``make test ORDER=7`` says."""
    if not LONG and not any("::" in asked for asked in config.args):
        left = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not item.get_closest_marker("long")]
    if order := os.environ.get("ROOFLINE_ORDER"):
        random.Random(order).shuffle(items)


def pytest_collection() -> None:
    """Look for no garbage while tests are collected: modules and tests stay to the end."""
    gc.disable()


def pytest_collection_finish() -> None:
    """From here on look for garbage among what tests make alone, and seldom: looking takes up to 4% of a run."""
    gc.freeze()
    gc.set_threshold(1_000_000, 20, 50)
    gc.enable()


def pytest_sessionfinish() -> None:
    """Look for no garbage at the end either: pytest would look once more through all that is there."""
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forget the lines of source files before each doctest, which looks whether any of them has changed."""
    if isinstance(item, pytest.DoctestItem):
        linecache.clearcache()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once and plainly what was not tested: for want of time, and for want of a browser."""
    if not LONG:
        terminalreporter.write_line(
            "of long lists a sample was tested, of random examples a few, no long test: make test-long tries all"
        )
    skipped = [each for each in terminalreporter.stats.get("skipped", []) if NO_BROWSER in str(each.longrepr)]
    if skipped:
        said = f"{len(skipped)} tests of reports and of the explorer were not run, as {NO_BROWSER}"
        terminalreporter.write_line(said, red=True)


@pytest.fixture
def fuzz_rounds() -> int:
    """How many random inputs a fuzz test tries."""
    return FUZZ_ROUNDS
