// A reverse proxy that serves a console below a path, as nginx would: it removes nothing from the
// path, and does not collect responses.

import { createServer, request } from "node:http";

/** Passes what is asked below `path` to `target`; responds to everything else with 404. */
export async function startProxy(target, path) {
    const server = createServer((incoming, outgoing) => {
        const pathname = incoming.url.split("?")[0];
        if (pathname !== path && !pathname.startsWith(`${path}/`)) {
            outgoing.writeHead(404).end("not the console");
            return;
        }
        const { host, ...headers } = incoming.headers;
        headers["x-forwarded-for"] = incoming.socket.remoteAddress;
        headers["x-forwarded-host"] = host;
        const options = { method: incoming.method, headers };
        const passed = request(target + incoming.url, options, (response) => {
            outgoing.writeHead(response.statusCode, response.headers);
            response.pipe(outgoing);
        });
        passed.on("error", () => outgoing.destroy());
        outgoing.on("close", () => passed.destroy());
        incoming.pipe(passed);
    });
    await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
    const url = `http://127.0.0.1:${server.address().port}`;
    const close = () => {
        server.closeAllConnections();
        server.close();
    };
    return { url, close };
}
