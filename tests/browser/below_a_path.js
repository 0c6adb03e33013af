import assert from "node:assert/strict";
import { test } from "node:test";

import { signIn } from "./support/person.js";
import { startProxy } from "./support/proxy.js";
import { browser } from "./support/shared_browser.js";
import { World } from "./support/world.js";
import { fillRequest, stateOf } from "./support/tasks.js";

test("behind a proxy that serves it below a path, every link and form stays below the path", async (t) => {
    let proxy;
    const publicUrl = async (port) => {
        proxy = await startProxy(`http://127.0.0.1:${port}`, "/console");
        return `${proxy.url}/console`;
    };
    const world = await World.start({ users: 50, publicUrl });
    t.after(async () => {
        proxy.close();
        await world.close();
    });
    const person = await browser.open();
    const { page } = person;
    const paths = new Set();
    person.context.on("request", (request) => paths.add(new URL(request.url()).pathname));
    const link = await world.link("ana", "admin");
    assert.ok(link.startsWith(`${world.console}/sign-in`), link);
    await signIn(page, link);
    await page.getByRole("link", { name: /^exports/i }).filter({ visible: true }).first().click();
    await page.getByRole("link", { name: "Request an export" }).first().click();
    await fillRequest(page, { segment: "All users", destination: "url" });
    await page.getByRole("button", { name: "Request export" }).click();
    await page.waitForURL(/\/console\/w\/acme\/exports\/[0-9a-f-]{36}-\d+/);
    // Live, through the proxy.
    await stateOf(page, "Done").waitFor();
    for (const path of ["/people/sessions", "/audit", "/nothing"]) {
        await page.goto(world.console + path);
        await page.getByRole("heading", { level: 1 }).waitFor();
        const links = await page.locator("a[href], form[action]").evaluateAll((all) =>
            all.map((element) => element.getAttribute("href") ?? element.getAttribute("action")),
        );
        const outside = links.filter((link) => link.startsWith("/") && !link.startsWith("/console/") && link !== "/console");
        assert.deepEqual(outside, [], path);
    }
    const outside = [...paths].filter((path) => !path.startsWith("/console") && path !== "/favicon.ico");
    assert.deepEqual(outside, []);
    await person.close(new URL(world.console).host);
});
