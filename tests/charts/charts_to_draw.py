"""The charts of the documentation and some that are crowded: what every drawing test goes through."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from roofline.charts import Chart, plot
from roofline.charts.bars import bars_chart
from roofline.charts.model_charts import front_chart, memory_by_part, serving_roofline, time_by_operation
from roofline.models import latency_throughput, serve
from roofline.models.sweeps import sweep

WEIGHTS_INT8 = "bf16[B, D] * int8[D, F] -> bf16[B, F]"
MATMUL = "bf16[512, 8192] @ bf16[8192, 8192]"
SOFTMAX = "softmax(fp32[8, 32, 2048, 2048])"

RUNS = (
    ("up projection", 137e9, "201 MB", "210 us"),
    ("softmax", 2.7e9, "2.15 GB", "890 us", "fp32"),
    ("attention", "275 GFLOP", "67 MB", "0.61 ms"),
    ("decode qkv", "1.3 GFLOP", "100 MB", "41 us"),
)


def exercise_3() -> Chart:
    return plot(WEIGHTS_INT8, on="v5e", set={"hbm": 8.2e11}, vary="B", B=range(1, 512), D=[1024, 4096], F="D")


def two_chips() -> Chart:
    return plot(MATMUL, SOFTMAX, on=["h100", "a100"])


def two_bandwidths() -> Chart:
    lines = ("bf16[64, 8192] @ bf16[8192, 8192]", "bf16[1024, 8192] @ bf16[8192, 8192]")
    return plot(*lines, on="v5e", bandwidths=("4.1e11 B/s", "8.2e11 B/s"), names=["Algo 1", "Algo 2"])


def levels() -> Chart:
    return plot(on="v5e", dtypes=["bf16", "int8", "vector/fp32"], levels=["hbm", "vmem", "pcie"])


def levels_of_h100() -> Chart:
    return plot(on="h100", dtypes=["bf16", "fp8", "vector/fp32"], levels=["hbm", "l2", "pcie"])


def roofs_of_four() -> Chart:
    return plot(MATMUL, SOFTMAX, on=["h100", "a100", "v5e", "mi300x"])


def levels_of_two() -> Chart:
    return plot(on=["h100", "v5e"], dtypes=["bf16", "vector/fp32"], levels=["hbm", "pcie"])


def a100_time() -> Chart:
    sizes = {"B": range(1, 513)}
    return plot("fp16[B, 5120] * fp16[5120, 5120]", on="a100", set={"hbm": 1.5e12}, kind="time", sizes=sizes)


def measured() -> Chart:
    return plot(on="h100", measured=RUNS)


def four_chips() -> Chart:
    chips = ["v5e", "v5p", "h100", "a100"]
    return plot("bf16[B, D] * bf16[D, F]", on=chips, vary="B", B=range(1, 1025, 4), D=8192, F="D")


def times_of_two() -> Chart:
    sizes = {"B": [2**i for i in range(13)], "D": 8192, "F": "D"}
    return plot("bf16[B, D] * bf16[D, F]", on=["v5e", "h100"], kind="time", sizes=sizes)


def fifteen_matmuls() -> Chart:
    lines = [f"bf16[{b}, 4096] @ bf16[4096, {n}]" for b in (1, 8, 64, 512, 4096) for n in (1024, 4096, 16384)]
    return plot(*lines, on="h100")


def batches() -> Chart:
    return plot(WEIGHTS_INT8, on="v5e", B=[1, 16, 64, 128, 256, 1024], D=8192, F="D")


def program() -> Chart:
    return plot("h = bf16[512, 4096] * bf16[4096, 16384]; g = gelu(h); g * bf16[16384, 4096]", on="h100")


def bars() -> Chart:
    rows = [(f"row {i}", [("one", float(i)), ("two", 2.0), ("three", 16.0 - i)]) for i in range(16)]
    return bars_chart(rows, title="Sixteen rows", label="amount", unit="B", limit=("limit", 12.0))


def times_of_step() -> Chart:
    return time_by_operation(serve("deepseek-v3", on="h200:8", tensor=8, batch=64, context=4096))


def memory_of_batches() -> Chart:
    return memory_by_part(serve("llama-3-8b", on="h100", batch=[1, 4, 16, 64, 256], context=8000))


def operations_of_both() -> Chart:
    return serving_roofline(serve("llama-3-8b", on="h100", batch=8, prompt=1024))


def operations_of_experts() -> Chart:
    return serving_roofline(serve("deepseek-v3", on="h200:8", tensor=8, expert=8, batch=64, prompt=1024))


def front_of_one() -> Chart:
    return front_chart(latency_throughput("llama-3-8b", on="h100", batch=[1, 4, 16, 64], context=4096))


def front_of_several() -> Chart:
    batches = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    return front_chart(latency_throughput("llama-3-70b", on="h200", tensor=[2, 4, 8], batch=batches, context=8000))


def front_of_many() -> Chart:
    return front_chart(latency_throughput("llama-3-8b", on="h100", batch=list(range(1, 513)), context=8000))


def map_of_few() -> Chart:
    sizes = {"B": [1, 16, 64, 256, 1024, 4096], "D": [256, 1024, 4096, 8192, 16384], "F": "D"}
    return sweep("bf16[B, D] * bf16[D, F]", on="h100", **sizes).plot("rate-map")


def map_of_many() -> Chart:
    return sweep("bf16[B, D] * bf16[D, F]", on="h100", B=range(1, 2049, 16), D=range(128, 8193, 128), F=8192).plot()


def map_of_steps() -> Chart:
    sizes = {"batch": [1, 4, 16, 64, 256], "context": [1024, 4096, 16384, 65536]}
    return sweep("llama-3-70b", on="h100:8", tensor=8, price=2.5, **sizes).plot("cost-map")


ALL: dict[str, Callable[[], Chart]] = {
    make.__name__: cache(make)
    for make in (
        exercise_3,
        two_chips,
        two_bandwidths,
        levels,
        levels_of_h100,
        levels_of_two,
        roofs_of_four,
        a100_time,
        measured,
        four_chips,
        times_of_two,
        fifteen_matmuls,
        batches,
        program,
        bars,
        times_of_step,
        memory_of_batches,
        operations_of_both,
        operations_of_experts,
        front_of_one,
        front_of_several,
        front_of_many,
        map_of_few,
        map_of_many,
        map_of_steps,
    )
}
