"use strict";
// The page's state and its controls. What is drawn is in plots.js. The state is in the address, so that a reload, a
// bookmark, or the refresh of a running experiment shows the same view.

const state = { setting: 0, tab: "curves", y: "score", x: "round", heat: "drift", zoom: "all", goals: true, bands: true, off: new Set() };
let settings = [];

const find = (selector) => document.querySelector(selector);
const all = (selector) => [...document.querySelectorAll(selector)];
const current = () => settings[state.setting];
const shown = () => current().lines.map((line, place) => ({ ...line, place })).filter((line) => !state.off.has(line.label));

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  state.setting = Math.min(Number(given.get("setting")) || 0, settings.length - 1);
  if (given.get("tab") && all("[role=tab]").some((tab) => tab.getAttribute("aria-controls") === given.get("tab"))) state.tab = given.get("tab");
  for (const name of ["y", "x", "heat", "zoom"]) {
    if (all(`input[name=${name}]`).some((input) => input.value === given.get(name))) state[name] = given.get(name);
  }
  state.off = new Set(given.getAll("off"));
}

function writeAddress() {
  const view = new URLSearchParams({ tab: state.tab, setting: state.setting, y: state.y, x: state.x, heat: state.heat, zoom: state.zoom });
  for (const label of state.off) view.append("off", label);
  history.replaceState(null, "", `#${view}`);
}

function showSetting() {
  for (const part of all("[data-setting]")) part.hidden = Number(part.dataset.setting) !== state.setting;
  const chips = find("#chips");
  chips.replaceChildren(...current().lines.map(chip));
  if (current().lines.length > 1) chips.append(plainChip("all", () => state.off.clear()), plainChip("none", () => current().lines.forEach((line) => state.off.add(line.label))));
  chips.hidden = current().lines.length < 2;
  const seeds = Math.max(...current().lines.map((line) => line.seeds));
  find("#bands").hidden = seeds < 2;
  find("#seeds").textContent = seeds < 2 ? "" : "Mean over seeds, as far as all of them go; the band is one standard deviation to either side.";
  find("#score-name").textContent = current().measure.name;
  find("#y-error").hidden = !(current().measure.share && current().measure.higher);
  if (state.y === "error" && find("#y-error").hidden) { state.y = "score"; find("input[value=score]").checked = true; }
  fillHeatPickers();
}

function chip(line) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "chip";
  button.setAttribute("aria-pressed", String(!state.off.has(line.label)));
  button.append(swatch(line), document.createTextNode(line.label));
  button.addEventListener("click", () => {
    if (!state.off.delete(line.label)) state.off.add(line.label);
    button.setAttribute("aria-pressed", String(!state.off.has(line.label)));
    update();
  });
  return button;
}

function swatch(line) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("width", 22);
  svg.setAttribute("height", 8);
  svg.setAttribute("aria-hidden", "true");
  const stroke = document.createElementNS(svg.namespaceURI, "path");
  stroke.setAttribute("d", "M0 4h22");
  stroke.setAttribute("stroke", line.colour === "ink" ? "currentColor" : line.colour);
  stroke.setAttribute("stroke-width", line.width);
  stroke.setAttribute("stroke-dasharray", { solid: "none", dash: "6 3", dot: "2 3", dashdot: "6 3 2 3" }[line.dash]);
  svg.append(stroke);
  return svg;
}

function plainChip(text, change) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "chip plain";
  button.textContent = text;
  button.addEventListener("click", () => { change(); showSetting(); update(); [...all(".chip.plain")].find((each) => each.textContent === text).focus(); });
  return button;
}

function showTab(name, focus = false) {
  state.tab = name;
  for (const tab of all("[role=tab]")) {
    const chosen = tab.getAttribute("aria-controls") === name;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    find(`#${tab.getAttribute("aria-controls")}`).hidden = !chosen;
    if (chosen && focus) tab.focus();
  }
  find("#chips").hidden = current().lines.length < 2 || !["curves", "drift"].includes(name);
  update();
}

function moveBetweenTabs(event) {
  const tabs = all("[role=tab]");
  const here = tabs.indexOf(document.activeElement);
  const to = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: tabs.length - 1 }[event.key];
  if (here < 0 || to === undefined) return;
  event.preventDefault();
  showTab(tabs[(to + tabs.length) % tabs.length].getAttribute("aria-controls"), true);
}

function update() {
  draw(state.tab);
  writeAddress();
}

function connect() {
  find("[role=tablist]").addEventListener("keydown", moveBetweenTabs);
  for (const tab of all("[role=tab]")) tab.addEventListener("click", () => showTab(tab.getAttribute("aria-controls")));
  for (const input of all("fieldset input")) {
    if (input.type === "radio") input.checked = state[input.name] === input.value;
    else input.checked = state[input.name];
    input.addEventListener("change", () => { state[input.name] = input.type === "radio" ? input.value : input.checked; update(); });
  }
  for (const form of all("form")) form.addEventListener("submit", (event) => event.preventDefault());
  for (const picker of all("#heat-left, #heat-right")) picker.addEventListener("change", update);
  const picker = find("#setting");
  if (picker) {
    picker.value = state.setting;
    picker.addEventListener("change", () => { state.setting = Number(picker.value); showSetting(); showTab(state.tab); });
  }
  for (const button of all(".copy")) {
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", async () => { await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent); button.textContent = "copied"; });
  }
  find("#theme").addEventListener("click", () => { setTheme(theme() === "dark" ? "light" : "dark"); update(); });
}

const theme = () => document.documentElement.dataset.theme;
const setTheme = (name) => { document.documentElement.dataset.theme = name; };

function start() {
  if (!find("#data")) return;  // a running experiment that has no round yet
  settings = JSON.parse(find("#data").textContent);
  readAddress();
  connect();
  showSetting();
  showTab(state.tab);
}

// A running experiment: ask for news, and show them without losing the reader's place.
async function refresh() {
  const answer = await fetch("body").catch(() => null);
  if (answer === null) {  // the server has stopped: what is shown stays, and the page asks again
    document.title = document.title.replace(/^(\(stopped\) )?/, "(stopped) ");
  } else if (answer.ok) {
    document.title = document.title.replace(/^\(stopped\) /, "");
    const text = await answer.text();
    if (text !== refresh.last) {
      refresh.last = text;
      const place = scrollY, focused = document.activeElement.id;
      for (const plot of all(".js-plotly-plot")) Plotly.purge(plot);
      find("#report").innerHTML = text;
      start();
      scrollTo(0, place);
      if (focused) find(`#${CSS.escape(focused)}`)?.focus({ preventScroll: true });
    }
  }
  setTimeout(refresh, 2000);
}

addEventListener("DOMContentLoaded", () => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => { setTheme(dark.matches ? "dark" : "light"); update(); });
  start();
  if (document.body.dataset.live) refresh();
  let before;
  addEventListener("beforeprint", () => {
    before = theme();
    setTheme("light");
    document.documentElement.classList.add("printing");  // the figures are drawn as wide as the paper
    for (const panel of all("[role=tabpanel]")) panel.hidden = false;
    for (const plot of all(".js-plotly-plot")) Plotly.purge(plot);
    for (const tab of all("[role=tab]")) draw(tab.getAttribute("aria-controls"));
  });
  addEventListener("afterprint", () => { document.documentElement.classList.remove("printing"); all(".js-plotly-plot").forEach(Plotly.purge); setTheme(before); showTab(state.tab); });
  document.body.dataset.ready = "yes";  // whoever drives the page from outside can wait for this
});
