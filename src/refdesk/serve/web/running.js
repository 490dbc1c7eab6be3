// State this tab must not lose: questions being answered, queued questions, and the one being typed.
// Kept for this tab only, so that a page that is loaded anew goes on where it was.

const RUNNING = "refdesk.running"; // {conversation: {question, request, last, before}}
const QUEUE = "refdesk.queue"; // {conversation: [question, …]}
const DRAFT = "refdesk.draft";

function text(name) {
  try { return sessionStorage.getItem(name) || ""; } catch { return ""; } // storage may be closed to us
}

const read = (name = RUNNING) => JSON.parse(text(name) || "{}");

function write(name, text) {
  try { if (text) sessionStorage.setItem(name, text); else sessionStorage.removeItem(name); } catch { /* as above */ }
}

export const leftOver = (id) => read()[id] || null;
export const keepRunning = (id, one) => write(RUNNING, JSON.stringify({ ...read(), [id]: one }));

export function dropRunning(id) {
  const { [id]: gone, ...rest } = read();
  if (gone) write(RUNNING, Object.keys(rest).length ? JSON.stringify(rest) : "");
}

export const queued = (id) => read(QUEUE)[id] || [];

export function keepQueue(id, questions) {
  const { [id]: gone, ...rest } = read(QUEUE);
  const all = questions.length ? { ...rest, [id]: questions } : rest;
  write(QUEUE, Object.keys(all).length ? JSON.stringify(all) : "");
}

export const keepDraft = (text) => write(DRAFT, text);
/** The next one at this machine may be somebody else. */
export const forgetAll = () => { write(RUNNING); write(QUEUE); write(DRAFT); };
export const draft = () => text(DRAFT);
