import assert from "node:assert/strict";
import { test } from "node:test";

import { inspectInWindows } from "./support/browser.js";
import { as, world } from "./support/shared.js";
import { HOSTILE } from "./support/world.js";

/** A name of a key has at most 100 characters. */
const LONG = HOSTILE.long.slice(0, 100);

/** Fills the form of a new key. */
async function fill(page, { name, permissions = ["segments.list"], groups = [] }) {
    await page.at("/w/acme/keys/new");
    await page.getByRole("main").getByRole("textbox", { name: "Name" }).fill(name);
    for (const permission of permissions) await page.getByRole("checkbox", { name: permission }).check();
    for (const group of groups) {
        await page.getByRole("group", { name: group, exact: true }).getByRole("checkbox", { name: /^All / }).check();
    }
}

/** The status of a request with a secret. */
async function statusOf(secret) {
    const headers = { authorization: `Bearer ${secret}` };
    return (await fetch(`${world.api}/segments/list`, { headers })).status;
}

test("without JavaScript, an admin creates a key, sees who uses it, and revokes it", async () => {
    await as("admin", { javaScriptEnabled: false }, async (page) => {
        const main = page.getByRole("main");
        await fill(page, { name: HOSTILE.markup, groups: ["Exports of users"] });
        await main.getByRole("button", { name: "Create the key" }).click();
        const secret = await main.getByRole("textbox", { name: "Secret" }).inputValue();
        assert.equal(await statusOf(secret), 200);
        assert.ok(!page.url().includes(secret), page.url());

        await main.getByRole("link", { name: "All keys" }).click();
        await main.getByRole("link", { name: HOSTILE.markup }).click();
        assert.ok(!(await page.content()).includes(secret), "the secret is shown again");
        await world.until("the use is shown", async () => {
            await page.reload();
            return !/Never/.test(await main.innerText());
        });
        await main.getByRole("link", { name: "Revoke" }).click();
        await main.getByText(/The last recorded request came/).waitFor();
        await main.getByRole("button", { name: "Revoke the key" }).click();
        await main.getByText("Requests with this key get 401").waitFor();
        await world.until("the key is refused", async () => (await statusOf(secret)) === 401);
        await page.at("/w/acme/keys?state=revoked");
        await main.getByRole("row").filter({ hasText: HOSTILE.markup }).getByText("console:ana").waitFor();
    });
});

test("a double click creates one key, and shows its secret", async () => {
    await as("admin", {}, async (page) => {
        const main = page.getByRole("main");
        await fill(page, { name: "clicked twice" });
        const posts = [];
        page.on("request", (request) => request.method() === "POST" && posts.push(request.url()));
        await main.getByRole("button", { name: "Create the key" }).dblclick();
        const secret = await main.getByRole("textbox", { name: "Secret" }).inputValue();
        assert.equal(await statusOf(secret), 200);
        assert.equal(posts.length, 1, posts.join(" "));
        // The form can be sent again.
        await page.goBack();
        await main.getByRole("button", { name: "Create the key", disabled: false }).waitFor();
        await page.at("/w/acme/keys");
        assert.equal(await main.getByRole("link", { name: "clicked twice" }).count(), 1);
    });
});

test("axe finds no violation on the pages of keys, and none scrolls sideways, in light and dark", async () => {
    const found = [];
    await as("admin", { bypassCSP: true }, async (page) => {
        const main = page.getByRole("main");
        const check = async (name) => {
            found.push(...(await inspectInWindows(page, name, [320, 700, 1280])));
        };
        await page.at("/w/acme/keys/new");
        await main.getByRole("button", { name: "Create the key" }).click();
        await main.getByText("No key was created.").waitFor();
        await check("form with errors");
        await fill(page, { name: LONG, groups: ["Users", "Campaigns and Canvases"] });
        await check("form");
        await main.getByRole("button", { name: "Create the key" }).click();
        await check("created");
        await main.getByRole("link", { name: "This key" }).click();
        await check("key");
        await main.getByRole("link", { name: "Revoke" }).click();
        await check("question");
        await main.getByRole("button", { name: "Revoke the key" }).click();
        await check("revoked key");
        for (const state of ["", "?state=revoked"]) {
            await page.at(`/w/acme/keys${state}`);
            await check(`keys${state}`);
        }
        await page.at("/w/globex/keys");
        await check("no keys");
    });
    assert.equal(found.length, 0, found.join("\n\n"));
});

test("whoever may not manage keys is offered none", async () => {
    await as("operator", {}, async (page) => {
        await page.at("/w/acme/exports");
        assert.equal(await page.getByRole("link", { name: "API keys" }).count(), 0);
        assert.equal((await page.at("/w/acme/keys")).status(), 403);
    });
});
