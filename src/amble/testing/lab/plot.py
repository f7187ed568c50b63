"""The comparison as a figure: one small panel per rule, each row of the table a dot. Needs the extra `plot`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

from amble.testing.lab.campaign import Report

COLUMNS = 5
DOT, MEAN, QUIET = "#4c78a8", "#d1495b", "#9a9a9a"
REJECTS_SHOWN_MAX = 200_000


def draw(reports: Sequence[Report], path: Path) -> None:
    """Write the figure; the ending of the path (.png, .svg) names the format."""
    matplotlib.use("agg")
    # The same numbers give the same file, with text that stays text.
    matplotlib.rcParams.update({"svg.hashsalt": "amble", "svg.fonttype": "none"})
    from matplotlib import pyplot

    height = -(-len(reports) // COLUMNS)
    figure, grid = pyplot.subplots(
        height, COLUMNS, figsize=(2.4 * COLUMNS, 2.5 * height + 0.7), sharex=True, sharey=True, squeeze=False
    )
    panels = list(grid.flat)
    for panel, one in zip(panels, reports, strict=False):
        _panel(panel, one)
    for panel in panels[len(reports) :]:
        panel.set_visible(False)
    figure.suptitle("Each dot a kind of server; the diamond, and the title, mean goodput / median rejects", fontsize=11)
    figure.supxlabel("rejects per 1000 pages (log) - fewer is politer", fontsize=9)
    figure.supylabel("goodput / ideal client - more is faster", fontsize=9)
    figure.tight_layout()
    metadata = {"Date": None} if path.suffix == ".svg" else None
    figure.savefig(path, dpi=150, metadata=metadata)
    pyplot.close(figure)


def _panel(panel: Any, report: Report) -> None:
    rejects = [min(one.rejects, REJECTS_SHOWN_MAX) for one in report.lines]
    panel.scatter(rejects, [one.goodput for one in report.lines], s=16, color=DOT, alpha=0.65, linewidths=0)
    mean = (report.rejects, report.goodput)
    panel.axvline(mean[0], color=QUIET, linewidth=0.6, zorder=0)
    panel.axhline(mean[1], color=QUIET, linewidth=0.6, zorder=0)
    panel.scatter(*mean, marker="D", s=34, color=MEAN, zorder=3)
    panel.set_title(f"{report.rule}  {mean[1]:.2f} / {mean[0]:.0f}", fontsize=9)
    panel.set_xscale("symlog", linthresh=1)
    panel.set_xlim(-0.3, REJECTS_SHOWN_MAX)
    panel.set_xticks([0, 10, 1000, 100_000], ["0", "10", "1000", "10⁵"])
    panel.set_ylim(0, 1.05)
    panel.tick_params(labelsize=8)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
