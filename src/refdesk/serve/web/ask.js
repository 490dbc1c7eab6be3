// Asking: the box, the stages while it works, the text as it comes, the whole conversation.
import { arrive, failureOf, get, may, send, stream } from "./api.js";
import { around, offerList, readAs, rendered, showBody } from "./answer.js";
import { bones, failureState, h, icon, toast, trusted } from "./dom.js";
import { pickScope, scopeFields, scopeName } from "./scope.js";
import { markTalk, showTalks } from "./talks.js";

const LEVELS = { "": "Level: as set", basic: "Basic", standard: "Standard", enhanced: "Enhanced", maximum: "Maximum" };
const MODES = { "": "Checks: as set", quick: "Quick", standard: "Second look", thorough: "Thorough", general: "Without documents" };
const EXAMPLES = ["What caused the drift of the pressure sensors?", "How long does the battery of the WB-7 buoy last?", "What does Skerry pay each year for the use of the seabed?"];
const RENDER_EVERY_MS = 250;

let session = null; // {id, main, thread, box, running, scope}

/** A conversation that has just got its address is on the screen already. */
export const stays = ([id]) => Boolean(session && id && session.id === id && session.main.contains(session.thread));

export async function show(main, [id]) {
  const mine = { id: id || "", main, running: null, scope: session?.scope || { collections: [], documents: [] } };
  session = mine;
  mine.thread = h("div.thread", { role: "log", "aria-label": "Conversation" });
  if (id) {
    main.replaceChildren(mine.thread, composer(mine));
    mine.thread.append(bones());
    if (matchMedia("(min-width: 821px)").matches) mine.box.focus();
    await reopen(mine, id);
  } else {
    await begin(mine);
  }
  return () => { mine.running?.abort(); };
}

// an empty conversation, an empty library

async function begin(mine) {
  const again = (question, options) => put(mine, question, options);
  const intro = h("div.begin", {}, h("h1", {}, "What would you like to know?"), h("p", {}, " "));
  mine.main.classList.add("blank");
  mine.main.replaceChildren(intro, composer(mine));
  if (matchMedia("(min-width: 821px)").matches) mine.box.focus();
  const [{ total }, { collections }] = await Promise.all([get("/api/documents?limit=1"), get("/api/collections"), arrive()]);
  if (!intro.isConnected) return; // asked in the meantime
  if (total) {
    const examples = collections.some((one) => one.name === "examples") ? offerList(EXAMPLES, again) : null;
    intro.replaceWith(h("div.begin", {}, h("h1", {}, "What would you like to know?"),
      h("p", {}, `${total === 1 ? "One document is" : `${total.toLocaleString("en-GB")} documents are`} on the desk. Every sentence of an answer points at the lines that prove it.`), examples));
    return;
  }
  const add = h("button.button.primary", { type: "button", onclick: () => addExamples(mine, add) }, "Add the example documents");
  intro.replaceWith(h("div.begin.start", {}, h("h1", {}, "The desk is empty"),
    h("p", {}, "Add documents, then ask. Answers come with the page and the exact lines that prove them."),
    may("editor") ? h("p", {}, h("span.row", {}, add, h("a.button", { href: "#/documents" }, icon("upload"), "Add your own"))) : h("p.notice", {}, "Nothing has been added that you may read yet."),
    h("div.more", {}, h("h3", {}, "Three questions to try with the examples"), offerList(EXAMPLES, again))));
}

async function addExamples(mine, button) {
  button.disabled = true;
  button.replaceChildren(h("span.spinner"), "Adding…");
  try {
    const { added } = await send("POST", "/api/examples");
    toast(`${added} documents were added.`);
    await begin(mine);
  } catch (error) {
    button.disabled = false;
    button.replaceChildren("Try again");
    toast(failureOf(error).text);
  }
}

async function reopen(mine, id) {
  const path = `/api/conversations/${encodeURIComponent(id)}/messages`;
  const found = await get(path);
  const messages = found.messages;
  const answers = await Promise.all(messages.map((one) => (one.answer_id ? get(`/api/answers/${one.answer_id}`).catch(() => null) : null)));
  if (session !== mine) return;
  mine.thread.replaceChildren();
  let turn = null;
  for (const [at, message] of messages.entries()) {
    if (message.role === "user") turn = newTurn(mine, message.content);
    else if (turn) {
      const answer = answers[at];
      if (answer) await finish(mine, turn, answer);
      else turn.body.replaceChildren(h("p", {}, message.content));
    }
  }
  mine.main.scrollTop = mine.main.scrollHeight;
}

// the box

function composer(mine) {
  const box = h("textarea", { id: "question", rows: 1, maxlength: 8000, placeholder: "Ask your documents", "aria-label": "Question", "aria-keyshortcuts": "/ Control+K", oninput: grow, onkeydown: (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); form.requestSubmit(); }
  } });
  function grow() { box.style.height = "auto"; box.style.height = `${box.scrollHeight}px`; button(); }
  const select = (name, label, choices) => {
    const one = h("select.pick", { "aria-label": label, onchange: () => { mine[name] = one.value; } }, Object.entries(choices).map(([value, text]) => h("option", { value }, text)));
    return one;
  };
  const scope = h("button.pick", { type: "button", "aria-haspopup": "dialog", onclick: async () => { await pickScope(mine.scope); scope.textContent = scopeName(mine.scope); } }, scopeName(mine.scope));
  const go = h("button.send", { type: "submit" });
  function button() {
    const busy = Boolean(mine.running);
    go.replaceChildren(icon(busy ? "stop" : "up"));
    go.setAttribute("aria-label", busy ? "Stop" : "Ask");
    go.disabled = !busy && !box.value.trim();
  }
  const form = h("form.composer", { role: "search", "aria-label": "Ask", onsubmit: (event) => {
    event.preventDefault();
    if (mine.running) mine.running.abort();
    else if (box.value.trim()) { const question = box.value.trim(); box.value = ""; grow(); put(mine, question); }
  } }, h("div.box", {}, box, h("div.row", {}, scope, select("level", "Level", LEVELS), select("mode", "Checks", MODES), h("span.spread"), go)));
  mine.box = box;
  mine.form = form;
  mine.button = button;
  button();
  return form;
}

