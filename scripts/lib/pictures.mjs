// Draws the pictures of a folder, NAME.svg from the Mermaid text NAME.mmd, with the
// beautiful-mermaid that is installed in another folder.
//
//   pictures.mjs FOLDER INSTALLED

import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, installed] = process.argv.slice(2);
const library = resolve(installed, "node_modules/beautiful-mermaid/dist/index.js");
const { renderMermaidSVG } = await import(pathToFileURL(library));

// A reader's browser chooses the colours: an image has the colour scheme of the page around it.
const COLOURS = `
  svg { --bg: #ffffff; --fg: #1f2328; --muted: #57606a; --line: #8c959f; --border: #afb8c1; }
  @media (prefers-color-scheme: dark) {
    svg { --bg: #161923; --fg: #e6edf3; --muted: #a9b4c0; --line: #6e7681; --border: #57606a; }
  }
  text { font-family: system-ui, sans-serif; }`;

for (const name of readdirSync(folder).filter((name) => name.endsWith(".mmd"))) {
    const text = readFileSync(join(folder, name), "utf8");
    const options = { transparent: true, padding: 8, nodeSpacing: 20, layerSpacing: 28 };
    const picture = renderMermaidSVG(text, options)
        // A picture loads nothing: no font from another server.
        .replace(/\n *@import url\([^)]*\);\n *text \{[^}]*\}/, COLOURS)
        .replace(/ style="--bg:[^"]*"/, "")
        .replace(/\d+\.\d{3,}/g, (number) => String(Number(Number(number).toFixed(2))));
    writeFileSync(join(folder, name.replace(/mmd$/, "svg")), picture.trimEnd() + "\n");
}
