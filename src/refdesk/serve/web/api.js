// Calls to the service: JSON in and out, one kind of error, and event streams.

/** What went wrong, for people: `text` holds the message and what to do. */
export class Failure extends Error {
  constructor(status, body) {
    const message = body.message || `The service answered with ${status}.`;
    super(message);
    this.status = status;
    this.code = body.code || "";
    this.retryable = Boolean(body.retryable);
    const isName = /^\S*[._:]\S/.test(message); // rag.top_k and openai:gpt-4o stay as they are written
    const first = (isName ? message.charAt(0) : message.charAt(0).toUpperCase()) + message.slice(1).replace(/\.$/, "");
    this.text = body.hint ? `${first}: ${body.hint}.` : `${first}.`;
  }
}

export function failureOf(error) {
  if (error instanceof Failure) return error;
  if (!/fetch|network|import/i.test(error.message)) console.error(error); // a defect of the page itself
  return new Failure(0, { message: "The service cannot be reached", hint: "check that it is running, then try again", retryable: true });
}

let leaving = false;

async function checked(response) {
  if (response.ok) return response;
  let body = {};
  try { body = await response.json(); } catch { /* not one of ours */ }
  if (response.status === 401 && location.pathname !== "/sign-in" && !leaving) {
    leaving = true; // several requests may be refused at once
    location.assign(`/sign-in${me.id ? "?ended" : ""}${location.hash}`);
  }
  throw new Failure(response.status, body.error && typeof body.error === "object" ? body.error : body);
}

/** A header that no other site can send without being asked first keeps forged requests out. */
const OURS = { "X-Refdesk": "1" };

export async function get(path) {
  return (await checked(await fetch(path, { headers: { Accept: "application/json" } }))).json();
}

export async function send(method, path, body) {
  const form = body instanceof FormData;
  const headers = form || body === undefined ? OURS : { ...OURS, "Content-Type": "application/json" };
  const response = await checked(await fetch(path, { method, headers, body: form ? body : JSON.stringify(body) }));
  if (path.startsWith("/api/settings")) arrived = null; // there may be a model now
  return response.status === 204 ? null : response.json();
}

/** Events of a server-sent stream as {id, event, data}; comments (heartbeats) are passed over. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      buffer = (buffer + value).replace(/\r\n?/g, "\n");
      let at;
      while ((at = buffer.indexOf("\n\n")) >= 0) {
        const one = parse(buffer.slice(0, at));
        buffer = buffer.slice(at + 2);
        if (one.data) yield one;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parse(block) {
  const found = { id: "", event: "message", data: "" };
  for (const line of block.split("\n")) {
    const [, name, value] = line.match(/^(\w+): ?(.*)$/) || [];
    if (name === "data") found.data += (found.data ? "\n" : "") + value;
    else if (name === "id" || name === "event") found[name] = value;
  }
  return found;
}

/** A stream whose work was ended because nobody listened, or which broke twice. */
export const CUT = { message: "the answer was interrupted", hint: "ask again", retryable: true };

/** A stream by POST (or GET), taken up again once where it broke; ends when `isLast` says so or `signal` aborts.
 *  `last`: the event after which it goes on; `begun` is told the id of the first event. */
export async function* stream(path, body, { signal, isLast = () => false, last = "", begun = () => {} } = {}) {
  let isNew = true;
  for (let tries = 0; ; tries += 1) {
    try {
      const headers = { Accept: "text/event-stream", ...(last ? { "Last-Event-ID": last } : {}) };
      const options = body === undefined ? { headers, signal }
        : { method: "POST", headers: { ...headers, ...OURS, "Content-Type": "application/json" }, body: JSON.stringify(body), signal };
      const response = await checked(await fetch(path, options));
      for await (const one of events(response)) {
        last = one.id || last;
        if (isNew && one.id) begun(one.id);
        isNew = false;
        const data = JSON.parse(one.data);
        const type = one.event === "message" ? data.type : one.event;
        yield { type, data: data.type === type ? data.data : data };
        if (isLast(type)) return;
      }
    } catch (error) {
      if (error instanceof Failure || signal?.aborted) throw error;
      if (tries > 0) throw failureOf(error);
    }
    if (signal?.aborted) return;
    if (tries > 0) throw new Failure(0, CUT);
    await new Promise((resolve) => setTimeout(resolve, 400));
  }
}

export const me = { name: "", role: "reader", id: "" };
let arrived = null;
/** Who is here; asked once, and whoever needs to know waits for it. */
export const arrive = () => (arrived ??= get("/api/me").then((found) => Object.assign(me, found), (error) => { arrived = null; throw error; }));
const ROLES = ["reader", "editor", "admin"];
export const may = (role) => ROLES.indexOf(me.role) >= ROLES.indexOf(role);
/** An address whose parts may hold anything: url`/api/collections/${"a/b"}` */
export const url = (texts, ...parts) => String.raw({ raw: texts }, ...parts.map(encodeURIComponent));
export const query = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value !== "" && value != null)).toString();
