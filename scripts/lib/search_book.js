// Searches a built book with an operator's queries, as the book's own search does:
// the right page must be among the first three.
//
//     node search_book.js BOOK
const fs = require("fs");
const path = require("path");

const QUESTIONS = [
    ["exports are slow", "runbooks/export-slow.html"],
    ["Kafka is down", "runbooks/kafka-unavailable.html"],
    ["the disk is full", "runbooks/disk-full.html"],
    ["a key leaked", "runbooks/leaked-key.html"],
    ["restore yesterday's backup", "runbooks/restore-backup.html"],
];

const book = process.argv[2];
const find = (start) => {
    const name = fs.readdirSync(book).find((name) => name.startsWith(start) && name.endsWith(".js"));
    return path.resolve(book, name);
};
const elasticlunr = require(find("elasticlunr-"));
global.window = { search: {} };
require(find("searchindex-"));
const { index, doc_urls: urls, search_options: options } = window.search;
const loaded = elasticlunr.Index.load(index);

let failed = false;
for (const [question, wanted] of QUESTIONS) {
    const pages = [];
    for (const { ref } of loaded.search(question, options)) {
        const page = urls[ref].split("#")[0];
        if (!pages.includes(page)) pages.push(page);
    }
    const place = pages.indexOf(wanted) + 1;
    const found = place >= 1 && place <= 3;
    failed ||= !found;
    console.log(`"${question}": ${wanted} is result ${place || "none"}${found ? "" : ", after " + pages.slice(0, 4).join(", ")}`);
}
process.exit(failed ? 1 : 0);
