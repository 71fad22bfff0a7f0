// What HTML cannot do: the state of the live stream, ages that grow, and charts.
"use strict";

const connection = document.getElementById("connection");
function state(name, words) {
  if (connection && connection.dataset.state !== name) {
    connection.dataset.state = name;
    connection.textContent = words;
  }
}
if (!document.getElementById("live")) state("still", "");
document.addEventListener("htmx:sse:after:connection", () => state("live", "live"));
document.addEventListener("htmx:sse:before:message", () => state("live", "live"));
document.addEventListener("htmx:sse:error", () => state("lost", "connection lost, trying again"));
document.addEventListener("htmx:error", () => state("lost", "connection lost: reload the page"));
document.addEventListener("htmx:sse:close", () => state("lost", "connection lost: reload the page"));

// What was asked for by a button is announced in a few words: not all of its text is read out.
let asked = "";
document.addEventListener("click", (event) => { asked = event.target.closest("button")?.getAttribute("hx-target") || ""; });
document.addEventListener("htmx:after:swap", () => {
  const said = document.getElementById("said"), shown = asked ? document.querySelector(asked) : null;
  if (!said || !shown || !shown.classList.contains("content")) return;
  const title = shown.closest("section")?.querySelector("h2")?.textContent || "";
  said.textContent = "";
  setTimeout(() => { said.textContent = `${title}: shown`; }, 100);
  asked = "";
});

// Ages, as the server writes them.
function age(seconds) {
  seconds = Math.max(0, Math.floor(seconds));
  const two = (large, unit, small, other) => (small ? `${large}${unit}${small}${other}` : `${large}${unit}`);
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return two(minutes, "m", seconds % 60, "s");
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 8) return two(hours, "h", minutes % 60, "m");
  if (hours < 48) return `${hours}h`;
  const days = Math.floor(hours / 24);
  if (days < 8) return two(days, "d", hours % 24, "h");
  return `${days}d`;
}
setInterval(() => {
  const now = Date.now() / 1000;
  for (const each of document.querySelectorAll("time[data-since]")) {
    const text = age(now - each.dataset.since);
    if (each.textContent !== text) each.textContent = text;
  }
}, 5000);

// Charts: the server's figures with the colours of the page.
const charts = new Map();
// Of axes of time: the distance of ticks in seconds, their text, and what is added where the year, day or minute begins.
const CLOCK = [
  [86400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [1, ":{ss}", "\n{YYYY}-{MM}-{DD} {HH}:{mm}", null, "\n{MM}-{DD} {HH}:{mm}", null, "\n{HH}:{mm}", null, 1],
];
function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
function options(element, unit) {
  const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
  return {
    width: element.clientWidth || 600,
    height: 190,
    cursor: { y: false },
    scales: { y: { range: (chart, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
    axes: [{ ...axis, values: CLOCK }, { ...axis, size: 70, values: (chart, ticks) => ticks.map((tick) => text(tick, unit)) }],
    series: [
      { label: "time", value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" },
      { label: "used", stroke: color("--used"), width: 2, points: { show: false }, fill: color("--used") + "22", value: (c, v) => text(v, unit) },
      { label: "deserved", stroke: color("--deserved"), width: 1.5, dash: [6, 4], points: { show: false }, value: (c, v) => text(v, unit) },
    ],
  };
}
function text(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "bytes") {
    const units = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
    let at = 0;
    while (Math.abs(value) >= 1024 && at < 5) { value /= 1024; at += 1; }
    return `${+value.toFixed(1)}${units[at]}`;
  }
  return String(+value.toFixed(2));
}
async function draw(element) {
  const source = element.dataset.chart;
  let answer;
  try {
    answer = await fetch(source, { credentials: "same-origin" });
  } catch { return; }
  if (!answer.ok) return;
  const found = await answer.json();
  const data = [found.times, found.used, found.deserved];
  const known = charts.get(element);
  if (known && known.source === source) { known.chart.setData(data); return; }
  if (known) known.chart.destroy();
  charts.set(element, { source, unit: found.unit, chart: new uPlot(options(element, found.unit), data, element) });
}
function drawAll() {
  for (const [element, { chart }] of charts) {
    if (!element.isConnected) { chart.destroy(); charts.delete(element); }
  }
  for (const each of document.querySelectorAll("[data-chart]")) draw(each);
}
function again() {
  for (const { chart } of charts.values()) chart.destroy();
  charts.clear();
  drawAll();
}
drawAll();
setInterval(() => { if (!document.hidden) drawAll(); }, 10000);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
let resized;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(() => {
    for (const [element, { chart }] of charts) chart.setSize({ width: element.clientWidth || 600, height: 190 });
  }, 150);
});
