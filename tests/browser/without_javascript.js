import assert from "node:assert/strict";
import { test } from "node:test";

import { prefixOf } from "./support/person.js";
import { as, world } from "./support/shared.js";
import { cancelExport, fillRequest, repeatExport, stateOf } from "./support/tasks.js";

test("without JavaScript, people sign in with the pasted secret, and request, cancel and repeat exports", async () => {
    world.storage.hold();
    try {
        await as(null, { javaScriptEnabled: false }, async (page) => {
            const link = await world.link("noor", "operator");
            await page.goto(link);
            await page.getByRole("textbox").fill(new URL(link).hash.slice(1));
            await page.getByRole("button", { name: /sign in/i }).click();
            await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();

            await page.at("/w/acme/exports/new");
            await fillRequest(page, { segment: "All users", destination: "warehouse" });
            await page.getByRole("button", { name: "Request export" }).click();
            await page.waitForURL(/\/exports\/[0-9a-f-]{36}-\d+/);
            const prefix = prefixOf(page);
            await cancelExport(page);
            world.storage.release();
            await world.reaches(prefix, "cancelled");
            await page.reload();
            await stateOf(page, "Cancelled").waitFor();

            await repeatExport(page);
            await page.waitForURL((url) => !url.pathname.endsWith(prefix));
            const repeated = prefixOf(page);
            assert.notEqual(repeated, prefix);
            await world.reaches(repeated, "done");
            await page.reload();
            await stateOf(page, "Done").waitFor();
            await page.getByRole("button", { name: "Sign out" }).filter({ visible: true }).click();
            await page.waitForURL(/\/sign-in/);
        });
    } finally {
        world.storage.release();
    }
});
