// What is wrong with a page at the size and in the theme that it has, each fault with where: `window.faults()`.
// What it is whatever its size, its names, links and headings: `window.facts()`.
// Pictures that load when they are scrolled to: `await loaded()` beforehand.
window.loaded = () => Promise.all([...document.images].map((e) => { e.loading = "eager"; return e.decode().catch(() => {}); }));
window.faults = () => {
  const found = [];
  const width = innerWidth;
  const own = (e) => e.tagName.toLowerCase() + (e.id ? `#${e.id}` : "") + [...e.classList].slice(0, 3).map((c) => `.${c}`).join("");
  const name = (e) => {
    const near = e.closest("section[id], main, header, nav, aside");
    return (near && near !== e ? `${own(near)} ` : "") + own(e);
  };
  const say = (fault, e, more = "") => found.push([fault, name(e), String(more).replace(/\s+/g, " ").trim().slice(0, 90)]);

  const styles = new Map();
  const style = (e) => {
    if (!styles.has(e)) styles.set(e, getComputedStyle(e));
    return styles.get(e);
  };
  const upwards = (e) => {
    const chain = [];
    for (let x = e; x; x = x.parentElement) chain.push(x);
    return chain;
  };
  // A drawer waits beside the window; some words are for screen readers alone.
  const isForReadersAlone = (e) => {
    const s = style(e);
    return s.clipPath !== "none" || s.clip !== "auto" || e.offsetWidth === 1 || e.matches(".visually-hidden, .sr-only, .skip-to-content");
  };
  const isSeen = (e) => {
    if (!e.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return false;
    const box = e.getBoundingClientRect();
    const chain = upwards(e);
    const isBeside = box.right <= 0 || (box.left >= width && chain.some((x) => style(x).position === "fixed"));
    return !isBeside && !chain.some(isForReadersAlone);
  };
  const scrolls = (e) => ["auto", "scroll"].includes(style(e).overflowX);
  const hides = (e) => ["hidden", "clip"].includes(style(e).overflowX);
  const isWider = (e) => e.clientWidth > 1 && e.scrollWidth > e.clientWidth + 1;

  const root = document.documentElement;
  if (root.scrollWidth > width) say("the page scrolls sideways", root, root.scrollWidth);
  const all = [...document.body.querySelectorAll("*")].filter((e) => !e.ownerSVGElement && isSeen(e));
  for (const e of all) {
    const box = e.getBoundingClientRect();
    const isHeld = upwards(e.parentElement).some((x) => scrolls(x) || hides(x));
    if (box.width && box.right > width + 1 && !isHeld) say("wider than the window", e, Math.round(box.right));
    if (scrolls(e) && isWider(e)) say("scrolls sideways", e, `${e.scrollWidth} in ${e.clientWidth}: ${e.textContent}`);
    if (hides(e) && isWider(e)) say("cut", e, e.textContent);
    if (e.tagName === "IMG" && (!e.complete || !e.naturalWidth)) say("a picture that is not there", e, e.src);
  }

  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colours = new Map();
  const colour = (css) => {
    if (!colours.has(css)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = css;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      colours.set(css, [r, g, b, a / 255]);
    }
    return colours.get(css);
  };
  const over = (above, below) => [0, 1, 2].map((k) => above[k] * above[3] + below[k] * (1 - above[3])).concat(1);
  const luminance = (rgb) => {
    const [r, g, b] = rgb.slice(0, 3).map((v) => (v <= 10.31 ? v / 3294.6 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    const layers = [];
    for (const x of upwards(e)) {
      const layer = colour(style(x).backgroundColor);
      if (layer[3]) layers.push(layer);
      if (layer[3] > 0.99) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const contrast = (e, back) => {
    const [r, g, b, a] = colour(e.closest("svg") ? style(e).fill : style(e).color);
    const opacity = upwards(e).reduce((product, x) => product * Number(style(x).opacity), a);
    const both = [luminance(over([r, g, b, opacity], back)), luminance(back)];
    return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
  };

  const lines = [];
  const range = document.createRange();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const e = text.parentElement;
    const said = text.data.trim();
    if (!said || e.closest("script, style, noscript, title, desc, option") || !isSeen(e)) continue;
    const size = parseFloat(style(e).fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style(e).fontWeight) >= 700);
    const ratio = contrast(e, behind(e));
    if (ratio < (isLarge ? 3 : 4.5)) say("too little contrast", e, `${ratio.toFixed(2)} ${said}`);
    if (size < 10.9) say("small letters", e, `${size.toFixed(1)} px ${said}`);
    for (const word of e.closest("dt, td code") ? text.data.matchAll(/[A-Za-z]{2,}/g) : []) {
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const [first, ...more] = range.getClientRects();
      if (more.some((box) => box.top > first.top + 2)) say("a word cut between its letters", e, word[0]);
    }
    range.selectNodeContents(text);
    const isFixed = upwards(e).some((x) => ["fixed", "sticky"].includes(style(x).position));
    const frames = upwards(e).filter((x) => style(x).overflowY !== "visible").map((x) => x.getBoundingClientRect());
    for (const box of range.getClientRects()) {
      const edge = box.height * 0.2; // lines of text touch
      const left = Math.max(box.left, ...frames.map((f) => f.left));
      const right = Math.min(box.right, ...frames.map((f) => f.right));
      const top = Math.max(box.top + edge, ...frames.map((f) => f.top));
      const bottom = Math.min(box.bottom - edge, ...frames.map((f) => f.bottom));
      if (right - left > 2 && bottom - top > 1) lines.push({ left, right, top, bottom, e, said, isFixed });
    }
  }
  lines.sort((x, y) => x.top - y.top);
  lines.forEach((x, at) => {
    for (let next = at + 1; next < lines.length && lines[next].top < x.bottom - 2; next++) {
      const y = lines[next];
      const shared = Math.min(x.right, y.right) - Math.max(x.left, y.left);
      if (shared > 2 && x.isFixed === y.isFixed) say("lies over other text", x.e, `${x.said.slice(0, 40)} | ${y.said.slice(0, 40)}`);
    }
  });

  // A target in a sentence has the height of its line; any other has 24 px to itself.
  const isInSentence = (e) => {
    const around = e.closest("p, li, td, dd, dt, figcaption, pre, h1, h2, h3, h4");
    return around && style(e).display.startsWith("inline") && around.textContent.trim().length > e.textContent.trim().length + 1;
  };
  const targets = all
    .filter((e) => e.matches("a[href], button, input, select, summary, label[for], [tabindex='0']"))
    .map((e) => ({ e, box: e.getBoundingClientRect() }))
    .filter(({ box }) => box.width > 1 && box.height > 1);
  for (const { e, box } of width <= 500 ? targets : []) {
    if (Math.min(box.width, box.height) >= 24 || isInSentence(e)) continue;
    const x = (box.left + box.right) / 2;
    const y = (box.top + box.bottom) / 2;
    const distance = (b) => Math.hypot(Math.max(b.left - x, 0, x - b.right), Math.max(b.top - y, 0, y - b.bottom));
    const near = targets.find((o) => o.e !== e && !o.e.contains(e) && !e.contains(o.e) && distance(o.box) < 12);
    if (near) say("too close for a finger", e, `${e.textContent.trim()} | ${near.e.textContent}`);
  }
  return found;
};

window.facts = () => {
  const every = (selector) => [...document.querySelectorAll(selector)];
  const ids = every("[id]").map((e) => e.id);
  const faults = [...new Set(ids.filter((id, at) => ids.indexOf(id) !== at))].map((id) => ["a name given twice", `#${id}`, ""]);
  let last = 0;
  for (const e of every("article :is(h1, h2, h3, h4, h5, h6)")) {
    const level = Number(e.tagName[1]);
    if (level > last + 1) faults.push(["a heading that skips a level", e.tagName.toLowerCase(), e.textContent]);
    last = level;
  }
  if (every("article section").length && every("article h1").length !== 1) faults.push(["not one heading of the page", "h1", ""]);
  for (const e of every("img")) if (!e.alt.trim()) faults.push(["a picture without words", "img", e.src]);
  for (const e of every("svg[role=img]")) {
    if (!e.getAttribute("aria-label") && !e.querySelector("title")) faults.push(["a picture without words", "svg", ""]);
  }
  for (const e of every("a[href], button")) {
    const said = e.textContent.trim() || e.getAttribute("aria-label") || e.title || e.querySelector("img[alt], svg title");
    if (!said) faults.push(["a link without words", e.outerHTML.slice(0, 80), ""]);
  }
  if (!document.documentElement.lang || !document.title) faults.push(["no language or title", "html", ""]);
  return { ids, faults, links: every("a[href]").map((e) => e.getAttribute("href")) };
};
