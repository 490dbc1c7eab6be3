// Uploads: sent one after the other, then followed until they are ready or failed.
import { failureOf, send, stream } from "./api.js";
import { h, icon, iconButton, many, needsPassword, number, retryWith, say, tell, toast, whyOf } from "./dom.js";

/** Where files are chosen; `more` stands beside the button. */
export function dropZone(add, more) {
  const picker = h("input", { type: "file", multiple: true, hidden: true, label: "Choose files", onchange: () => { add([...picker.files]); picker.value = ""; } });
  return h("div.drop", h("div.row", h("button.button", { onclick: () => picker.click() }, icon("upload"), "Choose files"), more), picker, h("p.small"));
}

/** Files that are dropped anywhere on `view` are taken; the zone shows that they would be. */
export function takeDrops(view, add) {
  const over = (event, is) => {
    if (!event.dataTransfer.types.includes("Files")) return; // text, for the search
    event.preventDefault();
    view.querySelector(".drop").classList.toggle("over", is);
  };
  view.addEventListener("dragover", (event) => over(event, true));
  view.addEventListener("dragleave", (event) => over(event, false));
  view.addEventListener("drop", (event) => {
    over(event, false);
    const items = [...event.dataTransfer.items].filter((item) => item.kind === "file");
    const files = items.filter((item) => !item.webkitGetAsEntry()?.isDirectory);
    if (files.length < items.length) toast("Folders cannot be dropped here. Drop the files inside them instead.");
    add(files.map((item) => item.getAsFile()));
  });
}

const ORDER = { failed: 0, processing: 1, pending: 2, sending: 3, ready: 4 }; // what needs someone comes first
const isDone = (status) => status === "ready" || status === "failed";
const SETTLE_MS = 400; // sixty files that become ready one after the other do not ask for the list sixty times
export const SAYS = { sending: "Sending", pending: "Waiting", processing: "Processing", ready: "Ready", failed: "Failed" };

export class Uploading {
  constructor(changed, collection) {
    Object.assign(this, { changed, collection, rows: new Map(), queue: [], ending: null });
    this.count = 0; // of this batch, those that have left the list included
    this.head = h("div.uploads-head", { hidden: true });
    this.rowList = h("ul.uploads", { label: "Uploads", tabindex: "0" });
    this.list = h("div", this.head, this.rowList);
  }

  add(files) {
    if (files.length) this.list.parentElement?.querySelector(".empty")?.remove();
    for (const file of files) {
      const key = `local-${(this.count += 1)}-${file.name}`;
      this.draw(key, { name: file.name, status: "sending" });
      this.queue.push({ file, key, place: this.collection() }); // another folder may be open when its turn comes
    }
    this.pump();
  }

  async pump() {
    if (this.sending) return;
    this.sending = true;
    for (let next = this.queue.shift(); next; next = this.queue.shift()) {
      const { file, key, place } = next;
      const form = new FormData();
      form.append("collection", place);
      form.append("files", file, file.name);
      try {
        const { uploads } = await send("POST", "/api/documents", form);
        this.drop(key);
        for (const upload of uploads) if (!this.rows.has(upload.id)) this.draw(upload.id, upload); // its events may have been quicker
      } catch (error) {
        this.draw(key, { name: file.name, status: "failed", reason: failureOf(error).text });
      }
      this.watch();
    }
    this.sending = false;
  }

  /** Follows the service's events; quietly again after a pause when the connection is lost. */
  async watch() {
    if (this.ending) return;
    this.ending = new AbortController();
    const { signal } = this.ending;
    while (!signal.aborted) {
      try {
        for await (const { data } of stream("/api/uploads/events", undefined, { signal })) this.take(data);
      } catch (error) {
        if (signal.aborted || error.status) return; // left, or refused
      }
      await new Promise((resolve) => setTimeout(resolve, 3000));
    }
  }

  stop() {
    clearTimeout(this.timer);
    this.ending?.abort();
  }

