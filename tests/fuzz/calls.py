"""Hostile values for every argument of every public function and method: ``python -m tests.fuzz.calls [NAME ...]``.

A value stands in the place of the argument, or inside a list or dict that is right otherwise. Methods are those of
answers, and of answers that were copied or sent to another process. A call must end with an answer that can be shown,
or with an error of the package, within ten seconds of CPU. An answer as plain data has finite numbers, no negative
times and bounds in order; asked in several threads at once it is what it is alone. Anything else is a defect, but for
what a function of the caller's own raises: that comes out as it is.

``--most 60`` draws so many values for each question (2,500), ``--seed 1`` others.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import inspect
import io
import itertools
import json
import pickle
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FunctionType, MappingProxyType
from typing import Any, NamedTuple

import roofline
from roofline import charts, estimates, hardware, measurement, models, notation, ops
from roofline.errors import RooflineError
from roofline.work import Work
from tests.fuzz.running import LONGEST, MEMORY, SECONDS, _odd, _place, alone
from tests.fuzz.values import HOSTILE, INSIDE, LINE, SIZES
from tests.test_house_values import MORE, VALUES

SHARDED, MOVED = "bf16[B, D_X] * bf16[D_X, F]", "AllGather_X(bf16[B_X, D])"
LARGER = {"B": 64, "D": 64, "F": 64}
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SMALL = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100,
    "intermediate_size": 128, "tie_word_embeddings": True,
}  # fmt: skip


def _ops() -> Any:
    return roofline.build(roofline.program(LINE), SIZES)


class Question(NamedTuple):
    """A call that is right: a function with its arguments."""

    ask: Callable[..., Any]
    given: tuple[Any, ...] = ()
    named: Mapping[str, Any] = MappingProxyType({})


ON: dict[str, Any] = {"on": "h100"}
SERVED: dict[str, Any] = {**ON, "batch": 2}
#: Calls that are right, by name: of every public function of the package and of its rooms.
QUESTIONS: dict[str, Question] = {
    "accuracy": Question(roofline.accuracy, ("h100",)),
    "advise": Question(roofline.advise, (LINE,), {**ON, **SIZES}),
    "bound": Question(roofline.bound, (LINE,), {**ON, **SIZES}),
    "bound of raw work": Question(roofline.bound, (), {**ON, "flops": 1e12, "bytes": 1e9, "dtype": "bf16"}),
    "bound of a mesh": Question(roofline.bound, (SHARDED,), {"on": "h100:8", "mesh": {"X": 8}, **LARGER}),
    "build": Question(roofline.build, (roofline.program(LINE), SIZES)),
    "calibrate": Question(roofline.calibrate, (EXAMPLES / "t4_runs.csv", "t4")),
    "chip": Question(roofline.chip, ("h100",), {"hbm": 3e12}),
    "chips": Question(roofline.chips, ("h100", "a100"), {"top": 1}),
    "comm": Question(roofline.comm, ("allreduce",), {"on": "h100:8", "bytes": 1e6}),
    "comm of a line": Question(roofline.comm, (MOVED,), {"on": "v5e:4", "mesh": {"X": 4}, "B": 8, "D": 8}),
    "compare": Question(roofline.compare, (roofline.bound(LINE, on="h100", **SIZES),) * 2),
    "estimated": Question(roofline.estimated, (roofline.bound(LINE, on="h100", **SIZES),)),
    "evaluate": Question(roofline.evaluate, (_ops(), [op.work for op in _ops()], roofline.chip("h100"))),
    "formula": Question(roofline.formula, (LINE,), {**ON, **SIZES}),
    "formula of a model": Question(roofline.formula, ("llama-2-7b", "decode"), {**ON, "context": 128}),
    "layout": Question(roofline.layout, ("bf16[B_X, D]",), {"on": "v5e:4", "B": 64, "D": 64}),
    "llm": Question(roofline.llm, ("llama-2-7b",), {**SERVED, "prompt": 64, "context": 128}),
    "llm of experts": Question(
        roofline.llm, ("mixtral-8x7b",), {"on": "h100:8", "expert": 8, "batch": 8, "context": 128, "estimate": True}),
    "llm that fits": Question(roofline.llm, (SMALL,), {**ON, "fit": True}),
    "llm drafted": Question(
        roofline.llm, (SMALL,), {**SERVED, "prompt": 64, "output": 8, "draft": 2, "accept": 0.8, "price": 2}),
    "model": Question(roofline.model, ("llama-2-7b",)),
    "model of fields": Question(roofline.model, (SMALL,), {"name": "small"}),
    "parse": Question(roofline.parse, (LINE,)),
    "plan": Question(
        roofline.plan, (SMALL,), {"on": ["h100"], "rate": 1, "prompt": 64, "output": 16, "count": [1], "price": 2}),
    "plot": Question(roofline.plot, (LINE,), {**ON, **SIZES}),
    "points_of": Question(roofline.points_of, ([], roofline.chip("h100"))),
    "profile": Question(roofline.profile, (EXAMPLES / "profile.csv",), ON),
    "program": Question(roofline.program, (LINE,)),
    "question": Question(roofline.question, (LINE,), {**ON, **SIZES}),
    "read_profile": Question(roofline.read_profile, (EXAMPLES / "profile.csv",)),
    "rules_of_thumb": Question(roofline.rules_of_thumb, ("h100",)),
    "run": Question(roofline.run, (LINE,), {**SIZES, "machine": "/nope"}),
    "scaling": Question(roofline.scaling, ("tp",), {"on": "v5p"}),
    "shard": Question(roofline.shard, (SHARDED,), {"on": "v5e:4", **LARGER}),
    "solve": Question(roofline.solve, (LINE, "B"), {**ON, "D": 64, "F": 64}),
    "solve_dtypes": Question(roofline.solve_dtypes, (LINE, 1), {**ON, **LARGER}),
    "solve_equal": Question(roofline.solve_equal, (MOVED, "AllReduce_X(bf16[B, D]{U_X})", "B"), {"on": "v5e:4", "D": 64}),
    "sweep": Question(roofline.sweep, (LINE,), {**ON, "B": [8, 16], "D": 64, "F": 64}),
    "sweep of a model": Question(roofline.sweep, ("llama-2-7b",), {**ON, "batch": [8, 16], "context": 64}),
    "train": Question(
        roofline.train, (SMALL,), {"on": "h100:8", "batch_tokens": 65536, "tokens": 10**9, "price": 2}),
    "train of tokens": Question(roofline.train, (7e9,), {"on": "h100:8", "tokens": 10**9, "mfu": 0.4}),
    "train in memory": Question(roofline.train, (SMALL,), {**ON, "memory": True}),
    "write_machine_file": Question(roofline.write_machine_file, (None, "machine.toml")),
    "zones": Question(roofline.zones, ("h100",)),
    "charts.read_measured": Question(charts.read_measured, ([{"name": "up", "flops": 1e12, "bytes": 1e9, "time": "1ms"}],)),
    "charts.roofline_chart": Question(charts.roofline_chart, ([roofline.chip("h100")],)),
    "charts.throughput_chart": Question(charts.throughput_chart, ({},)),
    "charts.time_chart": Question(charts.time_chart, ({},)),
    "estimates.calibrate_served": Question(
        estimates.calibrate_served, (EXAMPLES / "t4_runs.csv", "llama-2-7b", "t4")),
    "estimates.expected_roof": Question(estimates.expected_roof, ("h100",)),
    "estimates.held_accuracy": Question(estimates.held_accuracy, ([], "h100")),
    "estimates.read_constants": Question(estimates.read_constants, ("/nope",)),
    "estimates.Estimator": Question(estimates.Estimator),
    "hardware.chips": Question(hardware.chips),
    "hardware.override": Question(hardware.override, (roofline.chip("h100"), {"hbm": 1e12})),
    "hardware.with_choices": Question(hardware.with_choices, (roofline.chip("h100"),)),
    "measurement.measured_kernels": Question(measurement.measured_kernels, ("/nope", roofline.chip("h100"))),
    "measurement.read_machine_file": Question(measurement.read_machine_file, ("/nope",)),
    "measurement.run_function": Question(
        measurement.run_function, (lambda: None,), {**ON, "flops": 1e9, "bytes": 1e9}),
    "measurement.this_machine": Question(measurement.this_machine, ("/nope",)),
    "measurement.to_toml": Question(measurement.to_toml, (None,)),
    "models.advise_step": Question(models.advise_step, (SMALL, "decode"), {**SERVED, "context": 64}),
    "models.answer_rate": Question(models.answer_rate, (), {"step_time": 0.1, "steps": 9}),
    "models.budget": Question(models.budget, (7e9,), {"on": "h100:8", "tokens": 1e9}),
    "models.chunked": Question(models.chunked, (SMALL,), {**ON, "prompt": 64, "chunk": 16}),
    "models.decode": Question(models.decode, (SMALL,), {"context": 64}),
    "models.disaggregate": Question(
        models.disaggregate, (SMALL,), {"prompt": 64, "output": 8, "prefill": {"on": "h100"}, "decode": {"on": "h200"}}),
    "models.expected_tokens": Question(models.expected_tokens, (4, 0.8)),
    "models.fewest": Question(models.fewest, (SMALL,), {**ON, "batch": 1, "context": 64}),
    "models.generation": Question(models.generation, (SMALL,), {**ON, "prompt": 64, "output": 8}),
    "models.largest_batch": Question(models.largest_batch, (SMALL, 8e10), {"context": 64}),
    "models.latency_throughput": Question(models.latency_throughput, (SMALL,), {**ON, "batch": [1, 2], "context": 64}),
    "models.longest_context": Question(models.longest_context, (SMALL, 8e10), {"batch": 1}),
    "models.mixed": Question(models.mixed, (SMALL,), {"chunk": 16, "context": 64}),
    "models.nearest": Question(models.nearest, (SMALL, "h100"), {"batch": 1, "context": 64}),
    "models.network_limit": Question(models.network_limit, (SMALL, "decode", "h100:8"), {"context": 64}),
    "models.outline": Question(models.outline, (7e9,)),
    "models.outweighing_batch": Question(models.outweighing_batch, (SMALL,), {"context": 64}),
    "models.Parallelism": Question(models.Parallelism),
    "models.pool": Question(models.pool, (roofline.chip("h100"), 2)),
    "models.prefill": Question(models.prefill, (SMALL,), {"prompt": 64}),
    "models.serve": Question(models.serve, (SMALL,), {**SERVED, "context": 64}),
    "models.serve_bound": Question(models.serve_bound, (SMALL, "decode"), {**SERVED, "context": 64}),
    "models.serve_table": Question(models.serve_table, (SMALL, "decode"), {**ON, "batch": [1, 2], "context": 64}),
    "models.servers_ratio": Question(models.servers_ratio, (), {"prefill_time": 0.1, "step_time": 0.01, "steps": 9}),
    "models.speculate": Question(
        models.speculate, (SMALL,), {**ON, "context": 64, "acceptance": 0.8, "draft": 2, "by": 0.1}),
    "models.token_cost": Question(models.token_cost, (), {"time": 0.1, "tokens": 8, "price": 2}),
    "models.train": Question(models.train, (SMALL,), {"on": "h100:8", "batch_tokens": 65536}),
    "models.training_memory": Question(models.training_memory, (7e9,)),
    "notation.canonical": Question(notation.canonical, (roofline.program(LINE),)),
    "notation.resolve": Question(notation.resolve, (roofline.parse(LINE),)),
    "ops.formula": Question(ops.formula, ("2*B", {"B": 8})),
    "ops.formula_names": Question(ops.formula_names, ("2*B",)),
    "ops.padded": Question(ops.padded, (_ops()[0], (16, 16))),
    "ops.raw": Question(ops.raw, (), {"flops": 1e9, "bytes": 1e9}),
    "ops.read_names": Question(ops.read_names, ("B, D",)),
    "ops.tile_bytes": Question(ops.tile_bytes, (_ops()[0], 8, 8, 8)),
    "ops.tiled_traffic": Question(ops.tiled_traffic, (_ops()[0], 8, 8, 8)),
}  # fmt: skip

#: Answers whose methods are called, by name.
ANSWERS: dict[str, Callable[[], Any]] = {
    **VALUES, **MORE,
    "comparison": lambda: roofline.bound(LINE, on="h100,h200", **SIZES),
    "formula": lambda: roofline.formula(LINE, on="h100"),
    "compiled": lambda: roofline.formula(LINE, on="h100").compile(),
    "plan": lambda: QUESTIONS["plan"].ask(*QUESTIONS["plan"].given, **QUESTIONS["plan"].named),
    "points": lambda: roofline.profile(EXAMPLES / "profile.csv", on="h100"),
    "layout": lambda: roofline.layout("bf16[B_X, D]", on="v5e:4", B=64, D=64),
    "accuracy": lambda: roofline.accuracy("h100"),
    "calibration": lambda: roofline.calibrate(EXAMPLES / "t4_runs.csv", "t4"),
    "budget": lambda: roofline.train(7e9, on="h100:8", tokens=10**9),
    "memory": lambda: roofline.train(SMALL, on="h100", memory=True),
    "expectation": lambda: roofline.bound(LINE, on="h100", estimate=True, **SIZES).expectation,
    "question": lambda: roofline.question(LINE, on="h100", **SIZES),
    "estimator": estimates.Estimator,
    "chips": lambda: roofline.chips("h100", "a100"),
    "operations": lambda: _ops()[0],
    "work": lambda: _ops()[0].work,
    "resources": lambda: roofline.bound(LINE, on="h100", **SIZES).uses[0],
    "memory of a bound": lambda: roofline.bound(LINE, on="h100", **SIZES).footprint,
    "layout of chips": lambda: models.Parallelism(tensor=2),
    "constants": lambda: estimates.Estimator().records[0],
    "expected roof": lambda: estimates.expected_roof("h100"),
    "axis": lambda: roofline.plot(LINE, on="h100", **SIZES).x,
    "advice on a step": lambda: models.serve("llama-2-7b", on="h100", context=128).advise(),
    "raw work": lambda: roofline.bound(on="h100", flops=1e12, bytes=1e9, dtype="bf16"),
    "ratios": lambda: roofline.chips("h100", "a100").ratio("bf16", "hbm"),
    "columns": lambda: roofline.formula(LINE, on="h100")(**{**SIZES, "B": [8, 16]}),
    "equal costs": lambda: roofline.solve_equal(*QUESTIONS["solve_equal"].given, **QUESTIONS["solve_equal"].named),
    "rows kept": lambda: roofline.sweep(LINE, on="h100", B=[8, 16], D=64, F=64, keep="front"),
    "sweep of machines": lambda: roofline.sweep(LINE, on="h100,h200", B=[8, 16], D=64, F=64),
    "sweep of a model": lambda: roofline.sweep("llama-2-7b", on="h100", batch=[8, 16], context=64),
    "stages": lambda: models.serve_bound("llama-2-7b", "decode", on="h100:8", batch=8, context=64, pipeline=2),
    "answer of llm": lambda: roofline.llm(SMALL, on="h100", batch=2, prompt=64, context=128),
    "several answers of llm": lambda: roofline.llm(SMALL, on="h100,h200", batch=2, prompt=64, context=128),
    "rules of thumb": lambda: roofline.rules_of_thumb("h100"),
    "profile": lambda: roofline.read_profile(EXAMPLES / "profile.csv"),
}  # fmt: skip

#: Arguments that start processes or talk to others, and one that is given back as it is.
NOT_ASKED = {"workers", "scheduler", "scheduler_file", "client", "over_dask", "default"}


#: Right values of arguments that a method must have, by the heads of their kinds.
RIGHT: dict[str, Any] = {
    "str": "x", "int": 1, "float": 1.0, "Size": 8, "Mapping": {}, "Sequence": (), "tuple": (), "bool": True, "frozenset": frozenset(), "Callable": lambda each: each,
    "Machine": roofline.chip("h100"), "Bound": roofline.bound(LINE, on="h100", **SIZES), "Program": roofline.program(LINE),
}  # fmt: skip


def _must(method: Callable[..., Any]) -> dict[str, Any]:
    """The arguments that a method must have, with values of their kinds where these are known."""
    needed = [
        each for each in inspect.signature(method).parameters.values()
        if each.default is each.empty and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    ]  # fmt: skip
    return {each.name: RIGHT.get(str(each.annotation).partition("[")[0].partition(" ")[0]) for each in needed}


#: How an answer comes to be the one that is asked.
AGAIN: dict[str, Callable[[Any], Any]] = {
    "": lambda answer: answer,
    "copied": copy.deepcopy,
    "sent": lambda answer: pickle.loads(pickle.dumps(answer)),
}


def methods(name: str, again: str = "") -> dict[str, Question]:
    """The public methods of an answer, made, copied or sent, each with the arguments that it must have."""
    found: dict[str, Question] = {}
    made = AGAIN[again](ANSWERS[name]())
    for answer in made if isinstance(made, tuple) and not hasattr(made, "_fields") else [made]:
        for method in dir(type(answer)):
            if method.startswith("_") or not callable(getattr(type(answer), method, None)):
                continue
            asked = getattr(answer, method)
            if not str(asked.__module__).startswith("roofline"):  # a list's or a dictionary's own
                continue
            if isinstance(answer, Work) and method != "total":  # parts of prices, whose errors are Python's
                continue
            found.setdefault(
                f"{type(answer).__name__}.{method} of {again}{' ' * bool(again)}{name}",
                Question(asked, (), _must(asked)),
            )
    return found


def places(question: Question) -> list[int | str]:
    """Where a value can stand: positions that are given, names that are, and parameters with a default."""
    shown = inspect.signature(question.ask).parameters.values()
    named = [each.name for each in shown if each.kind is each.KEYWORD_ONLY and each.name not in NOT_ASKED]
    further = [each.name for each in shown if each.kind is each.POSITIONAL_OR_KEYWORD][len(question.given) :]
    further = [name for name in further if name not in NOT_ASKED]
    several = [each for each in shown if each.kind is each.VAR_POSITIONAL]
    at = [len(question.given)] if several else []
    return list(dict.fromkeys([*range(len(question.given)), *at, *question.named, *named, *further]))


def look(answer: Any) -> str:
    """Show an answer in every way that it has; say what is wrong with its plain data."""
    if isinstance(answer, Iterator):
        answer = list(answer)
    repr(answer)
    str(answer)
    for name in ("one_line", "_repr_html_", "to_dict", "to_pandas", "table", "explain"):
        own = str(type(answer).__module__).startswith("roofline")
        shown = getattr(answer, name, None) if own else None
        if not callable(shown):
            continue
        try:
            found = shown()
        except RooflineError as error:
            if name in ("one_line", "_repr_html_"):  # what any answer has
                return f"{name} refuses: {error}"
            continue
        str(found)
        if name == "to_dict":
            json.dumps(found, allow_nan=False).encode()
            if said := next(_odd(found, ""), ""):
                return str(said)
    return ""


def _is_callers(error: BaseException, value: Any) -> bool:
    """Whether a function that was given raised an error itself."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is not None and type(value) is FunctionType and last.tb_frame.f_code is value.__code__


