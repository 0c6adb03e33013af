// What every test does first.

/** Opens a link that signs in. */
export async function signIn(page, link) {
    await page.goto(link);
    await submitLink(page);
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
}

/** Presses the button once the script has taken the secret from the address. */
export async function submitLink(page) {
    await page.waitForFunction(() => document.querySelector("input[name=token]")?.value);
    await page.keyboard.press("Enter");
}

/** The path of an export of the workspace acme. */
export const exportPath = (prefix) => `/w/acme/exports/${prefix}`;

/** The prefix of the export that a page shows. */
export const prefixOf = (page) => new URL(page.url()).pathname.split("/").at(-1);
