import assert from "node:assert/strict";
import { test } from "node:test";

import { exportPath, signIn } from "./support/person.js";
import { browser } from "./support/shared_browser.js";
import { stateOf } from "./support/tasks.js";
import { World } from "./support/world.js";

// LONGSHORE_TEST_USERS=100000 is the long form: most of its time is the import.
const USERS = Number(process.env.LONGSHORE_TEST_USERS ?? 10_000);
const IN_FILE = USERS / 100;
const text = (users) => users.toLocaleString("en-GB");

/** Records each number of exported users that the page shows. */
function recordProgress(page) {
    return page.evaluate((total) => {
        const main = document.querySelector("main");
        const shown = new RegExp(`([\\d,]+) of ${total}`);
        window.progress = [];
        const read = () => {
            const users = main.innerText.match(shown)?.[1];
            if (users && users !== window.progress.at(-1)) window.progress.push(users);
        };
        new MutationObserver(read).observe(main, { childList: true, subtree: true, characterData: true });
        read();
    }, text(USERS));
}

test("pages in the background leave connections to the page that is shown", async (t) => {
    const world = await World.start({ users: 200 });
    t.after(() => world.close());
    world.storage.hold();
    const prefix = await world.request({ segment: "All users", destination: "warehouse" });
    const person = await browser.open();
    await signIn(person.page, await world.link("ana", "operator"));
    const address = world.console + exportPath(prefix);
    // Each page starts in the background. A browser has six connections to a host.
    await person.context.addInitScript(() => {
        window.isShown = false;
        Object.defineProperty(document, "hidden", { get: () => !window.isShown });
    });
    const pages = [];
    for (let count = 0; count < 8; count += 1) {
        const page = await person.context.newPage();
        await page.goto(address);
        await stateOf(page, "Running").waitFor();
        pages.push(page);
    }
    const [first] = pages;
    await first.evaluate(() => {
        window.isShown = true;
        document.dispatchEvent(new Event("visibilitychange"));
    });
    world.storage.release();
    await stateOf(first, "Done").waitFor();
    await person.close(new URL(world.console).host);
});

test("a large export is followed to its end, where the stream ends", async (t) => {
    const world = await World.start({ users: USERS });
    t.after(() => world.close());
    world.storage.hold();
    const prefix = await world.request({ segment: "All users", destination: "warehouse", users_per_file: IN_FILE });
    const person = await browser.open();
    const { page } = person;
    await signIn(page, await world.link("ana", "operator"));

    let loads = 0;
    const streams = [];
    page.on("domcontentloaded", () => (loads += 1));
    page.on("request", (request) => request.url().includes(`${prefix}/live`) && streams.push(request));
    await page.goto(world.console + exportPath(prefix));
    await stateOf(page, "Running").waitFor();
    const main = page.getByRole("main");
    await main.getByText(new RegExp(`^0 of ${text(USERS)}`)).first().waitFor();
    await recordProgress(page);
    for (const files of [30, 60]) {
        // As many further files as are left until then.
        world.storage.hold(30);
        await main.getByText(new RegExp(`^${text(files * IN_FILE)} of ${text(USERS)}`)).first().waitFor();
    }
    // The request for the final state fails at first.
    const ofPage = (url) => url.pathname === exportPath(prefix);
    await page.route(ofPage, (route) => route.fulfill({ status: 503 }), { times: 1 });
    await main.getByRole("link", { name: "Exports", exact: true }).focus();
    world.storage.release();
    await stateOf(page, "Done").waitFor();

    assert.equal(loads, 1, "the page was loaded again");
    const progress = await page.evaluate(() => window.progress);
    const numbers = progress.map((users) => Number(users.replaceAll(",", "")));
    assert.deepEqual(numbers, [...new Set(numbers)].sort((a, b) => a - b), "the number of users only grows");
    for (const files of [0, 30, 60]) assert.ok(numbers.includes(files * IN_FILE), progress.join(", "));
    assert.equal(streams.length, 1, "the stream was opened again");
    // The browser lists a request once its response has ended.
    const hasEnded = (address) => performance.getEntriesByName(address).length === 1;
    await world.until("the stream has ended", () => page.evaluate(hasEnded, streams[0].url()));

    // The final state has the figures of the files, and nothing that only a running export offers. It is
    // loaded after the end of the stream.
    await main.locator("summary", { hasText: /cancel/i }).waitFor({ state: "detached" });
    assert.deepEqual(person.problems.splice(0), [`503: ${world.console}${exportPath(prefix)}`]);
    assert.equal(await page.evaluate(() => document.activeElement.innerText), "Exports", "the focus stays");
    await main.getByText(text(USERS)).first().waitFor();
    const status = JSON.parse(await world.run("export", "status", prefix, "--json", "--key", ""));
    assert.deepEqual([status.state, status.users.done, status.files.done], ["done", USERS, USERS / IN_FILE]);
    await person.close(new URL(world.console).host);
});
