//! The filters.

use super::*;

#[test]
fn texts() {
    check(&[
        ("{{ 'a' | append: 'b' | prepend: 'c' }}", "cab"),
        ("{{ 'hELLO wORLD' | capitalize }}{{ 'éa' | capitalize }}", "Hello worldÉa"),
        ("{{ 'Straße' | upcase }} {{ 'ÅB' | downcase }}", "STRASSE åb"),
        ("[{{ ' a ' | strip }}{{ ' b ' | lstrip }}{{ ' c ' | rstrip }}]", "[ab  c]"),
        ("{{ 'a-b-a' | replace: 'a', 'xx' }}", "xx-b-xx"),
        (
            "{{ 'a-b-a' | replace_first: 'a', 'x' }} {{ 'a-b-a' | replace_last: 'a', 'x' }}",
            "x-b-a a-b-x",
        ),
        (
            "{{ 'a-b-a' | remove: 'a' }} {{ 'a-b-a' | remove_first: 'a' }} {{ 'a-b-a' | remove_last: 'a' }}",
            "-b- -b-a a-b-",
        ),
        ("{{ 'abc' | replace: '', 'x' }}{{ 'abc' | remove: nil }}", "abcabc"),
        ("{{ 'a, b,,c,,' | split: ',' | join: '|' }}", "a| b||c"),
        (
            "{{ 'åbc' | split: '' | join: '.' }} {{ ' a  b ' | split: ' ' | join: '.' }}",
            "å.b.c a.b",
        ),
        ("{{ 'a,b' | append: '' | split: ',' | last }}{{ ',,' | split: ',' | size }}", "b0"),
        ("{{ 'Ground control' | truncate: 9 }} {{ 'Ground' | truncate: 9 }}", "Ground... Ground"),
        ("{{ 'Ground control' | truncate: 8, '' }} {{ 'abcdef' | truncate: 2 }}", "Ground c ..."),
        ("{{ 'a b c d' | truncatewords: 2 }} {{ 'a b' | truncatewords: 2, '!' }}", "a b... a b"),
        (
            "{{ 'hello' | slice: 1 }}{{ 'hello' | slice: -3, 2 }}{{ 'hé' | slice: 1, 9 }}[{{ 'a' | slice: 5, 1 }}]",
            "ellé[]",
        ),
        ("{{ 'a\nb\r\nc' | newline_to_br }}", "a<br />\nb<br />\nc"),
        ("{{ 'a\nb\r\nc' | strip_newlines }}{{ 'héé' | size }}", "abc3"),
    ]);
}

#[test]
fn numbers() {
    check(&[
        ("{{ 4 | plus: 2 }} {{ 4 | minus: 6 }} {{ 4 | times: 2.5 }}", "6 -2 10.0"),
        ("{{ 0.1 | plus: 0.2 }} {{ 19.99 | times: 3 }}", "0.3 59.97"),
        ("{{ '12' | plus: '1.5' }} {{ 'x' | plus: 1 }} {{ nil | plus: 1 }}", "13.5 1 1"),
        ("{{ 7 | divided_by: 2 }} {{ -7 | divided_by: 2 }} {{ 7 | divided_by: 2.0 }}", "3 -4 3.5"),
        ("[{{ 7 | divided_by: 0 }}{{ 7 | modulo: 0 }}{{ 7 | divided_by: 0.0 }}]", "[]"),
        ("{{ 7 | modulo: 3 }} {{ -7 | modulo: 3 }} {{ 7.5 | modulo: 2 }}", "1 2 1.5"),
        ("{{ -3 | abs }} {{ '-1.5' | abs }}", "3 1.5"),
        ("{{ 3 | at_least: 5 }} {{ 3 | at_most: 2 }} {{ 3.5 | at_least: 1 }}", "5 2 3.5"),
        (
            "{{ 1.2 | ceil }} {{ -1.2 | floor }} {{ 2.5 | round }} {{ 2.345 | round: 2 }}",
            "2 -2 3 2.35",
        ),
        ("{{ 5 | round: 2 }} {{ 1.23456 | round: 3 }} {{ '3.7' | floor }}", "5 1.235 3"),
        (
            "{{ 1234567.891 | number_with_delimiter }} {{ -1234 | number_with_delimiter }} {{ 'x' | number_with_delimiter }}",
            "1,234,567.891 -1,234 x",
        ),
    ]);
}

#[test]
fn numbers_at_their_ends_end_nothing() {
    check(&[
        ("{{ -9223372036854775808 | divided_by: -1 }}", "9.22337203685478e18"),
        ("{{ -9223372036854775808 | modulo: -1 }}", "0"),
        ("{{ -9223372036854775808 | abs }}", "9.22337203685478e18"),
        ("{{ 9223372036854775807 | plus: 1 | round }}", "9.22337203685478e18"),
        ("{{ 9223372036854775807 | times: 9223372036854775807 | floor }}", "8.50705917302346e37"),
        ("[{{ '1e308' | times: 10 }}{{ '1e308' | times: '1e308' | minus: 1 }}]", "[-1]"),
        (
            "{{ '1e308' | round: 15 }} {{ '1e400' | plus: 1 }} {{ 'infinity' | plus: 1 }}",
            "1e308 1 1",
        ),
        ("{{ 'abc' | slice: -9223372036854775808, 9223372036854775807 }}", ""),
        (
            "{{ 'abc' | slice: 0, 9223372036854775807 }}{{ 'abc' | truncate: -9223372036854775808 }}",
            "abc...",
        ),
        (
            "{{ 'a b' | truncatewords: 9223372036854775807 }}{{ 1.5 | round: 9223372036854775807 }}",
            "a b1.5",
        ),
    ]);
}

