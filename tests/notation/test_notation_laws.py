"""Laws of the notation: no text breaks it, a line written back means the same, names are only names."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strings import VALID, texts
from tests.strategies import for_each

from roofline.errors import NotationError
from roofline.notation import canonical, program

LABELS = ("B", "D", "F", "S", "T")


def meaning(found):
    """All that costs may depend on."""

    def tensor(shape):
        return (shape.ident, shape.dtype, shape.axes, shape.source, shape.unreduced)

    steps = [
        (s.kind, s.function, [*map(tensor, s.inputs)], tensor(s.output), s.contracted, s.batch, s.over, s.compute,
         dict(s.options))
        for s in found.steps
    ]  # fmt: skip
    return steps, dict(found.sizes), dict(found.mesh), found.on, found.over


def check(text):
    """Read a text; it is refused with a place in it, or it reads back from what is written of it."""
    try:
        found = program(text)
    except NotationError as error:
        refusal = error
    else:
        refusal = None
    if refusal is not None:
        assert 0 <= refusal.position <= len(text)
        assert "\n" not in refusal.message
        return False
    assert meaning(program(canonical(found))) == meaning(found), text
    assert canonical(found, dict.fromkeys(found.labels, 2))
    return True


@for_each("text", VALID)
def test_right_lines_read_and_read_back(text):
    assert check(text)


@pytest.mark.fuzz
def test_no_text_breaks_the_reader(fuzz_rounds):
    read = sum(check(text) for text in texts(seed=20, count=fuzz_rounds))
    assert 0 < read < fuzz_rounds / 2


@given(st.text(max_size=60))
def test_any_characters_are_read_or_refused(text):
    check(text)


TENSORS = st.builds(
    lambda dtype, dims: f"{dtype}[{', '.join(dims)}]",
    st.sampled_from(["bf16", "int8", "fp32", ""]),
    st.lists(st.sampled_from([*LABELS, "1", "8", "64"]), max_size=3, unique=True),
)
FORMS = st.sampled_from(["{0} * {1}", "{0} * {1} * {2}", "{0} + {1} * {2}", "gelu({0}) / {1}", "sum({0} * {1}) - {2}"])


@given(FORMS, TENSORS, TENSORS, TENSORS)
def test_expressions_read_back(form, a, b, c):
    check(form.format(a, b, c))


@given(FORMS, TENSORS, TENSORS, TENSORS, st.permutations(["alpha", "d_ff", "K", "β", "q7"]))
def test_renaming_dimensions_changes_nothing_but_names(form, a, b, c, names):
    text = form.format(a, b, c)
    new = dict(zip(LABELS, names, strict=True))

    def renamed(line):
        return re.sub(r"(?<![^\W_])[BDFST]\b", lambda found: new[found.group()], line)

    try:
        before = program(text)
    except NotationError:
        with pytest.raises(NotationError):
            program(renamed(text))
        return
    after = program(renamed(text))
    assert [renamed(step.text) for step in before.steps] == [step.text for step in after.steps]
    assert tuple(new[label] for label in before.labels) == after.labels
    assert {new.get(k, k): v for k, v in before.sizes.items()} == dict(after.sizes)


def test_sizes_put_in_are_for_a_reader():
    line = program("h = x[B, D] * W[D, F]; gelu(h) * V[F, D] + x")
    assert canonical(line, {"B": 8, "D": 4}) == (
        "h = x:bf16[8, 4] * W:bf16[4, F] -> bf16[8, F]; gelu(h) * V:bf16[F, 4] + x -> bf16[8, 4]"
    )
    assert canonical(program("(a[B] + b[B]) * c[B] -> fp32[]"), {}) == "(a:bf16[B] + b:bf16[B]) * c:bf16[B] -> fp32[]"
    assert canonical(program("a[B] - (b[B] - c[B])"), {}) == "a:bf16[B] - (b:bf16[B] - c:bf16[B]) -> bf16[B]"


def test_usual_options_are_left_out():
    x, w = "bf16[B, 8, 9, 4]", "bf16[3, 2, 4, 6]"
    for options, written in [
        ("stride=1, pad=0, dilation=1x1, groups=1", ""),
        ("stride=2x2", ", stride=2"),
        ("stride=(2, 1), pad=(0, 1)", ", stride=2x1, pad=0x1"),
        ("pad=same", ", same"),
        ("valid", ""),
    ]:
        line = canonical(program(f"conv({x}, {w}, {options})"))
        assert line.startswith(f"conv({x}, {w}{written}) -> "), line
    assert canonical(program(f"pool({x}, window=2)")).startswith(f"pool({x}, window=2) ->")
    assert canonical(program(f"pool({x}, window=2, stride=1)")).startswith(f"pool({x}, window=2, stride=1) ->")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("softmax(fp32[8, 128])", "softmax(fp32[8, 128])"),
        ("softmax(fp32[B, T])", "softmax(fp32[8, 16])"),
        ("softmax_T(fp32[B, T])", "softmax_T(fp32[8, 16])"),
        ("softmax_B(fp32[B, T])", "softmax_B(fp32[8, 16])"),
        ("cumsum(fp32[4, 8])", "cumsum(fp32[4, 8])"),
        ("layer_norm(bf16[B, S, 64])", "layer_norm(bf16[8, S, 64])"),
        ("group_norm(bf16[B, S, C], groups=4)", "group_norm(bf16[8, S, C], groups=4)"),
        ("sum(bf16[B, T])", "sum(bf16[8, 16])"),
        ("sum_{B,T}(bf16[B, T])", "sum_{B,T}(bf16[8, 16])"),
        ("mean(bf16[B, T]) -> bf16[B]", "mean_T(bf16[8, 16])"),
        ("argmax_last(bf16[8, 128])", "argmax_last(bf16[8, 128])"),
    ],
)
def test_for_a_reader_a_function_names_its_dimension_where_it_was_written_or_is_not_the_usual_one(text, shown):
    assert canonical(program(text), {"B": 8, "T": 16}).partition(" -> ")[0] == shown


@pytest.mark.parametrize("text", ["softmax(fp32[8, 128])", "sum(bf16[B, T])", "cumsum(fp32[4, 8])", "max(fp32[4, 8])"])
def test_the_readers_form_of_a_usual_dimension_reads_back(text):
    found = program(text)
    assert meaning(program(canonical(found, {}))) == meaning(found)
