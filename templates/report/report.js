"use strict";

// All figures were computed by zeroconf: a figure is [value for drawing, text]. This file only lays them out.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const SMALLEST = 0.05; // GiB: less reads 0.0
const NARROW = 0.1; // of a chart: words need more
const STAGES = [0, 1, 2, 3];
const STAGE_NAMES = ["DDP", "Stage 1", "Stage 2", "Stage 3"];
// the rows of the charts: the stages, and the plan of the user's file where there is one
const OWN = "own";
const ROWS = data.file ? [...STAGES, OWN] : STAGES;
const ROW_NAMES = data.file ? [...STAGE_NAMES, data.file] : STAGE_NAMES;
const OFFLOADS = { none: "None", optimizer: "Optimizer", all: "All", nvme: "NVMe" };
const PART_COLOURS = ["#4c6ef5", "#c77700", "#0d9488", "#7b8494", "#2b95d6", "#d6336c", "#9c5bd6", "#9a6b3f", "#64708a"];
const TIME_COLOURS = ["#4c6ef5", "#7b8494", "#d6336c", "#c77700", "#0d9488"];
// weights and gradients as in the memory chart
const KNOWN_SENT = { weights: "#4c6ef5", gradients: "#c77700", "updated weights": "#0d9488", "weights inside groups": "#9c5bd6", "persistent weights": "#2b95d6" };
const OTHER_SENT = ["#d6336c", "#7b8494", "#9a6b3f"];
const SENT_COLOURS = data.sentOf.map((kind, index) => KNOWN_SENT[kind] || OTHER_SENT[index % OTHER_SENT.length]);
const PART_WORDS = {
  parameters: "weights this GPU keeps between layers",
  gradients: "gradients it keeps",
  optimizer_states: "the optimizer's own values, and its fp32 copy of 16-bit weights",
  buffers: "communication buckets and pinned copies",
  gathered_parameters: "weights of others, while layers compute",
  activations: "kept for the backward pass",
  logits: "output of the vocabulary matrix, and the loss",
  temporaries: "short-lived copies",
  overhead: "CUDA context and NCCL",
};
const BRANCHES = {
  gpu_memory: "Do not fit the card",
  host_memory: "Need more host memory than a node has",
  nvme: "Need more NVMe than a node has",
  release: "This release computes them wrongly",
  tight: "Fit, but leave too little free (tight)",
  slower: "Take longer, or gain too little",
  unsure: "Faster by less than offload is uncertain",
};
const IN_COMFORT = ["slower", "unsure"];

// --- small helpers -------------------------------------------------------------------------------

/** An element; attributes starting with "--" are CSS variables, children are nodes or texts. */
function el(tag, attributes = {}, ...children) {
  const node = tag.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("--")) node.style.setProperty(name, value);
    else if (name === "onclick") node.addEventListener("click", value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null));
  return node;
}

/** A key that breaks behind its dots and underscores. */
const breakable = (key) => key.split(/(?<=[._])/).flatMap((piece) => [el("wbr"), piece]);
const ignored = (plan) => (plan.textbookIgnores ? ` (${plan.textbookIgnores})` : "");
const words = (name) => name.replaceAll("_", " ");
const capital = (text) => text[0].toUpperCase() + text.slice(1);
const percent = (share) => `${Math.max(0, Math.min(100, 100 * share)).toFixed(3)}%`;