#[test]
fn lists() {
    let fruits = "custom_attribute.${fruits}";
    check(&[
        (&format!("{{{{ {fruits} | sort | join }}}}"), "Apple kiwi plum"),
        (&format!("{{{{ {fruits} | sort_natural | join: ',' }}}}"), "Apple,kiwi,plum"),
        (&format!("{{{{ {fruits} | reverse | first }}}} {{{{ {fruits} | last }}}}"), "plum plum"),
        (&format!("{{{{ {fruits} | slice: 1, 5 | join: ',' }}}}"), "Apple,plum"),
        (&format!("{{{{ {fruits} | concat: {fruits} | uniq | size }}}}"), "3"),
        (
            "{{ custom_attribute.${numbers} | sort | join: '' }}{{ custom_attribute.${numbers} | sum }}",
            "1236",
        ),
        ("{{ custom_attribute.${pets} | map: 'name' | join: ',' }}", "Rex,Tweety"),
        ("{{ custom_attribute.${pets} | where: 'legs', 2 | map: 'name' }}", "Tweety"),
        (
            "{{ custom_attribute.${pets} | where: 'nope' | size }}{{ custom_attribute.${pets} | sum: 'legs' }}",
            "06",
        ),
        ("{{ custom_attribute.${pets} | sort: 'legs' | map: 'name' | join: ',' }}", "Tweety,Rex"),
        ("{{ custom_attribute.${pets} | map: 'nope' | compact | size }}", "0"),
        ("{{ (1..3) | join: '+' }} {{ 5 | join: ',' }} {{ nil | size }}", "1+2+3 5 0"),
        ("{{ (1..3) | first }}{{ (1..3) | last }}{{ 'abc' | first }}", "13"),
        (
            "{{ '' | default: 'd' }}{{ false | default: 1 }}{{ false | default: 1, allow_false: true }}{{ 0 | default: 1 }}",
            "d1false0",
        ),
    ]);
}

#[test]
fn encodings() {
    check(&[
        (
            "{{ '<a href=\"x\">\\'&amp;' | escape }}".replace("\\'", "").as_str(),
            "&lt;a href=&quot;x&quot;&gt;&amp;amp;",
        ),
        ("{{ \"'\" | escape }}{{ '&amp;&#39;& &;' | escape_once }}", "&#39;&amp;&#39;&amp; &amp;;"),
        ("{{ '<p>a<b>b</b><script>x</script><!-- c --><style>y</style>d<' | strip_html }}", "abd<"),
        ("{{ '<SCRIPT>x' | strip_html }}{{ 'a > b' | strip_html }}", "xa > b"),
        ("{{ 'a b&é' | url_encode }} {{ 'a+b%26%C3%A9%' | url_decode }}", "a+b%26%C3%A9 a b&é%"),
        (
            "{{ 'a b&/é' | url_param_escape }} {{ 'https://x/a b' | url_escape }}",
            "a%20b%26%2F%C3%A9 https://x/a%20b",
        ),
        (
            "{{ 'hé' | base64_encode }} {{ 'aMOp' | base64_decode }}[{{ '!' | base64_decode }}]",
            "aMOp hé[]",
        ),
        (
            "{{ 'a\"b' | json_escape }} {{ 'a\"b' | as_json_string }} {{ nil | as_json_string }}",
            "a\\\"b \"a\\\"b\" null",
        ),
        ("{{ custom_attribute.${fruits} | as_json_string }}", r#"["kiwi","Apple","plum"]"#),
    ]);
}

#[test]
fn times() {
    check(&[
        ("{{ 'now' | date: '%Y-%m-%dT%H:%M:%S.%LZ' }}", "2026-11-21T08:05:07.250Z"),
        ("{{ 'today' | date: '%a %A %b %B %e %j' }}", "Sat Saturday Nov November 21 325"),
        ("{{ 0 | date: '%F %T' }} {{ '86400' | date: '%F' }}", "1970-01-01 00:00:00 86400"),
        ("{{ '1795248307' | date: '%F' }}", "2026-11-21"),
        ("{{ ${dob} | date: '%d.%m.%y %-d/%-m' }}", "17.05.90 17/5"),
        ("{{ '2026-11-21T08:05:00+05:30' | date: '%H:%M %z' }}", "08:05 +0530"),
        ("{{ '2026-11-21 08:05:00 +0100' | date: '%H:%M %z %s' }}", "08:05 +0100 1795244700"),
        ("{{ '2026-11-21 08:05:00 UTC' | date: '%I:%M %p' }}", "08:05 AM"),
        ("{{ 'now' | time_zone: ${time_zone} | date: '%H:%M' }}", "09:05"),
        ("{{ 'now' | time_zone: 'Mars/Base' }}", "now"),
        ("{{ 'soon' | date: '%Y' }}{{ nil | date: '%Y' }}{{ 'now' | date: '' }}", "soonnow"),
        ("{{ 'now' | date: '100%% %! %Ö %' }}", "100% %! %Ö %"),
        ("{{ 99999999999999 | date: '%Y' }}", "99999999999999"),
    ]);
}

#[test]
fn a_width_of_a_date_is_bounded() {
    assert_eq!(render("{{ 'now' | date: '%10Y' }}").len(), 10);
    assert_eq!(render("{{ 'now' | date: '%999999999Y' }}"), "%999999999Y");
    assert_eq!(render("{{ 'now' | date: '%65Y|%0255d|%256H' }}"), "%65Y|%0255d|%256H");
    let widest = format!("{{{{ 'now' | date: '{}' }}}}", "%64A".repeat(64));
    assert!(render(&widest).len() <= 64 * 64);
    let long = format!("{{{{ 'now' | date: '{}' }}}}", "%A".repeat(129));
    assert_eq!(failure(&long), "a format of a date has 256 bytes at most");
}
