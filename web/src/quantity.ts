// Numbers with units, written as `roofline.quantity` writes them: a test holds one against the other.

const DECIMAL: [number, string][] = [[1, ""], [1e3, "k"], [1e6, "M"], [1e9, "G"], [1e12, "T"], [1e15, "P"], [1e18, "E"], [1e21, "Z"], [1e24, "Y"]];
const SMALL: [number, string][] = [[1e-15, "f"], [1e-12, "p"], [1e-9, "n"], [1e-6, "µ"], [1e-3, "m"], [1, ""]];
const LONG_TIMES: [string, number][] = [["years", 365.25 * 86400], ["days", 86400], ["h", 3600], ["min", 60]];

/** A positive number with so many significant digits, as ``1.25e+3``; of two that are equally near the even one, as in Python. */
function exponential(value: number, digits: number): string {
  const text = value.toExponential(digits - 1);
  if (digits > 90 || Number(value.toExponential(digits)) !== value) return text;
  const [mantissa, power] = value.toExponential(100).split("e"), rest = mantissa.replace(".", "").slice(digits), last = text.split("e")[0].slice(-1);
  return /^50*$/.test(rest) && Number(last) % 2 ? `${mantissa.slice(0, digits + (digits > 1 ? 1 : 0))}e${power}` : text;
}

/** As ``%g`` of C writes a positive number. */
function general(value: number, digits: number): string {
  const [mantissa, power] = exponential(value, digits).split("e");
  return Number(power) >= -4 && Number(power) < digits ? String(Number(exponential(value, digits))) : `${Number(mantissa)}e${power[0]}${power.slice(1).padStart(2, "0")}`;
}

/** With significant digits, a comma every thousand, no zeros at the end. */
function significant(value: number, digits: number): string {
  if (value === 0) return "0";
  if (value < 1e-4 || value >= 1e15) return general(value, digits);
  const power = (text: string) => Number(text.split("e")[1]), decimals = Math.max(0, digits - 1 - power(exponential(value, digits)));
  return Number(exponential(value, power(value.toExponential(20)) + decimals + 1)).toLocaleString("en", { maximumFractionDigits: 12 });
}

function prefixed(value: number, unit: string, digits: number, table: [number, string][]): string {
  const rounded = value && Number(exponential(value, digits));
  const [factor, prefix] = table.filter(([least]) => least <= rounded * (1 + 1e-12)).pop() ?? table[0], scaled = rounded / factor;
  return rounded && !(scaled >= 1e-3 && scaled < 1e6) ? `${general(value, digits)} ${unit}` : `${significant(scaled, digits)} ${prefix}${unit}`;
}

export function quantity(value: number, unit: string, digits = 3): string {
  if (Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return "∞";
  if (value < 0) return `-${quantity(-value, unit, digits)}`;
  if (unit === "FLOP/B" || unit === "") return `${significant(value, digits)} ${unit}`.trim();
  if (unit !== "s") return prefixed(value, unit, digits, DECIMAL);
  if (value && value < 1) return prefixed(value, "s", digits, SMALL);
  const [name, seconds] = LONG_TIMES.find(([, least]) => value >= 2 * least) ?? ["s", 1];
  return `${significant(value / seconds, digits)} ${name}`;
}

/** A share: whole per cents from ten on, two digits below. */
export function percent(share: number): string {
  if (Number.isNaN(share)) return "–";
  if (share < 0) return `-${percent(-share)}`;
  if (share > 0 && share < 1e-4) return "under 0.01%";
  return `${significant(100 * share, 2)}%`;
}

/** A number short enough to edit: 4.8T, 8192. */
export function short(value: number): string {
  const [factor, prefix] = DECIMAL.slice(0, 6).filter(([least]) => least <= value).pop() ?? [1, ""];
  return factor >= 1e6 && value < 1e18 ? `${Number((value / factor).toPrecision(4))}${prefix}` : String(Number.isInteger(value) ? value : Number(value.toPrecision(6)));
}

export function count(value: number): string {
  return Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(6)));
}

/** Read a number as people write it: 8k, 128Ki, 4M, 1e6. */
export function parse(text: string): number {
  const found = /^\s*([\d_.,]+(?:e[+-]?\d+)?)\s*([kKMGTP]i?)?\s*$/i.exec(text);
  if (!found) return NaN;
  const power = found[2] ? "kMGTP".indexOf(found[2][0] === "K" ? "k" : found[2][0]) + 1 : 0;
  return Number(found[1].replace(/[_,]/g, "")) * (found[2]?.endsWith("i") ? 1024 : 1000) ** power;
}
