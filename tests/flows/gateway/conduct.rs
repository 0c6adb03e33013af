//! How the gateway speaks HTTP, read off the wire.

use super::*;

/// Reads a head off a connection, byte by byte so that nothing behind it is taken.
async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a whole head"));
    }
    String::from_utf8(head).unwrap().to_ascii_lowercase()
}

/// The value of a header in a head.
fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

async fn body(stream: &mut TcpStream, head: &str) -> String {
    let length = header(head, "content-length").expect("a length").parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    String::from_utf8(body).unwrap()
}

fn request(method: &str, path: &str, key: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {key}\r\n\r\n")
}

async fn head_is_get_without_its_body(store: TestStore) {
    let world = World::open(store, |_| {}).await;
    // One connection: what a HEAD answers too much would be taken for the next answer.
    let mut stream = world.raw("").await;
    for (path, key, status) in
        [("/text", OTHER_KEY, "200"), ("/text", "nobody's", "401"), ("/nowhere", "", "404")]
    {
        let mut heads = Vec::new();
        for method in ["HEAD", "GET"] {
            stream.write_all(request(method, path, key).as_bytes()).await.unwrap();
            let head = head(&mut stream).await;
            assert!(head.starts_with(&format!("http/1.1 {status}")), "{head}");
            if method == "GET" {
                assert!(!body(&mut stream, &head).await.is_empty());
            }
            heads.push(
                ["content-length", "content-type"]
                    .map(|name| header(&head, name).map(str::to_owned)),
            );
        }
        assert_eq!(heads[0], heads[1], "{path}");
    }
    stream.write_all(request("HEAD", "/things", KEY).as_bytes()).await.unwrap();
    let refused = head(&mut stream).await;
    assert!(refused.starts_with("http/1.1 405"), "{refused}");
    assert_eq!(header(&refused, "allow"), Some("post"));
    world.close().await;
}

async fn other_methods_receive_the_allowed_ones(store: TestStore) {
    let world = World::open(store, |_| {}).await;
    let mut stream = world.raw("").await;
    for (method, path, status, allow) in [
        ("OPTIONS", "/text", "204", "get,head"),
        ("OPTIONS", "/things", "204", "post"),
        ("DELETE", "/text", "405", "get,head"),
        ("TRACE", "/things", "405", "post"),
        ("MADEUP", "/things", "405", "post"),
    ] {
        // Nobody needs a key to learn it.
        let text = format!("{method} {path} HTTP/1.1\r\nHost: h\r\nOrigin: http://o\r\n\r\n");
        stream.write_all(text.as_bytes()).await.unwrap();
        let head = head(&mut stream).await;
        assert!(head.starts_with(&format!("http/1.1 {status}")), "{method}: {head}");
        assert_eq!(header(&head, "allow"), Some(allow), "{method}");
        assert!(!head.contains("access-control"), "{head}");
        match status {
            "204" => assert_eq!(header(&head, "content-length"), None),
            _ => assert!(body(&mut stream, &head).await.contains("does not support this method")),
        }
    }
    world.close().await;
}

async fn only_acceptable_requests_receive_100_continue(store: TestStore) {
    let world = World::open(store, |_| {}).await;
    let expects = |key: &str, length: usize| {
        format!(
            "POST /things HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {key}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\
             Expect: 100-continue\r\n\r\n"
        )
    };
    let thing = r#"{"name":"n"}"#;
    let mut stream = world.raw(&expects(KEY, thing.len())).await;
    assert!(head(&mut stream).await.starts_with("http/1.1 100"));
    stream.write_all(thing.as_bytes()).await.unwrap();
    assert!(head(&mut stream).await.starts_with("http/1.1 201"));
    for (key, length, status) in
        [("nobody's", 10, "401"), (OTHER_KEY, 10, "403"), (KEY, LIMIT + 1, "413")]
    {
        let mut stream = world.raw(&expects(key, length)).await;
        let head = head(&mut stream).await;
        assert!(head.starts_with(&format!("http/1.1 {status}")), "{head}");
    }
    world.close().await;
}

