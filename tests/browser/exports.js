import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { overflow } from "./support/browser.js";
import { HOSTILE } from "./support/world.js";
import { exportPath, prefixOf } from "./support/person.js";
import { as, world } from "./support/shared.js";
import { cancelExport, fillRequest, repeatExport, stateOf } from "./support/tasks.js";

test("an export is estimated, requested, watched to its end without a reload, downloaded and verified", async () => {
    await as("admin", { acceptDownloads: true }, async (page, person) => {
        const before = await world.prefixes();
        await page.at("/w/acme/exports");
        await page.getByRole("link", { name: "Request an export" }).first().click();
        await fillRequest(page, { segment: "All users", destination: "url" });
        await page.getByRole("button", { name: /estimate/i }).click();
        await page.getByRole("complementary", { name: "Estimate" }).getByText("3,000").first().waitFor();
        assert.deepEqual(await world.prefixes(), before, "an estimate creates nothing");

        await page.getByRole("button", { name: "Request export" }).click();
        await page.waitForURL(/\/exports\/[0-9a-f-]{36}-\d+/);
        let loads = 0;
        page.on("domcontentloaded", () => (loads += 1));
        await stateOf(page, "Done").waitFor();
        assert.equal(loads, 0, "the page was loaded again");

        const started = page.waitForEvent("download");
        await page.getByRole("link", { name: "Download" }).click();
        const download = await started;
        // The file comes from the API.
        assert.ok(person.hosts.delete(new URL(world.api).host));
        const folder = join(world.directory, "downloaded");
        mkdirSync(folder);
        await download.saveAs(join(folder, download.suggestedFilename()));
        assert.equal(download.suggestedFilename(), `${prefixOf(page)}.zip`);
        const printed = await world.verify(prefixOf(page), folder);
        assert.match(printed, /3,000 users/);
    });
});

test("progress moves on the page while files are written, and a cancelled export ends", async () => {
    world.storage.hold();
    try {
        await as("operator", {}, async (page) => {
            const prefix = await world.request({
                segment: "All users",
                destination: "warehouse",
                users_per_file: 500,
            });
            await page.at(exportPath(prefix));
            await stateOf(page, "Running").waitFor();
            const main = page.getByRole("main");
            await main.getByText(/^0 of 3,000/).first().waitFor();
            world.storage.hold(2);
            await main.getByText(/^1,000 of 3,000/).first().waitFor();
            await cancelExport(page);
            world.storage.release();
            await stateOf(page, "Cancelled").waitFor();
            await world.reaches(prefix, "cancelled");
            const offers = await main.locator("summary", { hasText: /cancel/i }).count();
            assert.equal(offers, 0, "it cannot be cancelled again");
        });
    } finally {
        world.storage.release();
    }
});

test("a failed export shows why, and its repetition succeeds once the storage accepts files", async () => {
    world.storage.refuse();
    try {
        const failed = await world.request({ segment: "Gold customers", destination: "warehouse" });
        await world.reaches(failed, "failed");
        world.storage.accept();
        await as("operator", {}, async (page) => {
            await page.at("/w/acme/exports");
            await page.getByRole("navigation", { name: "Filter" }).getByRole("link", { name: "Failed" }).click();
            await page.locator(`a[href$="${failed}"]`).click();
            await stateOf(page, "Failed").waitFor();
            await page.getByText(/access denied/i).first().waitFor();
            await page.getByText(/export-failed/).or(page.getByRole("link", { name: /an export failed/i })).first().waitFor();
            await repeatExport(page);
            await page.waitForURL((url) => /\/exports\/[0-9a-f-]{36}-\d+/.test(url.pathname) && !url.pathname.endsWith(failed));
            await stateOf(page, "Done").waitFor();
        });
    } finally {
        world.storage.accept();
    }
});

test("a request with errors is shown again with them, and keeps what was entered", async () => {
    await as("operator", {}, async (page) => {
        await page.at("/w/acme/exports/new");
        await fillRequest(page, { segment: "Winter sale", destination: "url" });
        await page.getByLabel("Users in a file").fill("0");
        const response = page.waitForResponse((response) => response.request().method() === "POST");
        await page.getByRole("button", { name: "Request export" }).click();
        assert.equal((await response).status(), 422);
        const field = page.getByLabel("Users in a file");
        assert.equal(await field.getAttribute("aria-invalid"), "true");
        assert.equal(await field.inputValue(), "0");
        const chosen = await page.getByRole("combobox", { name: "Segment" }).locator("option:checked").innerText();
        assert.match(chosen, /Winter sale/);
    });
});

test("hostile names are text, on every page that has them", async () => {
    const prefixes = [];
    for (const segment of Object.values(HOSTILE)) {
        const prefix = await world.request({ segment });
        await world.reaches(prefix, "done");
        prefixes.push(prefix);
    }
    await as("admin", { viewport: { width: 390, height: 844 } }, async (page) => {
        let dialogs = 0;
        page.on("dialog", (dialog) => {
            dialogs += 1;
            return dialog.dismiss();
        });
        const paths = ["/", "/w/acme/exports", "/w/acme/exports/new", ...prefixes.map(exportPath), "/audit"];
        for (const path of paths) {
            await page.at(path);
            await page.getByRole("heading", { level: 1 }).waitFor();
            assert.equal(await page.locator('script:text("alert"), img[onerror]').count(), 0, path);
            const pixels = await overflow(page);
            assert.ok(pixels <= 0, `${path} is ${pixels} pixels too wide`);
        }
        await page.at("/w/acme/exports");
        const text = await page.getByRole("main").innerText();
        assert.ok(text.includes(HOSTILE.markup), "the name is shown as it is");
        assert.equal(dialogs, 0);
    });
});

test("exports of another workspace do not exist", async () => {
    await as("viewer", {}, async (page) => {
        const prefix = await world.request({ segment: "Winter sale" });
        for (const path of [`/w/globex/exports/${prefix}`, `/w/nowhere/exports`, `${exportPath(prefix)}0`, "/nothing"]) {
            const response = await page.at(path);
            assert.equal(response.status(), 404, path);
            await page.getByRole("heading", { level: 1 }).waitFor();
        }
    });
});
