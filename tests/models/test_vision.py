"""Vision towers: parameters and FLOPs as transformers builds and torch counts them; images as part of a prompt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofline.cli import main
from roofline.errors import InputError, SizeError
from roofline.models import load, prefill, serve, serve_bound, train
from roofline.models.description import Model, Vision
from roofline.models.serving.generation import chunked
from roofline.work import Op
from tests.models.tiny_vision import IMAGES, TINY_VISION

COUNTS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "vision_towers.json").read_text(encoding="utf-8")
)
QWEN = "qwen3-vl-2b-instruct"


def tower(name: str) -> Vision:
    found = load(name).vision
    assert found is not None
    return found


def matrix(ops: tuple[Op, ...]) -> Any:
    return sum(op.work.total("flops", "matrix") * op.repeat for op in ops)


def of_images(model: Model, **options: Any) -> Any:
    """Matrix FLOPs that images add to a prompt of the same length."""
    return matrix(prefill(model, **options)) - matrix(
        prefill(model, **{k: v for k, v in options.items() if "image" not in k})
    )


# ---- counts


@pytest.mark.parametrize("name", sorted(COUNTS["models"]))
def test_parameters_equal_those_of_transformers(name: str) -> None:
    assert tower(name).parameters_by_part() == COUNTS["models"][name]


def test_every_shipped_tower_is_modelled() -> None:
    from roofline.models import names

    with_tower = {name for name in names() if load(name).vision is not None}
    assert set(COUNTS["models"]) <= with_tower
    assert not [name for name in names() for gap in load(name).gaps if "vision" in gap]


@pytest.mark.parametrize("name", sorted(TINY_VISION))
def test_small_towers_equal_the_counter(name: str) -> None:
    """Two images in one prompt, and one in each of two prompts: what FlopCounterMode saw, its pooling matrix apart."""
    stored, model = COUNTS["small"][name], load(TINY_VISION[name])
    assert model.vision is not None
    assert not model.gaps
    assert model.vision.parameters_by_part() == {key: stored[key] for key in ("vision_tower", "projector")}
    wanted = stored["flops"] - stored["pooling"]
    size = IMAGES[name]
    assert of_images(model, prompt=512, images=2, image_size=size) == wanted
    assert of_images(model, batch=2, prompt=512, images=1, image_size=size) == wanted


def test_qwen_tower_by_hand() -> None:
    """24 layers 1024 wide over 64 x 48 patches of 2·3·16·16 numbers; three mergers beside the last one."""
    patches, tokens, width, together = 64 * 48, 32 * 24, 1024, 4096
    layer = 4 * width * width + 2 * width * 4096
    products = patches * (1536 * width + 24 * layer) + tokens * 4 * (together * together + together * 2048)
    attention = 24 * 2 * patches * patches * width
    assert of_images(load(QWEN), prompt=1024, images=1, image_size=(1024, 768)) == 2 * (products + attention)


# ---- images as tokens


@pytest.mark.parametrize(
    ("name", "size", "grid", "tokens"),
    [
        (QWEN, None, (48, 48), 576),
        (QWEN, (1024, 768), (64, 48), 768),
        (QWEN, (1000, 750), (62, 46), 713),
        (QWEN, (1, 1), (2, 2), 1),
        ("kimi-k2.5", None, (64, 64), 1024),
        ("kimi-k2.5", (29, 28), (4, 2), 2),
        ("gemma-4-26b-a4b-nvfp4", None, (48, 48), 256),
        ("gemma-4-26b-a4b-nvfp4", (1024, 768), (57, 42), 266),
        ("gemma-4-26b-a4b-nvfp4", (10, 100000), (3, 840), 280),
    ],
)
def test_patches_and_tokens(name: str, size: tuple[int, int] | None, grid: tuple[int, int], tokens: int) -> None:
    """As the image processors of transformers 5.23 resize, pixel limits apart."""
    assert (tower(name).grid(size), tower(name).tokens(size)) == (grid, tokens)


def test_image_tokens_are_part_of_the_prompt() -> None:
    with pytest.raises(SizeError, match=r"576 tokens each do not fit.*the prompt has 1,024 tokens.*1,152 or more"):
        prefill(load(QWEN), prompt=1024, images=2)
    assert prefill(load(QWEN), prompt=1152, images=2)
    with pytest.raises(SizeError, match="do not fit"):
        prefill(load(QWEN), prompt=np.array([4096.0, 64.0]), images=2)


def test_images_cost_the_same_in_arrays_and_alone() -> None:
    many = serve_bound(QWEN, "prefill", on="h100", batch=np.array([1, 4]), prompt=4096, images=2)
    for index, batch in enumerate((1, 4)):
        one = serve_bound(QWEN, "prefill", on="h100", batch=batch, prompt=4096, images=2)
        assert float(many.lower[index]) == pytest.approx(float(one.lower))


def test_bytes_of_a_prefill_with_images() -> None:
    """At the floor the tower's matrices, its biases and norms move once, and pixels come in; nothing else is new."""
    with_images = serve_bound(QWEN, "prefill", on="h100", prompt=1024, images=1)
    without = serve_bound(QWEN, "prefill", on="h100", prompt=1024)
    pixels = 2 * 48 * 48 * 1536
    added = float(with_images.bytes["hbm"] - without.bytes["hbm"])
    assert added == 2 * tower(QWEN).parameters + pixels
    assert with_images.lower > without.lower


