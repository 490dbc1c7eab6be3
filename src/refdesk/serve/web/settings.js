// Every setting with its help, default and a mark if it was changed; presets; models; keys.
import { failureOf, get, may, send } from "./api.js";
import { byId, calmly, emptyState, h, isLost, options, redraw, refocus, tell, toast } from "./dom.js";
import { keysGroup } from "./keys.js";
import { modelPanel, trialText } from "./models.js";

const SECTIONS = {
  rag: "Search", query: "Questions", answer: "Answers", agent: "Agent and reports", prompt: "House rules", llm: "Models", cache: "Cache", conversation: "Conversations", ingest: "Reading documents", serve: "Service", keys: "Keys",
};
const PRESETS = {
  speed: "Faster searches, fewer checks", balanced: "The defaults, for most libraries", quality: "Deeper searches, disputes are resolved", offline: "Nothing leaves this machine",
};
const SAVED = "Saved. Applies to the next question.";

export async function show(main) {
  if (!may("admin")) { main.replaceChildren(h("div.view", emptyState("gear", "For administrators", "Your key does not allow changing settings."))); return; }
  const view = h("div.view");
  main.replaceChildren(view);
  await draw(view);
}

async function draw(view) {
  const found = await get("/api/settings");
  const rows = found.settings;
  const groups = Map.groupBy(rows, sectionOf);
  const find = h("input.field", { id: "find", type: "search", placeholder: "Find a setting", label: "Find a setting", oninput: () => filter(view, find.value) });
  redraw(view, [
    h("div.view-head", h("div.spread", h("h1", "Settings"), h("p", { "data-changed": "" }, summary(rows)))),
    await modelPanel(() => draw(view)),
    h("h2", "Presets"), h("p.quiet.small", "Each preset changes several settings at once; the others stay as they are."),
    h("div.presets", Object.entries(PRESETS).map(([name, text]) => h("button.card.preset", { "aria-pressed": String(holds(found, name)), onclick: () => apply(view, send("POST", "/api/settings/preset", { name })) }, h("strong", name), h("span", text)))),
    h("p", find), h("p.quiet", { id: "none", role: "status" }), h("nav.jumps", { label: "Sections" }, [...groups.keys(), "keys"].map((section) => h("button.link", { onclick: () => jump(section) }, SECTIONS[section] || section))),
    ...[...groups].map(([section, specs]) => h("section.group", { id: `g-${section}` }, h("h2", { tabindex: "-1" }, SECTIONS[section] || section), ...specs.map((spec) => setting(spec, view)))),
    await keysGroup()]);
}

function jump(section) {
  const head = document.querySelector(`#g-${section} h2`);
  head.scrollIntoView({ behavior: calmly() });
  head.focus({ preventScroll: true });
}

function summary(rows) {
  const changed = rows.filter(isChanged).length;
  return changed ? `${changed} of ${rows.length} settings ${changed === 1 ? "is" : "are"} changed.` : "Every setting is at its default.";
}

/** Whether the settings are as this preset would leave them; only `balanced` cares whether models are switched on. */
function holds({ settings, presets }, name) {
  const cared = new Set(Object.values(presets).flatMap(Object.keys));
  if (name !== "balanced" && name !== "offline") cared.delete("llm.enabled");
  return settings.filter((one) => cared.has(one.name)).every((one) => one.value === (presets[name]?.[one.name] ?? one.default));
}

const sectionOf = (spec) => spec.name.split(".")[0];
const isChanged = (spec) => spec.from !== "default";

function filter(view, text) {
  for (const one of view.querySelectorAll(".setting")) one.hidden = !one.textContent.toLowerCase().includes(text.toLowerCase());
  for (const one of view.querySelectorAll(".group")) one.hidden = Boolean(one.querySelector(".setting")) && !one.querySelector(".setting:not([hidden])");
  byId("none").textContent = view.querySelector(".setting:not([hidden])") ? "" : "No setting matches.";
}

const written = (value) => ({ "": "none", true: "on", false: "off" })[value] ?? (typeof value === "number" ? value.toLocaleString("en-GB", { maximumFractionDigits: 6 }) : String(value));

