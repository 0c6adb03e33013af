import assert from "node:assert/strict";
import { test } from "node:test";

import { missingRoutes, withEveryPage } from "./support/pages.js";
import { as, world } from "./support/shared.js";

test("no page violates the content security policy or prints an error, also after an update", async () => {
    await withEveryPage(world, async (paths) => {
        assert.deepEqual(await missingRoutes(world, paths), [], "pages without a path in support/pages.js");
        await as("admin", {}, async (page, person) => {
            const isUpdate = (response) => response.request().headers()["hx-request"] === "true";
            for (const path of [...paths, "/no-such-page"]) {
                const response = await page.at(path);
                assert.equal(response.status(), path === "/no-such-page" ? 404 : 200, path);
                await page.getByRole("heading", { level: 1 }).waitFor();
                const updates = await page.locator('[hx-trigger^="every"]').count();
                if (updates > 0) await page.waitForResponse(isUpdate);
                assert.deepEqual(person.problems, [], path);
            }
        });
    });
});

test("a violation of the policy is reported, so that the test before can fail", async () => {
    await as("viewer", {}, async (page, person) => {
        await page.at("/");
        await page.evaluate(() => {
            const script = document.createElement("script");
            script.textContent = "window.hasRun = true";
            document.body.append(script);
        });
        const reports = [/^script-src/, /Content Security Policy/];
        await world.until("the violation is reported", () =>
            reports.every((report) => person.problems.some((problem) => report.test(problem))),
        );
        assert.equal(await page.evaluate(() => window.hasRun), undefined);
        // Those were expected.
        person.problems.length = 0;
    });
});
