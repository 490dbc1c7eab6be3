// Asking: the box, the stages while it works, the text as it comes, the whole conversation.
import { arrive, CUT, Failure, failureOf, get, may, me, send, stream, url } from "./api.js";
import { around, offerList, readAs, showBody } from "./answer.js";
import { keepMarker } from "./chips.js";
import { bones, calmly, emptyState, failureState, h, icon, iconButton, isLost, many, options, say, tell, toast } from "./dom.js";
import { draft, dropRunning, keepDraft, keepQueue, keepRunning, leftOver, queued } from "./running.js";
import { dropGone, pickScope, scopeFields, scopeName } from "./scope.js";
import { attachment, thumbnails } from "./pictures.js";
import { deleted, pending, showTalks } from "./talks.js";
import { writer } from "./writer.js";

const LEVELS = { "": "Level", basic: "Basic", standard: "Standard", enhanced: "Enhanced", maximum: "Maximum" };
const CHECKS = { "": "Checks", quick: "Quick", standard: "Second look", thorough: "Thorough" };
const MODES = { "": "Mode", agent: "Agent", report: "Report", vision: "Vision", general: "Without documents" };
const NEEDS_MODEL = ["vision", "general"]; // without one, nobody would look or answer
const ABOUT = {
  level: "How thoroughly to search. Basic: 5 passages by meaning. Standard: by words and meaning. Enhanced: also by names and follow-up searches. Maximum: all engines, several drafts",
  checks: "How the answer is checked. Quick: built-in check. Second look: by another model. Thorough: disputes are resolved",
  mode: "How the question is answered. Agent: several searches. Report: a long answer with sections. Vision: pages as images. Without documents: by the model alone",
  model: "The model that writes the answer",
};
const STOP_MS = 3000;
const EXAMPLES = ["What caused the drift of the pressure sensors?", "How long does the battery of the WB-7 buoy last?", "What does Skerry pay each year for the use of the seabed?"];

let session = null; // {id, main, thread, box, form, running, isStopped, queue, scope, level, mode, checks, model}
const live = new Map(); // conversations the service does not know all of: an answer on its way, a question without one
const wide = matchMedia("(min-width: 821px)");

/** A conversation that has just got its address is on the screen already. */
export const stays = ([id]) => Boolean(session && id && session.id === id && session.main.contains(session.thread));

export async function show(main, [id]) {
  const known = !deleted.has(id) && live.get(id);
  const { scope = { collections: [], documents: [] }, level = "", mode = "", checks = "", model = "" } = session || {};
  const mine = known || { id: id || "", main, running: null, queue: id ? queued(id) : [], scope, level, mode, checks, model };
  session = mine;
  if (known) {
    main.replaceChildren(mine.thread, mine.form);
    mine.thread.lastElementChild?.scrollIntoView();
    settle(mine);
    return;
  }
  mine.thread = h("section.thread", { label: "Conversation", tabindex: "-1" });
  if (id) {
    main.replaceChildren(mine.thread, composer(mine));
    mine.thread.append(bones());
    if (wide.matches) mine.box.focus();
    await reopen(mine, id);
  } else {
    await begin(mine);
  }
}

/** An answer that stands in the service's conversation need not be kept here. */
function settle(mine) {
  if (!mine.running && !mine.queue.length && !mine.thread.querySelector("[data-unanswered]")) live.delete(mine.id);
}

/** For a focus that is lost: into the box, but on a phone that would open the keyboard. */
const takeFocus = (mine) => (wide.matches ? mine.box : mine.thread).focus({ preventScroll: true });

// an empty conversation, an empty library

async function begin(mine) {
  const again = put.bind(null, mine);
  const intro = h("div.begin", h("h1", "What would you like to know?"), h("p", " "));
  mine.main.classList.add("blank");
  mine.main.replaceChildren(intro, composer(mine));
  if (wide.matches) mine.box.focus();
  const [{ total }, { collections }] = await Promise.all([get("/api/documents?limit=1"), get("/api/collections"), arrive()]);
  if (!intro.isConnected) return; // asked in the meantime
  if (total) {
    intro.lastChild.textContent = `${many(total)} in the library. Every sentence of an answer links to the lines it is based on.`;
    if (collections.some((one) => one.name === "examples")) intro.append(offerList(EXAMPLES, again));
    return;
  }
  const add = h("button.button.primary", { onclick: () => addExamples(mine, add) }, "Add the example documents");
  const mayTry = may("editor") && (me.collections?.includes("examples") ?? true);
  const first = async (question) => { if (!add.disabled && (await addExamples(mine, add))) put(mine, question); };
  intro.replaceWith(h("div.begin.start", h("h1", "The library is empty"),
    h("p", "Add documents, then ask. Every answer shows the page and the exact lines behind it."),
    may("editor") ? h("p", h("span.row", mayTry && add, h("a.button", { href: "#/documents" }, icon("upload"), "Add your own"))) : h("p.notice", "There are no documents you can read yet."),
    mayTry && h("div.more", h("h3", "Or try one of these questions (adds the examples first)"), offerList(EXAMPLES, first))));
}

