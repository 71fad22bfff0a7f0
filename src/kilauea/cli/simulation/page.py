"""A report of simulations as one page of plots: self-contained, without scripts, and readable offline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from kilauea.cli.simulation.charts import PATTERNS, STYLE, Bar, Line, bar_chart, line_chart
from kilauea.cli.simulation.figures import Json, duration, mean, number, percent, resources, short
from kilauea.cli.simulation.tables import report_lines

MOST_QUEUES = 12
"""Maximum number of plotted queues, those with the most jobs first."""
PAGE_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:1320px;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}
pre{background:#f5f5f2;padding:1rem;overflow-x:auto;font-size:13px;line-height:1.35}
main{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,520px),1fr));gap:1rem 2rem}
figure{margin:0}figcaption{font-weight:600;margin-bottom:.3rem}svg{width:100%;height:auto;display:block}
svg text{font-size:11px;fill:#444}.grid{stroke:#ddd}.hatch{stroke:#fff;stroke-width:1.4;fill:none}
figure ul{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;padding:0;margin:.3rem 0 0;font-size:13px}
figure li{display:flex;align-items:center;gap:.45em}figure svg.key{width:28px;height:12px;flex:none}
@media(prefers-color-scheme:dark){body{background:#16181a;color:#e6e6e6}pre{background:#222528}svg text{fill:#bbb}
.grid{stroke:#3a3d40}.hatch{stroke:#16181a}}
"""


def page_of(report: Json) -> str:
    """Return the page. Plots over time show the trace itself, bars show the means of all seeds."""
    configurations = report["configurations"]
    title = f"Simulation of {report['trace']['source']}"
    findings = "".join(f"<li>{escape(each)}</li>" for each in report["trace"]["findings"])
    notes = f"<h2>What was found in the trace</h2><ul>{findings}</ul>" if findings else ""
    text = escape("\n".join(report_lines(report)))
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{PAGE_STYLE}{STYLE}</style></head>\n<body>{PATTERNS}<h1>{escape(title)}</h1>\n"
        f"<main>{''.join(_charts(configurations))}</main>\n<h2>Figures</h2><pre>{text}</pre>\n{notes}</body></html>\n"
    )


def _charts(configurations: Sequence[Json]) -> Iterator[str]:
    names = [each["name"] for each in configurations]
    firsts = [each["runs"][0] for each in configurations]
    queues = _queues(firsts[0])
    for key, words in (("mean", "Mean waiting time by queue"), ("p90", "90th percentile of the waiting time by queue")):
        bars = [
            Bar(
                queue,
                [
                    mean([run["queues"].get(queue, {}).get("wait", {}).get(key) for run in each["runs"]])
                    for each in configurations
                ],
            )
            for queue in queues
        ]
        yield bar_chart(words, names, bars, duration)
    for name in resources(firsts):
        lines = [
            _line(each, run["series"]["time"], run["series"]["used"].get(name, []))
            for each, run in zip(names, firsts, strict=True)
        ]
        yield line_chart(f"Part of {short(name)} in use", lines, duration, percent, 1.0)
    yield line_chart(
        "Jobs that wait", [_of(each, run, "waiting") for each, run in zip(names, firsts, strict=True)], duration, number
    )
    fairness = [_of(each, run, "fairness") for each, run in zip(names, firsts, strict=True)]
    yield line_chart(
        "Fairness: Jain's index of what queues have of what is due to them", fairness, duration, "{:.2f}".format, 1.0
    )
    useless = [_of(each, run, "fragmentation") for each, run in zip(names, firsts, strict=True)]
    what = short(firsts[0]["fragmentation"]["resource"])
    yield line_chart(
        f"Fragmentation: part of the free {what} that a pod of the trace cannot use", useless, duration, percent
    )
    for each, run in zip(names, firsts, strict=True):
        series = run["series"]
        lines = [_line(queue, series["time"], series["queues"].get(queue, [])) for queue in queues]
        yield line_chart(f"Part of {what} in use by queue: {each}", lines, duration, percent)


def _queues(run: Json) -> list[str]:
    found = run["queues"]
    return sorted(found, key=lambda name: (-found[name]["jobs"]["submitted"], name))[:MOST_QUEUES]


def _of(name: str, run: Json, key: str) -> Line:
    return _line(name, run["series"]["time"], run["series"][key])


def _line(name: str, times: Sequence[float], values: Sequence[float | None]) -> Line:
    return Line(name, list(zip(times, values, strict=False)))
