// The figures. Labels come from run directories: `plain` keeps plotly from reading markup in them.

const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colourOf = (line) => (line.colour === "ink" ? css("--ink") : line.colour);
const AXES = { round: "round", megabytes: "megabytes moved, both ways", seconds: "seconds" };
const SCALE = [[0, "#f7fbff"], [0.15, "#d0e3f3"], [0.4, "#7fb6dd"], [0.7, "#2f7ebc"], [1, "#08306b"]];
const DARK_SCALE = [[0, "#171c24"], [0.15, "#1d3552"], [0.4, "#24639b"], [0.7, "#58a6dc"], [1, "#d6efff"]];

function layout(title, x, y, more = {}) {
  const axis = { gridcolor: css("--rule"), linecolor: css("--rule"), zeroline: false, automargin: true };
  const narrow = innerWidth < 760;
  return {
    title: title ? { text: title, x: 0, xref: "paper", font: { size: 14 } } : undefined,
    font: { family: "system-ui, sans-serif", size: narrow ? 11 : 13, color: css("--ink") },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 44, r: 12, t: 36, b: 52 },
    showlegend: false, hovermode: "x unified", dragmode: narrow ? false : "zoom",
    modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--rule"), activecolor: css("--quiet") },
    hoverlabel: { bgcolor: css("--paper"), bordercolor: css("--rule"), font: { color: css("--ink") } },
    ...more,
    xaxis: { ...axis, title: { text: x }, ...more.xaxis },
    yaxis: { ...axis, title: { text: y }, ...more.yaxis },
  };
}

// Where the reader has zoomed to, by figure and view: a refresh of a running experiment draws the figure anew.
const zooms = new Map();

function keepZoom(place, key) {
  place.removeAllListeners?.("plotly_relayout");
  place.on("plotly_relayout", (change) => {
    const kept = zooms.get(key) || {};
    for (const axis of ["xaxis", "yaxis"]) {
      if (change[`${axis}.range[0]`] !== undefined) kept[axis] = [change[`${axis}.range[0]`], change[`${axis}.range[1]`]];
      else if (change[`${axis}.autorange`] || change[`${axis}.range`]) delete kept[axis];
    }
    if (Object.keys(kept).length) zooms.set(key, kept);
    else zooms.delete(key);
  });
}

function show(id, traces, shape, description, view = "") {
  const place = find(`#${id}`);
  const key = `${id} ${state.setting} ${view}`;
  for (const [axis, range] of Object.entries(zooms.get(key) || {})) shape[axis] = { ...shape[axis], range, autorange: false };
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", description);
  const config = {
    displaylogo: false, plotlyServerURL: "", responsive: true, displayModeBar: innerWidth < 760 ? false : "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "sendChartToCloud"],  // the last would upload the figure
    toImageButtonOptions: { format: "svg", filename: `feddc-${id}` },
  };
  place.hidden = false;
  Plotly.react(place, traces, { ...shape, uirevision: key, height: place.classList.contains("tall") ? (innerWidth < 760 ? 340 : 440) : shape.height || 320 }, config).then(() => keepZoom(place, key));
}

function hide(...ids) {
  for (const id of ids) {
    const place = find(`#${id}`);
    if (place) { Plotly.purge(place); place.hidden = true; }
  }
}

// A line with its band: the mean, and one standard deviation to either side where there are several seeds.
function traces(line, x, values, format, bands = true) {
  const colour = colourOf(line);
  const main = {
    x, y: values.mean, name: plain(line.label), mode: x.length > 1 ? "lines" : "markers", type: "scatter",
    line: { color: colour, dash: line.dash, width: line.width }, marker: { color: colour, size: 8 },
    hovertemplate: values.sd ? `%{y:${format}} ± %{customdata:${format}}` : `%{y:${format}}`, customdata: values.sd,
  };
  if (!values.sd || !bands) return [main];
  const low = [...(values.low || values.mean.map((mean, i) => mean - values.sd[i]))];
  const high = values.high || values.mean.map((mean, i) => mean + values.sd[i]);
  const area = { x: [...x, ...[...x].reverse()], y: [...high, ...low.reverse()], fill: "toself", type: "scatter", mode: "lines" };
  return [{ ...area, fillcolor: colour, opacity: 0.14, line: { width: 0 }, hoverinfo: "skip" }, main];
}

// What is missing to 100 %. A band that reaches 0 ends, on a logarithmic axis, at half of the smallest error.
function errorOf(score, floor) {
  const clip = (value) => Math.max(100 - value, floor);
  return { mean: score.mean.map(clip), sd: score.sd, low: score.sd && score.mean.map((m, i) => clip(m + score.sd[i])), high: score.sd && score.mean.map((m, i) => clip(m - score.sd[i])) };
}

