import assert from "node:assert/strict";
import { test } from "node:test";

import { inspectInWindows } from "./support/browser.js";
import { as, world } from "./support/shared.js";
import { HOSTILE } from "./support/world.js";

const SOON = () => new Date(Date.now() + 7 * 86_400_000).toISOString();

test("an operator reads the conditions of a segment, counts its users, and exports it", async () => {
    await as("operator", {}, async (page) => {
        const main = page.getByRole("main");
        await page.at("/w/acme/segments");
        await main.getByRole("link", { name: "Gold customers" }).click();
        await main.getByRole("heading", { level: 1, name: "Gold customers" }).waitFor();
        assert.match(await main.getByRole("region", { name: "Conditions" }).innerText(), /loyalty_tier is "gold"/);
        assert.equal(await main.getByRole("link", { name: "Show some users" }).count(), 0);
        await main.getByRole("link", { name: "Count the users" }).click();
        const size = main.getByRole("region", { name: "Size" });
        await size.getByText("Count again").waitFor();
        assert.match(await size.innerText(), /[0-9]/);
        await main.getByRole("link", { name: "Export this segment" }).click();
        await page.getByRole("heading", { level: 1, name: "Request an export" }).waitFor();
        assert.ok(await page.getByRole("radio", { name: /segment/i }).isChecked());
        const chosen = page.getByRole("combobox", { name: "Segment" }).locator("option:checked");
        assert.equal(await chosen.textContent(), "Gold customers");
    });
});

test("without JavaScript, an admin sees some users of a segment", async () => {
    await as("admin", { javaScriptEnabled: false }, async (page) => {
        const main = page.getByRole("main");
        await page.at("/w/acme/segments");
        await main.getByRole("link", { name: "All users" }).click();
        await main.getByRole("link", { name: "Show some users" }).click();
        await main.getByRole("row").nth(1).getByRole("link").click();
        await page.waitForURL(/\/users\/[0-9a-f-]{36}$/);
    });
});

test("without JavaScript, an operator cancels a schedule, after a question", async () => {
    const id = await world.schedule("Winter sale", SOON());
    await as("operator", { javaScriptEnabled: false }, async (page) => {
        const main = page.getByRole("main");
        await page.at("/w/acme/schedules");
        await main.locator(`a[href$="/schedules/${id}"]`).click();
        await main.getByText("Segment Winter sale").first().waitFor();
        const question = main.locator("details").filter({ hasText: "Cancel the schedule" }).first();
        await question.locator("summary").click();
        await question.getByRole("button", { name: "Cancel the schedule" }).click();
        await main.getByText("Nothing was sent.").waitFor();
        await page.at("/w/acme/schedules");
        assert.equal(await main.locator(`a[href$="/schedules/${id}"]`).count(), 0);
    });
});

test("axe finds no violation on the pages of segments and schedules, and none scrolls sideways, in light and dark", async () => {
    const id = await world.schedule(HOSTILE.long, SOON());
    const segments = await Promise.all(Object.values(HOSTILE).map((name) => world.segment(name)));
    const found = [];
    await as("admin", { bypassCSP: true }, async (page) => {
        for (const path of [
            "/w/acme/segments",
            ...segments.map((segment) => `/w/acme/segments/${segment}?count=1`),
            `/w/acme/segments/${segments[0]}/sample`,
            "/w/acme/schedules",
            "/w/acme/schedules?show=missed",
            `/w/acme/schedules/${id}`,
        ]) {
            await page.at(path);
            found.push(...(await inspectInWindows(page, path)));
        }
    });
    assert.equal(found.length, 0, found.join("\n\n"));
});
