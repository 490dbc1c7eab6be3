// Every setting with its help, its default and a sign when it was changed; presets; models; keys.
import { failureOf, get, may, send } from "./api.js";
import { emptyState, h, milliseconds, toast } from "./dom.js";
import { keysGroup } from "./keys.js";

const SECTIONS = {
  rag: "Search", query: "Questions", answer: "Answers", llm: "Models", cache: "Cache", conversation: "Conversations", ingest: "Reading documents", serve: "Service",
};
const PRESETS = {
  speed: "Short searches, no second look", balanced: "The defaults, for most libraries", quality: "Deeper searches, disputes are settled", offline: "Nothing leaves this machine",
};

export async function show(main) {
  if (!may("admin")) { main.replaceChildren(h("div.view", {}, emptyState("gear", "For administrators", "Your key may not change settings."))); return; }
  const view = h("div.view");
  main.replaceChildren(view);
  await draw(view);
}

async function draw(view) {
  const found = await get("/api/settings");
  const rows = found.settings;
  const groups = grouped(rows);
  const find = h("input.field", { id: "find", type: "search", placeholder: "Find a setting", "aria-label": "Find a setting", oninput: () => filter(view, find.value) });
  const changed = rows.filter(isChanged).length;
  view.replaceChildren(
    h("div.view-head", {}, h("div.spread", {}, h("h1", {}, "Settings"), h("p", {}, changed ? `${changed} of ${rows.length} settings are changed.` : "Every setting is at its default."))),
    h("h2", {}, "Presets"), h("div.presets", {}, Object.entries(PRESETS).map(([name, text]) => h("button.card.preset", { type: "button", onclick: () => apply(view, send("POST", "/api/settings/preset", { name })) }, h("strong", {}, name), h("span", {}, text)))),
    h("p", {}, find),
    ...[...groups].map(([section, specs]) => h("section.group", {}, h("h2", {}, SECTIONS[section] || section), ...specs.map((spec) => setting(spec, view)))),
    await keysGroup());
}

const sectionOf = (spec) => spec.name.split(".")[0];
const isChanged = (spec) => spec.from !== "default";

function grouped(rows) {
  const groups = new Map();
  for (const row of rows) groups.set(sectionOf(row), [...(groups.get(sectionOf(row)) || []), row]);
  return groups;
}

function filter(view, text) {
  for (const one of view.querySelectorAll(".setting")) one.hidden = !one.textContent.toLowerCase().includes(text.toLowerCase());
  for (const one of view.querySelectorAll(".group")) one.hidden = Boolean(one.querySelector(".setting")) && !one.querySelector(".setting:not([hidden])");
}

const written = (value) => (value === "" ? "empty" : String(value));

function setting(spec, view) {
  const id = `s-${spec.name}`;
  const wrong = h("p.wrong", { role: "alert", hidden: true });
  const put = async (value) => {
    try {
      wrong.hidden = true;
      await send("PATCH", "/api/settings", { [spec.name]: value });
      await again(spec, view);
    } catch (error) { wrong.textContent = failureOf(error).text; wrong.hidden = false; }
  };
  const back = isChanged(spec) && spec.from !== "refdesk.toml" && h("button.link.small", { type: "button", onclick: async () => { await send("DELETE", `/api/settings/${spec.name}`); await again(spec, view); } }, "Put back");
  const isModel = sectionOf(spec) === "llm" && typeof spec.default === "string" && spec.name !== "llm.fallbacks";
  return h("div.setting", { class: isChanged(spec) ? "changed" : "", "data-name": spec.name },
    h("div", {}, h("div.row", {}, h("label", { for: id }, spec.help.split(";")[0]), isChanged(spec) && h("span.tag.good", {}, "Changed")),
      h("p", {}, h("code", {}, spec.name), spec.help.includes(";") ? ` · ${spec.help.split(";").slice(1).join(";").trim()}` : "", ` · default ${written(spec.default)}`, isChanged(spec) && spec.from && spec.from !== "library" ? ` · from ${spec.from}` : "")),
    h("div", {}, control(spec, id, put), h("div.row", {}, back, isModel && tester(spec))), wrong);
}

function control(spec, id, put) {
  if (typeof spec.default === "boolean") {
    const box = h("select.field", { id, onchange: () => put(box.value === "true") }, h("option", { value: "true", selected: spec.value }, "On"), h("option", { value: "false", selected: !spec.value }, "Off"));
    return box;
  }
  if (spec.choices?.length) {
    const box = h("select.field", { id, onchange: () => put(box.value) }, spec.choices.map((one) => h("option", { value: one, selected: one === spec.value }, one)));
    return box;
  }
  const isNumber = typeof spec.default === "number";
  const box = h("input.field", { id, value: String(spec.value), spellcheck: "false", inputmode: isNumber ? "decimal" : "text", placeholder: isNumber ? "" : "none", onchange: () => put(isNumber && box.value.trim() !== "" && !Number.isNaN(Number(box.value)) ? Number(box.value) : box.value.trim()) });
  return box;
}

function tester(spec) {
  const button = h("button.link.small", { type: "button", onclick: async () => {
    const model = document.getElementById(`s-${spec.name}`).value.trim();
    if (!model) { toast("Name a model first, such as ollama:qwen2.5:14b."); return; }
    button.textContent = "Testing…";
    try {
      const found = await send("POST", "/api/models/test", { model });
      toast(`${model} answered in ${milliseconds(found.ms)}.`);
    } catch (error) { toast(failureOf(error).text); }
    button.textContent = "Test";
  } }, "Test");
  return button;
}

/** One setting drawn anew, the others as they are, the focus where it was. */
async function again(spec, view) {
  const found = await get("/api/settings");
  const fresh = found.settings.find((one) => one.name === spec.name);
  const old = [...view.querySelectorAll(".setting")].find((one) => one.dataset.name === spec.name);
  old?.replaceWith(setting(fresh, view));
  document.getElementById(`s-${spec.name}`)?.focus();
  toast("Saved. It holds from the next question on.");
}

async function apply(view, work) {
  try { await work; await draw(view); toast("Saved. It holds from the next question on."); } catch (error) { toast(failureOf(error).text); }
}
