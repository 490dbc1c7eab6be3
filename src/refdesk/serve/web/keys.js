// Keys: who may come in, as what, to which collections.
import { failureOf, get, send } from "./api.js";
import { ask, failureState, h, icon, iconButton, toast, when } from "./dom.js";

export async function keysGroup() {
  const section = h("section.group", { id: "g-keys", "aria-label": "Keys" });
  await draw(section);
  return section;
}

async function draw(section) {
  const head = h("div.row", {}, h("h2.spread", { tabindex: "-1" }, "Keys"), h("button.button", { type: "button", onclick: () => create(section) }, icon("plus"), "New key"));
  try {
    const found = await get("/api/keys");
    const keys = found.keys.filter((key) => !key.revoked_at);
    section.replaceChildren(head, keys.length ? h("div.scroll", { tabindex: "0", role: "group", "aria-label": "Keys" }, table(keys, section)) : h("p.quiet", {}, "There is no key, so this library is open to whoever sits at this machine, and to nobody else."));
  } catch (error) { section.replaceChildren(head, failureState(failureOf(error), () => draw(section))); }
}

function table(keys, section) {
  return h("table.plain-table", {}, h("thead", {}, h("tr", {}, ["Name", "Role", "Collections", "Made", ""].map((name) => h("th", { scope: "col" }, name || h("span.hidden-text", {}, "Actions"))))),
    h("tbody", {}, keys.map((key) => h("tr", {}, h("td", {}, key.name), h("td", {}, key.role), h("td", {}, key.collections?.length ? key.collections.join(", ") : "all"), h("td", {}, when(key.created_at)), h("td", {}, iconButton("pen", `Change ${key.name}`, () => change(key, section)), iconButton("bin", `Withdraw ${key.name}`, () => revoke(key, section)))))));
}

function describe(title, yes, key = {}) {
  const name = h("input.field", { required: true, maxlength: 80, value: key.name });
  const role = h("select.field", {}, ["reader", "editor", "admin"].map((one) => h("option", { selected: one === key.role }, one)));
  const places = h("input.field", { placeholder: "all; or finance, hr/2024", value: key.collections?.join(", ") });
  const list = () => places.value.split(",").map((one) => one.trim()).filter(Boolean);
  return ask(title, h("div", {}, h("label.stack", {}, "Name", name), h("br"), h("label.stack", {}, "Role", role), h("br"), h("label.stack", {}, "Collections", places)), yes,
    { read: () => ({ name: name.value.trim(), role: role.value, collections: places.value === places.defaultValue ? (key.collections ?? null) : list().length ? list() : null }) });
}

async function change(key, section) {
  const wanted = await describe(`The key of ${key.name}`, "Change", key);
  if (!wanted) return;
  try { await send("PATCH", `/api/keys/${encodeURIComponent(key.id)}`, wanted); } catch (error) { toast(failureOf(error).text); }
  await draw(section);
}

async function create(section) {
  const wanted = await describe("New key", "Make the key");
  if (!wanted) return;
  try {
    const made = await send("POST", "/api/keys", wanted);
    await ask("The new key", h("div", {}, h("p", {}, "It is shown this once. Hand it over in a safe way."), h("p.secret", {}, made.secret || made.key)), "Done");
  } catch (error) { toast(failureOf(error).text); }
  await draw(section);
}

async function revoke(key, section) {
  if (!(await ask(`Withdraw the key of “${key.name}”?`, h("p", {}, "Whoever holds it is turned away from now on."), "Withdraw", { danger: true }))) return;
  try { await send("DELETE", `/api/keys/${encodeURIComponent(key.id)}`); } catch (error) { toast(failureOf(error).text); }
  await draw(section);
}