async fn clients_with_large_bodies_receive_the_response(store: TestStore) {
    let world = World::open(store, |_| {}).await;
    for (key, status) in [("nobody's", 401), (OTHER_KEY, 403), (KEY, 413)] {
        let body = vec![b' '; 8 << 20];
        let call = world.call(Method::POST, "/things").bearer_auth(key).body(body);
        assert_eq!(call.send().await.unwrap().status(), status);
    }
    world.close().await;
}

async fn idle_connections_are_closed(store: TestStore) {
    let world = World::open(store, |config| config.gateway.request_timeout_seconds = 1).await;
    let mut used = world.raw(&request("GET", "/text", OTHER_KEY)).await;
    let answered = head(&mut used).await;
    assert_eq!(body(&mut used, &answered).await, "some text");
    let mut unused = world.raw("").await;
    for stream in [&mut used, &mut unused] {
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.unwrap();
        assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 408"), "{rest}");
    }
    world.close().await;
}

async fn too_many_concurrent_requests_are_rejected(store: TestStore) {
    let world = World::open(store, |config| config.gateway.requests_in_flight = 1).await;
    let seen = world.seen.clone();
    let first = tokio::spawn(world.call(Method::POST, "/slow").bearer_auth(KEY).send());
    eventually("a request is under way", async || seen.begun.load(Ordering::SeqCst) == 1).await;
    let call = world.call(Method::GET, "/text").bearer_auth(OTHER_KEY);
    let second = call.header("x-request-id", "mine").send().await.unwrap();
    assert_eq!(second.status(), 503);
    assert_eq!(
        (&second.headers()["retry-after"], &second.headers()["x-request-id"]),
        (&"5".parse().unwrap(), &"mine".parse().unwrap())
    );
    assert!(message(second).await.contains("temporarily unavailable"));
    assert_eq!(seen.ended.load(Ordering::SeqCst), 0, "it was answered meanwhile");
    assert_eq!(first.await.unwrap().unwrap().status(), 200);
    let third = world.call(Method::GET, "/text").bearer_auth(OTHER_KEY).send().await.unwrap();
    assert_eq!(third.status(), 200);
    world.close().await;
}

async fn a_head_that_could_be_read_in_two_ways_is_refused(store: TestStore) {
    let world = World::open(store, |_| {}).await;
    let key = format!("Authorization: Bearer {OTHER_KEY}\r\n");
    let other = format!("Authorization: Bearer {KEY}\r\n");
    for (version, headers, status) in [
        ("1.1", format!("Host: h\r\n{key}"), "200"),
        ("1.1", key.clone(), "400"),
        ("1.0", key.clone(), "200"),
        ("1.1", format!("Host: h\r\nHost: h\r\n{key}"), "400"),
        ("1.1", format!("Host: h\r\n{key}Host: other\r\n"), "400"),
        ("1.0", format!("Host: h\r\n{key}Host: other\r\n"), "400"),
        ("1.1", format!("Host: h\r\n{key}{key}"), "400"),
        ("1.1", format!("Host: h\r\n{other}{key}"), "400"),
        ("1.1", format!("Host: h\r\n{key}Authorization: Basic x\r\n"), "400"),
    ] {
        let text = format!("GET /text HTTP/{version}\r\n{headers}Connection: close\r\n\r\n");
        let mut stream = world.raw(&text).await;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(head.split(' ').nth(1), Some(status), "{text}{answer}");
        assert!(head.contains("x-request-id"), "{head}");
        if status == "400" {
            let body: Value = serde_json::from_str(body).unwrap();
            assert!(body["message"].is_string(), "{body}");
        }
    }
    world.close().await;
}

on_sqlite!(
    a_head_that_could_be_read_in_two_ways_is_refused,
    head_is_get_without_its_body,
    other_methods_receive_the_allowed_ones,
    only_acceptable_requests_receive_100_continue,
    clients_with_large_bodies_receive_the_response,
    idle_connections_are_closed,
    too_many_concurrent_requests_are_rejected,
);
