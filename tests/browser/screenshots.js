// Pictures of the console's pages, with realistic data: scripts/screenshots.
//
//     node screenshots.js FOLDER           every page, in each width, light and dark
//     node screenshots.js --book FOLDER    those of the book: console-NAME.png

import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { Browser } from "./support/browser.js";
import { exportPath, signIn } from "./support/person.js";
import { CAMPAIGN, UNREACHABLE, World } from "./support/world.js";

const WIDTHS = [390, 1024, 1600];
/** A book is not downloaded for its pictures. */
const MAX_BOOK_BYTES = 150 << 10;

const { values, positionals } = parseArgs({ options: { book: { type: "boolean" } }, allowPositionals: true });
const [folder] = positionals;
mkdirSync(folder, { recursive: true });
process.once("SIGTERM", () => process.exit(143));

const world = await World.start({ users: 20_000 });
const browser = await Browser.start();
try {
    const pages = await fill();
    await (values.book ? drawBook(pages) : drawAll(pages));
} finally {
    await browser.close();
    await world.close();
}

/** Exports of a working day; returns the path of each page, by the picture's name. */
async function fill() {
    for (const segment of ["Winter sale", "Gold customers", "All users"]) {
        const callback_endpoint = "https://receiver.invalid/exports";
        await world.reaches(await world.request({ segment, callback_endpoint }), "done");
    }
    const { done, failed, cancelled, running } = await world.exports({ usersPerFile: 1000, written: 12 });
    const day = (number) => new Date(Date.now() - number * 86_400_000).toISOString();
    const activity = (name, number) => ({ name, first: day(number), last: day(number), count: 1 });
    await world.importRecords([{
        external_id: "customer-4711",
        email: "ann.lee@example.com",
        phone: "+4915112345678",
        first_name: "Ann",
        last_name: "Lee",
        country: "DE",
        language: "de",
        time_zone: "Europe/Berlin",
        custom_attributes: { loyalty_tier: "gold", newsletter: true, note: "Asked for a refund. ".repeat(40) },
        apps: [{ name: "Acme Shop", platform: "iOS", version: "7.2.1", sessions: 48, last_used: day(1) }],
        devices: [{ model: "iPhone 15", os: "17.5", carrier: "Telekom" }],
        email_subscribe: "opted_in",
        push_subscribe: "unsubscribed",
        purchases: [activity("sneakers-white-42", 2), activity("socks-3", 2), activity("jacket-m", 20)],
        custom_events: [activity("viewed_product", 1), activity("added_to_basket", 2), activity("searched", 5)],
        total_revenue: 214.85,
    }]);
    const user = await world.serviceId("customer-4711");
    const sent = await world.send({ segment: "Gold customers", send_id: "spring-2026" });
    await world.sent(sent);
    const stopped = await world.send({ segment: "Winter sale", messages: UNREACHABLE });
    await world.run("dispatches", "cancel", stopped);
    await world.schedule("Winter sale", day(-2));
    const schedule = await world.schedule("Gold customers", day(-5));
    const key = JSON.parse(await world.run("key", "list", "--workspace", "acme", "--json")).id;
    await world.purchases(["jacket-m", "sneakers-white-42", "socks-3", "tea-green-100g"]);
    await world.invalidNumbers(["+4915112345678", "+15550100", "+442079460000"], "The provider reports: unknown subscriber");
    // The cancelled export may have written one.
    await world.until("files are written", async () => {
        const status = await world.run("export", "status", running, "--json", "--key", "");
        return JSON.parse(status).files.done >= 11;
    });
    return {
        overview: "/",
        exports: "/w/acme/exports",
        "exports-empty": "/w/globex/exports",
        "export-new": "/w/acme/exports/new",
        "export-running": exportPath(running),
        "export-done": exportPath(done),
        "export-failed": exportPath(failed),
        "export-cancelled": exportPath(cancelled),
        sends: "/w/acme/sends",
        send: `/w/acme/sends/${sent}`,
        "send-cancelled": `/w/acme/sends/${stopped}`,
        recipients: `/w/acme/sends/${sent}/recipients`,
        preview: `/w/acme/preview?campaign=${CAMPAIGN}`,
        segments: "/w/acme/segments",
        segment: `/w/acme/segments/${await world.segment("Gold customers")}?count=1`,
        schedules: "/w/acme/schedules",
        schedule: `/w/acme/schedules/${schedule}`,
        users: "/w/acme/users",
        user: `/w/acme/users/${user}`,
        "user-messages": `/w/acme/users/${user}/messages`,
        "user-erase": `/w/acme/users/${user}/erase`,
        catalogs: "/w/acme/catalogs",
        catalog: "/w/acme/catalogs/restaurants",
        "catalog-item": "/w/acme/catalogs/restaurants/restaurant-7",
        products: "/w/acme/products",
        "sms-numbers": "/w/acme/sms-numbers",
        developer: "/w/acme/developer",
        keys: "/w/acme/keys",
        "key-new": "/w/acme/keys/new",
        key: `/w/acme/keys/${key}`,
        "key-revoke": `/w/acme/keys/${key}/revoke`,
        deliveries: "/w/acme/deliveries",
        system: "/system",
        history: "/w/acme/history",
        "dead-letters": "/dead-letters",
        sessions: "/people/sessions",
        audit: "/audit",
        "not-found": "/no-such-page",
    };
}

async function drawAll(pages) {
    await withPerson({}, async (page) => {
        await shots(page, "sign-in", "/sign-in");
        await signIn(page, await world.link("ana", "admin"));
        for (const [name, path] of Object.entries(pages)) await shots(page, name, path);
    });
}

async function shots(page, name, path) {
    await page.goto(world.console + path);
    await page.getByRole("heading", { level: 1 }).waitFor();
    for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: width < 500 ? 844 : 900 });
        for (const colorScheme of ["light", "dark"]) {
            await page.emulateMedia({ colorScheme });
            await page.screenshot({ path: join(folder, `${name}-${width}-${colorScheme}.png`), fullPage: true, animations: "disabled" });
        }
    }
}

/** The pictures of docs/tutorials/console.md and docs/how-to/console.md. */
async function drawBook(pages) {
    await withPerson({ viewport: { width: 1120, height: 700 } }, async (page) => {
        await signIn(page, await world.link("ana", "admin"));
        for (const name of ["overview", "export-running"]) {
            await page.goto(world.console + pages[name]);
            await page.getByRole("heading", { level: 1 }).waitFor();
            const path = join(folder, `console-${name}.png`);
            await page.screenshot({ path, animations: "disabled" });
            const { size } = statSync(path);
            if (size > MAX_BOOK_BYTES) throw new Error(`${path} has ${size} bytes, more than ${MAX_BOOK_BYTES}`);
        }
    });
}

async function withPerson(options, task) {
    const person = await browser.open(options);
    await task(person.page);
    await person.close(new URL(world.console).host);
}
