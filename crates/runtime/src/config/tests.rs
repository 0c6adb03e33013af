use super::*;

#[test]
fn secrets_are_not_printed() {
    let config = Config {
        database: Database {
            url: Some("postgres://u:hidden@h/d".into()),
            ..Config::default().database
        },
        secret_key: Some("hidden".into()),
        ..Config::default()
    };
    assert!(!format!("{config:?}").contains("hidden"));
    assert!(!serde_json::to_string(&config).unwrap().contains("hidden"));
}
