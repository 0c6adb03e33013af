use proptest::prelude::*;

use super::*;

#[test]
fn nested_values_leave_room_for_their_container() {
    let cases = [
        ("[", "]", MAX_LEVELS),
        ("{\"a\":", "}", MAX_LEVELS),
        // Brackets in strings do not nest.
        ("[\"]]\",{\"[\":", "}]", MAX_LEVELS / 2),
    ];
    for (open, close, levels) in cases {
        let value = |levels: usize| format!("{}1{}", open.repeat(levels), close.repeat(levels));
        let deepest = value(levels);
        assert_eq!(check(&deepest), Ok(()), "{deepest}");
        let container = format!(r#"{{"target":{{"users":[{{"properties":{{"a":{deepest}}}}}]}}}}"#);
        serde_json::from_str::<serde_json::Value>(&container).unwrap();
        assert_eq!(check(&value(levels + 1)), Err(TOO_DEEP.to_owned()));
    }
}

#[test]
fn errors_of_values_say_what_is_wrong() {
    let deep = ["[".repeat(200), "]".repeat(200)].concat();
    for (json, text) in [
        ("[1e400]", "has a number beyond the range of a double"),
        (r#""\ud800""#, HALF_PAIR),
        (r#""\ud800x""#, HALF_PAIR),
        (r#""\ud800\u0041""#, HALF_PAIR),
        (&deep, TOO_DEEP),
    ] {
        assert_eq!(parse::<serde_json::Value>(json).unwrap_err(), text, "{json}");
        assert_eq!(check_readable(json).unwrap_err(), text, "{json}");
    }
}

#[test]
fn only_white_space_is_removed() {
    let mut out = String::new();
    push_compact(&mut out, "{ \"a b\\\" \" : [ 1.10 ,\t-0e+0 ] ,\r\n\"ü\": {} }");
    assert_eq!(out, "{\"a b\\\" \":[1.10,-0e+0],\"ü\":{}}");
}

#[test]
fn depth_is_the_deepest_nesting() {
    for (json, expected) in
        [("1", 0), (r#""[{""#, 0), ("[]", 1), (r#"[[],{"a":["]"]}]"#, 3), ("[[]][[[", 3)]
    {
        assert_eq!(depth(json), expected, "{json}");
    }
}

#[test]
fn finds_names_at_any_depth() {
    let has_dot = |json: &str| find_name(json, |name| name.contains('.')).is_some();
    for yes in [
        r#"{"a.b":1}"#,
        r#"[{"a":[{"\u002e" :1}]}]"#,
        r#"{"\"":":","x":{".":{}}}"#,
        r#"{"x":{"$serde_json::private::RawValue":"!"},"a.b":1}"#,
        r#"{"\ud800":1}"#,
    ] {
        assert!(has_dot(yes), "{yes}");
    }
    for no in [r#"{"a":"b.c:\".\":"}"#, r#"["a.b", ":", {"a" : ".:"}]"#, "1.5", "{}"] {
        assert!(!has_dot(no), "{no}");
    }
    let levels = 100_000;
    assert!(has_dot(&format!("{}{{\".\":1}}{}", "[".repeat(levels), "]".repeat(levels))));
}

#[test]
fn a_string_has_its_characters() {
    for (json, expected) in [
        (r#""""#, 0),
        (r#""aé😀""#, 3),
        (r#""\u00e9\ud83d\ude00\n""#, 3),
        (r#""a\u0000b""#, 3),
        (r#""\ud800x\udc00""#, 3),
    ] {
        assert_eq!(parse::<Length>(json).unwrap().0, expected, "{json}");
    }
}

#[test]
fn pretty_is_the_same_value() {
    let json = r#"{"a":[1.10,{"b":{}}],"c":[],"d":"{,}:[ ]"}"#;
    let pretty = pretty(json);
    assert_eq!(
        pretty,
        "{\n  \"a\": [\n    1.10,\n    {\n      \"b\": {}\n    }\n  ],\n  \"c\": [],\n  \
         \"d\": \"{,}:[ ]\"\n}"
    );
    let mut compact = String::new();
    push_compact(&mut compact, &pretty);
    assert_eq!(compact, json);
}

#[test]
fn unportable_json_is_rejected() {
    for bad in [r#""\u0000""#, r#"["\ud800"]"#, "1e999", r#"{"\u0000":1}"#, "[1,]"] {
        assert!(check(bad).is_err(), "{bad}");
    }
    assert!(check(&format!("{}{}", "[".repeat(1000), "]".repeat(1000))).is_err());
    for good in ["12345678901234567890123", r#"{"a":[null,true,"\ud83d\ude00",1.10]}"#] {
        assert_eq!(check(good), Ok(()), "{good}");
    }
}

#[test]
fn strings_are_written_as_serde_json_writes_them() {
    let characters = (0..=0x9f).filter_map(char::from_u32).chain(['é', '\u{2028}', '😀']);
    for text in characters.map(|character| format!("a{character}")).chain([String::new()]) {
        let mut out = String::new();
        push_string(&mut out, &text);
        assert_eq!(out, serde_json::to_string(&text).unwrap());
    }
}

#[test]
fn texts_without_escapes_are_plain() {
    for (json, text) in [(r#""""#, ""), (r#""a b""#, "a b"), ("\"é\u{7f}😀\"", "é\u{7f}😀")] {
        assert_eq!(plain_text(json), Some(text), "{json}");
    }
    for json in ["", "\"", "a", "null", r#" "a""#, r#""a"b""#, r#""\""#, r#""\u0041""#, "\"\n\""] {
        assert_eq!(plain_text(json), None, "{json}");
    }
}

proptest! {
    #[test]
    fn strings_are_read_as_the_parser_reads_them(
        json in r#""?[au"\\\x00-\x1f\x7fé ]{0,12}"?"#,
    ) {
        prop_assert_eq!(text(&json), parse::<Text<'_>>(&json).map(|Text(text)| text));
        prop_assert_eq!(check(&json), check_texts(&json, |_, _| Ok(())));
    }
}
