// What this tab must not lose: questions whose answers are on their way, and the question that is being typed.
// Kept for this tab only, so that a page that is loaded anew goes on where it was.

const RUNNING = "refdesk.running"; // {conversation: {question, request, last, before}}
const DRAFT = "refdesk.draft";

function read() {
  try { return JSON.parse(sessionStorage.getItem(RUNNING)) || {}; } catch { return {}; }
}

function write(name, text) {
  try { if (text) sessionStorage.setItem(name, text); else sessionStorage.removeItem(name); } catch { /* storage may be closed to us */ }
}

export const leftOver = (id) => read()[id] || null;
export const keepRunning = (id, one) => write(RUNNING, JSON.stringify({ ...read(), [id]: one }));

export function dropRunning(id) {
  const { [id]: gone, ...rest } = read();
  if (gone) write(RUNNING, Object.keys(rest).length ? JSON.stringify(rest) : "");
}

export const keepDraft = (text) => write(DRAFT, text);
export function draft() {
  try { return sessionStorage.getItem(DRAFT) || ""; } catch { return ""; }
}
