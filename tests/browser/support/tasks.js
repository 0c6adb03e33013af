// What people do on the pages, in the words of the pages.

/** Fills the form that requests an export; `destination` is `url` or the name of a storage. */
export async function fillRequest(page, { segment, destination, fields = ["external_id", "email"] }) {
    await page.getByRole("heading", { level: 1, name: "Request an export" }).waitFor();
    if (segment) {
        await page.getByRole("radio", { name: /segment/i }).check();
        await choose(page.getByRole("combobox", { name: "Segment" }), segment);
    } else {
        await page.getByRole("radio", { name: /control group/i }).check();
    }
    for (const field of fields) await page.getByRole("checkbox", { name: field, exact: true }).check();
    if (destination) {
        const text = destination === "url" ? /download/i : destination;
        await choose(page.getByRole("combobox", { name: /destination/i }), text);
    }
}

/** Chooses the first option whose text has `text`. */
async function choose(select, text) {
    const option = select.locator("option").filter({ hasText: text }).first();
    await select.selectOption(await option.getAttribute("value"));
}

/** Cancels the export of a page, which asks first. */
export async function cancelExport(page) {
    const question = page.getByRole("main").locator("details").filter({ hasText: /cancel/i }).first();
    await question.locator("summary").click();
    const button = question.getByRole("button", { name: /cancel/i });
    // The page before shows the state, too, as soon as it is cancelled.
    await Promise.all([page.waitForEvent("load"), button.click()]);
    await stateOf(page, "Cancelled").waitFor();
}

export async function repeatExport(page) {
    await page.getByRole("button", { name: /^repeat/i }).first().click();
}

/** The state next to the title of the export that a page shows. */
export function stateOf(page, state) {
    return page.getByRole("heading", { level: 1 }).getByText(state, { exact: true }).first();
}
