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
/** A book is not downloaded for its pictures: the limit of one, and of all together. */
const MAX_PICTURE_BYTES = 150 << 10;
const MAX_BOOK_BYTES = 1500 << 10;
/** The pictures of the book: large ones, and those of docs/how-to/console-pages.md. */
const LARGE_PICTURES = ["overview", "export-running"];
const SMALL_PICTURES = [
    "exports", "send", "schedules", "history", "user", "segment", "catalog", "products", "sms-numbers",
    "deliveries", "dead-letters", "system", "developer", "keys", "audit", "dashboard-users", "sessions",
];

const { values, positionals } = parseArgs({ options: { book: { type: "boolean" } }, allowPositionals: true });
const [folder] = positionals;
mkdirSync(folder, { recursive: true });

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
    const key = (await world.first("key", "list", "--workspace", "acme")).id;
    await world.deadLetter();
    await world.pastDay();
    await world.dashboardUsers({
        "ann.lee@acme.example": ["admin"],
        "ben.okafor@acme.example": ["export_user_data", "see_reports"],
        "cleo.marin@acme.example": ["send_campaigns"],
    });
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
        "dashboard-users": "/people/users",
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

/** The pictures of the book and of README.md. */
async function drawBook(pages) {
    let bytes = 0;
    await withPerson({}, async (page) => {
        await signIn(page, await world.link("ana", "admin"));
        const draw = async (name, width, height) => {
            await page.setViewportSize({ width, height });
            await page.goto(world.console + pages[name]);
            await page.getByRole("heading", { level: 1 }).waitFor();
            const path = join(folder, `console-${name}.png`);
            await page.screenshot({ path, animations: "disabled" });
            bytes += check(path, statSync(path).size, MAX_PICTURE_BYTES);
        };
        for (const name of LARGE_PICTURES) await draw(name, 1120, 700);
        for (const name of SMALL_PICTURES) await draw(name, 1024, 560);
    });
    check("the pictures of the book", bytes, MAX_BOOK_BYTES);
}

/** The number of bytes, which must not be above the limit. */
function check(name, bytes, limit) {
    if (bytes > limit) throw new Error(`${name}: ${bytes} bytes, more than ${limit}`);
    return bytes;
}

async function withPerson(options, task) {
    const person = await browser.open(options);
    await task(person.page);
    await person.close(new URL(world.console).host);
}
