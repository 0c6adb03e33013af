import assert from "node:assert/strict";
import { test } from "node:test";

import { exportPath } from "./support/person.js";
import { as, world } from "./support/shared.js";
import { stateOf } from "./support/tasks.js";

/** The element with the focus: its name, and whether one sees that it has the focus. */
function focused(page) {
    return page.evaluate(() => {
        const element = document.activeElement;
        if (!element || element === document.body) return null;
        const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(element);
        const { width, height } = element.getBoundingClientRect();
        return {
            text: (element.innerText || element.labels?.[0]?.innerText || element.name || "").trim(),
            tag: element.tagName,
            html: element.outerHTML.slice(0, 120),
            isMarked: (outlineStyle !== "none" && parseFloat(outlineWidth) > 0) || boxShadow !== "none",
            isThere: width > 0 && height > 0,
        };
    });
}

/** Presses Tab until `isWanted`; returns the elements on the way. */
async function tabTo(page, isWanted, limit = 120) {
    const passed = [];
    for (let count = 0; count < limit; count += 1) {
        await page.keyboard.press("Tab");
        const element = await focused(page);
        if (!element) continue;
        passed.push(element);
        if (isWanted(element)) return passed;
    }
    throw new Error(`not reached with Tab: ${isWanted}\n${passed.map(({ html }) => html).join("\n")}`);
}

test("the focus is visible on each element that Tab reaches, and skips to the content", async () => {
    await as("admin", {}, async (page) => {
        const prefix = await world.request({ segment: "Winter sale" });
        for (const path of ["/", "/w/acme/exports", "/w/acme/exports/new", exportPath(prefix), "/people/sessions", "/audit"]) {
            await page.at(path);
            await page.keyboard.press("Tab");
            assert.match((await focused(page)).text, /skip/i, path);
            await page.keyboard.press("Enter");
            await page.waitForFunction(() => location.hash === "#main");
            await page.at(path);
            const interactive = await page
                .locator("a[href], button, input:not([type=hidden]), select, textarea, summary")
                .evaluateAll((all) => all.filter((element) => element.checkVisibility({ visibilityProperty: true })).length);
            const seen = new Set();
            for (let count = 0; count < interactive + 5; count += 1) {
                await page.keyboard.press("Tab");
                const element = await focused(page);
                if (!element) break;
                assert.ok(element.isMarked && element.isThere, `${path}: one does not see the focus on ${element.html}`);
                seen.add(element.html);
            }
            assert.ok(seen.size > 3, `${path}: Tab reaches ${[...seen]}`);
        }
    });
});

test("an export is requested and cancelled with the keyboard alone", async () => {
    world.storage.hold();
    try {
        await as("operator", {}, async (page) => {
            await page.at("/w/acme/exports");
            await tabTo(page, ({ text }) => text === "Request an export");
            await page.keyboard.press("Enter");
            await page.getByRole("heading", { level: 1, name: "Request an export" }).waitFor();
            // The group of radio buttons is one stop: the arrows choose within it.
            await tabTo(page, ({ html }) => html.includes('name="audience"'));
            await page.keyboard.press("ArrowDown");
            await page.keyboard.press("ArrowUp");
            await tabTo(page, ({ html }) => html.includes('value="external_id"'));
            if (!(await page.locator('[value="external_id"]').isChecked())) await page.keyboard.press("Space");
            await tabTo(page, ({ tag, html }) => tag === "SELECT" && html.includes("destination"));
            await page.keyboard.type("ware");
            await tabTo(page, ({ text }) => text === "Request export");
            await page.keyboard.press("Enter");
            await page.waitForURL(/\/exports\/[0-9a-f-]{36}-\d+/);
            await tabTo(page, ({ text, tag }) => tag === "SUMMARY" && /cancel/i.test(text));
            await page.keyboard.press("Enter");
            await tabTo(page, ({ text, tag }) => tag === "BUTTON" && /cancel/i.test(text));
            await page.keyboard.press("Enter");
            await stateOf(page, "Cancelled").waitFor();
        });
    } finally {
        world.storage.release();
    }
});
