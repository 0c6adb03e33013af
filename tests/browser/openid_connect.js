import assert from "node:assert/strict";
import { test } from "node:test";

import { inspect, inspectInWindows } from "./support/browser.js";
import { startIdentityProvider } from "./support/identity_provider.js";
import { browser } from "./support/shared_browser.js";
import { World } from "./support/world.js";

const ANN = "ann@acme.example";
const EVE = "eve@acme.example";

test("a person signs in with the company account, and has the rights of the dashboard user", async (t) => {
    let provider;
    const settings = async (console) => {
        provider = await startIdentityProvider(console, [ANN, EVE]);
        return provider.settings;
    };
    const publicUrl = (port) => `http://127.0.0.1:${port}`;
    let world;
    t.after(async () => {
        provider?.close();
        await world?.close();
    });
    world = await World.start({ users: 50, publicUrl, settings });
    const apply = (permissions) => world.dashboardUsers({ [ANN]: permissions });
    await apply(["manage_dashboard_users", "see_reports"]);
    const host = new URL(provider.issuer).host;
    // axe is a script, which the policy of a page would refuse.
    const person = await browser.open({ bypassCSP: true });
    const { page } = person;
    const begin = async (name) => {
        await page.goto(`${world.console}/w/acme/exports`);
        await page.getByRole("link", { name: `Sign in with ${host}` }).click();
        await page.getByRole("button", { name }).click();
    };

    // Who is not a dashboard user, and who cancels, reads why there is no session.
    for (const [name, code] of [[EVE, "not-a-dashboard-user"], ["Cancel", "access-denied"]]) {
        await begin(name);
        await page.getByText(code).waitFor();
        assert.equal(new URL(page.url()).host, new URL(world.console).host);
        assert.deepEqual(await inspect(page), []);
        await page.context().clearCookies();
    }

    await begin(ANN);
    await page.getByRole("heading", { level: 1, name: "Exports" }).waitFor();
    assert.equal(await page.getByRole("link", { name: "Request an export" }).count(), 0);
    await page.getByRole("link", { name: "Dashboard users" }).filter({ visible: true }).click();
    await page.getByRole("row").filter({ hasText: ANN }).getByText("sessions.manage").waitFor();
    assert.deepEqual(await inspectInWindows(page, "/people/users", [390, 1280]), []);
    await page.getByRole("link", { name: `Sessions of ${ANN}` }).click();
    await page.getByRole("row").filter({ hasText: "This session" }).waitFor();

    // The next page has the new permissions.
    await apply(["export_user_data"]);
    await page.goto(`${world.console}/w/acme/exports`);
    await page.getByRole("link", { name: "Request an export" }).first().waitFor();
    assert.equal(await page.getByRole("link", { name: "Dashboard users" }).count(), 0);
    await person.close(new URL(world.console).host, host);
});
