// One installation and one Chromium for all tests of a script, which are started once.

import { after } from "node:test";

import { signIn } from "./person.js";
import { browser } from "./shared_browser.js";
import { HOSTILE, World } from "./world.js";

export const world = await World.start({ names: Object.values(HOSTILE) });
after(() => world.close());

const host = (url) => new URL(url).host;
/** Who has which role. */
const NAMES = { viewer: "vera", operator: "olga", admin: "ana" };
const cookies = new Map();

/**
 * Runs `task` with the browser of a person who is signed in: one session for each role, which is
 * begun once. Without a role, nobody is signed in. Checks the browser's complaints at the end.
 */
export async function as(role, options, task) {
    if (role && !cookies.has(role)) {
        const person = await browser.open();
        await signIn(person.page, await world.link(NAMES[role], role));
        cookies.set(role, await person.context.storageState());
        await person.close(host(world.console));
    }
    const person = await browser.open({ storageState: cookies.get(role), ...options });
    person.page.at = (path) => person.page.goto(world.console + path);
    try {
        await task(person.page, person);
    } catch (error) {
        error.message += `\non the page ${person.page.url()}, which has the text\n${await textOf(person.page)}`;
        await person.context.close();
        throw error;
    }
    await person.close(host(world.console));
}

const textOf = (page) => page.locator("body").innerText({ timeout: 1000 }).catch(() => "none");
