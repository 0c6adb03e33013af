import assert from "node:assert/strict";
import { test } from "node:test";

import { inspectInWindows } from "./support/browser.js";
import { as, world } from "./support/shared.js";
import { HOSTILE } from "./support/world.js";

/** A user whose fields are hostile, with more activity than a page has. */
function hostile(external_id) {
    const day = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
    const purchase = (number) => ({ name: `${HOSTILE.long.slice(0, 200)} ${number}`, first: day, last: day, count: 1 });
    return {
        external_id,
        email: `${external_id}@bücher.example`,
        first_name: HOSTILE.markup,
        last_name: HOSTILE.rightToLeft,
        home_city: HOSTILE.long,
        custom_attributes: { note: HOSTILE.markup + "x".repeat(10_000), [HOSTILE.rightToLeft]: HOSTILE.long },
        apps: [{ name: HOSTILE.long, platform: "iOS", sessions: 3, last_used: `${day}T10:00:00Z` }],
        devices: [{ model: HOSTILE.long.slice(0, 200), os: HOSTILE.rightToLeft }],
        purchases: Array.from({ length: 60 }, (_, number) => purchase(number)),
        email_subscribe: "unsubscribed",
    };
}

async function find(page, identifier) {
    await page.at("/w/acme/users");
    await page.getByLabel("Identifier").fill(identifier);
    await page.getByRole("button", { name: "Find" }).click();
}

test("without JavaScript, an admin finds a user by an address, reads all of a long value, and erases the user", async () => {
    await world.importRecords([hostile("to-erase")]);
    await as("admin", { javaScriptEnabled: false }, async (page) => {
        await find(page, "to-erase@xn--bcher-kva.example");
        await page.waitForURL(/\/users\/[0-9a-f-]{36}$/);
        assert.ok(!(await page.title()).includes("to-erase"), "the browser's history has the title");
        const main = page.getByRole("main");
        assert.ok((await main.innerText()).includes(HOSTILE.markup), "markup is text");
        const value = main.locator("details", { hasText: "Show all" }).first();
        await value.locator("summary").click();
        await value.getByText("x".repeat(10_000)).waitFor();
        await main.getByRole("link", { name: "Older" }).click();
        await main.getByRole("link", { name: "Newer" }).waitFor();

        await main.getByRole("link", { name: "Erase the user" }).click();
        await main.getByLabel(/external_id/).fill("somebody else");
        await main.getByRole("button", { name: "Erase the user" }).click();
        await main.getByText("Nothing was erased.").waitFor();
        await main.getByLabel(/external_id/).fill("to-erase");
        await main.getByRole("button", { name: "Erase the user" }).click();
        await main.getByText("No user has this service_id").waitFor();
        await find(page, "to-erase");
        await main.getByText("No user has this identifier").waitFor();
    });
});

test("axe finds no violation on the pages of a user, and none scrolls sideways, in light and dark", async () => {
    await world.importRecords([hostile("hostile"), { ...hostile("twin"), email: "hostile@bücher.example" }]);
    const found = [];
    await as("admin", { bypassCSP: true }, async (page) => {
        const check = async (name) => {
            found.push(...(await inspectInWindows(page, name)));
        };
        await page.at("/w/acme/users");
        await check("search");
        await find(page, HOSTILE.markup);
        await check("nobody");
        await find(page, "hostile@bücher.example");
        await check("several");
        await find(page, "hostile");
        await page.waitForURL(/\/users\/[0-9a-f-]{36}$/);
        const record = page.url();
        await check("record");
        for (const part of ["messages", "messages?send=0197b6a83c557e119a1f3f0f3c2d6e54", "erase"]) {
            await page.goto(`${record}/${part}`);
            await check(part);
        }
    });
    assert.equal(found.length, 0, found.join("\n\n"));
});

test("whoever may not see users is offered none", async () => {
    await as("operator", {}, async (page) => {
        await page.at("/w/acme/exports");
        assert.equal(await page.getByRole("link", { name: "Users", exact: true }).count(), 0);
        assert.equal((await page.at("/w/acme/users")).status(), 403);
    });
});