const better = (values, higher) => (higher ? Math.max(...values) : Math.min(...values));

// Where most of the curves are: the first rounds would squeeze what matters into a strip. Or where the best three are.
function focusOn(lines, y, higher) {
  const values = lines.flatMap((line) => line.curves[y].mean).sort((a, b) => a - b);
  if (!values.length) return undefined;
  const cap = y === "score" && current().measure.share ? 100.5 : Infinity;
  if (state.zoom === "top") {
    const tops = lines.map((line) => better(line.curves[y].mean, higher)).sort((a, b) => (higher ? b - a : a - b));
    const third = tops[Math.min(2, tops.length - 1)];
    const span = Math.max(Math.abs(tops[0] - third), 0.01 * Math.abs(tops[0])) || 1;
    return higher ? [third - 2 * span, Math.min(tops[0] + 0.5 * span, cap)] : [tops[0] - 0.5 * span, third + 2 * span];
  }
  if (values.length < 20) return undefined;
  const low = values[Math.floor(values.length * (higher ? 0.04 : 0))];
  const high = values[Math.floor((values.length - 1) * (higher ? 1 : 0.96))];
  const room = 0.06 * (high - low) || 1;
  return [low - room, Math.min(high + room, cap)];
}

function drawCurves() {
  const { x, y } = state;
  const { measure } = current();
  let lines = shown().filter((line) => line.curves.round.length && line.curves[x] && line.curves[y === "error" ? "score" : y]);
  if (y === "error") {
    const floor = 0.5 * Math.min(...lines.flatMap((line) => line.curves.score.mean.map((each) => 100 - each)).filter((each) => each > 0), 100);
    lines = lines.map((line) => ({ ...line, curves: { ...line.curves, error: errorOf(line.curves.score, floor) } }));
  }
  const higher = y === "score" && measure.higher;
  const goals = state.goals && y !== "loss" ? current().goals.map((goal) => [y === "error" ? 100 - goal : goal, goal]) : [];
  let range = focusOn(lines, y, higher);
  const unit = measure.share ? " %" : "";
  const log = y === "error";
  if (log) range = range && state.zoom === "top" ? range.map((each) => Math.log10(Math.max(each, 0.01))) : undefined;
  const at = (value) => (log ? Math.log10(value) : value);
  const name = { score: measure.title, error: "error (%)", loss: "loss" }[y];
  const shape = layout("", AXES[x], `test ${name}`, {
    xaxis: { rangemode: "tozero", hoverformat: x === "round" ? "d" : ".4g" },
    yaxis: { ...(log ? { type: "log", dtick: "D2", minor: { showgrid: false } } : {}), ...(range ? { range } : {}) },
    shapes: goals.map(([goal]) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: goal, y1: goal, line: { color: css("--quiet"), width: 1, dash: "dash" } })),
    annotations: goals.map(([goal, text]) => ({ xref: "paper", x: 0.004, y: at(goal), text: `target ${+text.toFixed(4)}${unit}`, showarrow: false, xanchor: "left", yanchor: "bottom", font: { size: 11, color: css("--quiet") } })),
  });
  const best = lines.map((line) => `${line.label}: best ${better(line.curves.score.mean, measure.higher).toFixed(2)}${unit}`).join("; ");
  show("plot-curves", lines.flatMap((line) => traces(line, line.curves[x], line.curves[y], y === "loss" ? ".3f" : ".2f", state.bands)), shape, `Test ${name} against ${AXES[x]}. ${best}. The tables hold the numbers.`, `${x} ${y} ${state.zoom}`);
}

function drawClients() {
  const { strips, lines, measure } = current();
  if (!strips.length) return hide("plot-clients");
  const marks = strips.flatMap((strip, i) => {
    const line = lines.find((each) => each.label === strip.line);
    const spread = strip.client.map((_, j) => i + 0.3 * (((j * 0.618034) % 1) - 0.5));
    return [
      { x: spread, y: strip.score, customdata: strip.client, mode: "markers", type: "scatter", marker: { color: colourOf(line), opacity: 0.6, size: 8 }, hovertemplate: `client %{customdata}: %{y:.2f}<extra>${plain(strip.label)}</extra>` },
      { x: [i - 0.25, i + 0.25], y: [strip.mean, strip.mean], mode: "lines", type: "scatter", line: { color: css("--ink"), width: 2 }, hovertemplate: "mean %{y:.2f}<extra></extra>" },
      { x: [i], y: [strip.worst], mode: "markers", type: "scatter", marker: { symbol: "x", size: 10, color: css("--ink") }, hovertemplate: "worst tenth %{y:.2f}<extra></extra>" },
    ];
  });
  const shape = layout("", "", `${measure.title} of each client`, { hovermode: "closest", height: 380, xaxis: { tickvals: strips.map((_, i) => i), ticktext: strips.map((strip) => plain(strip.label)), range: [-0.6, strips.length - 0.4], showgrid: false } });
  show("plot-clients", marks, shape, strips.map((strip) => `${strip.label}: mean ${strip.mean.toFixed(2)}, worst tenth ${strip.worst.toFixed(2)}`).join("; "));
}

