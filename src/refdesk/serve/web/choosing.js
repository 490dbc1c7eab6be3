// Selecting several documents in the list, to move or delete them together.
import { send } from "./api.js";
import { ask, byId, h, isSure, many } from "./dom.js";

export class Choosing {
  /** `act(work, said, change)` does it and draws the list anew; `places` gives the names of the collections. */
  constructor(list, act, places) {
    Object.assign(this, { list, act, places, ids: new Set() });
    this.count = h("strong", { role: "status" });
    const button = (text, onclick) => h("button.link", { onclick }, text);
    this.bar = h("div.row.chosen", { role: "group", label: "Selected documents", hidden: true }, this.count, button("Select all shown", () => this.set(true)), button("Move", () => this.move()), button("Delete", () => this.remove()), button("Select none", () => this.set(false)));
  }

  box(one) {
    const box = h("input", { type: "checkbox", label: `Select ${one.name}`, onchange: () => { this.ids[box.checked ? "add" : "delete"](one.id); this.show(); } });
    box.checked = this.ids.has(one.id);
    return box;
  }

  set(all) {
    for (const box of this.list.querySelectorAll("[data-id] > [type=checkbox]")) {
      box.checked = all;
      this.ids[all ? "add" : "delete"](box.parentElement.dataset.id);
    }
    this.show();
    if (!all) this.list.querySelector("[type=checkbox]")?.focus();
  }

  /** What is no longer in the list is no longer chosen: nobody deletes what he does not see. */
  keep() {
    const shown = new Set([...this.list.children].map((row) => row.dataset.id));
    for (const id of this.ids) if (!shown.has(id)) this.ids.delete(id);
    this.show();
  }

  show() {
    this.bar.hidden = !this.ids.size;
    this.count.textContent = `${many(this.ids.size)} selected`;
  }

  async move() {
    const collection = await askPlace(`Move ${many(this.ids.size)}`, "Collection", "", this.places());
    if (collection) await this.done("move", { collection }, `Moved to ${collection}.`);
  }

  async remove() {
    if (!(await isSure(`Delete ${many(this.ids.size)}?`, "They can no longer be searched or cited. Your original files are not affected."))) return;
    await this.done("delete", {}, "Deleted.");
  }

  async done(what, more, said) {
    const ids = [...this.ids];
    await this.act(send("POST", `/api/documents/${what}`, { documents: ids, ...more }), said, { isOne: (one) => ids.includes(one.id), isGone: what === "delete" });
    if (this.bar.hidden) byId("find")?.focus(); // the button that had it is gone
  }
}

export function placeField(value, places) {
  const field = h("input.field", { value, required: true, maxlength: 255, placeholder: "finance/2024", list: "places" });
  return [field, h("datalist", { id: "places" }, places.map((name) => h("option", { value: name })))];
}

export function askPlace(title, label, value, places, ...more) {
  const [field, list] = placeField(value, places);
  return ask(title, h("div", h("label.stack", label, field), list, ...more), "Save", { read: () => field.value.trim() });
}
