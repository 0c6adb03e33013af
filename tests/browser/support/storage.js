// An S3 server in memory that a test can slow down and break: it holds files until it is told to
// go on, or refuses them.

import { createServer } from "node:http";

export const BUCKET = "acme-warehouse";

export class Storage {
    #objects = new Map();
    #refuses = false;
    // How many files may still be written; the others wait.
    #permits = Infinity;
    #waiting = [];

    static async start() {
        const storage = new Storage();
        // A client that gives up in the middle of a request repeats it.
        const ignoreReset = (error) => {
            if (error.code !== "ECONNRESET") throw error;
        };
        storage.server = createServer((request, response) => storage.#respond(request, response).catch(ignoreReset));
        await new Promise((ready) => storage.server.listen(0, "127.0.0.1", ready));
        storage.url = `http://127.0.0.1:${storage.server.address().port}`;
        return storage;
    }

    close() {
        this.release();
        this.server.closeAllConnections();
        this.server.close();
    }

    /** Rejects every request from now on, as a bucket whose credentials were revoked. */
    refuse() {
        this.#refuses = true;
    }

    accept() {
        this.#refuses = false;
    }

    /** Lets `files` more files be written; further ones wait. */
    hold(files = 0) {
        this.#permits = files;
        this.#wake();
    }

    release() {
        this.hold(Infinity);
    }

    /** Waits until a file may be written; false if its client gave up before, and repeats the request. */
    #mayWrite(response) {
        return new Promise((resolve) => {
            const go = () => resolve(true);
            this.#waiting.push(go);
            response.once("close", () => {
                this.#waiting = this.#waiting.filter((waiting) => waiting !== go);
                resolve(false);
            });
            this.#wake();
        });
    }

    #wake() {
        while (this.#waiting.length > 0 && this.#permits > 0) {
            this.#permits -= 1;
            this.#waiting.shift()();
        }
    }

    async #respond(request, response) {
        const chunks = [];
        for await (const chunk of request) chunks.push(chunk);
        const { pathname, searchParams } = new URL(request.url, this.url);
        const key = decodeURIComponent(pathname.slice(BUCKET.length + 2));
        if (this.#refuses) return sendError(response, 403, "AccessDenied", "Access Denied");
        if (searchParams.has("list-type")) return this.#list(response, searchParams);
        switch (request.method) {
            case "PUT":
                return this.#put(request, response, key, Buffer.concat(chunks));
            case "DELETE":
                this.#objects.delete(key);
                return response.writeHead(204).end();
            case "GET":
            case "HEAD": {
                const object = this.#objects.get(key);
                if (!object) return sendError(response, 404, "NoSuchKey", "The key does not exist");
                response.writeHead(200, { ...object.headers, "content-length": object.body.length });
                return response.end(request.method === "GET" ? object.body : undefined);
            }
            default:
                return sendError(response, 501, "NotImplemented", "Not implemented");
        }
    }

    async #put(request, response, key, sent) {
        if (key.match(/\.(zip|gz)$/)) {
            if (!(await this.#mayWrite(response))) return;
            if (this.#refuses) return sendError(response, 403, "AccessDenied", "Access Denied");
        }
        const existing = this.#objects.get(key);
        if (request.headers["if-none-match"] === "*" && existing) {
            return sendError(response, 412, "PreconditionFailed", "The object exists");
        }
        const isChunked = (request.headers["content-encoding"] ?? "").includes("aws-chunked");
        const body = isChunked ? withoutChunks(sent) : sent;
        const headers = { etag: `"${key.length}-${body.length}"`, "last-modified": new Date().toUTCString() };
        for (const [name, value] of Object.entries(request.headers)) {
            if (name.startsWith("x-amz-meta-") || name === "content-type") headers[name] = value;
        }
        const source = request.headers["x-amz-copy-source"];
        if (source) {
            const from = this.#objects.get(decodeURIComponent(source).replace(/^\/?[^/]+\//, ""));
            if (!from) return sendError(response, 404, "NoSuchKey", "The key does not exist");
            this.#objects.set(key, from);
            return send(response, 200, `<CopyObjectResult><ETag>${from.headers.etag}</ETag></CopyObjectResult>`);
        }
        this.#objects.set(key, { body, headers });
        response.writeHead(200, { etag: headers.etag }).end();
    }

    #list(response, parameters) {
        const prefix = parameters.get("prefix") ?? "";
        const keys = [...this.#objects.keys()].filter((key) => key.startsWith(prefix));
        const entries = keys.map((key) => {
            const { body, headers } = this.#objects.get(key);
            return `<Contents><Key>${key}</Key><Size>${body.length}</Size><ETag>${headers.etag}</ETag></Contents>`;
        });
        const head = `<Name>${BUCKET}</Name><Prefix>${prefix}</Prefix><KeyCount>${keys.length}</KeyCount>`;
        send(response, 200, `<ListBucketResult>${head}<IsTruncated>false</IsTruncated>${entries.join("")}</ListBucketResult>`);
    }
}

/** The content of a body of chunks, each with its size in a line before it, and trailers. */
function withoutChunks(sent) {
    const parts = [];
    for (let start = 0; ; ) {
        const end = sent.indexOf("\r\n", start);
        const size = parseInt(sent.subarray(start, end).toString(), 16);
        if (!(size > 0)) return Buffer.concat(parts);
        parts.push(sent.subarray(end + 2, end + 2 + size));
        start = end + 2 + size + 2;
    }
}

function send(response, status, xml) {
    response.writeHead(status, { "content-type": "application/xml" });
    response.end(`<?xml version="1.0" encoding="UTF-8"?>${xml}`);
}

function sendError(response, status, code, message) {
    send(response, status, `<Error><Code>${code}</Code><Message>${message}</Message></Error>`);
}
