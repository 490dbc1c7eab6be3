// Before the first paint: light or dark, as chosen here or as the system says.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try { chosen = localStorage.getItem("refdesk.theme"); } catch { /* storage may be closed to us */ }
  const apply = () => { document.documentElement.dataset.theme = chosen || (dark.matches ? "dark" : "light"); };
  dark.addEventListener("change", apply);
  addEventListener("refdesk-theme", (event) => { chosen = event.detail; apply(); });
  apply();
})();