def test_more_copies_share_the_images() -> None:
    one = serve_bound(QWEN, "prefill", on="h100", batch=2, prompt=2048, images=2)
    each = serve_bound(QWEN, "prefill", on="h100:4", batch=8, prompt=2048, images=2, data=4)
    assert float(each.lower) == pytest.approx(float(one.lower))


def test_only_the_first_stage_has_the_tower() -> None:
    from roofline.models.parallelism.splitting import split_into_stages

    assert [part.vision is None for part in split_into_stages(load(QWEN), 2)] == [False, True]
    ways = serve_bound(QWEN, "prefill", on="h100:2", batch=2, prompt=2048, images=1, pipeline=2)
    without = serve_bound(QWEN, "prefill", on="h100:2", batch=2, prompt=2048, pipeline=2)
    assert ways.lower > without.lower


# ---- memory, and what is said


def test_the_tower_is_in_memory_in_its_own_format() -> None:
    assert tower(QWEN).weight_bytes() == 2 * tower(QWEN).parameters
    for name in ("kimi-k2.5", "kimi-k2.6-nvfp4", "gemma-4-26b-a4b-nvfp4", "qwen3.6-27b-nvfp4"):
        assert tower(f"nvidia--{name}" if "nvfp4" in name else name).weight_bytes() == 2 * tower(name).parameters
    wide, narrow = (load(QWEN).weight_bytes(weights) for weights in (None, "fp8"))
    assert wide - narrow == sum(
        count for name, count in load(QWEN).parameters_by_module().items() if name.endswith("proj")
    )


def test_what_is_said_about_images() -> None:
    found = serve(QWEN, on="h100", prompt=1024, images=1)
    assert found.prefill is not None
    assert found.decode is not None
    assert not found.prefill.incomplete
    assert any(
        "images of 768x768 pixels, 1 in each prompt: 2304 patches and 576" in said for said in found.prefill.assumptions
    )
    assert "the vision tower runs in prefill alone; its weights are in memory" in found.decode.assumptions
    without = serve_bound(QWEN, "prefill", on="h100", prompt=1024)
    assert "no images in the prompt: the vision tower does not run; its weights are in memory" in without.assumptions


def test_pairs_that_are_not_counted_are_a_gap() -> None:
    gemma = "nvidia--gemma-4-26b-a4b-nvfp4"
    with_image = serve_bound(gemma, "prefill", on="h200", prompt=1024, images=1)
    assert with_image.incomplete[:1] == (
        "tokens of an image see later ones of it in some layers: these pairs are not counted",
    )
    assert not [gap for gap in serve_bound(gemma, "prefill", on="h200", prompt=1024).incomplete if "image" in gap]


def test_chips_that_split_the_language_part_run_the_whole_tower() -> None:
    found = serve_bound(QWEN, "prefill", on="h100:2", prompt=1024, images=1, tensor=2)
    assert any("chips that split the language part each run all of it" in said for said in found.assumptions)
    without = serve_bound(QWEN, "prefill", on="h100:2", prompt=1024, tensor=2)
    alone = serve_bound(QWEN, "prefill", on="h100", prompt=1024, images=1)
    plain = serve_bound(QWEN, "prefill", on="h100", prompt=1024)
    assert float(found.lower - without.lower) == pytest.approx(float(alone.lower - plain.lower), rel=0.01)