class _TooSlowError(BaseException):
    """Raised in the middle of a call that takes too long."""


def call(question: Question, place: int | str, value: Any) -> str:
    """Put a value in one place of a call; say what is wrong with how it ends, nothing where all is right."""
    given = [*question.given]
    if isinstance(place, int):
        given[place : place + 1] = [value]
    options = question.named if isinstance(place, int) or not place else {**question.named, place: value}

    def stop(*_: Any) -> None:
        raise _TooSlowError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS, 1.0)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return look(question.ask(*given, **options))
    except RooflineError as error:
        return f"a message of {len(str(error)):,} characters" if len(str(error)) > LONGEST else ""
    except _TooSlowError as slow:
        signal.setitimer(signal.ITIMER_PROF, 0)
        return f"over {SECONDS:.0f} s in {_place(slow)}"
    except BaseException as error:
        if _is_callers(error, value):
            return ""
        return f"{type(error).__name__} in {_place(error)}: {str(error)[:120]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


#: Names of values alone, and inside what is right.
KEYS = [*HOSTILE, *(f"{value} inside {way}" for value in HOSTILE for way in INSIDE)]


def right_at(question: Question, place: int | str) -> Any:
    """What stands in a place of a call that is right; None where nothing is given."""
    if isinstance(place, int):
        return question.given[place] if place < len(question.given) else None
    return question.named.get(place)


