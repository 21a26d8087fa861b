"""Pictures of bounds: rooflines, throughput and time over a size, for files, notebooks and the terminal.

>>> chart = plot("bf16[512, 8192] @ bf16[8192, 8192]", on="h100")
>>> chart
<Chart 'Roofline of NVIDIA H100 SXM5 80GB': roofline with 2 lines, 1 point, 1 ridge>
"""

from __future__ import annotations

from roofline.charts.chart import Chart
from roofline.charts.plot import plot
from roofline.charts.roofline_charts import roofline_chart
from roofline.charts.size_charts import throughput_chart, time_chart
from roofline.charts.specification import Axis, Line, Point, Region, Ridge
from roofline.measurement.runs import Measured, read_measured

__all__ = [
    "Axis", "Chart", "Line", "Measured", "Point", "Region", "Ridge", "plot", "read_measured", "roofline_chart",
    "throughput_chart", "time_chart",
]  # fmt: skip