async function addExamples(mine, button) {
  button.disabled = true;
  button.replaceChildren(h("span.spinner"), "Adding…");
  try {
    const { added } = await send("POST", "/api/examples");
    toast(`${added} documents were added.`);
    if (button.isConnected) await begin(mine);
    return true;
  } catch (error) {
    button.disabled = false;
    button.replaceChildren("Try again");
    tell(error);
    return false;
  }
}

/** A conversation from the service. An answer that is being written, for this tab before it was reloaded or for
 *  another one, is followed from its first word. */
async function reopen(mine, id) {
  const left = leftOver(id);
  try {
    const { messages, running } = await get(url`/api/conversations/${id}/messages`).catch((error) => {
      if (left && failureOf(error).status === 404) return { messages: [], running: null }; // another process has it
      throw error;
    });
    await showMessages(mine, messages);
    if (session !== mine) return;
    if (running) await run(mine, newTurn(mine, running.question), left?.request || { message: running.question, session_id: id }, `${running.stream}-0`);
    else if (left && messages.filter((one) => one.role === "assistant").length <= left.before) await run(mine, newTurn(mine, left.question), left.request, left.last);
    else dropRunning(id);
  } catch (error) {
    if (!mine.thread.isConnected) return; // another view is shown by now
    if (failureOf(error).status !== 404) throw error;
    if (draft()) { // put, but the sign-in had ended
      mine.id = "";
      history.replaceState(null, "", "#/ask");
      await begin(mine);
      return;
    }
    mine.thread.replaceChildren(emptyState("ask", "This conversation does not exist", "It was deleted, or it belongs to someone else.", h("a.button", { href: "#/ask" }, "New conversation")));
    mine.form.remove();
  }
}

async function showMessages(mine, messages) {
  const answers = await Promise.all(messages.map((one) => (one.answer_id ? get(`/api/answers/${one.answer_id}`).catch(() => null) : null)));
  if (session !== mine) return;
  mine.thread.replaceChildren();
  let turn = null;
  for (const [at, message] of messages.entries()) {
    if (message.role === "user") turn = newTurn(mine, message.content);
    else if (turn) {
      const answer = answers[at];
      if (answer) await finish(mine, turn, answer);
      else turn.body.replaceChildren(h("p", message.content));
    }
  }
  turn?.element.scrollIntoView();
}

// the box

function composer(mine) {
  const box = h("textarea", { id: "question", rows: 1, maxlength: 8000, placeholder: "Ask your documents", label: "Question", "aria-keyshortcuts": "/ Control+K", oninput: () => { keepDraft(box.value); grow(); }, onkeydown: (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); form.requestSubmit(); }
  } });
  function grow() { box.style.height = "auto"; box.style.height = `${box.scrollHeight}px`; button(); }
  const select = (name, label, choices) => {
    const one = h("select.pick", { label, title: ABOUT[name], onchange: () => { mine[name] = one.value; tint(); } }, options(Object.entries(choices), mine[name]));
    const tint = () => one.classList.toggle("set", Boolean(one.value));
    tint();
    return one;
  };
  const modes = select("mode", "Mode", MODES);
  const models = h("span.choice");
  const pictures = attachment(() => button());
  pictures.button.hidden = true;
  arrive().then(() => {
    if (!me.model) {
      for (const name of NEEDS_MODEL) modes.querySelector(`[value=${name}]`)?.remove();
      modes.dispatchEvent(new Event("change"));
    }
    if (me.models?.length > 1) models.replaceChildren(select("model", "Model", Object.fromEntries([["", "Model"], ...me.models.map((name) => [name, name])])));
    else mine.model = "";
    pictures.button.hidden = !me.sees;
  }, () => {});
  box.addEventListener("paste", (event) => { if (me.sees && event.clipboardData?.files.length) pictures.add([...event.clipboardData.files]); });
  const scope = h("button.pick", { "aria-haspopup": "dialog", title: "Where to look", onclick: async () => { await pickScope(mine.scope); name(); } });
  const name = () => { scope.textContent = scopeName(mine.scope); scope.classList.toggle("set", scopeName(mine.scope) !== scopeName()); };
  name();
  dropGone(mine.scope).then(name, () => {}); // again with the question
  const go = h("button.send", { type: "submit" }, icon("up"));
  const end = h("button.send.stop", { label: "Stop", title: "Stop this answer", onclick: () => stop(mine) }, icon("stop"));
  const line = h("div.line");
  function button() {
    if (!mine.form) return; // the pictures are made before the form
    const isEmpty = !box.value.trim();
    const had = [go, end].includes(document.activeElement);
    end.hidden = !mine.running;
    go.hidden = Boolean(mine.running) && isEmpty;
    go.disabled = isEmpty;
    go.ariaLabel = go.title = mine.running ? "Ask next" : "Ask";
    line.replaceChildren(...inLine(mine));
    if (had && (document.activeElement.hidden || document.activeElement.disabled || isLost())) takeFocus(mine); // it stopped, or sent, the answer
  }
  const form = h("form.composer", { role: "search", label: "Ask", onsubmit: (event) => {
    event.preventDefault();
    const question = box.value.trim();
    if (!question) return;
    if (mine.running && pictures.has()) { toast("Wait for this answer before sending an image."); return; }
    box.value = "";
    keepDraft("");
    grow();
    put(mine, question, { images: pictures.take() });
  } }, line, h("div.box", pictures.shown, box, pictures.input, h("div.row", h("div.picks", scope, modes, select("level", "Level", LEVELS), select("checks", "Checks", CHECKS), models), pictures.button, end, go)));
  Object.assign(mine, { box, form, button, name });
  box.value = draft();
  if (box.value) requestAnimationFrame(grow);
  button();
  return form;
}

