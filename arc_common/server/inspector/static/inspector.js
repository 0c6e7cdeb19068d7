// Conveniences only: every page works without this file.

const search = document.querySelector("[data-search]");
const items = [...document.querySelectorAll("[data-item]")];

const isTyping = (element) => element.matches("input, textarea, select");

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (event.key === "/" && search) {
    event.preventDefault();
    search.focus();
  } else if ((event.key === "j" || event.key === "k") && items.length) {
    const at = items.findIndex((item) => item.contains(document.activeElement));
    const to = event.key === "j" ? Math.min(at + 1, items.length - 1) : Math.max(at - 1, 0);
    items[to].querySelector("textarea, a, button")?.focus();
    items[to].scrollIntoView({ block: "nearest" });
    event.preventDefault();
  }
});

// A link to something that is folded away unfolds it.
const unfold = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  target?.closest("details:not([open])")?.setAttribute("open", "");
};
addEventListener("hashchange", unfold);
unfold();

for (const button of document.querySelectorAll("[data-unfold]")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    for (const one of document.querySelectorAll(`${button.dataset.unfold} details`)) one.open = true;
  });
}
