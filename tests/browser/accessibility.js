import assert from "node:assert/strict";
import { test } from "node:test";

import { inspect, overflow } from "./support/browser.js";
import { exportPath } from "./support/person.js";
import { as, world } from "./support/shared.js";

const WINDOWS = [
    { width: 390, height: 844 },
    { width: 1280, height: 900 },
];

test("axe finds no violation on any page, and no page scrolls sideways, in light and dark", async () => {
    const { done, failed, cancelled, running } = await world.exports();
    try {
        const pages = [
            "/",
            "/w/acme/exports",
            "/w/globex/exports",
            "/w/acme/exports/new",
            ...[done, failed, cancelled, running].map(exportPath),
            "/w/acme/sends",
            "/w/acme/deliveries",
            "/system?all=1",
            "/history?span=month",
            "/w/acme/history",
            "/dead-letters",
            "/people/sessions",
            "/people/users",
            "/audit",
            "/no-such-page",
        ];
        const found = [];
        // axe is a script, which the policy of a page would refuse.
        for (const role of [null, "admin"]) {
            await as(role, { bypassCSP: true }, async (page) => {
                for (const path of role ? pages : ["/sign-in"]) {
                    await page.at(path);
                    await page.getByRole("heading", { level: 1 }).waitFor();
                    for (const viewport of WINDOWS) {
                        await page.setViewportSize(viewport);
                        for (const colorScheme of ["light", "dark"]) {
                            await page.emulateMedia({ colorScheme });
                            const violations = await inspect(page);
                            const place = `${path}, ${viewport.width} px, ${colorScheme}`;
                            found.push(...violations.map((violation) => `${place}: ${violation}`));
                        }
                        const pixels = await overflow(page);
                        if (pixels > 0) found.push(`${path}, ${viewport.width} px: ${pixels} pixels too wide`);
                    }
                }
            });
        }
        assert.equal(found.length, 0, found.join("\n\n"));
    } finally {
        world.storage.release();
    }
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
