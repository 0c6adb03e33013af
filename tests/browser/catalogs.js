import assert from "node:assert/strict";
import { test } from "node:test";

import { inspectInWindows } from "./support/browser.js";
import { as, world } from "./support/shared.js";
import { HOSTILE } from "./support/world.js";

test("without JavaScript, a viewer finds an item by the beginning of its id, and reads its fields", async () => {
    await as("viewer", { javaScriptEnabled: false }, async (page) => {
        const main = page.getByRole("main");
        await page.at("/w/acme/exports");
        await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "Catalogs" }).click();
        await main.getByRole("link", { name: "restaurants" }).click();
        await main.getByRole("link", { name: "Next" }).click();
        await main.getByRole("link", { name: "First" }).click();
        await main.getByLabel("Item id begins with").fill("restaurant-4");
        await main.getByRole("button", { name: "Search" }).click();
        await page.waitForURL(/search=restaurant-4/);
        // 4, and 40 to 49.
        assert.equal(await main.getByRole("link", { name: /^restaurant-/ }).count(), 11);
        await main.getByRole("link", { name: "restaurant-42" }).click();
        await main.getByRole("heading", { level: 1, name: "restaurant-42" }).waitFor();
        const text = await main.innerText();
        assert.ok(text.includes("Kyoto") && text.includes(HOSTILE.markup), text);
    });
});

test("an admin finds the user of an invalid number, which is in no address", async () => {
    await world.importRecords([{ external_id: "unreachable", phone: "+15550123" }]);
    await world.invalidNumbers(["+15550123", "+15550124"], HOSTILE.markup);
    await as("admin", {}, async (page) => {
        const main = page.getByRole("main");
        await page.at("/w/acme/sms-numbers");
        await main.getByLabel("Number begins with").fill("x");
        await main.getByRole("button", { name: "Search" }).click();
        await main.getByText("must be the beginning of a number").waitFor();
        await main.getByLabel("Number begins with").fill("+1 555 0123");
        await main.getByRole("button", { name: "Search" }).click();
        await main.getByText(HOSTILE.markup).waitFor();
        assert.equal(await main.getByRole("button", { name: /Find the user/ }).count(), 1);
        assert.ok(!page.url().includes("5550123"), page.url());
        await main.getByRole("button", { name: "Find the user with +15550123" }).click();
        await page.waitForURL(/\/users\/[0-9a-f-]{36}$/);
        await main.getByRole("heading", { level: 1, name: "unreachable" }).waitFor();
    });
});

test("axe finds no violation on the pages of content, and none scrolls sideways, in light and dark", async () => {
    await world.purchases(Object.values(HOSTILE));
    await world.invalidNumbers(["+15550125"], HOSTILE.long);
    const paths = [
        "/w/acme/catalogs",
        "/w/globex/catalogs",
        "/w/acme/catalogs/restaurants",
        "/w/acme/catalogs/restaurants?search=none",
        "/w/acme/catalogs/restaurants/restaurant-7",
        `/w/acme/catalogs/restaurants/${"x".repeat(250)}`,
        "/w/acme/products",
        "/w/acme/sms-numbers",
        "/w/globex/sms-numbers",
        "/w/acme/developer",
    ];
    const found = [];
    await as("admin", { bypassCSP: true }, async (page) => {
        await world.until("the products are listed", async () => {
            await page.at("/w/acme/products");
            return (await page.getByRole("main").innerText()).includes(HOSTILE.markup);
        });
        for (const path of paths) {
            await page.at(path);
            found.push(...(await inspectInWindows(page, path)));
        }
    });
    assert.equal(found.length, 0, found.join("\n\n"));
});
