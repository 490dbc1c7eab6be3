// Connecting a model: provider, address, key, model list, test. At the top of the settings.
import { failureOf, get, send, url } from "./api.js";
import { h, isLost, milliseconds, options, redraw, toast } from "./dom.js";

/** `changed()` is called after something was saved, so that the settings below show it. */
export async function modelPanel(changed) {
  const place = h("section.group", { id: "g-model" });
  await draw(place, changed);
  return place;
}

async function draw(place, changed, chosen = "") {
  show(place, await get("/api/models"), changed, chosen);
}

// Choosing a provider draws at once from what is known: a form that waits would lose what is typed meanwhile.
function show(place, state, changed, chosen) {
  const [named, model] = split(state.answer);
  redraw(place, [h("h2", { tabindex: "-1" }, "Model"), status(state), ...state.problems.map((one) => h("p.notice.bad", { role: "alert" }, one)),
    form(place, state, chosen || named || state.providers.find((one) => one.key)?.name || "ollama", chosen && chosen !== named ? "" : model, changed)]);
}

const split = (name) => (name ? [name.slice(0, name.indexOf(":")), name.slice(name.indexOf(":") + 1)] : ["", ""]);

function status({ answer, enabled, problems }) {
  if (!enabled) return h("p", "Models are switched off, so nothing leaves this machine. Turn on llm.enabled below to connect one.");
  if (!answer) return h("p", "No model is connected, so answers are quoted from your documents. A model writes them in its own words; every sentence is still checked.");
  return h("p", "Answers are written by ", h("strong", answer), problems.length ? ", which is not available, so answers are quoted from the documents." : ".");
}

/** What came of the question that a model was asked about a passage. */
export const trialText = ({ ms, answers, cites, reply }) => (answers ? `It answered in ${milliseconds(ms)}. ${cites ? "It cited the passage." : "It did not cite the passage; Refdesk will add citations to its answers."}` : `It did not answer from the given passage, but replied: “${reply.slice(0, 120)}”`);

const keyHint = ({ key, key_from: from, needs_key: needs }) => (key ? `saved (${key})${from === "environment" ? " in the environment" : ""}` : needs ? "required" : "if required");

function form(place, state, provider, model, changed) {
  const one = state.providers.find((known) => known.name === provider);
  const own = one.address_from === "provider" ? "" : one.base_url;
  const said = h("p.small", { role: "status" });
  const names = h("datalist", { id: "model-names" });
  const pick = h("select.field", { id: "provider", label: "Provider", onchange: () => show(place, state, changed, pick.value) }, options(state.providers.map(({ name }) => [name]), provider));
  const address = h("input.field", { id: "model-address", label: "Address", value: own, placeholder: one.default_base_url, spellcheck: "false", inputmode: "url" });
  const key = h("input.field", { id: "model-key", label: "API key", type: "password", autocomplete: "off", placeholder: keyHint(one) });
  const isFile = provider === "gguf"; // the model is a file on the server: no address, no key, no list
  const name = h("input.field", { id: "model-name", label: "Model", value: model, list: "model-names", spellcheck: "false", autocomplete: "off", placeholder: isFile ? "/path/to/model.gguf on the server" : "for example qwen2.5:14b" });
  const buttons = [];
  // What was not touched is not sent: the service then takes what it knows.
  const typed = () => ({ ...(address.value.trim() !== own ? { base_url: address.value.trim() } : {}), ...(key.value ? { api_key: key.value } : {}) });
  const note = (text, kind = "", ...more) => { said.className = `small ${kind}`; said.replaceChildren(text, ...more); };
  const busy = async (button, text, work) => {
    for (const each of buttons) each.disabled = true;
    note(text);
    try { await work(); } catch (error) { note(failureOf(error).text, "bad"); }
    for (const each of buttons) each.disabled = false;
    if (isLost() && button.isConnected) button.focus();
  };
  const button = (text, label, work, kind = "") => {
    const made = h("button.button", { class: kind, onclick: () => busy(made, label, work) }, text);
    buttons.push(made);
    return made;
  };
  const save = async (check) => {
    await send("POST", "/api/models/connect", { provider, ...typed(), model: name.value.trim(), check });
    toast("Saved. Applies to the next question.");
    await draw(place, changed, provider);
    await changed();
  };
  const connect = button("Save", "Testing the model…", async () => {
    try { await save(true); } catch (error) {
      note(`${failureOf(error).text} Nothing was saved. `, "bad", h("button.link", { onclick: () => busy(connect, "Saving…", () => save(false)) }, "Save anyway"));
    }
  }, "primary");
  const find = button("List models", "Loading models…", async () => {
    const found = await send("POST", "/api/models/list", { provider, ...typed() });
    names.replaceChildren(...found.models.map((value) => h("option", { value })));
    note(!found.is_listed ? "This provider does not list its models; enter the name." : found.models.length ? `${found.models.length} models: ${found.models.slice(0, 8).join(", ")}${found.models.length > 8 ? " …" : ""}` : "This provider has no models.", found.models.length ? "good" : "");
    name.focus();
  });
  const test = button("Test", "Testing…", async () => {
    if (!name.value.trim()) { note("Enter a model first.", ""); name.focus(); return; }
    const found = await send("POST", "/api/models/test", { model: `${provider}:${name.value.trim()}`, ...typed() });
    note(trialText(found), found.answers ? "good" : "bad");
  });
  const forget = one.key_from === "settings" || one.address_from === "settings" ? button("Delete address and key", "Removing…", async () => {
    await send("DELETE", url`/api/models/providers/${provider}`);
    await draw(place, changed, provider);
    await changed();
  }) : null;
  const field = (label, hint, ...rest) => h("label.stack", h("span", h("strong", label), " ", h("span", hint)), ...rest);
  return h("form.connect", { onsubmit: (event) => { event.preventDefault(); connect.click(); } },
    field("Provider", "", pick), field("Model", "", name, names), ...(isFile ? [] : [field("Address", "only if not the provider’s default", address), field("API key", "stored on the server, never shown again", key)]),
    h("div.row", connect, test, isFile ? null : find, forget), said);
}
