"""The page that `attention_html` fills: its style and its script, with `__DATA__` where the weights go."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>Attention weights</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 24px; color: #1a1a1a; background: #fff; }
h1 { font-size: 20px; margin: 0 0 12px; }
label { margin-right: 16px; }
select { font: inherit; }
.tokens { margin: 6px 0 14px; font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
.tokens span { display: inline-block; padding: 1px 5px; margin: 2px; border-radius: 3px; background: #eee;
  cursor: default; unicode-bidi: isolate; }
.tokens small { display: block; text-align: center; font-size: 11px; min-height: 16px; }
.tokens .on { outline: 2px solid #d04a02; }
#scroll { overflow: auto; max-width: 100%; }
table { border-collapse: collapse; font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
th { font-weight: normal; text-align: right; padding: 0 8px; white-space: nowrap; unicode-bidi: isolate; }
thead th { vertical-align: bottom; padding: 4px 0; text-align: left; }
thead th span { writing-mode: vertical-rl; transform: rotate(180deg); display: inline-block; }
td { min-width: 34px; height: 28px; text-align: center; cursor: default; }
td.masked { color: #aaa; }
tr.on th, th.on { background: #ffe3cf; }
p { color: #555; margin: 6px 0; }
</style>
</head>
<body>
<h1>Attention weights</h1>
<div>
<label>kind <select id="kind"></select></label>
<label>layer <select id="layer"></select></label>
<label>head <select id="head"></select></label>
</div>
<p id="hint"></p>
<b>queries</b> <div class="tokens" id="queries"></div>
<b>keys</b> <div class="tokens" id="keys"></div>
<div id="scroll"><table id="table"></table></div>
<p>Rows are queries, columns are keys; each row sums to 1. A dot: exactly 0, masked.</p>
<script type="application/json" id="data">__DATA__</script>
<script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const make = (tag, text, parent) => {
  const element = document.createElement(tag);
  if (text !== null) element.textContent = text;
  parent.appendChild(element);
  return element;
};
const HINT = "Point at a query to see where it looks, at a key to see who looks at it, or at a cell.";

function fill(select, names) {
  const before = select.value;
  select.replaceChildren();
  names.forEach((name, number) => { make("option", name, select).value = String(number); });
  if (before !== "" && Number(before) < names.length) select.value = before;
}
const upTo = count => Array.from({ length: count }, (_, number) => String(number));
const record = () => data.records[Number($("kind").value)];
const weights = () => record().weights[Number($("layer").value)][Number($("head").value)];
const largest = rows => Math.max(1e-9, ...rows.map(row => Math.max(...row)));

function paint(element, value, top) {
  const index = Math.round(value / top * (data.colors.length - 1));
  const color = data.colors[index];
  element.style.background = color;
  const linear = at => {
    const channel = parseInt(color.slice(at, at + 2), 16) / 255;
    return channel <= 0.04045 ? channel / 12.92 : Math.pow((channel + 0.055) / 1.055, 2.4);
  };
  const luminance = 0.2126 * linear(1) + 0.7152 * linear(3) + 0.0722 * linear(5);
  element.style.color = luminance > 0.179 ? "#000" : "#fff";
}

function clear() {
  for (const token of document.querySelectorAll(".tokens span")) {
    token.className = "";
    token.style.background = token.style.color = "";
    token.lastChild.textContent = "";
  }
  for (const element of document.querySelectorAll("#table .on")) element.className = "";
  $("hint").textContent = HINT;
}

function show(ids, number, values, sentence) {
  clear();
  const [own, others] = ids;
  $(own).children[number].className = "on";
  const top = Math.max(1e-9, ...values);
  values.forEach((value, other) => {
    const token = $(others).children[other];
    token.lastChild.textContent = value === 0 ? "·" : value.toFixed(3);
    if (value > 0) paint(token, value, top);
  });
  $("hint").textContent = sentence;
}

function showQuery(row) {
  const query = record().queries[row];
  show(["queries", "keys"], row, weights()[row],
    `query ${row} “${query}”: its weights over the keys, which sum to 1`);
  $("table").tBodies[0].rows[row].className = "on";
}

function showKey(column) {
  const values = weights().map(row => row[column]);
  show(["keys", "queries"], column, values,
    `key ${column} “${record().keys[column]}”: the weight that each query gives it`);
  $("table").tHead.rows[0].cells[column + 1].className = "on";
}

function showCell(row, column) {
  showQuery(row);
  const { queries, keys } = record();
  const value = weights()[row][column].toFixed(4);
  $("hint").textContent =
    `query ${row} “${queries[row]}” looks at key ${column} “${keys[column]}” with ${value}`;
}

function tokens(id, names, onEnter) {
  $(id).replaceChildren();
  names.forEach((name, number) => {
    const token = make("span", name, $(id));
    make("small", "", token);
    token.addEventListener("mouseenter", () => onEnter(number));
    token.addEventListener("mouseleave", clear);
  });
}

function draw() {
  const { queries, keys } = record(), rows = weights(), top = largest(rows);
  tokens("queries", queries, showQuery);
  tokens("keys", keys, showKey);
  const table = $("table");
  table.replaceChildren();
  const header = make("tr", null, make("thead", null, table));
  make("th", "", header);
  for (const key of keys) make("span", key, make("th", null, header));
  const body = make("tbody", null, table);
  rows.forEach((row, number) => {
    const line = make("tr", null, body);
    make("th", queries[number], line);
    row.forEach((value, column) => {
      const cell = make("td", value === 0 ? "·" : value.toFixed(2).replace(/^0/, ""), line);
      if (value === 0) cell.className = "masked"; else paint(cell, value, top);
      cell.addEventListener("mouseenter", () => showCell(number, column));
      cell.addEventListener("mouseleave", clear);
    });
  });
  $("hint").textContent = HINT;
}

function chooseKind() {
  fill($("layer"), upTo(record().weights.length));
  fill($("head"), upTo(record().weights[0].length));
  draw();
}
fill($("kind"), data.records.map(one => one.kind));
$("kind").addEventListener("change", chooseKind);
$("layer").addEventListener("change", draw);
$("head").addEventListener("change", draw);
chooseKind();
</script>
</body>
</html>
"""
