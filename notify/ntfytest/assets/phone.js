// Reads the page again whenever the stream says that a push came.
"use strict";
(() => {
  const live = document.getElementById("live");
  const say = (text, on) => { live.textContent = text; live.classList.toggle("on", on); };
  let again = Promise.resolve();

  const refresh = async (quiet) => {
    const response = await fetch("/phone", { cache: "no-store" });
    if (!response.ok) return;
    const next = new DOMParser().parseFromString(await response.text(), "text/html");
    const list = next.getElementById("pushes");
    if (!list) return;
    document.title = next.title;
    document.getElementById("pushes").replaceChildren(...list.childNodes);
    if (quiet) return;
    document.querySelector(".push")?.classList.add("come");
    say("new push", true);
    setTimeout(() => say("live", true), 4000);
  };
  // One at a time, so that an older page never replaces a newer one.
  const queue = (quiet) => { again = again.then(() => refresh(quiet)).catch(() => {}); };

  const stream = new EventSource("/phone/events");
  stream.addEventListener("open", () => { say("live", true); queue(true); });
  stream.addEventListener("message", () => queue(false));
  // The browser connects again by itself.
  stream.addEventListener("error", () => say("reconnecting", false));
  say("connecting", false);
})();