function fillTable(table, header, rows, foot = null) {
  const cells = (tag, row) =>
    row.map((cell, column) =>
      el(column === 0 && tag === "td" ? "th" : tag, {
        class: header[column].startsWith("#") ? "number" : null,
        scope: tag === "th" ? "col" : column === 0 ? "row" : null,
      }, cell));
  table.replaceChildren(
    el("thead", {}, el("tr", {}, cells("th", header.map((title) => title.replace(/^#/, ""))))),
    el("tbody", {}, rows.map(({ row, ...attributes }) => el("tr", attributes, cells("td", row)))),
    ...(foot ? [el("tfoot", {}, el("tr", {}, cells("td", foot)))] : []),
  );
}

// --- state ---------------------------------------------------------------------------------------

const sizeOf = (gpus) => data.sizes.find((size) => size.gpus === gpus);
const keyOf = (gpus, network) => (sizeOf(gpus).nodes > 1 ? `${gpus} ${network}` : `${gpus}`);
const [givenGpus, ...givenNetwork] = data.given.split(" ");
const given = {
  gpus: Number(givenGpus),
  network: givenNetwork.join(" ") || (data.networks.length ? data.networks[data.networks.length - 1].name : ""),
};
const state = { ...given, stage: 0, offload: "none" };

const scenarios = Object.fromEntries(Object.entries(data.scenarios).map(([key, one]) => [key, opened(one)]));

/** A scenario with what stands once in the data in all of its places. */
function opened(scenario) {
  const of = (index) => data.shared[index];
  const plan = (one) => {
    const traffic = of(one.traffic);
    return {
      ...one,
      ...of(one.plan),
      memory: of(one.memory),
      traffic: { ...traffic, sent: traffic.sent.map(of), moved: traffic.moved.map(of) },
    };
  };
  return { ...scenario, plans: scenario.plans.map(plan), own: scenario.own && plan(scenario.own), reasons: scenario.reasons.map(of) };
}

const current = () => scenarios[keyOf(state.gpus, state.network)];
const chosenOf = (scenario) => (scenario.chosen === null ? null : scenario.plans[scenario.chosen]);
const planOf = (scenario, row, offload) =>
  row === OWN ? scenario.own : scenario.plans.find((plan) => plan.shown && plan.stage === row && plan.offload === offload) || null;
const rowOf = (text) => (text === OWN ? OWN : Number(text ?? NaN));
const fits = (plan) => plan.verdict !== "does-not-fit" && !["host_memory", "nvme"].includes(plan.branch);
const verdictWords = (plan) =>
  ({ host_memory: "too much host memory", nvme: "too much NVMe" })[plan.branch] || words(plan.verdict.replaceAll("-", " "));
const verdictClass = (plan) => (fits(plan) ? plan.verdict : "does-not-fit");

function follow(scenario) {
  const nearest = () => scenario.plans.filter(({ shown }) => shown).reduce((a, b) => (b.memory.peak[0] < a.memory.peak[0] ? b : a));
  const plan = chosenOf(scenario) || nearest();
  state.stage = plan.stage;
  state.offload = plan.offload;
}

function show(changes, { followChoice = false, announce = true } = {}) {
  Object.assign(state, changes);
  if (followChoice) follow(current());
  draw();
  if (announce) $("announce").textContent = `${$("headline").textContent}. ${selectedWords()}`;
  const hash = new URLSearchParams({ ...state, network: sizeOf(state.gpus).nodes > 1 ? state.network : "" });
  history.replaceState(null, "", `#${hash}`);
}

function readHash() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const gpus = Number(asked.get("gpus"));
  if (!sizeOf(gpus)) return false;
  const network = data.networks.some((one) => one.name === asked.get("network")) ? asked.get("network") : state.network;
  Object.assign(state, { gpus, network });
  follow(current());
  const [stage, offload] = [rowOf(asked.get("stage")), asked.get("offload")];
  if (planOf(current(), stage, offload)) Object.assign(state, { stage, offload });
  return true;
}

function selectedWords() {
  const plan = planOf(current(), state.stage, state.offload);
  if (!plan) return "There is no such plan.";
  const { memory, time } = plan;
  const seconds = fits(plan) ? `, ${time.sample[1]} per sample` : "";
  return `${capital(plan.title)}: ${memory.peak[1]} of ${data.capacity[1]} at the peak (${memory.moment}), ` +
    `${verdictWords(plan)}${seconds}.`;
}

// --- controls ------------------------------------------------------------------------------------

function buildPick(id, name, choices) {
  const radios = choices.map(({ value, text, given: isGiven, title }) => {
    const input = el("input", { type: "radio", name, value });
    input.addEventListener("change", () =>
      show({ [name]: { gpus: Number, stage: rowOf }[name]?.(value) ?? value },
        { followChoice: name === "gpus" || name === "network" }));
    return el("label", { title }, input, el("span", { class: isGiven ? "given" : null }, text));
  });
  $(id).append(...radios);
}

function buildControls() {
  buildPick("pick-gpus", "gpus", data.sizes.map(({ gpus, words: text }) => (
    { value: gpus, text: String(gpus), given: gpus === given.gpus, title: text })));
  buildPick("pick-network", "network", data.networks.map(({ name, rate }) => (
    { value: name, text: name, given: data.given.endsWith(` ${name}`), title: `rings reach ${rate}` })));
  $("pick-network").hidden = data.networks.length === 0;
  buildPick("pick-stage", "stage", ROWS.map((row, index) => ({ value: row, text: row > 0 ? String(row) : ROW_NAMES[index], title: row === OWN ? data.file : null })));
  const offloads = Object.keys(OFFLOADS).filter((name) =>
    Object.values(scenarios).some(({ plans }) => plans.some((plan) => plan.offload === name)));
  buildPick("pick-offload", "offload", offloads.map((name) => ({ value: name, text: OFFLOADS[name] })));
  $("reset").addEventListener("click", () => show({ ...given }, { followChoice: true }));
  $("controls").addEventListener("submit", (event) => event.preventDefault());
}

function drawControls() {
  const scenario = current();
  for (const input of $("controls").elements) {
    if (input.type !== "radio") continue;
    input.checked = String(state[input.name]) === input.value;
    if (input.name === "network") input.disabled = sizeOf(state.gpus).nodes === 1;
    if (input.name === "offload") input.disabled = !input.checked && !scenario.plans.some((p) => p.offload === input.value);
  }
  const size = sizeOf(state.gpus);
  $("pick-network").querySelector("legend").textContent =
    size.nodes > 1 ? "Network between nodes" : "Network (one node: not used)";
  $("state").textContent = `Shown: ${caseWords(state)}; selected: ${
    state.stage === OWN ? data.file : `stage ${state.stage}, offload ${OFFLOADS[state.offload]}`}.`;
}

const gpuWords = (gpus) => (gpus === 1 ? "1 GPU" : `${gpus} GPUs`);

function caseWords({ gpus, network }) {
  const size = sizeOf(gpus);
  const count = gpuWords(gpus);
  return size.nodes > 1 ? `${count} in ${size.words} over ${network}` : gpus === 1 ? count : `${count} in one node`;
}

// --- bars ----------------------------------------------------------------------------------------

/** Rows of stacked bars, kept between redraws so that they move: update(rows, scale, limits). */
function stackedBars(container, names, colours, { onPick = null } = {}) {
  const rows = names.map((name, index) => {
    const bar = el("div", { class: "bar" });
    const segments = [];
    const whisker = el("div", { class: "whisker" });
    const track = el("div", { class: "track", "aria-hidden": "true" }, bar, whisker);
    const value = el("div", { class: "value" });
    const tag = el("small");
    const row = el("div", { role: "listitem", class: onPick ? "row pickable" : "row", onclick: onPick && (() => onPick(index)) },
      el("div", { class: "name" }, el("span", { title: name === data.file ? name : null }, name), tag), track, value);
    return { row, tag, bar, segments, whisker, track, value };
  });
  const labels = el("div", { class: "limits-row row", "aria-hidden": "true" });
  container.replaceChildren(labels, ...rows.map(({ row }) => row));

  return (contents, scale, limits = []) => {
    container.classList.toggle("limits", limits.length > 0);
    const markers = limits.map(({ at, text, kind }) =>
      el("span", { class: kind, style: `left:${percent(at / scale)}` }, text));
    labels.replaceChildren(el("div"), el("div", { class: "track" }, markers), el("div"));
    labels.hidden = limits.length === 0;
    contents.forEach((content, index) => {
      const { row, tag, bar, segments, whisker, track, value } = rows[index];
      const parts = content.parts || [];
      while (segments.length < parts.length) {
        segments.push(el("i", { "--fill": colours[segments.length % colours.length] }));
        bar.append(segments[segments.length - 1]);
      }
      segments.forEach((segment, part) => {
        const { size = 0, title = "" } = parts[part] || {};
        segment.style.width = percent(size / scale);
        segment.title = title;
      });
      whisker.hidden = !content.range;
      if (content.range) {
        whisker.style.left = percent(content.range[0] / scale);
        whisker.style.width = percent((Math.min(content.range[1], scale) - content.range[0]) / scale);
      }
      track.querySelectorAll(".limit").forEach((line) => line.remove());
      track.append(...limits.map(({ at, kind }) => el("div", { class: `limit ${kind}`, style: `left:${percent(at / scale)}` })));
      row.classList.toggle("selected", Boolean(content.selected));
      value.replaceChildren(...content.value);
      tag.textContent = content.tag || "";
    });
  };
}

function legend(id, entries) {
  $(id).replaceChildren(...entries.map(([text, colour]) => el("li", {}, el("i", { "--fill": colour }), text)));
}

const spoken = (text) => el("span", { class: "visually-hidden" }, text);
const charts = {};

function buildCharts() {
  const pick = (index) => show({ stage: ROWS[index] });
  charts.memory = stackedBars($("memory-chart"), ROW_NAMES, PART_COLOURS, { onPick: pick });
  charts.moments = stackedBars($("moments-chart"), data.moments.map(capital), ["var(--accent)"]);
  charts.traffic = stackedBars($("traffic-chart"), ROW_NAMES, SENT_COLOURS, { onPick: pick });
  charts.time = stackedBars($("time-chart"), ROW_NAMES, TIME_COLOURS, { onPick: pick });
  legend("memory-legend", data.parts.map((part, index) => [words(part), PART_COLOURS[index]]));
  legend("time-legend", data.spent.map((part, index) => [part, TIME_COLOURS[index]]));
  $("lines-legend").replaceChildren(...STAGE_NAMES.map((name, stage) =>
    el("li", {}, el("svg:svg", { viewBox: "-8 -8 16 16", class: `stage-${stage}` }, MARKS[stage](0, 0)), name)),
  el("li", {}, "hollow: does not fit"));
}

const shownPlans = () => ROWS.map((row) => planOf(current(), row, state.offload));
const isSelected = (index) => ROWS[index] === state.stage;

function absent(index) {
  const stage = ROWS[index];
  if (stage === OWN) return [el("small", {}, "counted for the given case only")];
  const without = { optimizer: "stage 0 has no offload", all: "weights are offloaded at stage 3 only", nvme: "NVMe needs stage 3" };
  const pinned = planOf(current(), stage, "none") || current().plans.some((plan) => plan.stage === stage);
  return [el("small", {}, pinned ? without[state.offload] || "not offered" : "not tried")];
}

/** Left of a line that stands near the start is no room for its words. */
function limitMarks(scale) {
  const comfortable = `${data.comfortable[2]}: comfortable`, card = `card, ${data.capacity[1]}`;
  const room = data.comfortable[0] / scale > NARROW;
  return [
    { at: data.comfortable[0], text: room ? comfortable : "", kind: "" },
    { at: data.capacity[0], text: room ? card : `${card}; ${comfortable}`, kind: "card-end" },
  ];
}

function drawMemory() {
  const plans = shownPlans();
  const tag = (plan) => plan.stageWords.split(" + ")[1] || (plan.stage ? "" : "stage 0"); // hpZ 8
  const scale = 1.03 * Math.max(data.capacity[0], ...plans.map((plan) => (plan ? plan.memory.high[0] : 0)));
  charts.memory(plans.map((plan, index) => {
    if (!plan) return { value: absent(index), selected: isSelected(index) };
    const { memory } = plan;
    const parts = memory.parts.map(([size, text], part) => ({ size, title: `${words(data.parts[part])}: ${text}` }));
    const named = parts.filter(({ size }) => size >= SMALLEST).map(({ title }) => title).join(", ");
    return {
      parts,
      tag: tag(plan),
      range: [memory.low[0], memory.high[0]],
      selected: isSelected(index),
      value: [
        el("b", {}, memory.peak[1]), ` ${memory.share}`,
        el("small", { class: `verdict ${verdictClass(plan)}` }, verdictWords(plan)),
        spoken(`, at ${memory.moment}: ${named}`),
      ],
    };
  }), scale, limitMarks(scale));
}

function drawDetail() {
  const plan = planOf(current(), state.stage, state.offload);
  const words_ = $("detail-words");
  if (!plan) {
    words_.textContent = "There is no such plan: choose another stage or offload.";
    $("parts-table").replaceChildren();
    charts.moments(data.moments.map(() => ({ value: [] })), 1);
    $("host-words").textContent = "";
    return;
  }
  const { memory } = plan;
  const recompute = plan.recompute ? "activations recomputed (checkpointing)" : "activations kept";
  words_.replaceChildren(selectedWords(), ` Micro × steps ${plan.split}, ${recompute}. `, plan.because ? capital(`${plan.because}.`) : "");
  const rows = memory.parts
    .map((size, index) => ({ part: data.parts[index], size, colour: PART_COLOURS[index] }))
    .filter(({ size }) => size[0] >= SMALLEST)
    .map(({ part, size, colour }) => ({
      row: [el("span", {}, el("i", { class: "swatch", "--fill": colour }), words(part)), size[1], PART_WORDS[part]],
    }));
  fillTable($("parts-table"), [`At the peak (${memory.moment})`, "#per GPU", "what it is"], rows,
    ["Peak", memory.peak[1], `${memory.low[1]} to ${memory.high[1]} with the predicted error`]);
  const scale = Math.max(...memory.moments.map(([size]) => size));
  charts.moments(memory.moments.map(([size, text]) => ({ parts: [{ size, title: text }], value: [text] })), scale);
  const nvme = memory.nvme[0] ? `, NVMe ${memory.nvme[1]} per node` : "";
  $("host-words").textContent = `The allocator reserves ${memory.reserved[1]}. Host memory ${memory.host[1]} per node${nvme}; ` +
    `a checkpoint takes ${memory.checkpoint[1]}. The textbook (parameters, gradients and optimizer states only) says ${memory.textbook[1]}${ignored(plan)}.`;
}

function drawTraffic() {
  const plans = shownPlans();
  const kinds = data.sentOf;
  const isShown = (kind) => plans.some((plan) => plan && plan.traffic.sent.some((one) => one.of === kind));
  legend("traffic-legend", kinds.map((kind, index) => [kind, SENT_COLOURS[index]]).filter(([kind]) => isShown(kind)));
  const scale = 1.03 * Math.max(0.001, ...plans.map((plan) => (plan ? plan.traffic.total[0] : 0)));
  charts.traffic(plans.map((plan, index) => {
    if (!plan) return { value: absent(index), selected: isSelected(index) };
    const sums = kinds.map((kind) => plan.traffic.sent.filter((one) => one.of === kind).reduce((sum, one) => sum + one.bytes[0], 0));
    return {
      parts: sums.map((size, kind) => ({ size, title: kinds[kind] })),
      selected: isSelected(index),
      value: [plan.traffic.total[1], spoken(plan.traffic.sent.map((one) => `, ${one.bytes[1]} by ${one.what}`).join(""))],
    };
  }), scale);
  const size = sizeOf(state.gpus);
  $("traffic-note").textContent = state.gpus === 1
    ? "One GPU has nobody to send to."
    : `Per optimizer step, in rings over ${size.nodes > 1 ? `${state.network} between nodes` : current().link}.`;
  drawTrafficDetail(plans[ROWS.indexOf(state.stage)]);
}

function drawTrafficDetail(plan) {
  const lines = plan ? plan.traffic.sent.map((one) => `${one.bytes[1]} by ${one.what} over ${one.link}: ${one.seconds}, ${one.count}`) : [];
  const moved = plan ? plan.traffic.moved.map(([route, purpose, text]) => `${text} ${route} (${purpose})`) : [];
  const entries = [...lines, ...moved].map((text) => el("li", {}, text));
  $("traffic-detail").replaceChildren(...(entries.length ? [el("h3", {}, capital(plan.title)), el("ul", { class: "note" }, entries)] : []));
}

function drawTime() {
  const plans = shownPlans();
  const scale = 1.03 * Math.max(1e-9, ...plans.map((plan) => (plan && fits(plan) ? plan.time.high[0] : 0)));
  charts.time(plans.map((plan, index) => {
    if (!plan) return { value: absent(index), selected: isSelected(index) };
    if (!fits(plan)) return { value: [el("small", { class: "verdict does-not-fit" }, verdictWords(plan))], selected: isSelected(index) };
    const { time } = plan;
    return {
      parts: time.parts.map(([size, text], part) => ({ size, title: `${data.spent[part]}: ${text}` })),
      range: [time.low[0], time.high[0]],
      selected: isSelected(index),
      value: [
        el("b", {}, time.step[1]), el("small", {}, `${time.sample[1]} / sample`),
        spoken(`, ${time.low[1]} to ${time.high[1]}: ${time.parts.map(([, text], i) => `${data.spent[i]} ${text}`).join(", ")}`),
      ],
    };
  }), scale);
  $("time-note").textContent = `One step of ${current().batch} sequences; of communication what computing does not hide. ${capital(data.range)}.`;
}

// --- head ----------------------------------------------------------------------------------------

function drawHead() {
  const scenario = current();
  const plan = chosenOf(scenario);
  $("headline").textContent = `${data.model} on ${caseWords(state).replace(/GPUs?/, data.gpu)}`;
  const lead = $("verdict");
  if (!plan) {
    const cure = data.cures.length && keyOf(state.gpus, state.network) === data.given ? " See what would make it fit." : "";
    lead.replaceChildren(el("b", { class: "verdict does-not-fit" }, "Nothing fits."), cure);
    $("tiles").replaceChildren();
    return;
  }
  const judged = (one) => el("span", { class: `verdict ${verdictClass(one)}` }, verdictWords(one));
  const ownWords = ({ own }) => [" ", el("bdi", {}, data.file), ": ", el("b", {}, own.title), ", ", judged(own), own.short ? `, ${own.short}.` : "."];
  lead.replaceChildren("Chosen: ", el("b", {}, plan.title), ", ", judged(plan), ".", ...(scenario.own ? ownWords(scenario) : []));
  const { memory, time, traffic } = plan;
  const tile = (name, value, more) => el("div", {}, el("dt", {}, name), el("dd", {}, value, el("small", {}, more)));
  $("tiles").replaceChildren(
    tile("GPU memory at the peak", memory.peak[1], `${memory.share} of ${data.capacity[1]}`),
    tile("Time per sample", time.sample[1], `a step takes ${time.step[1]} (${time.low[1]} to ${time.high[1]})`),
    tile("Throughput", time.speed[0], time.speed[1]),
    tile("Sent per GPU and step", traffic.total[1], state.gpus === 1 ? "one GPU has nobody to send to" : `over ${scenario.link}`),
    tile("Micro × steps", plan.split, `batch ${scenario.batch}, ${plan.recompute ? "recomputing" : "no recomputation"}`),
  );
}

// --- more GPUs, another network ------------------------------------------------------------------

function drawMap() {
  const table = $("map");
  const rows = data.networks.length ? data.networks : [{ name: "", rate: "" }];
  const cell = (gpus, network, attributes = {}) => {
    const scenario = scenarios[keyOf(gpus, network)];
    const plan = chosenOf(scenario);
    const selected = keyOf(gpus, network) === keyOf(state.gpus, state.network);
    const offload = plan && plan.offload !== "none" ? " + offload" : "";
    const name = plan ? `${plan.stage ? `stage ${plan.stageWords}` : "DDP"}${offload}` : "does not fit";
    const time = plan ? plan.time.sample[1] : "";
    const button = el("button", {
      type: "button",
      class: plan ? `stage-${plan.stage}` : "none",
      "aria-pressed": String(selected),
      "aria-label": `${name} ${time}: ${caseWords({ gpus, network })}`,
      "data-case": keyOf(gpus, network),
      onclick: (event) => {
        const key = event.currentTarget.dataset.case;
        show({ gpus, network: network || state.network }, { followChoice: true });
        table.querySelector(`[data-case="${CSS.escape(key)}"]`).focus({ preventScroll: true });
      },
    }, ...(plan ? [el("b", {}, name), " ", time] : [name]));
    return el("td", attributes, button);
  };
  const head = el("tr", {}, el("td"), data.sizes.map(({ gpus }) => el("th", { scope: "col" }, gpuWords(gpus))));
  const body = rows.map(({ name, rate }, index) =>
    el("tr", {}, el("th", { scope: "row" }, name || "one node", el("small", {}, rate)),
      data.sizes.filter(({ nodes }) => nodes > 1 || index === 0).map(({ gpus, nodes }) =>
        nodes > 1 ? cell(gpus, name) : cell(gpus, name, { rowspan: rows.length }))));
  table.replaceChildren(el("caption", { class: "visually-hidden" }, "The chosen stage and its time per sample"), el("thead", {}, head), el("tbody", {}, body));
}

const MARKS = [
  (x, y) => el("svg:circle", { cx: x, cy: y, r: 5 }),
  (x, y) => el("svg:rect", { x: x - 5, y: y - 5, width: 10, height: 10 }),
  (x, y) => el("svg:path", { d: `M${x} ${y - 6}l6 11h-12z` }),
  (x, y) => el("svg:path", { d: `M${x} ${y - 7}l6 7-6 7-6-7z` }),
];

/** Lines of one figure over the number of GPUs; of(plan) gives [value, text], open marks do not fit. */
function lineChart(container, of, { log = false, limit = null, unit, label }) {
  const width = Math.max(280, Math.min(620, container.clientWidth || 520));
  const [height, left, right, top, bottom] = [260, 66, 14, 14, 30];
  const columns = data.sizes.map(({ gpus }) => scenarios[keyOf(gpus, state.network)]);
  const series = STAGES.map((stage) => columns.map((scenario) => {
    const plan = planOf(scenario, stage, state.offload);
    return plan && of(plan) ? { value: of(plan)[0], text: of(plan)[1], fits: fits(plan) } : null;
  }));
  const values = series.flat().filter(Boolean).map(({ value }) => value);
  if (!values.length) {
    container.replaceChildren(el("p", { class: "note" }, "Nothing fits with this offload."));
    return;
  }
  const most = Math.max(...values, limit ? limit[0] : 0);
  const least = log ? Math.min(...values) : 0;
  const [low, high] = log ? [Math.log10(least) - 0.1, Math.log10(most) + 0.1] : [0, most * 1.05];
  const x = (index) => left + (columns.length === 1 ? 0.5 : (index + 0.5) / columns.length) * (width - left - right);
  const y = (value) => top + (1 - ((log ? Math.log10(value) : value) - low) / (high - low)) * (height - top - bottom);
  const svg = el("svg:svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const here = data.sizes.findIndex(({ gpus }) => gpus === state.gpus);
  svg.append(el("svg:line", { class: "here", x1: x(here), x2: x(here), y1: top, y2: height - bottom }));
  for (const tick of ticks(low, high, log)) {
    svg.append(
      el("svg:line", { class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }),
      el("svg:text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, unit(tick)),
    );
  }
  columns.forEach((_, index) => svg.append(
    el("svg:text", { x: x(index), y: height - 10, "text-anchor": "middle" }, String(data.sizes[index].gpus))));
  if (limit) {
    svg.append(
      el("svg:line", { class: "card-end", x1: left, x2: width - right, y1: y(limit[0]), y2: y(limit[0]) }),
      el("svg:text", { class: "card-end", x: width - right, y: y(limit[0]) - 5, "text-anchor": "end" }, "card"),
    );
  }
  series.forEach((points, stage) => {
    const known = points.map((point, index) => point && { ...point, x: x(index), y: y(point.value) });
    const path = known.map((point, index) => point && `${known[index - 1] ? "L" : "M"}${point.x} ${point.y}`).filter(Boolean).join("");
    svg.append(el("svg:path", { class: `stage-${stage}`, d: path }));
    known.filter(Boolean).forEach((point) => {
      const mark = MARKS[stage](point.x, point.y);
      mark.setAttribute("class", `mark stage-${stage}${point.fits ? "" : " open"}`);
      mark.append(el("svg:title", {}, `${STAGE_NAMES[stage]}: ${point.text}`));
      svg.append(mark);
    });
  });
  container.replaceChildren(svg);
}

const ROUND = [1, 2, 5].flatMap((digit) => Array.from({ length: 19 }, (_, power) => digit * 10 ** (power - 9))).sort((a, b) => a - b);

/** Round numbers between two ends, which are powers of ten where log; about five of them. */
function ticks(low, high, log) {
  if (!log) {
    const step = ROUND.find((one) => high / one <= 5);
    return Array.from({ length: Math.floor(high / step) + 1 }, (_, index) => index * step);
  }
  const inside = ROUND.filter((one) => one >= 10 ** low && one <= 10 ** high);
  const powers = inside.filter((one) => Number.isInteger(Math.round(Math.log10(one) * 1e6) / 1e6));
  return inside.length > 6 && powers.length > 1 ? powers : inside;
}

const tickSeconds = (value) =>
  value >= 1 ? `${Number(value.toPrecision(2))} s` : value >= 1e-3 ? `${Number((value * 1e3).toPrecision(2))} ms` : `${Number((value * 1e6).toPrecision(2))} µs`;

function drawLines() {
  const network = data.networks.length ? `, over ${state.network} between nodes` : "";
  const offload = state.offload === "none" ? "without offload" : `offload: ${OFFLOADS[state.offload].toLowerCase()}`;
  $("memory-lines-title").textContent = `Peak memory by number of GPUs, ${offload}`;
  $("time-lines-title").textContent = `Time per sample by number of GPUs, ${offload}${network}`;
  const told = (of) => STAGES.map((stage) => `${STAGE_NAMES[stage]}: ` + data.sizes.map(({ gpus }) => {
    const plan = planOf(scenarios[keyOf(gpus, state.network)], stage, state.offload);
    return `${gpuWords(gpus)} ${plan && of(plan) ? of(plan)[1] : "none"}`;
  }).join(", ")).join("; ");
  const memory = (plan) => plan.memory.peak;
  const sample = (plan) => (fits(plan) ? plan.time.sample : null);
  lineChart($("memory-lines"), memory, { limit: data.capacity, unit: (value) => `${value} GiB`, label: `GiB. ${told(memory)}` });
  lineChart($("time-lines"), sample, { log: true, unit: tickSeconds, label: `Logarithmic. ${told(sample)}` });
}

// --- decision, candidates, reasons ---------------------------------------------------------------

function drawTree() {
  const scenario = current();
  const chosen = chosenOf(scenario);
  const of = (branch) => scenario.plans.filter((plan) => plan.branch === branch);
  const box = (text, more) => el("span", { class: "box" }, text, more ? el("small", {}, ` ${more}`) : null);
  const leaf = (plan) => {
    const { memory, time } = plan;
    const speed = fits(plan) ? `, ${time.sample[1]} per sample` : "";
    return el("li", {}, box(plan.title, `${memory.peak[1]}${speed}${plan.short ? `: ${plan.short}` : ""}`));
  };
  const node = (text, plans, { lit = false, children = null, more = "" } = {}) => {
    const inside = children || plans.map(leaf);
    const count = plans ? `${plans.length}` : "";
    return el("li", { class: lit ? "lit" : inside.length ? null : "empty" }, box(text, more || (plans && !plans.length ? "none" : count)),
      inside.length ? el("ul", {}, inside) : null);
  };
  const isTight = chosen && chosen.verdict === "tight";
  const faster = data.faster && keyOf(state.gpus, state.network) === data.given && el("li", {}, box(data.faster));
  const crown = chosen && el("li", { class: "lit" }, box(`Chosen: ${chosen.title}`, `${chosen.memory.peak[1]}, ${chosen.time.sample[1]} per sample`),
    el("ul", {}, scenario.reasons.slice(1).map(([key, value]) => el("li", { class: "lit value" }, box(`${key.replace("zero_optimization.", "")} = ${value}`)))));
  const rejected = ["gpu_memory", "host_memory", "nvme", "release"].filter((branch) => branch === "gpu_memory" || of(branch).length)
    .map((branch) => node(BRANCHES[branch], of(branch)));
  const losers = IN_COMFORT.filter((branch) => branch === "slower" || of(branch).length).map((branch) => node(BRANCHES[branch], of(branch)));
  const comfort = chosen && !isTight
    ? node("Fit comfortably", null, { lit: true, more: `at most ${data.comfortable[2]} of the card: the fastest wins, within ${data.tie} the simplest`, children: [...losers, crown] })
    : node("Fit comfortably", []);
  const tight = isTight
    ? node("Fit, but leave too little free (tight)", null, { lit: true, more: "nothing is comfortable, so the best of these", children: [...losers, ...of("tight").map(leaf), crown] })
    : faster ? node(BRANCHES.tight, null, { children: [...of("tight").map(leaf), faster] }) : node(BRANCHES.tight, of("tight"));
  const fitting = el("li", { class: chosen ? "lit" : "empty" }, box("Fit the card, the host memory and the NVMe", chosen ? "" : "none"),
    chosen ? el("ul", {}, [tight, comfort]) : null);
  $("tree").replaceChildren(el("ul", {}, el("li", { class: "lit" },
    box(`Plans for ${caseWords(state)}`, `${scenario.tried} estimated, the best of each kind below`),
    el("ul", {}, [...rejected, fitting]))));
}

function drawCandidates() {
  const header = ["Stage", "Offload", "Micro × steps", "Recompute", "#GPU peak", "Verdict", "#Time per sample", "Compared"];
  const { own, plans } = current();
  const rows = [...(own ? [own] : []), ...plans].map((plan) => ({
    class: plan.branch === "chosen" ? "chosen" : null,
    row: [
      `${plan.stage ? plan.stageWords : "0 (DDP)"}${plan === own ? `: ${data.file}` : ""}`, plan.offloadWords === "-" ? "none" : plan.offloadWords, plan.split, plan.recompute ? "yes" : "no", plan.memory.peak[1],
      el("span", { class: `verdict ${verdictClass(plan)}` }, verdictWords(plan)), fits(plan) ? plan.time.sample[1] : "", plan.short,
    ],
  }));
  fillTable($("candidates-table"), header, rows);
}

function drawReasons() {
  const { reasons } = current();
  $("reasons-section").hidden = reasons.length === 0;
  fillTable($("reasons-table"), ["Key", "Value", "Because"], reasons.map(([key, value, because]) => ({ row: [el("code", {}, breakable(key)), value, because] })));
  const showCures = data.cures.length > 0 && keyOf(state.gpus, state.network) === data.given;
  $("cures-section").hidden = !showCures;
}

function buildFixed() {
  fillTable($("cures-table"), ["With", "What it is", "Outcome", "#GPU peak", "#Host memory", "At the cost of"], data.cures.map((cure) => ({
    row: [el("code", {}, cure.option), cure.title, cure.fits ? "fits" : "not enough alone", cure.gpu, cure.host, cure.cost],
  })));
  $("cures-note").textContent = data.cures.length ? `Compared with ${data.against}.` : "";
  $("facts").replaceChildren(...data.facts.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
  $("notes").replaceChildren(...data.notes.map((note) => el("li", {}, note)));
  for (const diagram of document.querySelectorAll(".diagram")) {
    const stage = Number(diagram.dataset.stage);
    const kinds = [["weights", 3, 0], ["gradients", 2, 1], ["states", 1, 2]];
    diagram.append(el("span"), ...STAGES.map((gpu) => el("span", {}, `GPU ${gpu}`)));
    for (const [name, since, part] of kinds) {
      diagram.append(el("span", {}, name), ...STAGES.map((gpu) =>
        el("div", { class: "cells", "--fill": PART_COLOURS[part] }, STAGES.map((piece) =>
          el("i", { class: stage < since || piece === gpu ? "held" : null })))));
    }
  }
}

function drawStages() {
  for (const words_ of document.querySelectorAll(".figures")) {
    const stage = Number(words_.dataset.stage);
    const plan = planOf(current(), stage, state.offload) || planOf(current(), stage, "none");
    words_.hidden = !plan;
    if (!plan) continue;
    const { memory, traffic } = plan;
    words_.replaceChildren("Here: the textbook's states take ", el("b", {}, memory.textbook[1]), `${ignored(plan)}; with all that DeepSpeed allocates, `,
      el("b", {}, memory.peak[1]), ` at the peak (${plan.title}). A GPU sends `, el("b", {}, traffic.total[1]), " per step.");
  }
}

// --- theme, start --------------------------------------------------------------------------------

const THEMES = ["as the system", "light", "dark"];
const dark = matchMedia("(prefers-color-scheme: dark)");
let theme = 0;

function drawTheme() {
  document.documentElement.dataset.theme = theme === 2 || (theme === 0 && dark.matches) ? "dark" : "light";
  $("theme").textContent = `Theme: ${THEMES[theme]}`;
}

function draw() {
  drawControls();
  drawHead();
  drawMemory();
  drawDetail();
  drawTraffic();
  drawTime();
  drawMap();
  drawLines();
  drawTree();
  drawCandidates();
  drawReasons();
  drawStages();
}

document.querySelector("details").open = false; // what it says is drawn
buildControls();
buildCharts();
buildFixed();
drawTheme();
$("theme").addEventListener("click", () => { theme = (theme + 1) % THEMES.length; drawTheme(); });
dark.addEventListener("change", drawTheme);
addEventListener("hashchange", () => {
  if (location.hash === "") { Object.assign(state, given); follow(current()); draw(); } // back to the bare address
  else if (readHash()) draw();
});
let lastWidth = innerWidth;
addEventListener("resize", () => { if (innerWidth !== lastWidth) { lastWidth = innerWidth; drawLines(); } });
if (!readHash()) follow(current());
draw();