// questions in line: asked while another one is being answered

function inLine(mine) {
  if (!mine.queue.length) return [];
  return [h("p.small.quiet", mine.running ? "Asked next, in this order" : "Not asked yet"), h("ol", { label: "Queued questions" }, mine.queue.map((question, at) => h("li",
    h("span.words", question),
    !mine.running && h("button.link.small", { onclick: () => { leaveLine(mine, at); put(mine, question); } }, "Ask now"),
    iconButton("close", `Remove “${question}”`, () => { leaveLine(mine, at); takeFocus(mine); }))))];
}

function enqueue(mine, question) {
  mine.queue.push(question);
  keepQueue(mine.id, mine.queue);
  mine.button();
  say(`Queued: ${question}`);
}

function leaveLine(mine, at) {
  mine.queue.splice(at, 1);
  keepQueue(mine.id, mine.queue);
  mine.button();
}

// a question and its answer

function newTurn(mine, question, images = []) {
  const turn = { question, stages: h("ol.stages", { label: "Progress" }), body: h("div.answer", { "aria-busy": "false" }), cites: [], notes: h("div"), before: h("div") };
  turn.element = h("article.turn", h(mine.thread.querySelector(".asked") ? "h2.asked" : "h1.asked", { class: question.length > 160 ? "long" : "" }, question), images.length > 0 && thumbnails(images), turn.stages, turn.before, turn.body, turn.notes);
  mine.thread.append(turn.element);
  return turn;
}

const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

async function put(mine, question, { verbatim = false, images = [] } = {}) {
  if (mine.running) { enqueue(mine, question); return; }
  if (session === mine && !mine.thread.isConnected) {
    mine.main.classList.remove("blank");
    mine.form.before(mine.thread); // the box stays where it is, and keeps the focus
    mine.main.querySelector(".begin")?.remove();
  }
  if (isLost()) takeFocus(mine);
  mine.id ||= newId();
  if (session === mine) history.replaceState(null, "", `#/ask/${mine.id}`);
  const turn = newTurn(mine, question, images);
  turn.element.scrollIntoView({ block: "start", behavior: calmly() });
  const chosen = { intelligence_level: mine.level || undefined, mode: mine.mode || undefined, response_mode: mine.checks || undefined, model: mine.model || undefined };
  await run(mine, turn, { message: question, session_id: mine.id, verbatim, ...chosen, images: images.length ? images.map((data) => ({ data })) : undefined });
}

/** One question until its answer stands there, it has failed or it was stopped; `last` takes up a stream that was left. */
async function run(mine, turn, request, last = "") {
  mine.running = new AbortController();
  mine.isStopped = false;
  live.set(mine.id, mine);
  mine.button();
  turn.body.ariaBusy = "true";
  pending(mine.id, turn.question);
  let is = "answered";
  try {
    is = await follow(mine, turn, request, last);
  } catch (error) {
    is = mine.isStopped ? "stopped" : "failed";
    const failure = is === "failed" && failureOf(error);
    if (is === "stopped") await stopped(mine, turn, request);
    else if (failure.status === 404 || failure.message === CUT.message) is = await tooLate(mine, turn, request);
    else failed(mine, turn, failure, request);
    if (failure.status === 401) keepDraft(turn.question); // it stands in the box again after signing in
  }
  mine.running = null;
  dropRunning(mine.id);
  pending(mine.id);
  settle(mine);
  if (!mine.thread.isConnected && is !== "stopped") toast(is === "answered" ? `Answered: ${turn.question}` : `Not answered: ${turn.question}`);
  turn.body.ariaBusy = "false";
  mine.button();
  if (is !== "failed" && mine.queue.length) { // what failed may fail again: the next one waits to be asked
    const next = mine.queue[0];
    leaveLine(mine, 0);
    put(mine, next);
  }
  await showTalks();
}

