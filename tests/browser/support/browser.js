// Chromium, and people in it. Whatever a page must never do fails the test: violate the content
// security policy, print an error, or load something from another host.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

import { PATIENCE_MS } from "./world.js";

// The packages are outside the work tree: scripts/browser-test.
const require = createRequire(join(process.env.BROWSER_PACKAGES ?? import.meta.dirname, "package.json"));
const { chromium } = require("playwright");
const AXE = require("axe-core").source;

/** What people with impairments need, and good practice. */
const AXE_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

export class Browser {
    static async start() {
        const browser = new Browser();
        browser.chromium = await chromium.launch({
            executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
            timeout: PATIENCE_MS,
            // Only this machine exists.
            args: ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--no-proxy-server"],
        });
        return browser;
    }

    close() {
        return this.chromium.close();
    }

    /** A browser with nothing in it, or with the cookies of a [`Person`]. */
    async open(options = {}) {
        const context = await this.chromium.newContext({
            viewport: { width: 1280, height: 900 },
            locale: "en-GB",
            timezoneId: "Europe/Berlin",
            ...options,
        });
        context.setDefaultTimeout(PATIENCE_MS);
        return Person.watch(context);
    }
}

/** A person with a browser of their own. */
export class Person {
    static async watch(context) {
        const person = new Person();
        person.context = context;
        person.problems = [];
        person.hosts = new Set();
        await context.exposeBinding("reportViolation", (_, violation) => person.problems.push(violation));
        await context.addInitScript(() =>
            document.addEventListener("securitypolicyviolation", (event) =>
                window.reportViolation(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`),
            ),
        );
        context.on("request", (request) => person.hosts.add(new URL(request.url()).host));
        context.on("response", (response) => {
            // A page may be an error; what belongs to a page must be there.
            const isPage = response.request().resourceType() === "document";
            if (response.status() >= 400 && !isPage) {
                person.problems.push(`${response.status()}: ${response.url()}`);
            }
        });
        context.on("console", (message) => {
            const isOfResponse = message.text().startsWith("Failed to load resource");
            if (["error", "warning"].includes(message.type()) && !isOfResponse) {
                person.problems.push(`${message.location().url}: ${message.text()}`);
            }
        });
        context.on("weberror", (error) => person.problems.push(String(error.error())));
        person.page = await context.newPage();
        return person;
    }

    /** Closes the browser, and checks that it had no reason to complain. */
    async close(...hosts) {
        await this.context.close();
        assert.deepEqual(this.problems, []);
        const foreign = [...this.hosts].filter((host) => !hosts.includes(host));
        assert.deepEqual(foreign, [], "a page loads something from another host");
    }
}

/** The width of a phone with large text, a phone, a laptop and a large screen, in pixels. */
const WIDTHS = [320, 390, 1280, 1600];

/**
 * What is wrong with a page in windows of these widths, in light and dark, as text: what axe finds, and
 * whether it scrolls sideways. `name` is the page's in these texts.
 */
export async function inspectInWindows(page, name, widths = WIDTHS) {
    const found = [];
    await page.getByRole("heading", { level: 1 }).waitFor();
    for (const width of widths) {
        await page.setViewportSize({ width, height: 900 });
        for (const colorScheme of ["light", "dark"]) {
            await page.emulateMedia({ colorScheme });
            const violations = await inspect(page);
            found.push(...violations.map((violation) => `${name}, ${width} px, ${colorScheme}: ${violation}`));
        }
        const pixels = await overflow(page);
        if (pixels > 0) found.push(`${name}, ${width} px: ${pixels} pixels too wide`);
    }
    return found;
}

/** The violations of a page, as text. The context needs `bypassCSP`, since axe is a script. */
export async function inspect(page) {
    if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(AXE);
    // At its top: the bar that stays there covers whatever a test has scrolled below it.
    await page.evaluate(() => window.scrollTo(0, 0));
    // Otherwise axe also describes what passes, which takes as long again.
    const violations = await page.evaluate(async (values) => {
        const options = { runOnly: { type: "tag", values }, resultTypes: ["violations"] };
        return (await window.axe.run(document, options)).violations;
    }, AXE_RULES);
    return violations.flatMap(({ id, help, nodes }) =>
        nodes.map(({ html, failureSummary }) => `${id} (${help}): ${html.slice(0, 200)} ${failureSummary}`),
    );
}

/** How many pixels a page is wider than the window. */
export function overflow(page) {
    return page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
}
