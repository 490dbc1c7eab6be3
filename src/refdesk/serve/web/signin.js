// Exchanges a key for a cookie and returns to the page the user wanted.
import { failureOf, send } from "./api.js";

const wrong = document.getElementById("wrong");
const box = document.getElementById("key");
if (location.search === "?ended") document.getElementById("why").textContent = "Your session has expired. Enter your key to continue; what you typed is kept.";

document.getElementById("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  wrong.hidden = true;
  try {
    await send("POST", "/api/session", { key: box.value.trim() });
    location.replace(`/${location.hash}`);
  } catch (error) {
    wrong.textContent = failureOf(error).status === 401 ? "This key is unknown or has been revoked." : failureOf(error).text;
    wrong.hidden = false;
    box.select();
  }
});
