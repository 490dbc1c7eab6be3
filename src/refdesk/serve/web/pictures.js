// Images attached to a question: chosen or pasted, scaled down, shown in the box, and sent to the model.
import { h, iconButton, toast } from "./dom.js";

const LONGEST = 1568; // pixels of a side: larger ones are made smaller by whoever looks at them
const MOST = 4;

/** The picture as a `data:` URL, no larger than anybody looks at. */
async function small(file) {
  const drawn = await createImageBitmap(file);
  const scale = Math.min(1, LONGEST / Math.max(drawn.width, drawn.height));
  const canvas = h("canvas", { width: Math.max(1, Math.round(drawn.width * scale)), height: Math.max(1, Math.round(drawn.height * scale)) });
  const pen = canvas.getContext("2d");
  pen.fillStyle = "#fff"; // what is see-through would be black
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(drawn, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", 0.88);
}

export const thumbnails = (images, label = "Images in the question") =>
  h("ul.pictures", { label }, images.map((src, at) => h("li", h("img", { src, alt: `Image ${at + 1}` }))));

/** A button that opens the choice of files, the pictures chosen so far, and how to take them. */
export function attachment(changed) {
  let images = [];
  const shown = h("div");
  const input = h("input", { type: "file", accept: "image/png,image/jpeg,image/gif,image/webp", multiple: true, hidden: true, onchange: () => { add([...input.files]); input.value = ""; } });
  const button = iconButton("image", "Attach an image", () => input.click());
  function draw() {
    shown.replaceChildren(...(images.length ? [h("ul.pictures", { label: "Attached images" }, images.map((src, at) => h("li", h("img", { src, alt: `Image ${at + 1}` }),
      iconButton("close", `Remove image ${at + 1}`, () => { images.splice(at, 1); draw(); button.focus(); }))))] : []));
    changed();
  }
  async function add(files) {
    for (const file of files.filter((one) => one.type.startsWith("image/"))) {
      if (images.length >= MOST) { toast(`A question can have at most ${MOST} images.`); break; }
      try { images.push(await small(file)); } catch { toast(`${file.name} cannot be read as an image.`); }
    }
    draw();
  }
  return { button, input, shown, add, has: () => images.length > 0, take: () => { const taken = images; images = []; draw(); return taken; } };
}
