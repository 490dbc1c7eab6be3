// Streaming text: rendered by the service a few times a second; in between, the newest words as they are.
import { rendered } from "./answer.js";
import { bindChips, keepMarker } from "./chips.js";
import { h, trusted } from "./dom.js";

const RENDER_EVERY_MS = 250;

/** `cites()` gives the passages known so far: their markers become chips before the answer is whole. */
export function writer(body, cites) {
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
      const known = { claims: [], citations: cites() };
      const html = await rendered(part, known);
      if (ended || !text.startsWith(part)) return;
      done = part;
      keepMarker(body, () => {
        body.replaceChildren(trusted(html));
        bindChips(body, known);
      });
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
