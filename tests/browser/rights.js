import assert from "node:assert/strict";
import { test } from "node:test";

import { exportPath } from "./support/person.js";
import { as, world } from "./support/shared.js";
import { stateOf } from "./support/tasks.js";

test("a viewer is offered no actions, and cannot do them by hand either", async () => {
    world.storage.hold();
    try {
        const prefix = await world.request({ segment: "All users", destination: "warehouse" });
        const done = await world.request({ segment: "Gold customers" });
        await world.reaches(done, "done");
        await as("viewer", {}, async (page, person) => {
            await page.at("/w/acme/exports");
            assert.equal(await page.getByRole("link", { name: "Request an export" }).count(), 0);
            for (const shown of [prefix, done]) {
                await page.at(exportPath(shown));
                await page.getByRole("heading", { level: 1 }).waitFor();
                const main = page.getByRole("main");
                assert.equal(await main.getByRole("button").count(), 0);
                assert.equal(await main.getByRole("link", { name: "Download" }).count(), 0);
                assert.equal(await main.locator("summary", { hasText: /cancel/i }).count(), 0);
            }
            for (const path of ["/w/acme/exports/new", `${exportPath(done)}/download`, "/audit"]) {
                const response = await page.at(path);
                assert.equal(response.status(), 403, path);
                await page.getByRole("heading", { level: 1 }).waitFor();
            }
            // With the token of the person's own forms, from a page of the console.
            await page.at("/");
            const form_token = await page.locator("input[name=form_token]").first().getAttribute("value");
            for (const action of ["cancel", "repeat"]) {
                assert.equal(await post(person, `${exportPath(prefix)}/${action}`, { form_token }), 403, action);
            }
            assert.equal(await post(person, "/w/acme/exports/new", { form_token, audience: "control_group" }), 403);
            assert.notEqual(await world.state(prefix), "cancelled");
        });
    } finally {
        world.storage.release();
    }
});

test("a form of another page, or without the session's token, has no effect", async () => {
    world.storage.hold();
    try {
        const prefix = await world.request({ segment: "All users", destination: "warehouse" });
        await as("admin", {}, async (page, person) => {
            await page.at(exportPath(prefix));
            const form_token = await page.locator("input[name=form_token]").first().getAttribute("value");
            const path = `${exportPath(prefix)}/cancel`;
            assert.equal(await post(person, path, {}), 403);
            assert.equal(await post(person, path, { form_token: "x".repeat(40) }), 403);
            assert.equal(await post(person, path, { form_token }, "http://127.0.0.1:9"), 403);
            assert.notEqual(await world.state(prefix), "cancelled");
            assert.ok((await post(person, path, { form_token })) < 400);
            world.storage.release();
            await stateOf(page, "Cancelled").waitFor();
        });
    } finally {
        world.storage.release();
    }
});

/** The status of a POST with the cookies of a person. */
async function post(person, path, form, origin = new URL(world.console).origin) {
    const options = { form, headers: { origin }, maxRedirects: 0 };
    const response = await person.context.request.post(world.console + path, options);
    return response.status();
}