function drawAlpha() {
  const { alpha: families, measure, goals } = current();
  if (!families.length) return hide("plot-alpha", "plot-alpha-rounds");
  const alphas = [...new Set(families.flatMap((family) => [...family.alpha, ...family.rounds_alpha, ...family.diverged, ...family.not_reached]))];
  const axis = { xaxis: { type: "log", tickvals: alphas, ticktext: alphas.map(String) }, hovermode: "closest", showlegend: true, legend: { orientation: "h", y: -0.28, x: 0 } };
  const points = (family, x, y) => ({
    x, y: y.mean, name: plain(family.label), mode: "lines+markers", type: "scatter", legendgroup: family.label,
    error_y: y.sd ? { type: "data", array: y.sd, color: colourOf(family) } : undefined, line: { color: colourOf(family), width: 2 }, marker: { size: 8 },
    hovertemplate: "α = %{x}: %{y:.4g}<extra></extra>",
  });
  // A value that failed stays in the figure: a cross at its edge.
  const crosses = (family, x, at, what) => ({
    x, y: x.map(() => at), yaxis: "y2", name: plain(`${family.label}: ${what}`), mode: "markers", type: "scatter",
    marker: { symbol: "x", size: 10, color: colourOf(family) }, hovertemplate: `α = %{x}: ${what}<extra></extra>`,
  });
  const edge = { overlaying: "y", range: [0, 1], visible: false, fixedrange: true };
  const both = (family, x, y, lost, at, what) => [points(family, x, y), ...(lost.length ? [crosses(family, lost, at, what)] : [])];
  const best = layout(`Best ${measure.name} against α`, "α", `best ${measure.title}`, axis);
  show("plot-alpha", families.flatMap((each) => both(each, each.alpha, each.best, each.diverged, 0.03, "diverged")), { ...best, yaxis2: edge }, `Best ${measure.name} against α`);
  const goal = `${+current().target.toFixed(4)}${measure.share ? " %" : ""}`;
  const rounds = layout(`Rounds to ${goal}`, "α", `rounds to ${goal}`, axis);
  show("plot-alpha-rounds", families.flatMap((each) => both(each, each.rounds_alpha, each.rounds, each.not_reached, 0.97, "not reached")), { ...rounds, yaxis2: edge }, `Rounds to ${goal} against α`);
}

function drawDrift() {
  const some = current().lines.some((line) => line.drift);
  find("#drift-figures").hidden = !some;
  if (!some) return;
  const lines = shown().filter((line) => line.drift);
  const words = (what) => lines.map((line) => `${line.label}: ${line.drift[what].mean.at(-1)} at the end`).join("; ");
  show("plot-gap", lines.flatMap((line) => traces(line, line.drift.round, line.drift.gap, ".3g")), layout("Consistency gap", "round", "mean ‖θᵢ + hᵢ − w‖", { yaxis: { rangemode: "tozero" } }), `Consistency gap against rounds. ${words("gap")}`);
  const paired = lines.filter((line) => line.drift.cosine_round.length);
  show("plot-cosine", paired.flatMap((line) => traces(line, line.drift.cosine_round, line.drift.cosine, ".2f")), layout("Cosine between client updates", "round", "mean cosine, 5 rounds", { yaxis: { zeroline: true, zerolinecolor: css("--quiet") } }), "Mean cosine between the updates of a round's clients, against rounds");
  drawHeat();
}

function fillHeatPickers() {
  const { lines, heat } = current();
  const known = Object.keys(heat).map(Number);
  const keeps = known.filter((place) => heat[place].drift);
  const named = (name) => keeps.find((place) => lines[place].name === name);
  const left = named("feddc") ?? keeps[0] ?? known[0];
  const right = keeps.find((place) => place !== left) ?? known.find((place) => place !== left);
  for (const [id, place] of [["#heat-left", left], ["#heat-right", right]]) {
    const old = find(id).value;
    find(id).replaceChildren(...known.map((each) => new Option(lines[each].label, each)));
    find(id).value = known.includes(Number(old)) && old !== "" ? old : place ?? "";
    find(id).parentElement.hidden = known.length < 2;
  }
}

