// Local times, live sessions, parts that are fetched when they are opened, and keys. Pages work
// without it.
"use strict";

// Shows the times of a page in the reader's zone; their titles keep them in UTC.
function localize(page) {
  for (const time of page.querySelectorAll("time")) {
    const when = new Date(time.dateTime);
    if (Number.isNaN(when.getTime())) continue;
    const two = (number) => String(number).padStart(2, "0");
    const year = String(when.getFullYear()).padStart(4, "0");
    const day = [year, two(when.getMonth() + 1), two(when.getDate())].join("-");
    const clock = [when.getHours(), when.getMinutes(), when.getSeconds()].map(two).join(":");
    time.title = time.textContent + " UTC";
    time.textContent = day + " " + clock;
  }
}
localize(document);
document.getElementById("zone").textContent =
  "times are local (" + Intl.DateTimeFormat().resolvedOptions().timeZone + "), date filters UTC";

// What is fetched is parsed and moved: scripts in it never run.
function parsed(text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  localize(page);
  return page;
}

function ask(address) {
  return fetch(address, { headers: { "X-Console": "1" }, credentials: "same-origin" });
}

const steps = document.querySelector("[data-live]");
async function follow() {
  const status = document.getElementById("live");
  for (;;) {
    let pause = 0;
    try {
      const answer = await ask(steps.dataset.live + "&known=" + steps.dataset.known);
      if (answer.ok) {
        const known = answer.headers.get("X-Known");
        // It was deleted, and another one has its id.
        if (Number(known) < Number(steps.dataset.known)) return location.reload();
        const news = parsed(await answer.text());
        const items = news.querySelectorAll("li.step");
        const atEnd = window.innerHeight + window.scrollY >= document.body.scrollHeight - 80;
        for (const item of items) {
          const old = document.getElementById(item.id);
          if (old) old.replaceWith(document.adoptNode(item));
          else steps.append(document.adoptNode(item));
        }
        for (const grown of news.querySelectorAll("[data-grown]")) {
          document.getElementById(grown.id).replaceWith(document.adoptNode(grown));
        }
        steps.dataset.known = known;
        status.textContent = "Newer events appear here.";
        if (items.length && atEnd) steps.lastElementChild.scrollIntoView({ block: "end" });
      } else {
        status.textContent = await answer.text();
        pause = answer.status === 503 ? 2000 : 30000;
      }
    } catch (error) {
      status.textContent = "The console does not answer; trying again.";
      pause = 2000;
    }
    if (pause) await new Promise((done) => setTimeout(done, pause));
  }
}
if (steps) follow();

document.addEventListener(
  "toggle",
  async (event) => {
    const opened = event.target;
    if (!opened.open || !opened.dataset || !opened.dataset.from) return;
    const address = opened.dataset.from;
    delete opened.dataset.from;
    const place = opened.querySelector("p");
    place.textContent = "…";
    const answer = await ask(address);
    const text = await answer.text();
    const part = answer.ok ? parsed(text).getElementById("part") : null;
    if (part) {
      part.removeAttribute("id");
      place.replaceWith(document.adoptNode(part));
    } else {
      place.textContent = text;
    }
  },
  true,
);

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
  if (event.key === "/") {
    const fields = document.querySelectorAll(
      "main input:not([type=hidden], [type=checkbox]), main textarea",
    );
    const field = [...fields].find((each) => each.checkVisibility());
    if (field) {
      event.preventDefault();
      field.focus();
    }
  } else if (event.key === "j" || event.key === "k") {
    const items = [...document.querySelectorAll("[data-item]")];
    const here = items.indexOf(document.activeElement.closest("[data-item]"));
    const next = items[event.key === "j" ? here + 1 : Math.max(here - 1, 0)];
    if (next) {
      next.focus();
      next.scrollIntoView({ block: "nearest" });
    }
  } else if (event.key === "g") {
    document.querySelector(".brand").click();
  }
});
