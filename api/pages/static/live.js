// Keeps a page current: journal events by server-sent events, then the page's own part fetched anew.
"use strict";
(function () {
  const view = document.getElementById("view");
  const light = document.getElementById("live");
  if (!view || !view.dataset.live) return;

  const kinds = ["assessment", "alert", "order", "pump_out", "hot_discharge", "frequency_proposal", "quarantine"];
  const address = new URL(window.location.href);
  address.searchParams.set("fragment", "true");
  let waiting = null;
  let busy = false;
  let shown = null;
  let last = 0;

  function say(state, words) {
    light.className = "live " + state;
    light.textContent = words;
  }

  async function refresh() {
    waiting = null;
    if (busy || document.hidden) return;
    busy = true;
    last = Date.now();
    try {
      const answer = await fetch(address, { headers: { Accept: "text/html" }, credentials: "same-origin" });
      if (answer.redirected) { window.location.assign("/sign-in"); return; }
      if (!answer.ok) return;
      const text = await answer.text();
      if (text !== shown) replace(text);
      shown = text;
    } catch (error) {
      say("lost", "Reconnecting…");
    } finally {
      busy = false;
    }
  }

  function replace(text) {
    const focused = document.activeElement ? document.activeElement.id : "";
    const places = [...view.querySelectorAll(".scroll, .plot")].map((one) => [one.scrollLeft, one.scrollTop]);
    view.innerHTML = text;  // rendered and escaped by the server that sent this page
    view.querySelectorAll(".scroll, .plot").forEach((one, i) => {
      if (places[i]) { one.scrollLeft = places[i][0]; one.scrollTop = places[i][1]; }
    });
    const again = focused ? document.getElementById(focused) : null;
    if (again && again !== document.activeElement) again.focus({ preventScroll: true });
  }

  function soon() {
    if (waiting !== null) return;
    waiting = window.setTimeout(refresh, Math.max(250, last + 1500 - Date.now()));  // however fast events come
  }

  for (const plot of view.querySelectorAll(".plot")) plot.scrollLeft = plot.scrollWidth;  // narrow: the newest first

  const source = new EventSource(view.dataset.live);
  source.onopen = () => say("on", "Live");
  source.onerror = () => say("lost", "Reconnecting…");
  for (const kind of kinds) source.addEventListener(kind, soon);
  window.setInterval(soon, 5000);  // estimates change between events
  document.addEventListener("visibilitychange", soon);
  window.addEventListener("pagehide", () => source.close());
})();