def run(question: Question, keys: Callable[[int], list[str]]) -> Iterator[tuple[str, str, str]]:
    """Call with hostile values in every place, alone or inside what is right: the place, the value, what is wrong."""
    at = places(question)
    for place in at:
        for key in keys(len(at)):
            yield str(place), key, call(question, place, made(key, right_at(question, place)))
    if not at:
        yield "", "", call(question, "", None)


def made(key: str, right: Any) -> Any:
    """A value by its name, alone or inside what is right; alone too where it cannot be a key."""
    name, _, way = key.partition(" inside ")
    value = HOSTILE[name]()
    try:
        return INSIDE[way](right, value) if way else value
    except Exception:  # of the value itself, whatever it raises
        return value


def at_once(question: Question, many: int = 8) -> str:
    """Ask a right question so many times in four threads at once; say what is wrong with how one of them ends."""

    def asked(_: int) -> str:
        try:
            answer = question.ask(*question.given, **question.named)
            return look(answer) or re.sub(" at 0x[0-9a-f]+", "", repr(answer))
        except RooflineError as error:
            return str(error)

    alone_said = asked(0)
    switches = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            said = list(pool.map(asked, range(many)))
    except BaseException as error:
        return f"in threads {type(error).__name__} in {_place(error)}: {str(error)[:120]}"
    finally:
        sys.setswitchinterval(switches)
    return (
        ""
        if set(said) == {alone_said}
        else f"in threads another answer: {next(each for each in said if each != alone_said)[:200]}"
    )


