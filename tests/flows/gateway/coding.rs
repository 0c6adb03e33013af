//! Bodies and responses that are compressed.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::*;

/// A body's name and its bytes, in each coding that is accepted.
fn coded(body: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let level = Compression::default();
    let mut gzip = GzEncoder::new(Vec::new(), level);
    gzip.write_all(body).unwrap();
    let mut zlib = ZlibEncoder::new(Vec::new(), level);
    zlib.write_all(body).unwrap();
    let mut bare = DeflateEncoder::new(Vec::new(), level);
    bare.write_all(body).unwrap();
    let mut zstd = vec![0; zstd_safe::compress_bound(body.len())];
    let length = zstd_safe::compress(&mut zstd[..], body, 3).unwrap();
    zstd.truncate(length);
    vec![
        ("gzip", gzip.finish().unwrap()),
        ("deflate", zlib.finish().unwrap()),
        ("deflate", bare.finish().unwrap()),
        ("zstd", zstd),
    ]
}

async fn compressed_bodies_are_read(store: TestStore) {
    let world = World::open(store, |config| config.gateway.max_body_bytes = 1 << 20).await;
    let post = async |coding: &str, body: Vec<u8>| {
        let call = world.call(Method::POST, "/things").bearer_auth(KEY).body(body);
        let call = call.header("content-type", "application/json");
        call.header("content-encoding", coding).send().await.unwrap()
    };
    let name: String = (0..40_000).map(|number| number.to_string()).collect();
    let body = json!({ "name": name }).to_string();
    for (coding, bytes) in coded(body.as_bytes()) {
        assert!(bytes.len() < body.len());
        let answer = post(coding, bytes.clone()).await;
        assert_eq!(answer.status(), 201, "{coding}");
        assert_eq!(answer.json::<Value>().await.unwrap()["name"], name, "{coding}");
        let answer = post(coding, bytes[..bytes.len() / 2].to_vec()).await;
        assert_eq!(answer.status(), 400, "{coding}: half of it");
    }
    // Read as it is it would be JSON.
    let plain = br#"{"name":"n"}"#.to_vec();
    for coding in ["br", "compress", "gzip, gzip", "gzip, br", "aes128gcm", "utf-8"] {
        let answer = post(coding, plain.clone()).await;
        assert_eq!(answer.status(), 415, "{coding}");
        assert_eq!(answer.headers()["accept-encoding"], "gzip, zstd, deflate");
    }
    for coding in ["gzip", "zstd", "deflate"] {
        assert_eq!(post(coding, plain.clone()).await.status(), 400, "{coding}");
    }
    assert_eq!(post("identity", plain).await.status(), 201);
    // Too large only once it is decompressed; and a bomb, which is within the limit.
    let name = (0..200_000).map(|number| number.to_string()).collect::<String>();
    for large in [json!({ "name": name }), json!({ "name": "x".repeat(900 << 10) })] {
        for (coding, bytes) in coded(large.to_string().as_bytes()) {
            assert!(bytes.len() < 1 << 20, "{coding}: {}", bytes.len());
            assert_eq!(post(coding, bytes).await.status(), 413, "{coding}");
        }
    }
    world.close().await;
}

async fn large_responses_are_compressed_if_accepted(store: TestStore) {
    let world = World::open(store, |config| config.gateway.max_body_bytes = 1 << 20).await;
    let post = async |name: &str, accepted: Option<&str>| {
        let call = world.call(Method::POST, "/things").bearer_auth(KEY);
        let call = call.json(&json!({ "name": name }));
        match accepted {
            Some(accepted) => call.header("accept-encoding", accepted),
            None => call,
        }
        .send()
        .await
        .unwrap()
    };
    let large = "many words ".repeat(20_000);
    for accepted in [None, Some("br"), Some("gzip;q=0"), Some("identity")] {
        let answer = post(&large, accepted).await;
        assert!(!answer.headers().contains_key("content-encoding"), "{accepted:?}");
        assert_eq!(answer.headers()["vary"], "accept-encoding");
        assert_eq!(answer.json::<Value>().await.unwrap()["name"], large);
    }
    for accepted in ["gzip", "br, gzip;q=0.5", "*"] {
        let answer = post(&large, Some(accepted)).await;
        assert_eq!(answer.status(), 201);
        assert_eq!(answer.headers()["content-encoding"], "gzip", "{accepted}");
        assert!(answer.headers().contains_key("x-request-id"));
        let length = answer.content_length();
        let bytes = answer.bytes().await.unwrap();
        assert_eq!(length, Some(bytes.len() as u64));
        assert!(bytes.len() < large.len() / 10);
        let mut text = String::new();
        GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["name"], large);
    }
    let small = post("n", Some("gzip")).await;
    assert!(!small.headers().contains_key("content-encoding"));
    let text = world.call(Method::GET, "/text").bearer_auth(OTHER_KEY);
    let text = text.header("accept-encoding", "gzip").send().await.unwrap();
    assert_eq!(text.text().await.unwrap(), "some text");
    world.close().await;
}

on_sqlite!(compressed_bodies_are_read, large_responses_are_compressed_if_accepted,);
