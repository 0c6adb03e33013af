//! The introduction of the document, with which `/docs` begins.

use runtime::config::Config;

/// What a reader needs before the operations: a key, a request that works, then what all requests
/// have in common.
pub(super) fn introduction(config: &Config) -> String {
    format!(
        "Longshore imports users, exports them with proof, and sends messages.\n\n\
         ## Authentication\n\nEach request carries an API key of a workspace, in the header \
         `Authorization: Bearer …`. On the server, create a key with the permissions that your \
         requests need:\n\n```sh\n\
         export LONGSHORE_KEY=$(longshore key create --name first \\\n  \
         --permission users.track --permission messages.send)\n```\n\n\
         The command needs a workspace, which `longshore apply` creates from a file: `longshore \
         apply --help` shows one. SCIM requests carry a token from `longshore scim-token \
         create`.\n\n\
         ## First request\n\nCreate a user:\n\n```sh\n\
         curl -sS '{base}/users/track' \\\n  \
         -H \"Authorization: Bearer $LONGSHORE_KEY\" \\\n  \
         -H 'Content-Type: application/json' \\\n  \
         -d '{{\"attributes\": [{{\"external_id\": \"ann\", \"first_name\": \"Ann\"}}]}}'\n```\n\n\
         The response is `{{\"message\":\"success\",\"attributes_processed\":1}}`, and a moment \
         later `longshore users show ann` shows the user. The example of `POST /messages/send` \
         then sends a content card to this user, which `longshore cards ann` shows.\n\n\
         ## Every request\n\nRequest and response bodies are JSON \
         in UTF-8, except downloaded files. A request body has at most {} bytes.\n\nThe checks run \
         in this order, and the first one that fails decides the response: path 404, method 405 \
         with `Allow`, key 401, sender's address 403, permission 403, rate 429, `Idempotency-Key` \
         400, Content-Encoding 415, size 413, time 408, Content-Type 415, JSON 400, fields 400. \
         Unknown fields and parameters are ignored, except fields that select users in another \
         request, such as `segment_id`, `recipients`, `email` and `phone`: these get 400. Every \
         error has a `code`, which never changes its meaning, so programs can rely on it.\n\n\
         HEAD returns the response of GET without its body; OPTIONS returns 204 with `Allow` and \
         needs no key. A request without a `Host` header, with two of them, or with two \
         `Authorization` headers gets 400 before these checks. A request that is not valid \
         HTTP/1.1 gets 400, and a request with more than 16 KiB of headers gets 431; both responses \
         have no body.\n\nA request body can have the \
         `Content-Encoding` gzip, zstd or deflate; large responses are compressed with gzip for \
         clients that accept it.\n\nMedia types like `application/…+json` are also accepted. The \
         rate limits shown are the defaults; windows are aligned to the clock in UTC.",
        config.gateway.max_body_bytes,
        base = config.public_base(),
    )
}
