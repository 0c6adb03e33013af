//! The stylesheet, the scripts and the icon of the site, built in. Browsers load nothing from
//! elsewhere, and keep each file for ever: its address contains a hash of its content.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use sha2::{Digest as _, Sha256};

use crate::error::PageError;
use gateway::Static;

/// The route of all files.
pub const ROUTE: &str = "/assets/{file}";

/// `Cache-Control` of a file.
pub const KEEP: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// `scripts/console-assets` writes the compressed scripts; the others are written by hand.
const STYLE: &str = include_str!("../assets/console.css");
const SCRIPT: &str = include_str!("../assets/console.js");
const FAVICON: &str = include_str!("../assets/favicon.svg");
const HTMX: &[u8] = include_bytes!("../assets/htmx.js.gz");
const HX_SSE: &[u8] = include_bytes!("../assets/hx-sse.js.gz");

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// A built-in file.
struct Asset {
    /// Its name in the sources.
    name: &'static str,
    /// Its address, below the console's base path.
    path: String,
    content: Static,
}

impl Asset {
    fn text(name: &'static str, media_type: &'static str, text: &str) -> Self {
        let content = Static::new(media_type, text.to_owned());
        Self { name, path: hashed_path(name, text.as_bytes()), content }
    }

    fn script(name: &'static str, gzip: &'static [u8]) -> Self {
        let content = Static::compressed(JAVASCRIPT, gzip);
        Self { name, path: hashed_path(name, gzip), content }
    }
}

static ASSETS: LazyLock<[Asset; 5]> = LazyLock::new(|| {
    [
        Asset::text("console.css", "text/css; charset=utf-8", STYLE),
        Asset::text("console.js", JAVASCRIPT, SCRIPT),
        Asset::text("favicon.svg", "image/svg+xml", FAVICON),
        Asset::script("htmx.js", HTMX),
        Asset::script("hx-sse.js", HX_SSE),
    ]
});

/// `/assets/NAME-HASH.EXTENSION`.
fn hashed_path(name: &str, content: &[u8]) -> String {
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, "txt"));
    let hash: String =
        Sha256::digest(content).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("/assets/{stem}-{hash}.{extension}")
}

/// The address of a file, below the console's base path.
pub fn path(name: &str) -> &'static str {
    let asset = ASSETS.iter().find(|asset| asset.name == name);
    debug_assert!(asset.is_some(), "no asset {name}");
    asset.map_or("/assets/", |asset| asset.path.as_str())
}

/// A file. Another hash is that of another release: its page reloads.
pub async fn serve(Path(file): Path<String>, headers: HeaderMap) -> Result<Response, PageError> {
    let is_requested = |asset: &&Asset| asset.path.strip_prefix("/assets/") == Some(&*file);
    let asset = ASSETS.iter().find(is_requested).ok_or(PageError::NotFound)?;
    let mut response = asset.content.response(&headers);
    response.headers_mut().insert(CACHE_CONTROL, KEEP);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE};
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use flate2::read::GzDecoder;
    use http_body_util::BodyExt as _;

    use super::*;

    /// The SHA-256 of the scripts, in base64; `scripts/console-assets` prints them.
    const HTMX_SHA256: &str = "oKuwTy9FofidHUhEAjJFU35eYBTIexRFU+Bge0zDITA=";
    const HX_SSE_SHA256: &str = "GO8nYTVuwf4LttkmEjFbN1F6fB6YVrZhxa6B/vI50QM=";

    fn decompressed(gzip: &[u8]) -> String {
        let mut text = String::new();
        GzDecoder::new(gzip).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn the_scripts_are_the_pinned_ones() {
        for (gzip, sha256) in [(HTMX, HTMX_SHA256), (HX_SSE, HX_SSE_SHA256)] {
            let script = decompressed(gzip);
            let hash = STANDARD.encode(Sha256::digest(&script));
            assert_eq!(hash, sha256, "run scripts/console-assets");
        }
    }

    #[tokio::test]
    async fn all_scripts_and_styles_are_small() {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let mut bytes = 0;
        for asset in ASSETS.iter() {
            let body = asset.content.response(&headers).into_body();
            bytes += body.collect().await.unwrap().to_bytes().len();
        }
        assert!(bytes <= 40 << 10, "{bytes} bytes");
    }

    #[tokio::test]
    async fn files_are_served_with_their_type_for_ever() {
        let types = [
            ("console.css", "text/css; charset=utf-8"),
            ("console.js", JAVASCRIPT),
            ("favicon.svg", "image/svg+xml"),
            ("htmx.js", JAVASCRIPT),
            ("hx-sse.js", JAVASCRIPT),
        ];
        for (name, media_type) in types {
            let file = path(name).strip_prefix("/assets/").unwrap().to_owned();
            let response = serve(Path(file), HeaderMap::new()).await.unwrap();
            assert_eq!(response.headers()[CONTENT_TYPE], media_type);
            assert_eq!(response.headers()[CACHE_CONTROL], KEEP);
            assert!(!response.headers().contains_key(CONTENT_ENCODING));
        }
        let unknown = serve(Path("console-0123.css".into()), HeaderMap::new()).await;
        assert!(matches!(unknown, Err(PageError::NotFound)));
    }

    /// The Content-Security-Policy blocks both; a script that needs them would only fail in a
    /// browser.
    #[test]
    fn pages_contain_no_programs() {
        let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut folders = vec![own.join("src"), own.join("../console/src")];
        let mut files = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let source = std::fs::read_to_string(&path).unwrap();
                // The tests, of which this is one, name what is forbidden.
                let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
                if path.file_name().is_some_and(|name| name == "tests.rs") {
                    continue;
                }
                files += 1;
                for forbidden in
                    ["hx-on", "\"js:", "javascript:", "style=", "onclick", "every 5s ["]
                {
                    let found = source.lines().find(|line| {
                        !line.trim_start().starts_with("//") && line.contains(forbidden)
                    });
                    assert_eq!(found, None, "{forbidden} in {}", path.display());
                }
            }
        }
        assert!(files > 10, "{files} files");
    }

    #[test]
    fn the_style_and_the_icon_load_nothing() {
        for text in [STYLE, FAVICON] {
            assert!(!text.contains("url(") && !text.contains("@import"));
        }
    }
}