  take(upload) {
    const before = this.rows.get(upload.id)?.dataset.status;
    if (upload.status === "gone") { this.drop(upload.id); this.settle(); return; }
    if (upload.status === "ready" && !before) return; // finished before this view was opened
    if (upload.status !== before || upload.status === "processing") this.draw(upload.id, upload);
    if (upload.status !== before && before && isDone(upload.status)) this.settle();
  }

  /** The library has changed; said once when several files are ready together. */
  settle() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.changed(), SETTLE_MS);
  }

  draw(key, upload) {
    const total = (upload.pages_total || 0) + (upload.chunks_total || 0);
    const share = upload.status === "ready" ? 1 : total ? ((upload.pages_done || 0) + (upload.chunks_done || 0)) / total : undefined;
    const busy = !isDone(upload.status);
    const says = upload.outcome === "unchanged" ? "Already here" : SAYS[upload.status] || upload.status;
    const failed = upload.status === "failed";
    const row = h("li.upload", { "data-status": upload.status, "data-name": upload.name },
      h("div.row", h("span", { title: upload.name }, upload.name), h("span.tag", { class: { ready: "good", failed: "bad" }[upload.status] || "" }, says),
        failed && upload.id && !needsPassword(upload.reason) && iconButton("again", `Try ${upload.name} again`, () => this.retry(upload)),
        (upload.id || !busy) && iconButton("close", busy ? `Cancel ${upload.name}` : `Remove ${upload.name} from the list`, () => this.forget(key, upload))),
      busy && h("progress", { max: 1, value: share, label: `Progress of ${upload.name}` }),
      failed && upload.reason && h("p", whyOf(upload.reason), " ", upload.id && needsPassword(upload.reason) && h("button.link", { onclick: () => this.retry(upload) }, "Enter password")));
    this.place(key, row);
    if (upload.status === "ready") setTimeout(() => { if (this.rows.get(key) === row) this.drop(key); }, 6000);
  }

  /** Rows in the order of their status; within one status as they came. */
  place(key, row) {
    const old = this.rows.get(key);
    const held = old?.contains(document.activeElement);
    if (old?.dataset.status === row.dataset.status) old.replaceWith(row);
    else {
      old?.remove();
      const at = ORDER[row.dataset.status] ?? 2;
      const next = [...this.rowList.children].find((other) => (ORDER[other.dataset.status] ?? 2) > at);
      this.rowList.insertBefore(row, next || null);
    }
    this.rows.set(key, row);
    if (held) row.querySelector("button")?.focus();
    this.sum();
  }

  /** One line over all of them, spoken when the last one is done. */
  sum() {
    const all = [...this.rows.values()].map((row) => row.dataset.status);
    const failed = all.filter((status) => status === "failed").length;
    const left = all.filter((status) => !isDone(status)).length;
    this.most = left ? Math.max(this.most || 0, left) : 0;
    const text = [left && `${many(left, "file")} to go`, failed && `${number(failed)} failed`].filter(Boolean).join(", ");
    this.head.hidden = all.length < 2 || !text;
    const whole = left > 1 && h("progress", { max: this.most, value: this.most - left, label: "All files" });
    const clear = !left && failed > 1 && h("button.link", { onclick: () => this.clear() }, "Clear the list");
    this.head.replaceChildren(...[h("p.spread", text), clear, whole].filter(Boolean));
    if (!left && this.wasBusy) say(failed ? `Finished, ${failed} failed` : "All files are ready");
    this.wasBusy = left > 0;
  }

  isBusy() { return [...this.rows.values()].some((row) => !isDone(row.dataset.status)); }

  clear() {
    for (const [key, row] of [...this.rows]) if (row.dataset.status === "failed") this.forget(key, { id: key.startsWith("local-") ? "" : key });
  }

  drop(key) {
    this.rows.get(key)?.remove();
    this.rows.delete(key);
    this.sum();
  }

  async forget(key, upload) {
    this.drop(key);
    if (upload.id) await send("DELETE", `/api/uploads/${upload.id}`).catch(tell);
  }

  async retry(upload) {
    const body = await retryWith(upload.name, upload.reason);
    if (!body) return;
    try { await send("POST", `/api/uploads/${upload.id}/retry`, body); } catch (error) { tell(error); }
  }
}
