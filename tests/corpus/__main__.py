r"""``python -m tests.corpus dump FILE`` and ``compare FILE``: all answers into a file; what differs from it today.

Numbers are compared to 1e-12, texts exactly. Differences are listed by where they stand in the answer. Options:

- ``--sample N`` asks N of the questions, the same N each time; ``--seed S`` other ones;
- ``--only WORDS`` asks those whose text holds WORDS (a regular expression): ``--only '"llm"'``, ``--only serve_bound``;
- ``--skip PLACES`` leaves out differences whose place matches (a regular expression): ``--skip 'dims\.'``;
- ``--examples N`` shows so many of each group of differences (3), ``--out FILE`` keeps today's answers too.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import json
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.corpus.answers import Question, answer
from tests.corpus.differences import report
from tests.corpus.questions import gathered
from tests.doc_blocks import ENVIRONMENT, REMOVED, prepare

Entry = dict[str, Any]


def key(question: Question) -> str:
    """What stands for a question: its text."""
    return json.dumps(question, sort_keys=True, ensure_ascii=False)


def chosen(questions: Iterable[Question], only: str | None, sample: int | None, seed: str) -> list[Question]:
    """Take those that are asked for, in an order that depends on nothing but their texts."""
    found = [question for question in questions if only is None or re.search(only, key(question))]
    if sample is not None and sample < len(found):
        by_chance = sorted(found, key=lambda question: hashlib.sha1((seed + key(question)).encode()).hexdigest())
        found = by_chance[:sample]
    return sorted(found, key=key)


def asked(questions: list[Question]) -> list[Entry]:
    """Ask questions one after the other in a folder of their own."""
    os.environ.update(ENVIRONMENT)
    for name in REMOVED:
        os.environ.pop(name, None)
    warnings.simplefilter("ignore")
    entries = []
    # An answer may say the name of the folder, which is the same each time, and where it is, which is another.
    with tempfile.TemporaryDirectory() as around, contextlib.chdir(around):
        folder = os.path.join(around, "questions")
        os.mkdir(folder)
        os.chdir(folder)
        prepare(Path(folder))
        for number, question in enumerate(questions):
            began = time.process_time()
            # Plain JSON on both sides: tuples are lists, and a number is as JSON writes it.
            found = json.loads(json.dumps(answer(question)).replace(folder, "/folder"))
            entries.append({"question": question, "answer": found, "seconds": time.process_time() - began})
            if number % 250 == 249:
                print(f"{number + 1} of {len(questions)}", file=sys.stderr)
    return entries


def read(path: str) -> list[Entry]:
    """Read a file of answers."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write(path: str, entries: list[Entry]) -> None:
    """Write a file of answers, one a line."""
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=6) as file:
        file.writelines(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)


def main() -> int:
    """Run one of the two commands."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=["dump", "compare"])
    parser.add_argument("file", nargs="?", default=os.environ.get("ROOFLINE_CORPUS", "corpus.json.gz"))
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", default="")
    parser.add_argument("--only")
    parser.add_argument("--skip")
    parser.add_argument("--examples", type=int, default=3)
    parser.add_argument("--out")
    given = parser.parse_args()
    file = os.path.abspath(given.file)
    began = time.process_time()
    if given.command == "dump":
        entries = asked(chosen(gathered(), given.only, given.sample, given.seed))
        write(file, entries)
        print(f"{len(entries)} answers in {time.process_time() - began:.0f} s of CPU")
        return 0
    before = {key(entry["question"]): entry for entry in read(file)}
    wanted = chosen([entry["question"] for entry in before.values()], given.only, given.sample, given.seed)
    out = os.path.abspath(given.out) if given.out else None
    entries = asked(wanted)
    if out:
        write(out, entries)
    pairs = [(before[key(entry["question"])], entry) for entry in entries]
    different = report(pairs, given.examples, given.skip)
    print(f"{len(entries)} questions, {different} with another answer, {time.process_time() - began:.0f} s of CPU")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
