// Prints what @asyncapi/parser finds in a document, and fails if it finds anything.
const { readFileSync } = require("node:fs");
const { Parser } = require("@asyncapi/parser");

new Parser().parse(readFileSync(process.argv[2], "utf8")).then(({ document, diagnostics }) => {
  for (const found of diagnostics) console.log(found.code, found.path.join("."), found.message);
  process.exitCode = document && diagnostics.length === 0 ? 0 : 1;
});
