// Files on their way in: sent one after the other, then followed until they are ready or have failed.
import { failureOf, send, stream } from "./api.js";
import { h, icon, iconButton, retryWith, toast } from "./dom.js";

export function dropZone(add) {
  const picker = h("input", { type: "file", multiple: true, class: "hidden-text", tabindex: "-1", "aria-label": "Choose files", onchange: () => { add([...picker.files]); picker.value = ""; } });
  const zone = h("div.drop", {
    ondragover: (event) => { event.preventDefault(); zone.classList.add("over"); },
    ondragleave: () => zone.classList.remove("over"),
    ondrop: (event) => { event.preventDefault(); zone.classList.remove("over"); add([...event.dataTransfer.files]); },
  }, h("button.button", { type: "button", onclick: () => picker.click() }, icon("upload"), "Choose files"), picker, h("p.small", {}, "or drop them here, as many as you like"));
  return zone;
}

const SAYS = { sending: "Sending", pending: "Waiting", processing: "Being read", ready: "Ready", failed: "Failed" };

export class Uploading {
  constructor(changed, collection) {
    this.changed = changed;
    this.collection = collection;
    this.list = h("ul.uploads", { "aria-label": "Uploads", "aria-live": "polite" });
    this.rows = new Map();
    this.queue = [];
    this.ending = null;
  }

  add(files) {
    for (const file of files) {
      const key = `local-${this.rows.size}-${file.name}`;
      this.draw(key, { name: file.name, status: "sending" });
      this.queue.push({ file, key });
    }
    this.pump();
  }

  async pump() {
    if (this.sending) return;
    this.sending = true;
    for (let next = this.queue.shift(); next; next = this.queue.shift()) {
      const { file, key } = next;
      const form = new FormData();
      form.append("collection", this.collection());
      form.append("files", file, file.name);
      try {
        const { uploads } = await send("POST", "/api/documents", form);
        this.drop(key);
        for (const one of uploads) this.draw(one.id, one);
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

  stop() { this.ending?.abort(); }

  take(one) {
    const before = this.rows.get(one.id)?.dataset.status;
    if (one.status === "ready" && !before) return; // finished before this view was opened
    if (one.status !== before || one.status === "processing") this.draw(one.id, one);
    if (one.status !== before && before && (one.status === "ready" || one.status === "failed")) this.changed();
  }

  draw(key, one) {
    const total = (one.pages_total || 0) + (one.chunks_total || 0);
    const share = one.status === "ready" ? 1 : total ? ((one.pages_done || 0) + (one.chunks_done || 0)) / total : undefined;
    const busy = one.status !== "ready" && one.status !== "failed";
    const says = one.outcome === "unchanged" ? "Already here" : SAYS[one.status] || one.status;
    const row = h("li.upload", { "data-status": one.status, "data-name": one.name },
      h("div.row", {}, h("span", {}, one.name), h("span.tag", { class: { ready: "good", failed: "bad" }[one.status] || "" }, says),
        one.status === "failed" && one.id && iconButton("again", `Try ${one.name} again`, () => this.retry(one)),
        !busy && iconButton("close", `Take ${one.name} off this list`, () => this.forget(key, one))),
      busy && h("progress", { max: 1, value: share, "aria-label": `Progress of ${one.name}` }), one.reason && one.status === "failed" && h("p", {}, one.reason));
    const old = this.rows.get(key);
    if (old) old.replaceWith(row); else this.list.prepend(row);
    this.rows.set(key, row);
    if (one.status === "ready") setTimeout(() => { if (this.rows.get(key) === row) this.drop(key); }, 6000);
  }

  drop(key) {
    this.rows.get(key)?.remove();
    this.rows.delete(key);
  }

  async forget(key, one) {
    this.drop(key);
    if (one.id) await send("DELETE", `/api/uploads/${one.id}`).catch(() => {});
  }

  async retry(one) {
    const body = await retryWith(one.name, one.reason);
    if (!body) return;
    try { await send("POST", `/api/uploads/${one.id}/retry`, body); } catch (error) { toast(failureOf(error).text); }
  }
}