// a question and its answer

function newTurn(mine, question) {
  const turn = { question, stages: h("ol.stages", { "aria-label": "Progress" }), body: h("div.answer", { "aria-live": "polite", "aria-busy": "false" }), notes: h("div"), before: h("div") };
  turn.element = h("article.turn", {}, h("h2.asked", { class: question.length > 160 ? "long" : "" }, question), turn.stages, turn.before, turn.body, turn.notes);
  mine.thread.append(turn.element);
  return turn;
}

const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

async function put(mine, question, { verbatim = false } = {}) {
  if (mine.running) return;
  if (!mine.thread.isConnected) {
    mine.main.classList.remove("blank");
    mine.main.replaceChildren(mine.thread, mine.form);
  }
  const fresh = !mine.id;
  mine.id ||= newId();
  const turn = newTurn(mine, question);
  mine.running = new AbortController();
  mine.button();
  turn.body.setAttribute("aria-busy", "true");
  turn.element.scrollIntoView({ block: "start", behavior: "smooth" });
  try {
    await follow(mine, turn, { message: question, session_id: mine.id, verbatim, ...(mine.level ? { intelligence_level: mine.level } : {}), ...(mine.mode ? { mode: mine.mode } : {}), ...scopeFields(mine.scope) });
  } catch (error) {
    if (mine.running.signal.aborted) stopped(turn);
    else failed(mine, turn, failureOf(error), { verbatim });
  }
  mine.running = null;
  turn.body.setAttribute("aria-busy", "false");
  mine.button();
  if (fresh && session === mine && mine.thread.isConnected) history.replaceState(null, "", `#/ask/${mine.id}`);
  await showTalks();
  markTalk();
}

async function follow(mine, turn, request) {
  const writing = writer(turn.body);
  const signal = mine.running.signal;
  for await (const { type, data } of stream("/api/chat/stream", request, { signal, isLast: (one) => one === "done" || one === "error" })) {
    if (type === "thinking") stage(turn, data.text || data.step);
    else if (type === "sources") turn.element.dataset.sources = data.citations.length;
    else if (type === "content") writing.add(data.token);
    else if (type === "replace") { writing.set(data.content); if (data.reason) turn.before.replaceChildren(h("p.notice", {}, data.reason)); }
    else if (type === "verification") { if (data.status === "checking") stage(turn, "Asking for a second look"); }
    else if (type === "error") { failed(mine, turn, failureOfEvent(data), request); return; }
    else if (type === "done") { writing.end(); await finish(mine, turn, data.answer); }
  }
}

const failureOfEvent = (data) => ({ text: `${data.message}${data.hint ? `: ${data.hint}` : ""}.`, retryable: data.retryable });

function stage(turn, text) {
  for (const one of turn.stages.querySelectorAll(".now")) one.replaceWith(h("li.done", {}, icon("check"), one.textContent));
  turn.stages.append(h("li.now", {}, h("span.spinner", { "aria-hidden": "true" }), text));
}

/** Text as it streams: rendered by the service a few times a second, in between the newest words as they are. */
function writer(body) {
  let text = "";
  let done = "";
  let timer = 0;
  let ended = false;
  const tail = document.createTextNode("");
  body.classList.add("streaming");
  const show = () => {
    let last = body.lastElementChild;
    while (last?.matches("ul, ol, table, tbody, blockquote, .wide")) last = last.lastElementChild || last.parentElement;
    if (!last) body.append((last = h("p")));
    tail.data = text.slice(done.length);
    if (tail.parentNode !== last || last.lastChild !== tail) last.append(tail);
  };
  const render = async () => {
    timer = 0;
    const part = text;
    try {
      const html = await rendered(part);
      if (ended || !text.startsWith(part)) return;
      done = part;
      body.replaceChildren(trusted(html));
      show();
    } catch { /* the next round, or the end, shows it */ }
    if (!ended && text !== part) timer ||= setTimeout(render, RENDER_EVERY_MS);
  };
  return {
    add(token) { text += token; show(); timer ||= setTimeout(render, RENDER_EVERY_MS); },
    set(content) { text = content; done = ""; body.replaceChildren(); show(); },
    end() { ended = true; clearTimeout(timer); },
  };
}

async function finish(mine, turn, answer) {
  const again = (question, options) => put(mine, question, options);
  turn.stages.remove();
  await showBody(turn.body, answer);
  const read = readAs(answer, again);
  if (read) turn.before.replaceChildren(read);
  turn.notes.replaceChildren(...around(answer, again));
  turn.element.dataset.answer = answer.id;
}

function stopped(turn) {
  turn.stages.remove();
  turn.body.classList.remove("streaming");
  turn.notes.replaceChildren(h("p.notice", {}, "You stopped this answer."));
}

function failed(mine, turn, failure, options) {
  turn.stages.remove();
  turn.body.classList.remove("streaming");
  turn.notes.replaceChildren(failureState(failure, () => { turn.element.remove(); put(mine, turn.question, options); }));
}