function setting(spec, view) {
  const id = `s-${spec.name}`;
  const wrong = h("p.small.bad.wrong", { role: "alert", hidden: true });
  const put = async (value, check = true) => {
    try {
      wrong.hidden = true;
      if (value === undefined) await send("DELETE", `/api/settings/${spec.name}`);
      else await send("PATCH", check ? "/api/settings" : "/api/settings?check=false", { [spec.name]: value });
      await again(spec, view);
    } catch (error) {
      const failure = failureOf(error);
      const other = failure.retryable ? h("button.link", { onclick: () => put(value) }, "Try again") : isModel(spec) && value && check ? h("button.link", { onclick: () => put(value, false) }, "Save anyway") : "";
      wrong.replaceChildren(failure.text, " ", other);
      wrong.hidden = false;
      byId(id).ariaInvalid = "true";
    }
  };
  const back = isChanged(spec) && !["refdesk.toml", "environment"].includes(spec.from) && h("button.link.small", { onclick: () => put() }, "Reset to default");
  const [title, ...rest] = spec.help.split(";");
  return h("div.setting", { class: isChanged(spec) ? "changed" : "", "data-name": spec.name },
    h("div", h("div.row", h("label", { for: id }, title), isChanged(spec) && h("span.tag.good", "Changed")),
      h("p", h("code", spec.name), rest.length ? ` · ${rest.join(";").trim()}` : "", spec.minimum !== null ? ` · ${spec.allowed}` : "", ` · default ${written(spec.default)}`, isChanged(spec) && spec.from && spec.from !== "library" ? ` · from ${spec.from}` : "")),
    h("div", control(spec, id, put), h("div.row", back, isModel(spec) && !["llm.fallbacks", "llm.allowed"].includes(spec.name) && tester(spec))), wrong);
}

const isModel = (spec) => sectionOf(spec) === "llm" && typeof spec.default === "string" && !spec.choices?.length;

function control(spec, id, put) {
  const isSwitch = typeof spec.default === "boolean";
  if (isSwitch || spec.choices?.length) {
    const choices = isSwitch ? [["true", "On"], ["false", "Off"]] : spec.choices.map((one) => [one]);
    const box = h("select.field", { id, onchange: () => put(isSwitch ? box.value === "true" : box.value) }, options(choices, String(spec.value)));
    return box;
  }
  if (sectionOf(spec) === "prompt") {
    const box = h("textarea.field", { id, rows: 4, maxlength: 20000, placeholder: "none", onchange: () => put(box.value.trim()) });
    box.value = spec.value;
    return box;
  }
  const isNumber = typeof spec.default === "number";
  const box = h("input.field", { id, value: String(spec.value), spellcheck: "false", inputmode: isNumber ? "decimal" : "text", placeholder: isNumber ? "" : isModel(spec) ? "provider:model" : "none", onchange: () => put(isNumber && box.value.trim() !== "" && !Number.isNaN(Number(box.value)) ? Number(box.value) : box.value.trim()) });
  return box;
}

/** Puts a question to the model that stands in the box; what came of it stays beside the button. */
function tester(spec) {
  const said = h("span.small", { role: "status" });
  const note = (text, kind) => { said.textContent = text; said.className = `small ${kind}`; };
  const button = h("button.link.small", { label: `Test ${spec.name}`, onclick: async () => {
    const model = byId(`s-${spec.name}`).value.trim();
    if (!model) { note("Enter a model first, such as ollama:qwen2.5:14b.", ""); return; }
    button.disabled = true;
    note("Testing…", "");
    try {
      const found = await send("POST", "/api/models/test", { model });
      note(trialText(found), found.answers ? "good" : "bad");
    } catch (error) { note(failureOf(error).text, "bad"); }
    button.disabled = false;
    if (isLost()) button.focus();
  } }, "Test");
  return [button, said];
}

/** One setting drawn anew, the others as they are; who has gone on to another one is left there. */
async function again(spec, view) {
  const found = await get("/api/settings");
  const fresh = found.settings.find((one) => one.name === spec.name);
  const old = [...view.querySelectorAll(".setting")].find((one) => one.dataset.name === spec.name);
  if (!old) return;
  const had = document.activeElement;
  const row = setting(fresh, view);
  old.replaceWith(row);
  if (old.contains(had)) refocus(had, row);
  if (isLost()) byId(`s-${spec.name}`).focus(); // “Reset to default” is gone
  view.querySelector("[data-changed]").textContent = summary(found.settings);
  view.querySelectorAll(".preset").forEach((one, at) => one.ariaPressed = holds(found, Object.keys(PRESETS)[at]));
  toast(SAVED);
}

async function apply(view, work) {
  try { await work; await draw(view); toast(SAVED); } catch (error) { tell(error); }
}