def test_training_says_that_the_tower_is_left_out() -> None:
    found = train(QWEN, on="h100:8", batch_tokens=65536, sequence=4096, data=8)
    assert "the vision tower is not in it: the language part is trained" in found.stages[0].bound.incomplete


# ---- the command line


def test_modules_of_tower_and_projector_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("model", QWEN, "--modules", "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["vision_tower"] == sum(count for name, count in found.items() if name.startswith("vision_tower."))
    assert found["projector"] == sum(count for name, count in found.items() if name.startswith("projector."))
    assert found["total"] == found["language part"] + found["vision_tower"] + found["projector"]
    assert main(("model", QWEN)) == 0
    assert "306,242,560" in capsys.readouterr().out


def test_images_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("llm", QWEN, "--on", "h100", "--prompt", "4096", "--images", "4", "--image-size", "1024x768")) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "vision_tower.layers.0-23. " in text
    assert " attn.attention " in text
    assert "images of 1024x768 pixels, 4 in each prompt: 3072 patches and 768 of the prompt's tokens each" in text
    assert "incomplete" not in text
    assert main(("llm", QWEN, "--on", "h100", "--prompt", "4096", "--images", "0")) == 0
    assert "vision_tower" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((QWEN, "--prompt", "64", "--images", "1"), "image tokens are part of the prompt: 576 or more"),
        ((QWEN, "--prompt", "4096", "--images", "x"), "--images 'x' is not a number of images"),
        ((QWEN, "--prompt", "4096", "--images", "1", "--image-size", "7"), "--image-size '7' is not understood"),
        ((QWEN, "--prompt", "4096", "--image-size", "32x32"), "--image-size says nothing without --images"),
        ((QWEN, "--context", "4096", "--images", "1"), "images are seen in prefill"),
        (
            (QWEN, "--prompt", "4096", "--images", "1", "--output", "9", "--prefill-on", "h100"),
            "images on prefill chips of their own are not modelled",
        ),
        (("qwen3-0.6b", "--prompt", "4096", "--images", "1"), "has no vision tower that is modelled"),
    ],
)
def test_bad_input_is_told(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("llm", *words, "--on", "h100")) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_images_in_chunks_are_refused() -> None:
    with pytest.raises(InputError, match="images in a chunked prefill are not modelled"):
        chunked(QWEN, on="h100", prompt=4096, chunk=512, images=1)


@pytest.mark.parametrize(
    ("name", "changed", "said"),
    [
        ("qwen3_vl", {"out_hidden_size": 32}, "out_hidden_size .* is 32 and the language model is 64 wide"),
        ("qwen3_vl", {"num_heads": 5}, "does not divide into 5 heads"),
        ("qwen3_vl", {"depth": None}, "has no depth"),
        ("kimi_k25", {"merge_kernel_size": [2, 3]}, r"is \[2, 3\]; two equal sides, as \[2, 2\]"),
        ("kimi_k25", {"text_hidden_size": 32}, "text_hidden_size .* is 32, not 64"),
        ("kimi_k25", {"merge_type": "other"}, "merge_type"),
        ("gemma4", {"hidden_activation": "odd"}, "hidden_activation"),
    ],
)
def test_contradictory_towers_are_told(name: str, changed: dict[str, Any], said: str) -> None:
    data = TINY_VISION[name]
    with pytest.raises(InputError, match=said):
        load({**data, "vision_config": {**data["vision_config"], **changed}})


def test_unknown_fields_and_towers_are_gaps() -> None:
    data = TINY_VISION["gemma4"]
    found = load({**data, "vision_config": {**data["vision_config"], "use_clipped_linears": True}})
    assert found.gaps == ("vision_config.use_clipped_linears is not understood and not modelled",)
    text = {**TINY_VISION["gemma4"]["text_config"], "model_type": "gemma3_text"}
    other = load({"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 48}})
    assert other.vision is None
    assert "vision_config is not modelled: only the language part is" in other.gaps


def test_the_size_of_an_image_is_one_size_beside_several_layouts() -> None:
    asked = {"on": "h100", "prompt": 1024, "images": 1, "image_size": (640, 480)}
    several = serve(QWEN, **asked, tensor=[1, 2])
    each = [serve(QWEN, **asked, tensor=n).prefill.lower for n in (1, 2)]
    assert several.prefill.lower.tolist() == each
