// What the console does in the browser beside htmx: ages run on, and the page says whether it is kept up to date.
(() => {
  "use strict";
  // Times are those of the servers, whatever the clock of this machine says.
  const ahead = Number(document.body.dataset.now) - Date.now();

  const two = (d, large, l, small, s) => {
    const rest = Math.floor((d % large) / small);
    return Math.floor(d / large) + l + (rest > 0 ? " " + rest + s : "");
  };
  const human = (ms) => {
    const d = Math.floor(ms / 1000);
    if (d < 60) return d + "s";
    if (d < 3600) return two(d, 60, "m", 1, "s");
    if (d < 86400) return two(d, 3600, "h", 60, "m");
    return two(d, 86400, "d", 3600, "h");
  };
  const tick = () => {
    const now = Date.now() + ahead;
    for (const e of document.querySelectorAll("time[data-ago],time[data-until]")) {
      const left = e.dataset.until ? Number(e.dataset.until) - now : 0;
      const text = e.dataset.ago ? human(Math.max(0, now - Number(e.dataset.ago))) : left < 0 ? human(-left) + " over" : human(left);
      if (e.firstChild && e.firstChild.nodeType === 3) {
        if (e.firstChild.nodeValue !== text) e.firstChild.nodeValue = text;
      } else {
        e.textContent = text;
      }
    }
  };
  setInterval(tick, 1000);

  const pulse = document.getElementById("pulse");
  const say = (state, word) => {
    if (!pulse || pulse.dataset.state === state) return;
    pulse.dataset.state = state;
    pulse.querySelector(".word").textContent = word;
  };
  document.addEventListener("htmx:sse:after:connection", () => say("live", "live"));
  document.addEventListener("htmx:sse:after:message", () => {
    say("live", "live");
    tick();
    const title = document.querySelector("[data-title]"); // which changes with the page
    if (title) document.title = title.dataset.title + " · " + document.body.dataset.site;
  });
  document.addEventListener("htmx:sse:error", () => say("lost", "not live: trying again"));
  document.addEventListener("htmx:sse:before:connection", (e) => {
    if (e.detail.connection.attempt > 0) say("lost", "not live: trying again");
  });
  document.addEventListener("htmx:sse:close", () => say("lost", "not live: load the page again"));

  // The key that is written beside a field goes to it.
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
    for (const field of document.querySelectorAll("[data-key]")) {
      if (field.dataset.key === e.key) {
        e.preventDefault();
        field.focus();
        return;
      }
    }
  });
})();