/** For every tab that follows; what was written until now is stored with the conversation. */
async function stop(mine) {
  const { running } = mine;
  if (!running || mine.isStopped) return;
  mine.isStopped = true;
  const asked = send("POST", url`/api/conversations/${mine.id}/stop`).catch(() => {});
  await Promise.race([asked, new Promise((resolve) => setTimeout(resolve, STOP_MS))]); // leaving stops it as well
  running.abort();
}

async function follow(mine, turn, request, last) {
  if (!last) {
    await dropGone(mine.scope);
    mine.name();
    Object.assign(request, scopeFields(mine.scope));
  }
  const writing = writer(turn.body, () => turn.cites);
  const before = mine.thread.querySelectorAll("[data-answer]").length;
  const begun = (id) => keepRunning(mine.id, { question: turn.question, request, last: id.replace(/-\d+$/, "-0"), before });
  const options = { signal: mine.running.signal, isLast: (one) => one === "done" || one === "error", last, begun };
  for await (const { type, data } of stream("/api/chat/stream", request, options)) {
    if (type === "thinking") stage(turn, data.text || data.step);
    else if (type === "sources") turn.cites = data.citations.map((one) => ({ ...one, located: true })); // their lines are looked for at the end
    else if (type === "content") writing.add(data.token);
    else if (type === "replace") { writing.set(data.content); if (data.reason?.includes(" ")) turn.before.replaceChildren(h("p.notice", data.reason)); }
    else if (type === "verification") { if (data.status === "checking") stage(turn, "Getting a second opinion"); }
    else if (type === "error") { writing.end(); failed(mine, turn, new Failure(0, data), request); return "failed"; }
    else if (type === "done") {
      writing.end();
      await finish(mine, turn, data.answer);
      say(`Answer: ${turn.body.innerText}`);
    }
  }
  return "answered";
}

/** The stream is gone: either its answer, whole or stopped, is in the conversation, or the server has lost it. */
async function tooLate(mine, turn, request) {
  const answer = await lastAnswer(mine, turn.question);
  if (!answer) { failed(mine, turn, new Failure(404, CUT), request); return "failed"; }
  await finish(mine, turn, answer);
  return answer.stopped ? "stopped" : "answered";
}

/** What the conversation has as its last answer, if that is one to this question. */
async function lastAnswer(mine, question) {
  try {
    const said = (await get(url`/api/conversations/${mine.id}/messages`)).messages.slice(-2);
    return said[0]?.content === question && said[1]?.answer_id ? await get(`/api/answers/${said[1].answer_id}`) : null;
  } catch { return null; }
}

function stage(turn, text) {
  say(text);
  for (const one of turn.stages.querySelectorAll(".now")) one.replaceWith(h("li.done", icon("check"), one.textContent));
  turn.stages.append(h("li.now", h("span.spinner", { "aria-hidden": "true" }), text));
}

async function finish(mine, turn, answer) {
  const again = put.bind(null, mine);
  turn.stages.remove();
  await keepMarker(turn.body, () => showBody(turn.body, answer));
  const read = readAs(answer, again);
  if (read) turn.before.replaceChildren(read);
  turn.notes.replaceChildren(...around(answer, again));
  turn.element.dataset.answer = answer.id;
}

async function stopped(mine, turn, options) {
  say("Stopped");
  const answer = await lastAnswer(mine, turn.question);
  if (answer?.stopped) await finish(mine, turn, answer);
  else unanswered(turn, h("p.notice", "You stopped this answer. ", h("button.link", { onclick: () => anew(mine, turn, options) }, "Ask again")));
}

function failed(mine, turn, failure, options) {
  unanswered(turn, failureState(failure, () => anew(mine, turn, options)));
}

function unanswered(turn, why) {
  turn.stages.remove();
  turn.body.classList.remove("streaming");
  turn.element.dataset.unanswered = "";
  turn.notes.replaceChildren(why);
}

function anew(mine, turn, { verbatim, images }) {
  turn.element.remove();
  put(mine, turn.question, { verbatim, images: (images || []).map((one) => one.data) });
}
