// A report inside a page has the colours of the page: those of its switch, or the system's.
const say = (frame) => {
  const theme = document.body.dataset.theme;
  frame.contentWindow.postMessage({ colors: theme === "light" || theme === "dark" ? theme : "light dark" }, "*");
};
addEventListener("DOMContentLoaded", () => {
  // Two columns beside the text, told apart by their names.
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "all pages");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "this page");
  const frames = document.querySelectorAll("article iframe");
  frames.forEach((frame) => { frame.addEventListener("load", () => say(frame)); say(frame); });
  new MutationObserver(() => frames.forEach(say)).observe(document.body, { attributeFilter: ["data-theme"] });
});
