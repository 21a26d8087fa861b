"""Statements are strings that keep their kind."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from roofline.statements import ASSUMPTION_KINDS, GAP_KINDS, Assumption, Gap, assume, kind_of, without


@pytest.mark.parametrize("made", [Assumption("given", "hbm at 1 TB/s"), Gap("rate", "not timed: 5 FLOP")])
def test_a_statement_is_its_text_and_keeps_its_kind(made: Assumption | Gap) -> None:
    for again in (made, copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert (type(again), again, again.kind) == (type(made), str(made), made.kind)
    assert json.loads(json.dumps([made])) == [str(made)]
    assert (hash(made), type(str(made))) == (hash(str(made)), str)
    with pytest.raises(AttributeError):
        made.kind = "fit"  # type: ignore[misc]


def test_only_known_kinds() -> None:
    assert all(Assumption(kind, "x").kind == kind for kind in ASSUMPTION_KINDS)
    assert all(Gap(kind, "x").kind == kind for kind in GAP_KINDS)
    with pytest.raises(ValueError, match="no kind of Gap is called 'given'"):
        Gap("given", "x")


def test_lists_of_statements() -> None:
    said = assume("model", ["no dropout", Assumption("fit", "does not fit")])
    assert [kind_of(line) for line in (*said, "plain")] == ["model", "fit", ""]
    assert without([*said, "plain"], {"fit", "machine"}) == ["no dropout", "plain"]