def every() -> Iterator[tuple[str, Question]]:
    """All questions, and all methods of all answers."""
    yield from QUESTIONS.items()
    for name in ANSWERS:
        for again in AGAIN:
            yield from methods(name, again).items()


def some(name: str, question: Question, many: int) -> Iterator[tuple[int | str, str, str]]:
    """So many calls of one question, drawn by its name: the place, the value, and what is wrong."""
    rng = random.Random(name)
    at = places(question)
    if not at:
        yield "", "", call(question, "", None)
    for _ in range(many if at else 0):
        place, key = rng.choice(at), rng.choice([*HOSTILE] if rng.random() < 0.5 else KEYS)
        yield place, key, call(question, place, made(key, right_at(question, place)))


def sampled(seed: str, most: int) -> Callable[[int], list[str]]:
    """Names of values for each of so many places, at most so many calls: half alone, half inside what is right."""
    rng = random.Random(seed)

    def drawn(count: int) -> list[str]:
        each = max(10, most // count)
        return [*rng.sample([*HOSTILE], min(each // 2, len(HOSTILE))), *rng.sample(KEYS, each - each // 2)]

    return drawn


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", help="functions, or methods as Class.method; a part of the beginning will do"
    )
    parser.add_argument("--most", type=int, default=2500)
    parser.add_argument("--seed", default="")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    with open("/proc/self/statm", encoding="ascii") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + 4 * MEMORY, held + 4 * MEMORY))
    found: Counter[str] = Counter()
    total, began = 0, time.monotonic()
    with alone(), tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, question in every():
            if asked.names and not any(name.startswith(each) for each in asked.names):
                continue
            threaded = [("", "", at_once(question))] if name in QUESTIONS and "run_function" not in name else []
            for place, key, wrong in itertools.chain(threaded, run(question, sampled(asked.seed + name, asked.most))):
                total += 1
                if wrong:
                    fault = f"{name}: {wrong.partition(': ')[0]}"
                    if not found[fault]:
                        print(f"{name}({place} = {key}): {wrong}", flush=True)
                    found[fault] += 1
            for path in Path().iterdir():  # a file of the name of a line would be read in its place
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    print(f"{total:,} calls in {time.monotonic() - began:,.0f} s: {sum(found.values()):,} defects, {len(found)} kinds")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
