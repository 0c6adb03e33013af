import assert from "node:assert/strict";
import { test } from "node:test";

import { inspectInWindows } from "./support/browser.js";
import { withEveryPage } from "./support/pages.js";
import { exportPath } from "./support/person.js";
import { as, world } from "./support/shared.js";

test("axe finds no violation on any page, and no page scrolls sideways, in light and dark", async () => {
    const found = [];
    // axe is a script, which the policy of a page would refuse.
    const inspectAll = (role, paths) =>
        as(role, { bypassCSP: true }, async (page) => {
            for (const path of paths) {
                await page.at(path);
                found.push(...(await inspectInWindows(page, path, [390, 1280])));
            }
        });
    await inspectAll(null, ["/sign-in"]);
    await withEveryPage(world, (paths) => inspectAll("admin", [...paths, "/w/globex/exports", "/no-such-page"]));
    assert.equal(found.length, 0, found.join("\n\n"));
});

test("every page has a title of its own, one h1, and the same work as commands", async () => {
    await as("admin", {}, async (page) => {
        const prefix = await world.request({ segment: "Winter sale" });
        const titles = new Set();
        const paths = ["/", "/w/acme/exports", "/w/acme/exports/new", exportPath(prefix), "/w/acme/segments", "/w/acme/schedules", "/w/acme/keys", "/w/acme/keys/new", "/w/acme/catalogs", "/w/acme/catalogs/restaurants", "/w/acme/products", "/w/acme/sms-numbers", "/w/acme/developer", "/w/acme/deliveries", "/system", "/history", "/dead-letters", "/people/sessions", "/audit"];
        for (const path of paths) {
            await page.at(path);
            titles.add(await page.title());
            assert.equal(await page.getByRole("heading", { level: 1 }).count(), 1, path);
            const terminal = page.locator("details").filter({ hasText: /terminal/i }).last();
            assert.match(await terminal.textContent(), /longshore |curl /, path);
        }
        assert.equal(titles.size, paths.length, [...titles].join(", "));
    });
});
