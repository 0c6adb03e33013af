import assert from "node:assert/strict";
import { test } from "node:test";

import { as, world } from "./support/shared.js";

test("an operator sees why a callback fails, and sends it at once", async () => {
    const callback_endpoint = "http://receiver.invalid/hook?token=hidden";
    const prefix = await world.request({ segment: "Winter sale", callback_endpoint });
    await world.reaches(prefix, "done");
    await as("operator", {}, async (page) => {
        const main = page.getByRole("main");
        await page.at("/w/acme/deliveries");
        await page.getByRole("textbox", { name: "Export or email" }).fill(prefix);
        await page.getByRole("button", { name: "Filter" }).click();
        await main.getByRole("link", { name: "Callback", exact: true }).click();
        await world.until("the first attempt failed", async () => {
            await page.reload();
            return /did not respond/.test(await main.innerText());
        });
        assert.ok(!(await main.innerText()).includes("hidden"), "the address has a secret");
        assert.equal(await main.getByRole("link", { name: "Show the body" }).count(), 0);
        await main.getByRole("button", { name: "Send now" }).click();
        await main.getByRole("heading", { name: "It is sent again" }).waitFor();
        await main.getByRole("link", { name: prefix }).click();
        await page.waitForURL(new RegExp(`/exports/${prefix}`));
    });
});

test("the page of the system shows the process, and the partitions on request", async () => {
    await as("viewer", {}, async (page) => {
        await page.at("/system");
        const main = page.getByRole("main");
        const process = main.getByRole("row").filter({ hasText: "standalone" });
        await process.getByText("Runs").waitFor();
        await main.getByRole("link", { name: "Show all" }).click();
        await main.getByRole("row").filter({ hasText: "tracking 0" }).first().waitFor();
        // It stays while the page is updated.
        await page.waitForResponse((response) => response.url().includes("/system?all=1"));
        await main.getByRole("row").filter({ hasText: "tracking 0" }).first().waitFor();
    });
});

test("a list without dead letters says what would be there", async () => {
    await as("viewer", {}, async (page) => {
        await page.at("/dead-letters");
        await page.getByRole("heading", { name: "No dead letters" }).waitFor();
        await page.at("/w/acme/dead-letters");
        await page.getByRole("heading", { name: "No dead letters" }).waitFor();
    });
});
