// A report inside a page has the colours of the page: those of its switch, or the system's.
const say = (frame) => {
  const theme = document.body.dataset.theme;
  frame.contentWindow.postMessage({ colors: theme === "light" || theme === "dark" ? theme : "light dark" }, "*");
};
addEventListener("DOMContentLoaded", () => {
  const frames = document.querySelectorAll("article iframe");
  frames.forEach((frame) => { frame.addEventListener("load", () => say(frame)); say(frame); });
  new MutationObserver(() => frames.forEach(say)).observe(document.body, { attributeFilter: ["data-theme"] });
});
