import assert from "node:assert/strict";
import { test } from "node:test";

import { inspectInWindows } from "./support/browser.js";
import { as, world } from "./support/shared.js";
import { stateOf } from "./support/tasks.js";
import { CAMPAIGN, HOSTILE, UNREACHABLE } from "./support/world.js";

const SENDS = "/w/acme/sends";

/** Cancels the send of a page, which asks first. */
async function cancelSend(page) {
    const question = page.getByRole("main").locator("details").filter({ hasText: "Cancel the send" }).first();
    await question.locator("summary").click();
    await question.getByRole("button", { name: "Cancel the send" }).click();
}

test("an operator finds a wrong send by its campaign, watches it, and cancels it", async () => {
    const id = await world.send({ segment: "Gold customers", messages: UNREACHABLE });
    await as("operator", {}, async (page) => {
        const main = page.getByRole("main");
        await page.at(SENDS);
        await main.getByLabel("Campaign").selectOption({ label: "Spring sale" });
        await main.getByRole("button", { name: "Filter" }).click();
        const row = main.getByRole("row").filter({ has: page.locator(`a[href$="${id}"]`) });
        await row.getByText("Segment Gold customers").waitFor();
        await row.getByText("Webhook").waitFor();
        await row.getByRole("link", { name: "Spring sale" }).click();
        // Until it is loaded: its title is there before.
        await page.waitForURL((url) => url.pathname.endsWith(id));
        await stateOf(page, "Running").waitFor();
        let loads = 0;
        page.on("domcontentloaded", () => (loads += 1));
        await main.getByRole("row").filter({ hasText: "Waiting" }).first().waitFor();
        assert.equal(loads, 0, "the page was loaded again");
        assert.equal(await main.getByRole("link", { name: "Recipients" }).count(), 0);
        await cancelSend(page);
        await stateOf(page, "Cancelled").waitFor();
        await main.getByRole("heading", { name: "Nothing more goes out" }).waitFor();
        assert.equal(await main.locator("summary", { hasText: "Cancel the send" }).count(), 0);
    });
});

test("without JavaScript, an operator checks a campaign, and sends it to a segment", async () => {
    await as("operator", { javaScriptEnabled: false }, async (page) => {
        const main = page.getByRole("main");
        await page.at(SENDS);
        await main.getByRole("link", { name: "Send a campaign" }).click();
        await main.getByLabel("Campaign").selectOption({ label: "Spring sale" });
        await main.getByRole("button", { name: "Check" }).click();
        await main.getByText("Choose a segment of this workspace").first().waitFor();
        assert.equal(await main.getByRole("button", { name: "Send now" }).count(), 0);
        await main.getByLabel("Segment").selectOption({ label: "Gold customers" });
        await main.getByRole("button", { name: "Check" }).click();
        await main.getByRole("region", { name: "What would happen" }).getByText("Left out").waitFor();
        await main.getByRole("button", { name: "Send now" }).click();
        await page.waitForURL(/\/sends\/[0-9a-f]{32}$/);
        await main.getByText("Segment Gold customers").first().waitFor();
    });
});

test("without JavaScript, an admin sees who got a send, and what its campaign sends to a user", async () => {
    const id = await world.send({ segment: "Gold customers" });
    await world.sent(id);
    await as("admin", { javaScriptEnabled: false }, async (page) => {
        const main = page.getByRole("main");
        await page.at(`${SENDS}/${id}`);
        await stateOf(page, "Done").waitFor();
        await main.getByRole("link", { name: "Recipients" }).click();
        await main.getByRole("link", { name: "Sent", exact: true }).click();
        const user = main.getByRole("row").nth(1).getByRole("link");
        const name = (await user.innerText()).trim();
        await user.click();
        await page.waitForURL(/\/users\/[0-9a-f-]{36}$/);

        await page.at(`${SENDS}/${id}`);
        await main.getByRole("link", { name: "Preview" }).click();
        await main.getByRole("button", { name: "Render" }).click();
        await main.getByRole("alert").getByRole("link", { name: "User" }).waitFor();
        await main.getByLabel("User").fill(name);
        await main.getByRole("button", { name: "Render" }).click();
        await main.getByText("Would be sent").waitFor();
        await main.getByText(`For ${name}: this card`).waitFor();
    });
});

test("axe finds no violation on the pages of sends, and none scrolls sideways, in light and dark", async () => {
    const done = await world.send({ segment: "Gold customers", send_id: HOSTILE.markup, campaign: HOSTILE.long });
    await world.sent(done);
    const markup = await world.send({ segment: "Winter sale", campaign: HOSTILE.markup, messages: UNREACHABLE });
    await world.run("dispatches", "cancel", markup);
    const running = await world.send({ segment: "Winter sale", messages: UNREACHABLE });
    const found = [];
    await as("admin", { bypassCSP: true }, async (page) => {
        const ids = [done, markup, running];
        const paths = [
            SENDS,
            `${SENDS}?since=2026-01-02&until=2026-01-01`,
            "/w/globex/sends",
            ...ids.map((id) => `${SENDS}/${id}`),
            `${SENDS}/${done}/recipients`,
            `${SENDS}/${done}/recipients?outcome=failed`,
            `/w/acme/preview?campaign=${CAMPAIGN}`,
            `${SENDS}/new?campaign=${CAMPAIGN}&segment_id=${await world.segment(HOSTILE.long)}`,
            `${SENDS}/new?campaign=&segment_id=`,
        ];
        for (const path of paths) {
            await page.at(path);
            await page.getByRole("heading", { level: 1 }).waitFor();
            assert.equal(await page.locator('script:text("alert"), img[onerror]').count(), 0, path);
            found.push(...(await inspectInWindows(page, path, [320, 390, 1280])));
        }
    });
    await world.run("dispatches", "cancel", running);
    assert.equal(found.length, 0, found.join("\n\n"));
});