function drawHeat() {
  const { lines, heat } = current();
  const chosen = ["left", "right"].map((side) => [side, find(`#heat-${side}`).value]).filter(([, place]) => place !== "");
  const values = chosen.map(([, place]) => heat[place][state.heat]).filter(Boolean);
  const sorted = values.flat(2).filter((each) => each !== null).sort((a, b) => a - b);
  const top = sorted[Math.floor(0.995 * (sorted.length - 1))] || 1;
  const silent = chosen.filter(([, place]) => !heat[place][state.heat]).map(([, place]) => lines[place].label);
  find("#heat-note").textContent = (silent.length ? `${silent.join(" and ")} keeps no drift: see its updates instead. ` : "") +
    (state.heat === "drift" ? "The drift that each client holds; one that never comes back is blank after its last round. First seed; both sides share their colours." : "Blank: the client did not take part. First seed; both sides share their colours.");
  for (const side of ["left", "right"]) {
    const place = find(`#heat-${side}`).value;
    const z = place === "" ? undefined : heat[place][state.heat];
    if (!z) { hide(`plot-heat-${side}`); continue; }
    const name = state.heat === "drift" ? "‖hᵢ‖" : "‖Δᵢ‖";
    const map = {
      type: "heatmap", z, x: heat[place].round, y: z.map((_, i) => i), zmin: 0, zmax: top, hoverongaps: false,
      colorscale: theme() === "dark" ? DARK_SCALE : SCALE, colorbar: { thickness: 10, outlinewidth: 0, title: { text: name } },
      hovertemplate: `client %{y}, round %{x}: ${name} = %{z}<extra></extra>`,
    };
    const height = Math.min(640, Math.max(300, 90 + 9 * z.length));
    show(`plot-heat-${side}`, [map], layout(plain(lines[place].label), "round", "client", { height, hovermode: "closest", xaxis: { showgrid: false }, yaxis: { showgrid: false, autorange: "reversed" } }), `${name} of every client and round, ${lines[place].label}`);
  }
}

function drawSplit() {
  const { split } = current();
  if (!split) return hide("plot-split");
  const { counts } = split;
  const clients = counts.map((_, i) => i);
  const sizes = counts.map((row) => row.reduce((a, b) => a + b, 0));
  const text = counts.length <= 30 && counts[0].length <= 12 ? counts.map((row) => row.map((each) => each || "")) : undefined;
  const map = {
    type: "heatmap", z: counts, x: counts[0].map((_, i) => i), y: clients, colorscale: theme() === "dark" ? DARK_SCALE : SCALE, zmin: 0, xgap: 1, ygap: counts.length > 60 ? 0 : 1,
    zmax: (text ? 1.7 : 1) * Math.max(...counts.flat()),  // numbers can be read on the lighter part of the scale
    text, texttemplate: text ? "%{text}" : undefined, textfont: { size: 11, color: css("--ink") }, showscale: !text, colorbar: { thickness: 10, outlinewidth: 0, x: 0.74, title: { text: "samples" } },
    hovertemplate: "client %{y}, class %{x}: %{z} samples<extra></extra>",
  };
  const bars = { type: "bar", orientation: "h", x: sizes, y: clients, xaxis: "x2", marker: { color: css("--quiet") }, hovertemplate: "client %{y}: %{x} samples<extra></extra>" };
  const height = Math.min(900, Math.max(300, 90 + 19 * counts.length));
  const whole = { showgrid: false, tickmode: counts[0].length <= 20 ? "linear" : "auto", dtick: 1 };
  const shape = layout("", "class", "client", { height, hovermode: "closest", bargap: 0.25, xaxis: { ...whole, domain: [0, 0.72] }, yaxis: { showgrid: false, autorange: "reversed", ...(counts.length <= 30 ? { tickmode: "linear", dtick: 1 } : {}) } });
  shape.xaxis2 = { ...shape.xaxis, domain: [0.8, 1], title: { text: "samples" }, tickmode: "auto", dtick: undefined, nticks: 4, showgrid: true };
  show("plot-split", [map, bars], shape, `Samples of each class at each of ${counts.length} clients, which hold from ${Math.min(...sizes)} to ${Math.max(...sizes)} samples`);
}

const DRAW = { curves: drawCurves, clients: drawClients, alpha: drawAlpha, drift: drawDrift, split: drawSplit };
function draw(tab) {
  if (DRAW[tab]) DRAW[tab]();
}
