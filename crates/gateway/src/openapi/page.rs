//! The page `/docs`: the document shown by Scalar's API reference, which is built in. The browser
//! loads nothing from elsewhere.

use axum::http::HeaderValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// Version of the npm package @scalar/api-reference; `scripts/docs-page` reads it.
const VERSION: &str = "1.72.1";

/// `dist/browser/standalone.js` of the package, compressed with gzip.
pub(super) const SCRIPT_GZIP: &[u8] = include_bytes!("scalar.js.gz");

/// The SHA-256 of the script, in base64. The browser checks it.
const SHA256: &str = "vwkQBr3Dr2Bnr3fC9TSBLj5jPpSpTocTgGn1cPM7diw=";

/// Starts the page without third-party fonts, telemetry and services. The code samples come from
/// the document.
const START: &str = "Scalar.createApiReference('#app', {\
    url: '/openapi.json', withDefaultFonts: false, telemetry: false, hiddenClients: true, \
    hideClientButton: true, hideTestRequestButton: true, showDeveloperTools: 'never', \
    agent: { disabled: true }, mcp: { disabled: true }, documentDownloadType: 'none', \
    defaultOpenAllTags: true })";

/// The introduction has the whole width: its second column is empty, and its code is wider than
/// one.
const STYLE: &str = ".introduction-section .section-columns.section-columns\
    {flex-direction:column;gap:24px}";

/// `Cache-Control` of the script.
pub(super) const KEEP: &str = "public, max-age=31536000, immutable";

/// The path of the script: different for each version, so that browsers can cache it forever.
pub(super) fn script_path() -> String {
    format!("/docs/scalar-{VERSION}.js")
}

pub(super) fn html() -> String {
    let path = script_path();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Longshore API</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>{STYLE}</style>\n\
         <div id=\"app\"></div>\n\
         <noscript>This page needs JavaScript. The API is described in \
         <a href=\"/openapi.json\">/openapi.json</a>.</noscript>\n\
         <script src=\"{path}\" integrity=\"sha256-{SHA256}\"></script>\n\
         <script>{START}</script>\n</html>\n"
    )
}

/// The page may load only its script, its styles and the document. Scalar writes its styles into
/// the page.
pub(super) fn policy() -> HeaderValue {
    let start = STANDARD.encode(Sha256::digest(START));
    let policy = format!(
        "default-src 'none'; script-src 'self' 'sha256-{start}'; style-src 'unsafe-inline'; \
         img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn the_script_is_the_pinned_one() {
        let mut script = Vec::new();
        GzDecoder::new(SCRIPT_GZIP).read_to_end(&mut script).unwrap();
        assert_eq!(STANDARD.encode(Sha256::digest(&script)), SHA256, "run scripts/docs-page");
    }
}
