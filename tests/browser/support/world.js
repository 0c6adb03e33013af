// An installation for the tests: `longshore standalone` with a small workspace, its users, and
// addresses that only this machine reaches. LONGSHORE is the program.

import { execFile, spawn } from "node:child_process";
import { createWriteStream, mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";

import { BUCKET, Storage } from "./storage.js";

const BINARY = process.env.LONGSHORE ?? "longshore";
const KEY = "key-of-the-browser-tests";
/** How long the installation, a page or an export may take on a busy machine, as in other flows. */
export const PATIENCE_MS = 180_000;

// What is to be done at the exit is also done where the time limit of all tests ends the process.
process.once("SIGTERM", () => process.exit(143));

/** Names that a page must show as they are. */
export const HOSTILE = {
    markup: `<script>alert(1)</script><img src=x onerror="alert(2)">`,
    rightToLeft: "\u202Eמבצע חורף\u202E تخفيضات",
    // The longest name that a workspace file may have, without a place to break it.
    long: "WhoBoughtSomething".repeat(14).padEnd(255, "x"),
};

/** The campaign Spring sale. */
export const CAMPAIGN = "9d0b7c52-61c5-4d0e-b0f3-000000000c00";

/** Messages whose receiver has no address, so that they wait for another attempt. */
export const UNREACHABLE = {
    webhook: { url: "http://receiver.invalid/hook", request_method: "POST", body: "hello" },
};

/** Messages that need no receiver. */
const CARD = {
    content_card: {
        type: "CLASSIC",
        title: "Welcome, {{${first_name} | default: 'there'}}",
        description: "For {{${external_id}}}: this card is shown for a day.",
        time_to_live: 86_400,
    },
};

const AUDIENCE = (tier) => ({
    AND: [{ custom_attribute: { custom_attribute_name: "loyalty_tier", comparison: "equals", value: tier } }],
});

const CITIES = ["Oslo", "Bergen", "Kyoto", "Porto", "Graz"];

/** A catalog of restaurants, whose first fields have these names. */
function catalog(names) {
    const fields = ["City", "Rating", "Opened_at", "Open", "Tags"];
    const types = ["string", "number", "time", "boolean", "array"];
    const first = names.map((name) => ({ name: name.slice(0, 250), type: "string" }));
    const others = fields.map((name, index) => ({ name, type: types[index] }));
    return { name: "restaurants", fields: [...first, ...others], items: "restaurants.ndjson" };
}

/** Its items, one in each line. */
function items(names) {
    const values = Object.fromEntries(names.map((name) => [name.slice(0, 250), name.repeat(3)]));
    const item = (number) => ({
        id: `restaurant-${number}`,
        ...values,
        City: CITIES[number % CITIES.length],
        Rating: 3 + (number % 20) / 10,
        Opened_at: `2024-0${1 + (number % 9)}-12T18:00:00Z`,
        Open: number % 7 > 0,
        Tags: ["vegan", "terrace"].slice(number % 3),
    });
    const all = [...Array.from({ length: 60 }, (_, number) => item(number + 1)), { id: "x".repeat(250) }];
    return all.map((item) => `${JSON.stringify(item)}\n`).join("");
}

function workspaceFile(storage, names) {
    const segment = (number, name, tier) => ({
        id: `9d0b7c52-61c5-4d0e-b0f3-0000000000${String(number).padStart(2, "0")}`,
        name,
        audience: AUDIENCE(tier),
    });
    const campaign = (number, name) => ({
        id: CAMPAIGN.slice(0, -2) + String(number).padStart(2, "0"),
        name,
        type: "api",
        messages: CARD,
    });
    const acme = {
        workspace: "acme",
        time_zone: "Europe/Berlin",
        keys: [
            {
                name: "nightly-export",
                secret: KEY,
                permissions: ["users.export.global_control_group", "users.export.segment", "segments.list", "messages.send", "campaigns.list", "messages.schedule.create", "users.track"],
            },
        ],
        control_group: { percent: 10 },
        catalogs: [catalog(names)],
        catalog_selections: [{ name: "best", catalog: "restaurants", limit: 5, sort: { field: "Rating", descending: true } }],
        segments: [
            segment(1, "Gold customers", "gold"),
            segment(2, "Winter sale", "silver"),
            ...names.map((name, index) => segment(10 + index, name, "gold")),
        ],
        campaigns: ["Spring sale", ...names].map((name, index) => campaign(index, name)),
        storages: [
            {
                name: "warehouse",
                s3: {
                    bucket: BUCKET,
                    region: "eu-west-1",
                    endpoint: storage.url,
                    path_style: true,
                    access_key_id: "AKIAIOSFODNN7EXAMPLE",
                    secret_access_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                },
            },
        ],
    };
    const globex = { workspace: "globex", control_group: { percent: 5 } };
    // JSON is YAML.
    return [acme, globex].map((document) => JSON.stringify(document)).join("\n---\n");
}

/** Ports that are used here: below those that Linux gives to connections. */
const PORTS = { first: 20_000, count: 12_000 };

/**
 * Listens on free ports, so that nobody else takes them until `release` is called. Commands that run
 * until then get no response.
 */
async function reservePorts(count) {
    const servers = [];
    while (servers.length < count) {
        const server = createServer((socket) => socket.destroy());
        const port = PORTS.first + Math.floor(Math.random() * PORTS.count);
        const isFree = await new Promise((done) => {
            server.once("error", () => done(false));
            server.listen(port, "127.0.0.1", () => done(true));
        });
        if (isFree) servers.push(server);
    }
    const close = (server) => new Promise((closed) => server.close(closed));
    const release = () => Promise.all(servers.map(close));
    return { ports: servers.map((server) => server.address().port), release };
}

export class World {
    /**
     * Starts an installation. `names` are those of further segments. `publicUrl` returns the
     * console's address behind a proxy, from the console's port; `settings` returns further variables
     * of the environment, from the console's address.
     */
    static async start({ users = 3000, names = [], publicUrl, settings } = {}) {
        const world = new World();
        world.directory = mkdtempSync(join(tmpdir(), "longshore-browser-"));
        world.storage = await Storage.start();
        const { ports, release } = await reservePorts(3);
        const [api, ops, console] = ports;
        world.api = `http://127.0.0.1:${api}`;
        world.listen = `http://127.0.0.1:${console}`;
        world.console = (await publicUrl?.(console)) ?? world.listen;
        const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("LONGSHORE"));
        world.environment = {
            ...Object.fromEntries(inherited),
            LONGSHORE_DATA: join(world.directory, "data"),
            LONGSHORE_LISTEN: `127.0.0.1:${api}`,
            LONGSHORE_OPS_LISTEN: `127.0.0.1:${ops}`,
            LONGSHORE_CONSOLE_LISTEN: `127.0.0.1:${console}`,
            LONGSHORE_EXPORTS__RETRY_MS: "100",
            LONGSHORE_EXPORTS__RETRY_HOURS: "0",
            LONGSHORE_EXPORTS__REFUSED_MINUTES: "0",
            NO_PROXY: "*",
        };
        if (publicUrl) world.environment.LONGSHORE_CONSOLE_PUBLIC_URL = world.console;
        Object.assign(world.environment, await settings?.(world.console));
        try {
            writeFileSync(join(world.directory, "workspaces.yaml"), workspaceFile(world.storage, names));
            writeFileSync(join(world.directory, "restaurants.ndjson"), items(names));
            await world.run("apply", "workspaces.yaml");
            await world.import(users);
            await release();
            await world.#startService(`http://127.0.0.1:${ops}/readyz`);
        } catch (error) {
            await Promise.all([release(), world.close()]);
            throw error;
        }
        return world;
    }

    async #startService(readyz) {
        // Also where a test ends the process.
        process.once("exit", () => this.service.kill("SIGKILL"));
        const log = openSync(join(this.directory, "standalone.log"), "a");
        const options = { cwd: this.directory, env: this.environment, stdio: ["ignore", log, log] };
        this.service = spawn(BINARY, ["standalone"], options);
        this.ended = new Promise((ended) => this.service.once("exit", ended));
        await this.until("the service is ready", async () => {
            if (this.service.exitCode !== null) throw new Error(await this.log());
            return fetch(readyz).then((response) => response.ok, () => false);
        });
    }

    async close() {
        this.storage.close();
        if (this.service) {
            this.service.kill("SIGTERM");
            await Promise.race([this.ended, sleep(PATIENCE_MS, null, { ref: false })]);
            this.service.kill("SIGKILL");
        }
        rmSync(this.directory, { recursive: true, force: true });
    }

    /** What the service has logged. */
    log() {
        return readFile(join(this.directory, "standalone.log"), "utf8");
    }

    /** Runs a command of the program; returns what it prints. */
    async run(...args) {
        const options = { cwd: this.directory, env: this.environment, maxBuffer: 64 << 20 };
        try {
            return (await promisify(execFile)(BINARY, args, options)).stdout;
        } catch (error) {
            throw new Error(`${error.message}\n${error.stdout}`);
        }
    }

    async import(users) {
        const file = join(this.directory, "users.ndjson");
        const generated = spawn(BINARY, ["generate", "--users", String(users)], {
            cwd: this.directory,
            env: this.environment,
            stdio: ["ignore", "pipe", "inherit"],
        });
        const ended = new Promise((ended) => generated.once("close", ended));
        // A short file may not even be there when the command has ended.
        await pipeline(generated.stdout, createWriteStream(file));
        const status = await ended;
        if (status !== 0) throw new Error(`longshore generate: ${status}`);
        await this.run("import", file, "--workspace", "acme", "--yes");
    }

    /** Imports users of the workspace acme. */
    async importRecords(records) {
        const file = join(this.directory, "records.ndjson");
        writeFileSync(file, records.map((record) => `${JSON.stringify(record)}\n`).join(""));
        await this.run("import", file, "--workspace", "acme", "--yes");
    }

    /** The service_id of the only user of the workspace acme with an identifier. */
    async serviceId(identifier) {
        const found = await this.run("users", "find", identifier, "--workspace", "acme", "--json");
        return JSON.parse(found).service_id;
    }

    /** An address that signs a person in, once. */
    async link(name, role, ...more) {
        const printed = await this.run("console", "link", "--as", name, "--role", role, ...more);
        const url = printed.match(/https?:\/\/\S+/)?.[0];
        if (!url) throw new Error(`no address in what longshore console link prints: ${printed}`);
        return url;
    }

    /** Requests an export over the API; returns its prefix. */
    async request(body = {}) {
        const { segment, ...rest } = body;
        const path = segment ? "segment" : "global_control_group";
        const asked = { fields_to_export: ["external_id", "email"], ...rest };
        if (segment) asked.segment_id = await this.segment(segment);
        const response = await this.#call(`/users/export/${path}`, asked);
        return response.object_prefix;
    }

    /** Sends messages of a campaign to a segment; returns the dispatch_id once a worker has read it. */
    async send({ segment, campaign = "Spring sale", messages = CARD, ...rest }) {
        const { campaigns } = await this.#call("/campaigns/list");
        const { id } = campaigns.find(({ name }) => name === campaign);
        const segment_id = await this.segment(segment);
        const body = { broadcast: true, segment_id, campaign_id: id, messages, ...rest };
        const { dispatch_id } = await this.#call("/messages/send", body);
        const show = () => this.run("dispatches", "show", dispatch_id, "--json");
        await this.until(`${dispatch_id} is read`, () => show().then(() => true, () => false));
        return dispatch_id;
    }

    /** Waits until a send is done. */
    async sent(id) {
        await this.until(`${id} is done`, async () => {
            return JSON.parse(await this.run("dispatches", "show", id, "--json")).state === "done";
        });
    }

    async segment(name) {
        const { segments } = await this.#call("/segments/list");
        return segments.find((segment) => segment.name === name).id;
    }

    /** Declares dashboard users: their permissions in the company, by email address. */
    async dashboardUsers(permissions) {
        const users = Object.entries(permissions);
        const dashboard_users = users.map(([user_name, company]) => ({ user_name, permissions: { company } }));
        writeFileSync(join(this.directory, "company.yaml"), JSON.stringify({ company: "Acme", dashboard_users }));
        await this.run("apply", "company.yaml");
    }

    /** Puts numbers on the list of invalid ones. */
    async invalidNumbers(numbers, reason) {
        writeFileSync(join(this.directory, "numbers.txt"), numbers.join("\n"));
        await this.run("invalid-numbers", "add", "numbers.txt", "--workspace", "acme", "--reason", reason);
    }

    /**
     * Stores a message of the log that could not be applied; returns its id. No request leads to one:
     * a dead letter is a fault of a program.
     */
    deadLetter() {
        return this.#onDatabase(`
id, now = uuid.uuid4(), int(time.time() * 1000)
payload = ('{"v":1,"workspace":%d,"objects":7}' % acme).encode()
database.execute("""
    INSERT INTO dead_letters (id, consumer_group, topic, partition, position, appended_at, key, payload,
                              request_id, reason, attempts, created_at, workspace_id)
    VALUES (?, 'ingest', 'tracking', 3, 7, ?, X'', ?, 'request-1', ?, 1, ?, ?)""",
    (id.bytes, now, payload, "objects must be an array, not a number", now, acme))
print(id)`);
    }

    /** Fills the history of the past day, which no request can: a wave of a working day. */
    async pastDay() {
        await this.#onDatabase(`
minute = int(time.time()) // 60 * 60000
for ago in range(1, 1440):
    at = minute - ago * 60000
    load = (1 - math.cos(at / 86400000 * 2 * math.pi)) / 2
    values = {"exports_done": ago % 37 == 0, "exports_failed": ago == 411, "users_exported": 5000 * (ago % 37 == 0),
              "messages_sent": int(900 * load) + ago * 7919 % 60, "messages_failed": ago % 11 == 0,
              "objects_applied": int(5200 * load) + ago * 6007 % 400}
    queues = {"dead_letters": 0, "log_behind": int(40 * load) + ago % 7, "oldest_work_ms": 900 + ago * 7919 % 1500}
    for workspace, recorded in ((acme, values), (0, values | queues)):
        database.executemany("INSERT OR REPLACE INTO history VALUES (60000, ?, ?, ?, ?)",
                             [(workspace, at, metric, int(value)) for metric, value in recorded.items()])`);
    }

    /** Runs Python on the database of the program. */
    async #onDatabase(statements) {
        const program = `
import math, sqlite3, sys, time, uuid
database = sqlite3.connect(sys.argv[1], timeout=60)
acme = database.execute("SELECT id FROM workspaces WHERE name = 'acme'").fetchone()[0]
${statements}
database.commit()`;
        const file = join(this.environment.LONGSHORE_DATA, "store.db");
        return (await promisify(execFile)("python3", ["-c", program, file])).stdout.trim();
    }

    /** The first line that a command prints with --json. */
    async first(...args) {
        const [line] = (await this.run(...args, "--json")).split("\n");
        return line ? JSON.parse(line) : undefined;
    }

    /** Tracks a purchase of each product. */
    async purchases(products) {
        const time = new Date().toISOString();
        const purchase = (product_id) => ({ external_id: "customer-1", product_id, currency: "EUR", price: 9.5, time });
        await this.#call("/users/track", { purchases: products.map(purchase) });
    }

    /** Schedules messages for a segment; returns the id of the schedule. */
    async schedule(segment, time) {
        const webhook = { url: "https://receiver.invalid/hook", request_method: "POST", body: "{}" };
        const body = { broadcast: true, segment_id: await this.segment(segment), messages: { webhook }, schedule: { time } };
        return (await this.#call("/messages/schedule/create", body)).schedule_id;
    }

    async #call(path, body) {
        const headers = { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json" };
        const method = body ? "POST" : "GET";
        const response = await fetch(this.api + path, { method, headers, body: JSON.stringify(body) });
        const json = await response.json();
        if (!response.ok) throw new Error(`${path}: ${response.status} ${JSON.stringify(json)}`);
        return json;
    }

    /** An export's state, as the command line shows it. */
    async state(prefix) {
        return JSON.parse(await this.run("export", "status", prefix, "--json", "--key", "")).state;
    }

    /** Verifies the downloaded file of an export, with its manifest and the keys from the API. */
    async verify(prefix, folder) {
        const { url } = await this.#call(`/users/export/${prefix}`);
        const save = async (address, name) => {
            const response = await fetch(address);
            if (!response.ok) throw new Error(`${address}: ${response.status}`);
            writeFileSync(join(folder, name), await response.text());
        };
        for (const name of ["manifest.json", "manifest.json.sig", "SHA256SUMS"]) {
            await save(url.replace("/download", `/${name}`), `${prefix}.${name}`);
        }
        await save(`${this.api}/.well-known/longshore/acme/allowed_signers`, "allowed_signers");
        return this.run("export", "verify", folder, "--allowed-signers", join(folder, "allowed_signers"));
    }

    /** All exports, the latest first. */
    async prefixes() {
        const lines = (await this.run("export", "list", "--json", "--key", "")).trim().split("\n");
        return lines.filter(Boolean).map((line) => JSON.parse(line).object_prefix);
    }

    /** Waits until an export has one of the states. */
    async reaches(prefix, ...states) {
        const isThere = async () => states.includes(await this.state(prefix));
        await this.until(`${prefix} is ${states}`, isThere);
    }

    async until(what, isTrue) {
        for (const since = Date.now(); !(await isTrue()); await sleep(100)) {
            if (Date.now() - since > PATIENCE_MS) {
                throw new Error(`${what}: not within ${PATIENCE_MS / 1000} seconds\n${await this.log()}`);
            }
        }
    }

    /**
     * One export in each state that pages show differently; returns their prefixes. The running one
     * has written some of its files, and waits.
     */
    async exports({ usersPerFile = 250, written = 3 } = {}) {
        const done = await this.request({ segment: "All users" });
        await this.reaches(done, "done");
        this.storage.refuse();
        const failed = await this.request({ segment: "Gold customers", destination: "warehouse" });
        await this.reaches(failed, "failed");
        this.storage.accept();
        this.storage.hold();
        const cancelled = await this.request({ destination: "warehouse" });
        await this.run("export", "cancel", cancelled, "--key", "");
        const running = await this.request({ segment: "All users", destination: "warehouse", users_per_file: usersPerFile });
        this.storage.hold(written);
        return { done, failed, cancelled, running };
    }
}
