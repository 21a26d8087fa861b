// A report: an answer that moves with its sizes and rates, in one file, without a network.
import { render } from "preact";
import { AnswerView } from "./answer";
import { functions, listeners, moved, page, settings, takeSettings, type StepFunctions } from "./state";

declare global {
  interface Window { ROOFLINE: StepFunctions[] }
}

/** Read the part of the address behind the number sign: sizes and rates as plain numbers; anything else is passed over. */
function read(): void {
  const words = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const known = new Set(page.value!.steps.flatMap((each) => [...each.sizes, ...each.rates].map((one) => one.name)));
  takeSettings(words);
  moved.value = Object.fromEntries(Object.entries(words).map(([name, text]): [string, number] => [name, Number(text || NaN)])
    .filter(([name, value]) => known.has(name.split("@")[0]) && Number.isFinite(value) && value >= 0));
}

function write(): void {
  const moves = Object.entries(moved.value).map(([name, value]) => [name, String(value)]);
  const words = new URLSearchParams({ ...Object.fromEntries(moves), ...settings() });
  history.replaceState(null, "", words.toString() ? `#${words}` : location.pathname + location.search);
}

page.value = JSON.parse(document.getElementById("page")!.textContent!);
functions.value = window.ROOFLINE;
read();
listeners.push(write);
addEventListener("hashchange", read);
// A page that holds the report in a frame says in which colours it is read: "light", "dark", or both words for the system's.
addEventListener("message", ({ data }) => { if (/^(light|dark|light dark)$/.test(data?.colors)) document.documentElement.style.colorScheme = data.colors; });
render(<AnswerView />, document.getElementById("live")!);
