"""How answers about language models and several chips look at a Python prompt and in a notebook."""

from __future__ import annotations

import pytest

import roofline
from roofline.models import chunked, generation, latency_throughput, serve, train


def test_one_line_at_a_prompt() -> None:
    found = serve("llama-2-7b", on="h100", batch=8, prompt=128, context=128)
    assert repr(found).startswith("<Serving llama-2-7b: prefill <Bound: 13.4 ms at best")
    assert repr(generation("llama-2-7b", on="h100", batch=8, prompt=128, output=128)) == (
        "<Generation: 8 x 128 tokens in 545 ms, the first after 13.4 ms>"
    )
    assert repr(chunked("llama-3-8b", on="h100", prompt=8192, chunk=512, batch=64, context=4096)) == (
        "<ChunkedPrefill: 8192 tokens by 512: first token after 238 ms, longest step 15.1 ms>"
    )


def test_a_notebook_shows_what_the_terminal_does() -> None:
    sizes = {"on": "v5e:8", "B": 512, "D": 8192}
    answers = {
        "memory-bound": serve("llama-2-7b", on="h100", context=128),
        "all overlaps": roofline.shard("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", F=32768, **sizes),
        "fsdp 8": train("llama-3-8b", on="h100:8", batch_tokens=65536),
        "each user": latency_throughput("llama-3-8b", on="h100", batch=[1, 4], context=1000),
        "one-way ring": roofline.comm("AllReduce_X(bf16[B, D] {U_X})", **sizes),
    }
    for word, answer in answers.items():
        html = answer._repr_html_()
        assert "<table>" in html
        assert word in html


def test_a_name_of_the_models_says_where_it_lives() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'serve'; did you mean roofline\.models\.serve\?"):
        _ = roofline.serve


def test_training_has_one_line_at_a_prompt() -> None:
    # 6 FLOPs a parameter of 7.5e9 and token, and 7 causal products of attention, on 8 x 989 TFLOP/s
    assert repr(train("llama-3-8b", on="h100:8", batch_tokens=65536)) == (
        "<Training llama-3-8b: 404 ms a step at best on 8 x NVIDIA H100 SXM5 80GB, compute-bound>"
    )
    several = train("llama-3-8b", on="h100:8", batch_tokens=[65536, 1048576])
    assert "404 ms … 6.46 s a step at best" in repr(several)
    assert "404 ms … 6.46 s" in several._repr_html_()
