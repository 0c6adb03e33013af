// The sign-in page: takes the token from the fragment of the address, which browsers do not send. It
// does not stay in the history. The person submits it: an address that somebody else sent must not
// sign in by itself.
function takeToken() {
  const form = document.getElementById("sign-in");
  const token = location.hash.slice(1);
  if (form && token) {
    history.replaceState(null, "", location.pathname + location.search);
    form.elements.namedItem("token").value = token;
    form.querySelector("button").focus();
  }
}
// Not before: htmx changes the history when it begins.
addEventListener("load", takeToken);
// The link may be opened where the page is shown already.
addEventListener("hashchange", takeToken);

// A form is sent once: browsers show the response to the last click, which may not have the secret of a
// new key. The button stays as it is for the request, which may have its value.
const sentForms = new Map();
addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.getAttribute("method") !== "post") return;
  if (sentForms.has(form)) {
    event.preventDefault();
    return;
  }
  sentForms.set(form, event.submitter);
  event.submitter?.setAttribute("aria-disabled", "true");
});
// A page that the browser kept is shown again: its forms can be sent again.
addEventListener("pageshow", () => {
  for (const button of sentForms.values()) button?.removeAttribute("aria-disabled");
  sentForms.clear();
});

// A page in the background closes its stream until it is shown: browsers have few connections to a
// host. htmx does so when a page is hidden. This is for one that is hidden already when its stream
// begins.
document.addEventListener("htmx:sse:after:message", () => {
  if (document.hidden) document.dispatchEvent(new Event("visibilitychange"));
});
