// A report: an answer that moves with its sizes and rates, in one file, without a network.
import { render } from "preact";
import { AnswerView } from "./answer";
import { changed, functions, keyOf, listeners, moved, now, page, phase, phases, place, step, type StepFunctions, type Values } from "./state";

declare global {
  interface Window { ROOFLINE: StepFunctions[] }
}

/** Read the part of the address behind the number sign: names and plain numbers; anything else is passed over. */
function read(): void {
  const found: Values = {}, words = new URLSearchParams(location.hash.slice(1));
  for (const [name, text] of words) {
    const value = Number(text);
    if (Number.isFinite(value) && value >= 0 && name !== "step" && name !== "on") found[name] = value;
  }
  phase.value = phases.value[Number(words.get("step")) || 0] ?? "";
  place.value = Number(words.get("on")) || 0;
  moved.value = found;
}

function write(): void {
  const words = new URLSearchParams(), chosen = phases.value.indexOf(phase.value);
  if (chosen > 0) words.set("step", String(chosen));
  if (place.value) words.set("on", String(place.value));
  for (const name of changed.value) words.set(keyOf(step.value, name), String(now.value[name]));
  history.replaceState(null, "", words.toString() ? `#${words}` : location.pathname + location.search);
}

page.value = JSON.parse(document.getElementById("page")!.textContent!);
functions.value = window.ROOFLINE;
read();
listeners.push(write);
addEventListener("hashchange", read);
render(<AnswerView />, document.getElementById("live")!);
