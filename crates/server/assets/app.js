// What pages cannot do without a script: numbers and changes as they come, and a slider
// that says what it stands for. Everything else works without.
(() => {
  "use strict";
  const all = (selector) => document.querySelectorAll(selector);

  // Spans as the server writes them.
  const brief = (seconds) => {
    const units = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
    if (seconds > 0 && seconds < 0.9995) return `${Math.max(1, Math.round(seconds * 1000))}ms`;
    let place = units.findIndex(([length]) => seconds >= length);
    if (place < 0) return "0s";
    const [length, name] = units[place];
    const n = Math.floor(seconds / length);
    const next = units[place + 1];
    const rest = next ? Math.round((seconds - n * length) / next[0]) : 0;
    return n < 10 && rest > 0 && place < 3 ? `${n}${name} ${rest}${next[1]}` : `${n}${name}`;
  };
  const relative = (at) => {
    const seconds = Math.trunc((at - Date.now()) / 1000);
    if (seconds === 0) return "now";
    return seconds > 0 ? `in ${brief(seconds)}` : `${brief(-seconds)} ago`;
  };
  const count = (n) => Math.round(n).toLocaleString("en-US");
  const percent = (share) =>
    `${(share * 100).toFixed(share > 0.99 && share < 1 ? 2 : 1)}%`;
  const exponent = (n, digits) => n.toExponential(digits).replace("e+", "e");
  const perDay = (n) => {
    if (n === 0) return "0";
    if (n >= 999.5) return count(n);
    if (n < 0.001) return exponent(n, 0);
    return n.toFixed(n >= 100 ? 0 : n >= 10 ? 1 : n >= 1 ? 2 : 3);
  };
  const plain = (n) => exponent(n, 3);
  const formats = { count, percent, brief, perDay, plain };

  const tell = () => {
    for (const time of all("time[datetime]")) {
      const at = Date.parse(time.dateTime);
      if (!Number.isNaN(at)) time.textContent = relative(at);
    }
  };
  setInterval(tell, 10000);

  const slider = document.querySelector("[data-slider]");
  if (slider) {
    const field = document.getElementById(slider.dataset.slider);
    slider.addEventListener("input", () => {
      const perDay = Math.pow(10, Number(slider.value));
      const digits = Math.pow(10, Math.max(0, Math.floor(Math.log10(perDay)) - 1));
      field.value = `${Math.max(1, Math.round(perDay / digits) * digits)}/day`;
    });
  }

  const again = document.querySelector("[data-reload]");
  if (again) setTimeout(() => location.reload(), Number(again.dataset.reload) * 1000);

  // The page says from where on its stream is to be told, so that what was found while it
  // was on its way is in it.
  const live = document.querySelector("[data-live]");
  if (!live || !window.EventSource) return;
  const stream = new EventSource(live.dataset.live);

  // Numbers of the API, shown by name.
  const look = (status, name) =>
    name.split(".").reduce((value, key) => (value == null ? null : value[key]), status);
  const show = (status) => {
    for (const shown of all("[data-name][data-format]")) {
      const value = look(status, shown.dataset.name);
      if (typeof value !== "number") continue;
      shown.dataset.value = String(value);
      shown.textContent = formats[shown.dataset.format](value);
    }
    const { per_day: perDay, used_today: used } = status.budget;
    for (const left of all("[data-left]")) left.textContent = count(Math.floor(Math.max(0, perDay - used)));
    for (const meter of all("[data-used]")) {
      const share = Math.min(1, used / perDay);
      meter.setAttribute("aria-label", percent(share));
      meter.querySelector(".bar").setAttribute("width", (160 * share).toFixed(1));
    }
  };
  stream.addEventListener("overview", (event) => show(JSON.parse(event.data)));
  // Where the stream does not come through, they are fetched.
  const ask = async () => {
    if (stream.readyState === EventSource.OPEN) return;
    try {
      const answer = await fetch("/api/v1/status", { headers: { accept: "application/json" } });
      if (answer.ok) show(await answer.json());
    } catch { /* The next time may go better. */ }
  };
  if (document.querySelector("[data-name][data-format]")) setInterval(ask, 5000);

  const list = document.querySelector("[data-changes]");
  const element = (name, type, text) => {
    const made = document.createElement(name);
    made.className = type;
    made.textContent = text;
    return made;
  };
  // What changed, read from the page of the change once somebody wants to see it.
  const details = (change) => {
    const made = element("details", "", "");
    made.append(element("summary", "", "What changed"));
    made.addEventListener("toggle", async () => {
      try {
        const answer = await fetch(`/changes/${Number(change.id)}`);
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        made.append(page.querySelector("[data-diff]"));
      } catch {
        made.append(element("p", "sub", "This cannot be read now; load the page again."));
      }
    }, { once: true });
    return made;
  };
  const add = (change) => {
    if (!list) return;
    const item = element("li", "new", "");
    const link = element("a", "locator", change.locator);
    link.href = `/elements/${Number(change.element)}`;
    const time = element("time", "", "now");
    time.dateTime = change.found_at;
    time.title = change.found_at;
    item.append(element("span", `kind ${change.kind}`, change.kind), " ", link, " ",
      element("span", "source", change.source), " ", time);
    if ("diffs" in list.dataset && change.kind === "changed") item.append(details(change));
    list.prepend(item);
    while (list.children.length > Number(list.dataset.most)) list.lastElementChild.remove();
    for (const empty of all("[data-empty]")) empty.remove();
  };
  const mark = (isLive) => { for (const shown of all(".live")) shown.hidden = !isLive; };
  stream.addEventListener("open", () => mark(true));
  stream.addEventListener("error", () => mark(false));
  stream.addEventListener("change", (event) => add(JSON.parse(event.data)));
  window.addEventListener("pagehide", () => stream.close());
  // A page that comes back from where the browser kept it has missed what was found since.
  window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
})();
