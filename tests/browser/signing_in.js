import assert from "node:assert/strict";
import { test } from "node:test";

import { signIn, submitLink } from "./support/person.js";
import { as, world } from "./support/shared.js";

test("a link signs in once, and its secret is not sent with the request for the page", async () => {
    const link = await world.link("ben", "operator");
    assert.match(new URL(link).hash, /^#.{20,}/, "the secret is in the fragment");
    await as(null, {}, async (page) => {
        await signIn(page, link);
        assert.ok(!page.url().includes("#"), page.url());
        await page.getByText("ben").filter({ visible: true }).first().waitFor();
    });
    await as(null, {}, async (page) => {
        await page.goto(link);
        await submitLink(page);
        await page.getByRole("heading", { level: 1, name: "This link does not work" }).waitFor();
        await page.at("/");
        assert.match(page.url(), /sign-in/);
    });
});

test("whoever is signed out is sent to the sign-in page, and from there to the page they asked for", async () => {
    await as(null, {}, async (page) => {
        await page.at("/w/acme/exports?state=failed");
        assert.match(page.url(), /\/sign-in\?next=/);
        // The same page takes the secret of a link.
        const link = await world.link("cleo", "viewer");
        await page.getByRole("textbox").fill(new URL(link).hash.slice(1));
        await page.getByRole("button", { name: /^sign in/i }).click();
        await page.getByRole("heading", { level: 1, name: "Exports" }).waitFor();
        assert.match(page.url(), /\?state=failed$/);

        await page.getByRole("button", { name: "Sign out" }).filter({ visible: true }).click();
        await page.waitForURL(/\/sign-in/);
        await page.at("/w/acme/exports");
        assert.match(page.url(), /\/sign-in/);
        // Nor does the browser show pages from before.
        await page.goBack();
        await page.getByRole("heading", { level: 1, name: "Exports" }).waitFor({ state: "detached" });
    });
});

test("after signing in, no link leads to another host", async () => {
    await as(null, {}, async (page) => {
        for (const next of ["https://evil.example/", "//evil.example/", "/\\evil.example/"]) {
            const link = new URL(await world.link("cleo", "viewer"));
            await page.at(`/sign-in?next=${encodeURIComponent(next)}${link.hash}`);
            await submitLink(page);
            await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
            assert.equal(new URL(page.url()).host, new URL(world.console).host, next);
        }
    });
});

test("a link works on a page that is open: signed in, or on the sign-in page itself", async () => {
    await as(null, {}, async (page) => {
        for (const [name, path] of [["ida", "/sign-in"], ["jo", "/"], ["kim", "/sign-in"]]) {
            await page.at(path);
            await signIn(page, await world.link(name, "viewer"));
            await page.getByText(name, { exact: true }).filter({ visible: true }).first().waitFor();
        }
    });
    const printed = await world.run("console", "sessions");
    assert.ok(printed.includes("kim") && !printed.includes("ida"), "the session before ends");
});

test("a person chooses the colours, and the choice stays", async () => {
    await as("viewer", {}, async (page) => {
        await page.at("/");
        const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
        const light = await background();
        await page.getByRole("button", { name: "Dark" }).filter({ visible: true }).click();
        await page.getByRole("button", { name: "Dark", pressed: true }).waitFor();
        const dark = await background();
        assert.notEqual(dark, light);
        await page.at("/w/acme/exports");
        assert.equal(await background(), dark);
    });
});
