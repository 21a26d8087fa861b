// Numbers with units, written as the package writes them: three digits, SI prefixes.
import { format } from "d3-format";

const prefixed = format(".3~s");

export function quantity(value: number, unit: string): string {
  if (Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return "∞";
  if (unit === "s" && value >= 1000) return `${Number(value.toPrecision(3)).toLocaleString("en")} s`;
  const text = prefixed(value).replace("−", "-");
  const [, digits, prefix] = /^(-?[\d.e+]+)(.*)$/.exec(text)!;
  return `${digits} ${prefix}${unit}`.trim();
}

/** A number short enough to edit: 4.8T, 8192. */
export function short(value: number): string {
  const text = format(".4~s")(value).replace("−", "-");
  return value >= 1e6 && /^[\d.]+[kMGTP]$/.test(text) ? text : String(Number.isInteger(value) ? value : Number(value.toPrecision(6)));
}

export function count(value: number): string {
  return Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(6)));
}

export function percent(share: number): string {
  return `${Number((100 * share).toPrecision(share < 0.1 ? 2 : 3))}%`;
}

/** Read a number as people write it: 8k, 128Ki, 4M, 1e6. */
export function parse(text: string): number {
  const found = /^\s*([\d_.,]+(?:e[+-]?\d+)?)\s*([kKMGTP]i?)?\s*$/i.exec(text);
  if (!found) return NaN;
  const power = found[2] ? "kMGTP".indexOf(found[2][0] === "K" ? "k" : found[2][0]) + 1 : 0;
  return Number(found[1].replace(/[_,]/g, "")) * (found[2]?.endsWith("i") ? 1024 : 1000) ** power;
}
