// What is wrong with a page for people who cannot see it well, or have no mouse. Answers with sentences; none is good.
(() => {
  "use strict";
  const wrong = [];
  const shown = (e) => e.checkVisibility({ checkVisibilityCSS: true }) && e.getClientRects().length > 0;
  const where = (e) => {
    const name = e.id ? "#" + e.id : [...e.classList].slice(0, 2).map((c) => "." + c).join("");
    return `<${e.tagName.toLowerCase()}${name}> ${JSON.stringify((e.textContent || "").trim().slice(0, 40))}`;
  };
  const says = (e, what) => wrong.push(`${what}: ${where(e)}`);
  const all = (selector) => [...document.querySelectorAll(selector)];

  // What it is.
  if (!document.documentElement.lang) wrong.push("the page has no language");
  if (!document.title.trim()) wrong.push("the page has no title");
  if (!document.querySelector("meta[name=viewport]")) wrong.push("no viewport: telephones show it small");
  for (const [one, name] of [["main", "main"], ["header", "header"], ["nav", "nav"], ["h1", "first heading"]]) {
    const n = all(one).filter((e) => one === "nav" ? e.closest("header") : true).length;
    if (n !== 1) wrong.push(`${n} of ${name} instead of one`);
  }
  for (const nav of all("nav, section, [role=group], [role=search]")) {
    if (!nav.hasAttribute("aria-label") && !nav.hasAttribute("aria-labelledby") && nav.tagName !== "FORM") says(nav, "a part without a name");
  }

  // Headings go down one step at a time.
  let level = 0;
  for (const h of all("h1,h2,h3,h4,h5,h6")) {
    const is = Number(h.tagName[1]);
    if (is > level + 1) says(h, `a heading of level ${is} below one of level ${level}`);
    if (!h.textContent.trim()) says(h, "an empty heading");
    level = is;
  }

  // Names: what is written beside, labels, and what they point to.
  const ids = new Map();
  for (const e of all("[id]")) {
    if (ids.has(e.id)) says(e, `the id ${e.id} is there twice`);
    ids.set(e.id, e);
  }
  const text = (id) => (id || "").split(/\s+/).filter(Boolean).map((one) => {
    if (!ids.has(one)) wrong.push(`nothing has the id ${one}, to which something refers`);
    return ids.get(one)?.textContent || "";
  }).join(" ").trim();
  for (const e of all("[aria-labelledby],[aria-describedby],[aria-controls]")) {
    for (const a of ["aria-labelledby", "aria-describedby", "aria-controls"]) if (e.hasAttribute(a) && !text(e.getAttribute(a))) says(e, `${a} says nothing`);
  }
  const named = (e) => (e.getAttribute("aria-label") || text(e.getAttribute("aria-labelledby")) || [...(e.labels || [])].map((l) => l.textContent).join(" ")).trim();
  for (const e of all("input:not([type=hidden]), select, textarea, meter, progress")) if (!named(e)) says(e, "a field without a label");
  for (const e of all("a[href], button, summary")) {
    const has = named(e) || e.textContent.trim() || e.querySelector("svg title")?.textContent || e.querySelector("img[alt]")?.alt;
    if (!has) says(e, "a link or a button without a name");
  }
  for (const e of all("img:not([alt])")) says(e, "an image without words");
  for (const e of all("svg")) {
    if (e.closest("[aria-hidden=true]")) continue;
    if (!(e.getAttribute("role") === "img" || e.hasAttribute("aria-label") || e.querySelector("title"))) says(e, "a picture without role or title");
    else if (!(named(e) || e.querySelector(":scope > title")?.textContent.trim())) says(e, "a picture without a name");
  }
  for (const e of all("table")) {
    if (!e.querySelector("th[scope=col]")) says(e, "a table whose columns have no heads");
    for (const th of e.querySelectorAll("thead th")) if (!th.textContent.trim()) says(e, "a column without a name");
  }
  for (const e of all("ul > *, ol > *")) if (e.tagName !== "LI") says(e, "in a list, but no item");
  for (const e of all("dl > *")) if (!["DT", "DD", "DIV"].includes(e.tagName)) says(e, "in a list of terms, but none");
  for (const e of all("form")) if (!e.querySelector("button")) says(e, "a form without a button");
  for (const e of all("a[target=_blank]:not([rel~=noreferrer]):not([rel~=noopener])")) says(e, "a window of somebody else that can reach this one");

  // The keyboard.
  for (const e of all("[tabindex]")) if (e.tabIndex > 0) says(e, "takes part in the order of tabs by a number");
  for (const e of all("[onclick]")) says(e, "is clicked on by a script");
  for (const e of all("[aria-hidden=true] a[href], [aria-hidden=true] button, [aria-hidden=true] input")) says(e, "can be reached, and is hidden from readers");
  for (const e of all("*")) { // what scrolls has to scroll by the keyboard
    const s = getComputedStyle(e);
    if (e === document.documentElement || e === document.body || !shown(e) || !/auto|scroll/.test(s.overflowX + s.overflowY)) continue;
    if ((e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1) && e.tabIndex < 0 && !e.querySelector("a[href], button, input, select, [tabindex='0']")) says(e, "scrolls, but not by the keyboard");
  }

  // Widths.
  const page = document.documentElement;
  if (page.scrollWidth > page.clientWidth) {
    wrong.push(`the page is ${page.scrollWidth} pixels wide, the window ${page.clientWidth}`);
    for (const e of all("body *")) if (shown(e) && e.getBoundingClientRect().right > page.clientWidth + 1 && !e.closest(".scroll, nav")) says(e, "sticks out");
  }
  // What is pressed by fingers.
  if (innerWidth < 500) {
    for (const e of all("button, .button, input:not([type=hidden]):not([type=checkbox]), select, header nav a, .choices a")) {
      const r = e.getBoundingClientRect();
      if (shown(e) && !e.classList.contains("link") && !e.closest(".skip") && r.height < 36) says(e, `only ${Math.round(r.width)}×${Math.round(r.height)} pixels`);
    }
    for (const e of all("table.cards")) {
      if (e.parentElement.scrollWidth > e.parentElement.clientWidth + 1) says(e, "a list of cards whose end is not to be seen");
    }
    for (const e of all("header nav a")) { // one sees where else to go
      const r = e.getBoundingClientRect();
      if (r.left < 0 || r.right > innerWidth) says(e, "a part of the menu that is not to be seen");
    }
    for (const e of all(".picture svg")) { // a graph is as wide as it has to be
      if (shown(e) && e.getAttribute("aria-labelledby") && !/waits for whom/.test(e.querySelector("title").textContent) && e.getBoundingClientRect().right > innerWidth) says(e, "a picture whose end is not to be seen");
    }
  }

  // Contrast, of colours as they are drawn.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const rgba = (colour) => {
    if (!known.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = "#0000";
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const d = canvas.getImageData(0, 0, 1, 1).data;
      known.set(colour, [d[0], d[1], d[2], d[3] / 255]);
    }
    return known.get(colour);
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const light = (c) => {
    const [r, g, b] = c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((m, n) => n - m);
    return (x + 0.05) / (y + 0.05);
  };
  const canvasColour = rgba(matchMedia("(prefers-color-scheme: dark)").matches ? "#000" : "#fff");
  const behind = (e) => { // what is painted below an element
    if (e instanceof SVGElement) {
      const own = getComputedStyle(e);
      if (own.paintOrder.startsWith("stroke") && own.stroke !== "none") return over(rgba(own.stroke), canvasColour); // a halo
      const r = e.getBoundingClientRect();
      const layers = [];
      for (const under of document.elementsFromPoint(r.x + r.width / 2, r.y + r.height / 2)) {
        if (under === e || e.contains(under) || under.contains(e) && under instanceof SVGElement || under.tagName === "text" || under.tagName === "tspan") continue;
        const s = getComputedStyle(under);
        const c = rgba(under instanceof SVGElement && under.tagName !== "svg" ? (under.tagName === "line" ? s.stroke : s.fill).replace("none", "#0000") : s.backgroundColor).slice();
        if (under instanceof SVGElement) c[3] *= Number(s.fillOpacity) * Number(s.opacity);
        layers.push(c);
        if (c[3] === 1) break;
      }
      return layers.reverse().reduce((below, top) => over(top, below), canvasColour);
    }
    const layers = [];
    for (let at = e; at; at = at.parentElement) {
      const c = rgba(getComputedStyle(at).backgroundColor);
      layers.push(c);
      if (c[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), canvasColour);
  };
  const legible = (e, colour, what, s) => {
    let c = rgba(colour);
    for (let at = e; at; at = at.parentElement) c = [c[0], c[1], c[2], c[3] * Number(getComputedStyle(at).opacity)];
    const ground = behind(e);
    const is = ratio(over(c, ground), ground);
    const size = parseFloat(s.fontSize);
    const need = size >= 24 || size >= 18.66 && Number(s.fontWeight) >= 700 ? 3 : 4.5;
    if (is < need) says(e, `${what} of contrast ${is.toFixed(2)} (${colour} on ${ground.slice(0, 3).map(Math.round)}), ${need} is needed`);
    return is;
  };
  let least = 21;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.nodeValue.trim() || seen.has(e) || !e || !shown(e) || e.closest("script, style, title, desc, option, .visually-hidden, .skip:not(:focus)")) continue;
    seen.add(e);
    const svg = e instanceof SVGElement;
    if (svg) { // to be drawn where one can ask what is below
      e.scrollIntoView({ block: "center", inline: "center" });
      const r = e.getBoundingClientRect();
      if (r.width === 0 || r.x + r.width / 2 < 0 || r.x + r.width / 2 > innerWidth || r.y + r.height / 2 < 0 || r.y + r.height / 2 > innerHeight) continue;
    }
    const s = getComputedStyle(e);
    least = Math.min(least, legible(e, svg ? s.fill : s.color, "text", s));
  }
  for (const e of all("input[placeholder]")) {
    if (!e.value && shown(e)) least = Math.min(least, legible(e, getComputedStyle(e, "::placeholder").color, "a placeholder", getComputedStyle(e)));
  }
  // Fields are seen by their borders: 3 against what is around them.
  for (const e of all("input:not([type=hidden]):not([type=checkbox]), select")) {
    if (!shown(e)) continue;
    const s = getComputedStyle(e), ground = behind(e.parentElement);
    const is = ratio(over(rgba(s.borderTopColor), ground), ground);
    if (parseFloat(s.borderTopWidth) < 1 || is < 3) says(e, `the border of a field of contrast ${is.toFixed(2)}, 3 is needed`);
  }
  scrollTo(0, 0);
  return { wrong: [...new Set(wrong)], least, texts: seen.size };
})()
