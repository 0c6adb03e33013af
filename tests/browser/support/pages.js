// Every page of the console, on an installation that has something to show on each.

import { exportPath } from "./person.js";
import { CAMPAIGN } from "./world.js";

/**
 * Runs a task with the paths of all pages, and of the forms and questions on them. One of the exports
 * runs for as long as the task.
 */
export async function withEveryPage(world, task) {
    const deadLetter = await world.deadLetter();
    try {
        await task([...pagesOfInstallation(deadLetter), ...(await pagesOfWorkspace(world, deadLetter))]);
    } finally {
        world.storage.release();
        await world.run("dead-letters", "discard", deadLetter);
    }
}

function pagesOfInstallation(deadLetter) {
    return [
        "/",
        "/system",
        "/system?all=1",
        "/history",
        "/history?span=month",
        "/dead-letters",
        `/dead-letters/${deadLetter}`,
        `/dead-letters/${deadLetter}/payload`,
        "/audit",
        "/people/sessions",
        "/people/users",
    ];
}

async function pagesOfWorkspace(world, deadLetter) {
    const acme = (path) => `/w/acme/${path}`;
    // Before an export is held at its storage.
    const delivery = await undelivered(world);
    const { done, failed, cancelled, running } = await world.exports();
    const send = await world.send({ segment: "Gold customers" });
    await world.sent(send);
    const { service_id } = await world.first("dispatches", "recipients", send, "--limit", "1");
    const schedule = await world.schedule("Winter sale", new Date(Date.now() + 7 * 86_400_000).toISOString());
    const segment = await world.segment("Gold customers");
    const key = await world.first("key", "list", "--workspace", "acme");
    return [
        "exports",
        "exports?state=failed",
        "exports/new",
        "sends",
        "sends/new",
        `sends/new?campaign=${CAMPAIGN}&segment_id=${segment}`,
        `sends/${send}`,
        `sends/${send}/recipients`,
        "preview",
        `preview?campaign=${CAMPAIGN}`,
        "schedules",
        `schedules/${schedule}`,
        "history",
        "users",
        `users/${service_id}`,
        `users/${service_id}/messages`,
        `users/${service_id}/erase`,
        "segments",
        `segments/${segment}`,
        `segments/${segment}?count=1`,
        `segments/${segment}/sample`,
        "catalogs",
        "catalogs/restaurants",
        "catalogs/restaurants/restaurant-7",
        "products",
        "sms-numbers",
        "deliveries",
        `deliveries/${delivery}`,
        `deliveries/${delivery}/body`,
        "developer",
        "keys",
        "keys?state=revoked",
        "keys/new",
        `keys/${key.id}`,
        `keys/${key.id}/revoke`,
        "dead-letters",
        `dead-letters/${deadLetter}`,
        `dead-letters/${deadLetter}/payload`,
    ].map(acme).concat([done, failed, cancelled, running].map(exportPath));
}

/** The id of a callback that nobody receives. */
async function undelivered(world) {
    const prefix = await world.request({ segment: "Winter sale", callback_endpoint: "http://receiver.invalid/hook" });
    await world.reaches(prefix, "done");
    let delivery;
    await world.until("the callback is stored", async () => {
        delivery = await world.first("deliveries", "list", "--workspace", "acme", "--subject", prefix);
        return delivery;
    });
    return delivery.id;
}

/** The routes of pages, as `longshore console rights` lists them, that none of the paths opens. */
export async function missingRoutes(world, paths) {
    const lines = (await world.run("console", "rights", "--json")).trim().split("\n");
    const actions = lines.map((line) => JSON.parse(line));
    // The others sign in, or are streams and files.
    const isPage = ({ method, path }) => method === "GET" && !/^\/sign-in|\/(live|download)$/.test(path);
    const routes = actions.filter(isPage).map(({ path }) => path);
    const opened = new Set(paths.map((path) => routeOf(routes, path.split("?")[0])));
    return routes.filter((route) => !opened.has(route));
}

/** The route of a path. Where several match, it is the one with the fewest parameters: `new` is no id. */
function routeOf(routes, path) {
    const parameters = (route) => route.split("{").length;
    const matches = (route) => new RegExp(`^${route.replace(/\{\w+\}/g, "[^/]+")}$`).test(path);
    return routes.filter(matches).sort((a, b) => parameters(a) - parameters(b))[0];
}
