//! Parts of a download, as RFC 9110 has them.

use reqwest::header::{CONTENT_RANGE, ETAG, HeaderName, LAST_MODIFIED};
use tokio::process::Command;

use super::with_users;
use crate::support::fleet::Backend;
use crate::support::workspace::WorkspaceFile;

/// The response to a request for a part of a file.
struct Part {
    status: u16,
    content_range: Option<String>,
    bytes: Vec<u8>,
}

async fn part(file: &str, headers: &[(&str, &str)]) -> Part {
    let mut request = reqwest::Client::new().get(file);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.send().await.expect("an answer");
    let content_range = answer.headers().get(CONTENT_RANGE);
    Part {
        status: answer.status().as_u16(),
        content_range: content_range.map(|range| range.to_str().expect("a text").to_owned()),
        bytes: answer.bytes().await.expect("the whole body").to_vec(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_is_served_in_ranges() {
    let (fleet, api) = with_users(Backend::Embedded, WorkspaceFile::new("acme"), 50, &[]).await;
    let accepted = api.export_all().await;
    api.done(&accepted.prefix).await;
    let file_bytes = api.download(accepted.address()).await;
    let redirected = api.open(accepted.address()).await;
    let file = redirected.headers["location"].to_str().expect("an address");
    let length = file_bytes.len();

    for (range, from, to) in [
        ("bytes=0-9", 0, 10),
        ("bytes=10-", 10, length),
        ("bytes=-7", length - 7, length),
        ("bytes=5-18446744073709551615", 5, length),
    ] {
        let received = part(file, &[("range", range)]).await;
        assert_eq!((received.status, &received.bytes[..]), (206, &file_bytes[from..to]), "{range}");
        let shown = format!("bytes {from}-{}/{length}", to - 1);
        assert_eq!(received.content_range.as_deref(), Some(shown.as_str()), "{range}");
    }
    for range in [
        "lines=0-9",
        "bytes=0-1,5-6",
        "bytes=0-18446744073709551616",
        "bytes=99999999999999999999-",
        "bytes=9-5",
        "nonsense",
    ] {
        let received = part(file, &[("range", range)]).await;
        assert_eq!((received.status, received.content_range), (200, None), "{range}");
        assert_eq!(received.bytes, file_bytes, "{range}");
    }
    for range in [format!("bytes={length}-"), "bytes=-0".to_owned()] {
        let received = part(file, &[("range", &range)]).await;
        let shown = format!("bytes */{length}");
        assert_eq!((received.status, received.content_range), (416, Some(shown)), "{range}");
    }

    let answer = reqwest::get(file).await.expect("an answer");
    let header = |name: HeaderName| answer.headers()[name].to_str().expect("a text").to_owned();
    let (modified, etag) = (header(LAST_MODIFIED), header(ETAG));
    let (modified, etag) = (modified.as_str(), etag.as_str());
    let long_ago = "Sun, 06 Nov 1994 08:49:37 GMT";
    for (validator, status) in [(modified, 206), (etag, 206), (long_ago, 200), ("\"a-tag\"", 200)] {
        let received = part(file, &[("range", "bytes=0-9"), ("if-range", validator)]).await;
        assert_eq!(received.status, status, "{validator}");
    }
    let conditions: [(&[(&str, &str)], u16); 10] = [
        (&[("if-match", etag)], 200),
        (&[("if-match", "*")], 200),
        (&[("if-match", "\"a-tag\"")], 412),
        (&[("if-unmodified-since", long_ago)], 412),
        (&[("if-match", etag), ("if-unmodified-since", long_ago)], 200),
        (&[("if-none-match", etag)], 304),
        (&[("if-none-match", "\"a-tag\""), ("if-modified-since", modified)], 200),
        (&[("if-modified-since", modified)], 304),
        (&[("if-match", "\"a-tag\""), ("if-none-match", etag)], 412),
        (&[("if-match", "\"a-tag\""), ("range", "bytes=0-9")], 412),
    ];
    for (headers, status) in conditions {
        let received = part(file, headers).await;
        let expected = if status == 200 { file_bytes.as_slice() } else { &[] };
        assert_eq!((received.status, received.bytes.as_slice()), (status, expected), "{headers:?}");
    }

    // A client continues a download that was interrupted.
    let copy = fleet.directory().join("copy.zip");
    std::fs::write(&copy, &file_bytes[..length / 2]).expect("a file");
    let mut curl = Command::new("curl");
    curl.args(["-sSLf", "-C", "-", "-o"]).arg(&copy).arg(accepted.address());
    let output = curl.output().await.expect("curl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read(&copy).expect("the file"), file_bytes);
    fleet.close().await;
}
