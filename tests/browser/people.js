import assert from "node:assert/strict";
import { test } from "node:test";

import { prefixOf, signIn } from "./support/person.js";
import { as, world } from "./support/shared.js";
import { cancelExport, fillRequest } from "./support/tasks.js";

test("the audit log has who did what, to which export", async () => {
    world.storage.hold();
    try {
        await as("operator", {}, async (page) => {
            await page.at("/w/acme/exports/new");
            await fillRequest(page, { segment: "Winter sale", destination: "warehouse" });
            await page.getByRole("button", { name: "Request export" }).click();
            await page.waitForURL(/\/exports\/[0-9a-f-]{36}-\d+/);
            const prefix = prefixOf(page);
            await cancelExport(page);
            world.storage.release();
            await world.reaches(prefix, "cancelled");
            await as("admin", {}, async (page) => {
                await page.at("/audit");
                for (const action of ["export.request", "export.cancel"]) {
                    const entry = page.getByRole("main").locator("details");
                    const found = entry.filter({ hasText: action }).filter({ hasText: prefix });
                    assert.match(await found.innerText(), /console:olga/);
                    await found.locator("summary").click();
                    await found.getByText("127.0.0.1").waitFor();
                }
            });
        });
    } finally {
        world.storage.release();
    }
});

test("a person sees their own sessions; whoever may manage sessions ends those of others", async () => {
    await as(null, {}, async (dora) => {
        await signIn(dora, await world.link("dora", "viewer"));
        await dora.at("/people/sessions");
        const main = await dora.getByRole("main").innerText();
        assert.match(main, /dora/);
        assert.ok(!/\bana\b/.test(main), "the sessions of others are not shown");

        await as("admin", {}, async (page) => {
            await page.at("/people/sessions");
            const row = page.getByRole("row").filter({ hasText: "dora" });
            await row.getByRole("button", { name: /sign out|end/i }).click();
            await row.waitFor({ state: "detached" });
        });
        await dora.at("/");
        assert.match(dora.url(), /\/sign-in/);
    });
    const printed = await world.run("console", "sessions");
    assert.ok(!printed.includes("dora"), printed);
});

test("the command line ends the sessions of a person at once", async () => {
    await as(null, {}, async (page) => {
        await signIn(page, await world.link("emil", "viewer"));
        // A page without live updates: one of them would get 401, and load the page again.
        await page.at("/people/sessions");
        await world.run("console", "sign-out", "--person", "emil");
        await page.at("/");
        assert.match(page.url(), /\/sign-in/);
    });
});
