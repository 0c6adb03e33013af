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
