// Access keys: who, with which role, for which collections.
import { copy } from "./answer.js";
import { get, send, url } from "./api.js";
import { ask, failureState, h, icon, iconButton, isLost, isSure, options, redraw, tell, when } from "./dom.js";

export async function keysGroup() {
  const section = h("section.group", { id: "g-keys", label: "Keys" });
  await draw(section);
  return section;
}

async function draw(section) {
  const head = h("div.row", h("h2.spread", { tabindex: "-1" }, "Keys"), h("button.button", { onclick: () => create(section) }, icon("plus"), "New key"));
  try {
    const keys = (await get("/api/keys")).keys.filter((key) => !key.revoked_at);
    redraw(section, [head, keys.length ? h("div.scroll", { tabindex: "0", role: "group", label: "Keys" }, table(keys, section)) : h("p.quiet", "There are no keys, so only this machine can use the library.")]);
  } catch (error) { redraw(section, [head, failureState(error, () => draw(section))]); }
  if (isLost()) section.querySelector("button").focus(); // its key is gone
}

function table(keys, section) {
  return h("table.plain-table", h("thead", h("tr", ["Name", "Role", "Collections", "Created", ""].map((name) => h("th", { scope: "col" }, name || h("span.hidden-text", "Actions"))))),
    h("tbody", keys.map((key) => h("tr", { "data-id": key.id }, h("td", key.name), h("td", key.role), h("td", key.collections?.length ? key.collections.join(", ") : "all"), h("td", when(key.created_at)), h("td", iconButton("pen", `Change ${key.name}`, () => change(key, section)), iconButton("bin", `Revoke ${key.name}`, () => revoke(key, section)))))));
}

/** Asks who may do what and does `work` with it; a refusal leaves all that was typed where it is. */
function describe(title, yes, work, key = {}) {
  const name = h("input.field", { required: true, maxlength: 80, value: key.name });
  const role = h("select.field", options([["reader"], ["editor"], ["admin"]], key.role));
  const places = h("input.field", { placeholder: "all; or finance, hr/2024", value: key.collections?.join(", ") });
  const list = () => places.value.split(",").map((one) => one.trim()).filter(Boolean);
  return ask(title, h("div", h("label.stack", "Name", name), h("br"), h("label.stack", "Role", role), h("br"), h("label.stack", "Collections", places)), yes,
    { read: () => work({ name: name.value.trim(), role: role.value, collections: places.value === places.defaultValue ? (key.collections ?? null) : list().length ? list() : null }) });
}

async function change(key, section) {
  if (await describe(`Key for ${key.name}`, "Change", (wanted) => send("PATCH", url`/api/keys/${key.id}`, wanted), key)) await draw(section);
}

async function create(section) {
  const made = await describe("New key", "Create key", (wanted) => send("POST", "/api/keys", wanted));
  if (!made) return;
  const secret = made.secret || made.key;
  const button = h("button.button", { onclick: () => copy(secret) }, icon("copy"), "Copy"); // has the focus
  await ask("The new key", h("div", h("p", "It is shown only once. Copy it now and share it securely."), h("p.secret", secret), button), "Done", { no: "" });
  await draw(section);
}

async function revoke(key, section) {
  if (!(await isSure(`Revoke the key for “${key.name}”?`, "It stops working immediately.", "Revoke"))) return;
  try { await send("DELETE", url`/api/keys/${key.id}`); } catch (error) { tell(error); }
  await draw(section);
}
