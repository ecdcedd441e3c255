"use strict";
// Draws the failures and the table of queries from the packed columns. Texts only become text
// nodes: nothing here writes HTML.
(async () => {
  const EXAMPLES = 5;
  const MOST_ROWS = 500;
  const KINDS = JSON.parse(document.getElementById("kinds").textContent);
  const STATUSES = { ERROR: "failed", ABSTAINED: "abstained", NOT_ASSESSABLE: "not assessable" };
  const byId = (id) => document.getElementById(id);

  async function unpack() {
    const bytes = Uint8Array.from(atob(byId("data").textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  function el(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
      else if (value !== null && value !== undefined) made.setAttribute(name, value);
    }
    for (const child of children.flat()) if (child !== null) made.append(child);
    return made;
  }

  let data;
  try {
    data = await unpack();
  } catch (problem) {
    byId("unread").hidden = false;
    return;
  }
  const n = data.ids.length;
  const number = (value) => (value === null ? "-" : value.toFixed(4));
  const signed = (value) => (value > 0 ? "+" : value < 0 ? "−" : "") + Math.abs(value).toFixed(4);
  const plural = (count, one, many) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

  const brief = (whole, longest) => (whole.length > longest ? `${whole.slice(0, longest)}…` : whole);

  // ---- one query ----
  const WORD = /[\p{L}\p{N}\p{M}]+/gu;
  // Words that most English texts have are not marked.
  const COMMON = new Set("the and are was were for with that this these from has have had not but its you your can will would may also which what when where who how why does did than then them they their there into over such been being".split(" "));
  const worth = (word) => (word.length > 2 && !COMMON.has(word)) || /[^\x00-\x7f]|\d/.test(word);
  function words(some) {
    const found = new Set();
    for (const one of some) for (const [word] of one.toLowerCase().matchAll(WORD)) if (worth(word)) found.add(word);
    return found;
  }

  function marked(whole, shared, longest) {
    const shown = brief(whole, longest);
    const made = el("p", { class: "text", dir: "auto" });
    let end = 0;
    for (const match of shown.matchAll(WORD)) {
      if (!shared.has(match[0].toLowerCase())) continue;
      made.append(shown.slice(end, match.index), el("mark", {}, match[0]));
      end = match.index + match[0].length;
    }
    made.append(shown.slice(end) || (whole ? "" : "(empty)"));
    return made;
  }

  function judgement(relevant, status, duplicate) {
    if (duplicate) return ["repeated", "missing"];
    if (relevant) return ["relevant", "good"];
    if (STATUSES[status]) return [`no verdict: ${STATUSES[status]}`, "missing"];
    return relevant === null ? ["not judged", "missing"] : ["not relevant", "bad"];
  }

  function resultItem(result, rank, shared, longest) {
    const { id, text, relevant, score, status, agreement, error, matches, duplicate } = result;
    const [said, style] = judgement(relevant, status, duplicate);
    const remarks = [];
    if (score !== null) remarks.push(`score ${score}`);
    if (matches.length) remarks.push(`matches expected ${matches.map((match) => match + 1).join(", ")}`);
    if (agreement !== null && agreement < 1) remarks.push(`agreement ${agreement}`);
    if (error) remarks.push(error);
    return el(
      "li", { class: style },
      el("p", { class: "about" }, el("span", { class: "rank" }, `${rank}`), " ",
        el("bdi", {}, id), " ", el("span", { class: `badge ${style}` }, said)),
      remarks.length ? el("p", { class: "remarks", dir: "auto" }, remarks.join("; ")) : null,
      text === null ? el("p", { class: "note" }, "no text in the document") : marked(text, shared, longest),
    );
  }

  // Results to show first: the top two, the first relevant, failed and disputed one.
  function mostUseful(results) {
    const first = (wanted) => results.findIndex(wanted);
    const picked = [0, 1, first((result) => result.relevant), first((result) => STATUSES[result.status]), first((result) => result.agreement !== null && result.agreement < 1)];
    return [...new Set(picked)].filter((rank) => rank >= 0 && rank < results.length).sort((a, b) => a - b);
  }

  function resultsColumn(title, detail, expected, longest, all) {
    const column = el("div", {}, el("p", { class: "label" }, title));
    if (detail === null) {
      column.append(el("p", { class: "note" }, "The document has no texts of this query."));
      return column;
    }
    const { results, total, failure } = detail;
    if (failure) column.append(el("p", { class: "text", dir: "auto" }, failure));
    if (!total) column.append(el("p", { class: "note" }, "Nothing was retrieved."));
    const shown = all ? [...results.keys()] : mostUseful(results);
    if (shown.length) column.append(el("ol", { class: "results" }, shown.map((rank) => resultItem(results[rank], rank + 1, expected, longest))));
    if (shown.length < total) column.append(el("p", { class: "note" }, `and ${plural(total - shown.length, "more result", "more results")}`));
    return column;
  }

  function texts(row, longest, all) {
    const details = data.details[row];
    if (details === undefined) return el("p", { class: "note" }, "The texts of this query were left out to keep the file small.");
    const known = details.filter((detail) => detail !== null);
    if (!known.length) return el("p", { class: "note" }, "The document has no texts of this query.");
    const expected = known[known.length - 1].expected;
    const retrieved = known.flatMap((detail) => detail.results).map((result) => result.text || "");
    const [ours, theirs] = [words(expected), words(retrieved)];
    const first = el("div", {}, el("p", { class: "label" }, "Expected"));
    if (expected.length) first.append(el("ol", { class: "results" }, expected.map((one) => el("li", {}, marked(one, theirs, longest)))));
    else first.append(el("p", { class: "note" }, "No expected text: matched by document id, or nothing is expected."));
    const columns = details.map((detail, run) => resultsColumn(details.length > 1 ? `Retrieved by ${data.runs[run]}` : "Retrieved", detail, ours, longest, all));
    return el("div", { class: `side columns-${columns.length + 1}` }, first, columns);
  }

  function valuesLine(row) {
    const parts = data.metrics.map((name, metric) => {
      const value = data.values[metric][row];
      const before = data.before ? data.before[metric][row] : null;
      const change = before !== null && value !== null ? ` (${signed(value - before)})` : "";
      return `${name} ${number(value)}${change}`;
    });
    const first = data.first[row];
    if (first !== null) parts.push(first ? `first hit at rank ${first}` : "no hit");
    return parts.join(" · ");
  }

  const titles = (row) => KINDS.filter((kind) => data.kinds[row] & kind.bit).map((kind) => kind.title).join(", ");

  function query(row) {
    return data.queries[row] ? el("p", { class: "query", dir: "auto" }, data.queries[row]) : null;
  }

  function example(row, open) {
    const summary = el("summary", {}, el("bdi", { class: "id" }, brief(data.ids[row], 80)), " ", el("bdi", {}, brief(data.queries[row], 160)));
    const made = el("details", {}, summary);
    const fill = () => {
      if (made.childElementCount === 1) made.append(el("p", { class: "note" }, valuesLine(row)), texts(row, 400, false));
    };
    made.addEventListener("toggle", fill);
    window.addEventListener("beforeprint", () => { fill(); made.open = true; });
    if (open) { fill(); made.open = true; }
    return made;
  }

  // ---- failures by kind ----
  KINDS.forEach((kind, index) => {
    const place = byId(`kind-${kind.bit}`);
    let shown = 0;
    for (let row = 0; row < n && shown < EXAMPLES; row += 1) {
      if (!(data.kinds[row] & kind.bit)) continue;
      place.append(example(row, index === 0 && shown === 0));
      shown += 1;
    }
  });
  for (const button of document.querySelectorAll("button[data-kind]")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      byId("kind").value = button.dataset.kind;
      refresh();
      byId("queries").scrollIntoView();
      byId("search").focus({ preventScroll: true });
    });
  }

  // ---- the table of queries ----
  const search = byId("search");
  const kindChoice = byId("kind");
  const detail = byId("detail");
  const metricColumns = data.metrics.map((name, metric) => ({
    title: name, wide: false, key: (row) => data.values[metric][row] ?? -1, cell: (row) => number(data.values[metric][row]),
  }));
  if (data.before) {
    data.metrics.forEach((name, metric) => {
      const change = (row) => {
        const [value, before] = [data.values[metric][row], data.before[metric][row]];
        return value === null || before === null ? null : value - before;
      };
      metricColumns.splice(2 * metric + 1, 0, {
        title: `${name} change`, wide: false, key: (row) => change(row) ?? -2, cell: (row) => (change(row) === null ? "-" : signed(change(row))),
      });
    });
  }
  const columns = [
    { title: "query id", key: (row) => data.ids[row], cell: null },
    { title: "query", wide: true, key: (row) => data.queries[row], cell: (row) => data.queries[row] },
    ...metricColumns,
    { title: "first hit", key: (row) => data.first[row] || (data.first[row] === 0 ? 1e9 : 2e9), cell: (row) => (data.first[row] === null ? "-" : data.first[row] || "none") },
    { title: "what is wrong", wide: true, key: (row) => data.kinds[row], cell: titles },
  ];
  // Widths in pixels: 108 for a column of numbers, 130 for ids, at least 200 for texts.
  const wide = columns.filter((column) => column.wide).length;
  byId("grid").style.minWidth = `${130 + 108 * (columns.length - 1 - wide) + 200 * wide}px`;
  const haystack = data.ids.map((id, row) => `${id}\n${data.queries[row]}`.toLowerCase());
  let order = Array.from({ length: n }, (_, row) => row);
  let sorted = { column: null, down: false };

  function header() {
    const heads = columns.map((column, index) => {
      const state = sorted.column === index ? (sorted.down ? "descending" : "ascending") : null;
      const arrow = state ? (sorted.down ? " ▼" : " ▲") : "";
      const button = el("button", { type: "button", "data-column": index, on: { click: () => sortBy(index) } }, column.title + arrow);
      return el("th", { scope: "col", "aria-sort": state, class: column.wide ? "wide" : index ? "number" : "id" }, button);
    });
    byId("head").replaceChildren(el("tr", {}, heads));
  }

  function sortBy(index) {
    sorted = { column: index, down: sorted.column === index && !sorted.down };
    header();
    refresh();
    document.querySelector(`[data-column="${index}"]`).focus();
  }

  function refresh() {
    const wanted = search.value.trim().toLowerCase();
    const kind = kindChoice.value;
    order = [];
    for (let row = 0; row < n; row += 1) {
      if (kind === "any" && !data.kinds[row]) continue;
      if (kind === "none" && data.kinds[row]) continue;
      if (Number(kind) && !(data.kinds[row] & Number(kind))) continue;
      if (wanted && !haystack[row].includes(wanted)) continue;
      order.push(row);
    }
    if (sorted.column !== null) {
      const keys = new Map(order.map((row) => [row, columns[sorted.column].key(row)]));
      const sign = sorted.down ? -1 : 1;
      order.sort((a, b) => {
        const [x, y] = [keys.get(a), keys.get(b)];
        return sign * (x < y ? -1 : x > y ? 1 : 0) || a - b;
      });
    }
    const total = plural(n, "query", "queries");
    const some = order.length === n ? total : `${order.length.toLocaleString("en")} of ${total}`;
    byId("shown").textContent = order.length > MOST_ROWS ? `${some}; the first ${MOST_ROWS} are shown, search for others` : some;
    byId("empty").hidden = order.length > 0;
    byId("body").replaceChildren(...order.slice(0, MOST_ROWS).map(line));
  }

  function line(row) {
    const cells = columns.map((column, number) => {
      if (number === 0) {
        const id = el("bdi", {}, data.ids[row] || "(empty)");
        return el("th", { scope: "row" }, el("button", { type: "button", title: data.ids[row], on: { click: () => open(row) } }, id));
      }
      return el("td", { class: column.wide ? "wide" : "number", dir: column.wide ? "auto" : null }, brief(String(column.cell(row)), 160));
    });
    return el("tr", {}, cells);
  }

  function open(row) {
    detail.replaceChildren(...[
      el("h3", { tabindex: "-1" }, el("bdi", {}, data.ids[row]), el("span", { class: "kinds" }, ` ${titles(row)}`)),
      query(row),
      el("p", { class: "note" }, valuesLine(row)),
      texts(row, Infinity, true),
    ].filter((part) => part !== null));
    detail.hidden = false;
    detail.querySelector("h3").focus();
  }

  search.addEventListener("input", refresh);
  kindChoice.addEventListener("change", refresh);
  byId("interactive").hidden = n === 0;
  header();
  refresh();
  document.documentElement.dataset.ready = "yes";
})();
