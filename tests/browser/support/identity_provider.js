// An identity provider of a company, made of the package oidc-provider: its page has a button for each
// person.

import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// The packages are outside the work tree: scripts/browser-test.
const require = createRequire(join(process.env.BROWSER_PACKAGES ?? import.meta.dirname, "package.json"));
const { Provider } = await import(pathToFileURL(require.resolve("oidc-provider")).href);

const CLIENT = { client_id: "console", client_secret: "secret-of-the-console" };

/** Starts a provider with the email addresses of people, for a console at an address. */
export async function startIdentityProvider(console, people) {
    const server = createServer();
    await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
    const issuer = `http://127.0.0.1:${server.address().port}`;
    const provider = new Provider(issuer, {
        clients: [{
            ...CLIENT,
            redirect_uris: [`${console}/sign-in/oidc/callback`],
            grant_types: ["authorization_code"],
            response_types: ["code"],
        }],
        pkce: { required: () => true },
        claims: { openid: ["sub"], email: ["email", "email_verified"] },
        findAccount: (_, email) => ({
            accountId: email,
            claims: () => ({ sub: `account of ${email}`, email, email_verified: true }),
        }),
        features: { devInteractions: { enabled: false } },
        interactions: { url: (_, interaction) => `/people/${interaction.uid}` },
        loadExistingGrant: agree,
        cookies: { keys: ["of the tests"] },
        ttl: { AccessToken: 600, AuthorizationCode: 60, Grant: 600, IdToken: 600, Interaction: 600, Session: 600 },
    });
    const respond = provider.callback();
    server.on("request", (request, response) => {
        if (!request.url.startsWith("/people/")) return respond(request, response);
        if (request.method === "GET") return choosePerson(response, people);
        return signIn(provider, request, response);
    });
    const settings = {
        LONGSHORE_CONSOLE_OIDC_ISSUER: issuer,
        LONGSHORE_CONSOLE_OIDC_CLIENT_ID: CLIENT.client_id,
        LONGSHORE_CONSOLE_OIDC_CLIENT_SECRET: CLIENT.client_secret,
    };
    const close = () => {
        server.closeAllConnections();
        server.close();
    };
    return { issuer, settings, close };
}

/** Everybody agrees that the console may see the email address. */
async function agree(context) {
    const { client, session, provider } = context.oidc;
    const grant = new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
    grant.addOIDCScope("openid email");
    await grant.save();
    return grant;
}

function choosePerson(response, people) {
    const buttons = [...people, ""].map((email) =>
        `<button name="email" value="${email}">${email || "Cancel"}</button>`,
    );
    response.writeHead(200, { "content-type": "text/html; charset=utf-8" });
    response.end(`<!doctype html><html lang="en"><title>Acme accounts</title><link rel="icon" href="data:,">
        <h1>Who are you?</h1><form method="post">${buttons.join("")}</form></html>`);
}

async function signIn(provider, request, response) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const email = new URLSearchParams(Buffer.concat(chunks).toString()).get("email");
    const result = email ? { login: { accountId: email } } : { error: "access_denied", error_description: "cancelled" };
    await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
}
