// Files that a page gives: pictures as they look here, tables, data.
import type { ChartSpec } from "./state";

export function give(name: string, content: Blob | string, type = "text/plain"): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(typeof content === "string" ? new Blob([content], { type }) : content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const KEPT = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "fill-opacity", "opacity", "paint-order", "font-size", "font-weight", "font-family", "text-anchor"];

/** The picture with its colours written into it, so that it looks the same elsewhere. */
export function svgText(svg: SVGSVGElement): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const [from, to] = [svg.querySelectorAll("*"), copy.querySelectorAll("*")];
  from.forEach((each, i) => {
    const style = getComputedStyle(each);
    KEPT.forEach((name) => to[i].setAttribute(name, style.getPropertyValue(name)));
    to[i].removeAttribute("class");
    to[i].removeAttribute("style");
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const box = svg.viewBox.baseVal, ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  ground.setAttribute("width", String(box.width));
  ground.setAttribute("height", String(box.height));
  ground.setAttribute("fill", getComputedStyle(document.querySelector(".card") ?? document.body).backgroundColor);
  copy.prepend(ground);
  copy.setAttribute("width", String(box.width));
  copy.setAttribute("height", String(box.height));
  return new XMLSerializer().serializeToString(copy);
}

export function png(svg: SVGSVGElement, name: string): void {
  const image = new Image(), box = svg.viewBox.baseVal;
  image.onload = () => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * box.width, 2 * box.height];
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => { if (blob) give(name, blob); });
    URL.revokeObjectURL(image.src);
  };
  image.src = URL.createObjectURL(new Blob([svgText(svg)], { type: "image/svg+xml" }));
}

const field = (text: unknown): string => {
  const written = String(text ?? "").replace(/\n/g, " ");
  const safe = /^[=+\-@]/.test(written) && Number.isNaN(Number(written)) ? `'${written}` : written;
  return /[",]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
};

const joined = (rows: unknown[][]): string => rows.map((row) => row.map(field).join(",")).join("\n") + "\n";

export function csv(spec: ChartSpec): string {
  if (spec.kind === "heatmap") {
    const cells = spec.marks.filter((mark) => mark.mark === "cell").map((cell) => [spec.x.names[cell.column!], spec.y.names[cell.row!], cell.value, cell.label]);
    return joined([[spec.x.label, spec.y.label, "value", "label"], ...cells]);
  }
  const rows = spec.marks.flatMap((mark): unknown[][] => {
    const label = mark.label ?? mark.text ?? "";
    if (Array.isArray(mark.x)) return mark.x.map((x, i) => [mark.mark, label, x, (mark.y as number[])[i]]);
    if (mark.mark === "bar") return [[mark.mark, `${label} ${mark.part ?? ""}`.trim(), mark.x0, mark.x1]];
    return mark.x === undefined ? [] : [[mark.mark, label, mark.x, mark.y]];
  });
  const head = ["mark", "label", `${spec.x.label} [${spec.x.unit}]`, `${spec.y.label} [${spec.y.unit}]`];
  return joined([head, ...rows]);
}

/** Copy text; where a page may not use the clipboard, by a field that is selected. */
export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
