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
        ("{{ 'abc' | replace: '', 'x' }}{{ 'abc' | remove: nil }}", "xaxbxcxabc"),
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
        ("{{ 42 | replace: 'a', 'b' | size }}{{ 42 | truncate: 9 | size }}", "22"),
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
fn extreme_numbers_do_not_panic() {
    check(&[
        ("{{ -9223372036854775808 | divided_by: -1 }}", "9223372036854775808"),
        ("{{ -9223372036854775808 | modulo: -1 }}", "0"),
        ("{{ -9223372036854775808 | abs }}", "9223372036854775808"),
        ("{{ 9223372036854775807 | plus: 1 | round }}", "9223372036854775808"),
        (
            "{{ 9223372036854775807 | times: 9223372036854775807 | floor }}",
            "85070591730234615847396907784232501249",
        ),
        ("{{ 0 | minus: '-170141183460469231731687303715884105728' }}", "1.7014118346046923e+38"),
        ("[{{ custom_attribute.${huge} | times: 10 }}]", "[]"),
        (
            "{{ custom_attribute.${huge} | round: 15 }} {{ custom_attribute.${huge} | round: -2 }}",
            "1.0e+308 1.0e+308",
        ),
        ("{{ '1e400' | plus: 1 }} {{ 'infinity' | plus: 1 }} {{ '12 cm' | plus: 1 }}", "2 1 13"),
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
fn whole_numbers_beyond_64_bits_are_exact() {
    const MAX: &str = "'170141183460469231731687303715884105727'";
    check(&[
        ("{{ '9223372036854775808' | plus: 1 }}", "9223372036854775809"),
        ("{{ -9223372036854775808 | minus: 1 }}", "-9223372036854775809"),
        ("{{ 9223372036854775807 | plus: 1 | minus: 1 }}", "9223372036854775807"),
        ("{{ '9223372036854775809' | times: 10 }}", "92233720368547758090"),
        ("{{ '92233720368547758090' | divided_by: 10 }}", "9223372036854775809"),
        ("{{ '92233720368547758093' | modulo: 10 }}", "3"),
        ("{{ '9223372036854775809' | at_least: '9223372036854775808' }}", "9223372036854775809"),
        ("{{ '9223372036854775809' | at_most: '9223372036854775808' }}", "9223372036854775808"),
        ("{{ '-9223372036854775809' | abs }}", "9223372036854775809"),
        ("{{ '12345678901234567891' | round: -1 }}", "12345678901234567890"),
        ("{{ '12345678901234567891' | money }}", "12,345,678,901,234,567,891.00"),
        ("{{ '12345678901234567891.125' | money }}", "12,345,678,901,234,567,891.13"),
        ("{{ '9223372036854775807 1' | split: ' ' | sum }}", "9223372036854775808"),
        // More than 38 digits are floating point.
        (&format!("{{{{ {MAX} | plus: 1 }}}}"), "1.7014118346046923e+38"),
        (&format!("{{{{ 0 | minus: {MAX} | minus: 1 | abs }}}}"), "1.7014118346046923e+38"),
        (
            &format!("{{{{ {MAX} | times: -1 | minus: 1 | divided_by: -1 }}}}"),
            "1.7014118346046923e+38",
        ),
        (&format!("{{{{ {MAX} | money }}}}"), "170141183460469231731687303715884105727"),
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
        ("{{ (1..3) | first }}{{ (1..3) | last }}{{ 'abc' | first }}{{ 'abc' | last }}", "13ac"),
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
        ("{{ '*~-._+/' | url_encode }}", "%2A~-._%2B%2F"),
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
fn places_of_numbers() {
    check(&[
        ("{{ 20 | divided_by: 7.0 }} {{ 0.3 | divided_by: 0.1 }}", "2.857142857142857 3.0"),
        ("{{ 1.1 | plus: 2.2 }} {{ 1 | minus: 0.9 }} {{ 5.5 | modulo: 1.1 }}", "3.3 0.1 0.0"),
        ("{{ 1250 | round: -2 }} {{ -1250 | round: -2 }} {{ 49 | round: -2 }}", "1300 -1300 0"),
        ("{{ 1.005 | round: 2 }} {{ 2.5 | round }} {{ -2.5 | round }}", "1.01 3 -3"),
        ("{{ 5 | round: -99 }} {{ 0.5 | round: 99 }}", "0 0.5"),
        ("{{ 3 | at_least: 1.5 }} {{ 3 | at_most: 3.0 }}", "3 3"),
        ("{{ 1234.5 | money }} {{ 1.005 | money }} {{ -7 | money }}", "1,234.50 1.01 -7.00"),
        ("{{ '1234567' | money }} {{ 'ten' | money }}[{{ nil | money }}]", "1,234,567.00 ten[]"),
    ]);
}

#[test]
fn searches_of_arrays() {
    let pets = "custom_attribute.${pets}";
    check(&[
        (&format!("{{{{ {pets} | find: 'legs', 2 | property_accessor: 'name' }}}}"), "Tweety"),
        (&format!("{{{{ {pets} | find_index: 'legs', 2 }}}}"), "1"),
        (
            &format!("{{{{ {pets} | has: 'legs', 3 }}}} {{{{ {pets} | has: 'legs' }}}}"),
            "false true",
        ),
        (&format!("{{{{ {pets} | reject: 'legs', 2 | map: 'name' }}}}"), "Rex"),
        ("{{ 'a10,a9,b' | split: ',' | sort_numeric | join: ' ' }}", "a9 a10 b"),
        ("{{ '  a \n b ' | squish }}", "a b"),
    ]);
}

#[test]
fn hashes_and_signatures() {
    check(&[
        ("{{ 'hey' | md5 }}", "6057f13c496ecf7fd777ceb9e79ae285"),
        ("{{ 'hey' | sha1 }}", "7f550a9f4c44173a37664d938f1355f0f92a47a7"),
        ("{{ 'hey' | sha2 }}", "fa690b82061edfd2852629aeba8a8977b57e40fcb77d1a7a28b26cba62591204"),
        ("{{ 'hey' | hmac_sha1_hex: 'secret_key' }}", "2a3969bed25bfeefb00aca4063eb9590b4df8f0e"),
        ("{{ 'hey' | hmac_sha1_base64: 'secret_key' }}", "KjlpvtJb/u+wCspAY+uVkLTfjw4="),
        (
            "{{ 'hey' | hmac_sha256_hex: 'secret_key' }}",
            "8df897f8da3d7992fe57c8dbc6f27578cfbf2dcc4d0fbb4000b8c924841d508e",
        ),
        (
            "{{ 'hey' | hmac_sha256_base64: 'secret_key' }}",
            "jfiX+No9eZL+V8jbxvJ1eM+/LcxND7tAALjJJIQdUI4=",
        ),
        ("{{ nil | md5 }}", "d41d8cd98f00b204e9800998ecf8427e"),
    ]);
}

#[test]
fn json_is_read() {
    let json = r#"{% capture json %}{"b":[1,{"c":"x"}],"a":2.5,"n":null}{% endcapture %}"#;
    let source = format!(
        "{json}{{% assign o = json | json_parse %}}{{{{ o.b[1].c }}}} {{{{ o.a | plus: 1 }}}} {{{{ o.size }}}} \
         {{{{ o | property_accessor: 'a' }}}}[{{{{ o.n }}}}{{{{ o.nope }}}}] {{{{ o.b | as_json_string }}}}"
    );
    assert_eq!(render(&source), r#"x 3.5 3 2.5[] [1,{"c":"x"}]"#);
    check(&[("[{{ 'no json' | json_parse }}{{ nil | json_parse }}]", "[]")]);
}

#[test]
fn times() {
    check(&[
        ("{{ 'now' | date: '%Y-%m-%dT%H:%M:%S.%LZ' }}", "2026-11-21T08:05:07.250Z"),
        ("{{ 'today' | date: '%a %A %b %B %e %j' }}", "Sat Saturday Nov November 21 325"),
        ("{{ 0 | date: '%F %T' }} {{ '86400' | date: '%F' }}", "1970-01-01 00:00:00 1970-01-02"),
        ("{{ '20261121' | date: '%F' }} {{ '0' | date: '%Y' }}", "1970-08-23 1970"),
        ("{{ '1795248307' | date: '%F' }}", "2026-11-21"),
        ("{{ ${dob} | date: '%d.%m.%y %-d/%-m' }}", "17.05.90 17/5"),
        ("{{ '2026-11-21T08:05:00+05:30' | date: '%H:%M %z' }}", "08:05 +0530"),
        ("{{ '2026-11-21 08:05:00 +0100' | date: '%H:%M %z %s' }}", "08:05 +0100 1795244700"),
        ("{{ '2026-11-21 08:05:00 UTC' | date: '%I:%M %p' }}", "08:05 AM"),
        ("{{ 'now' | time_zone: ${time_zone} | date: '%H:%M' }}", "09:05"),
        ("{{ 'now' | time_zone: 'Mars/Base' }}", "now"),
        ("{{ 1795248307 | time_zone: 'Etc/Unknown' }}", "1795248307"),
        (
            "{{ '2026-11-15T10:20:30[America/New_York]' | date: '%H:%M %Z %s' }}",
            "10:20 EST 1794756030",
        ),
        ("{{ '2026-11-15 10:20 -0500[america/new_york]' | date: '%H:%M %z' }}", "10:20 -0500"),
        ("{{ '2026-11-15T10:20:30Z[America/New_York]' | date: '%H:%M %z' }}", "05:20 -0500"),
        ("{{ '2026-11-15T10:20:30[Mars/Base]' | date: '%H' }}", "2026-11-15T10:20:30[Mars/Base]"),
        ("{{ '2026-11-15T10:20:30+25:00' | date: '%H' }}", "2026-11-15T10:20:30+25:00"),
        ("{{ '2026-11-15T24:00' | date: '%F %T' }}", "2026-11-16 00:00:00"),
        ("{{ '2026-12-31 24:00:00 +0100' | date: '%F %T %z' }}", "2027-01-01 00:00:00 +0100"),
        ("{{ '2026-12-31T24:00:01' | date: '%F' }}", "2026-12-31T24:00:01"),
        ("{{ 'soon' | date: '%Y' }}{{ nil | date: '%Y' }}{{ 'now' | date: '' }}", "soonnow"),
        ("{{ 'now' | date: '100%% %! %Ö %' }}", "100% %! %Ö %"),
        ("{{ 99999999999999 | date: '%Y' }}", "99999999999999"),
    ]);
}

#[test]
fn times_in_words() {
    check(&[
        (
            "{{ 'March 14, 2016' | date: '%F' }} {{ '14 Mar 2016' | date: '%F' }}",
            "2016-03-14 2016-03-14",
        ),
        ("{{ 'Mon, 14 Mar 2016 10:30:00 +0100' | date: '%F %T %z' }}", "2016-03-14 10:30:00 +0100"),
        ("{{ 'Mon Mar 14 10:30:05 2016' | date: '%F %T' }}", "2016-03-14 10:30:05"),
        ("{{ 'Mon, 14 Mar 2016 10:30 GMT' | date: '%F %R %Z' }}", "2016-03-14 10:30 UTC"),
        ("{{ 'Sept 3rd 2020 at 12:05 AM' | date: '%F %R' }}", "2020-09-03 00:05"),
        ("{{ '3 Feb 7pm EST' | date: '%F %R %z' }}", "2026-02-03 19:00 -0500"),
        (
            "{{ 'May 2020' | date: '%F' }} {{ '10:30' | date: '%F %R' }}",
            "2020-05-01 2026-11-21 10:30",
        ),
        (
            "{{ '2016/3/14' | date: '%F' }} {{ '2016-03-14 10:30 pm' | date: '%R' }}",
            "2016-03-14 22:30",
        ),
        ("{{ 'tomorrow' | date: '%F' }} {{ '31 Feb 2020' | date: '%F' }}", "tomorrow 31 Feb 2020"),
        ("{{ 'May May 2020' | date: '%F' }} {{ '25:00' | date: '%R' }}", "May May 2020 25:00"),
        ("{{ '14 Mar 2016 24:00' | date: '%F %R' }}", "2016-03-15 00:00"),
        ("{{ '24:01' | date: '%R' }} {{ '24:00pm' | date: '%R' }}", "24:01 24:00pm"),
        ("{{ '14 Mar 2016 10:30 +2500' | date: '%F' }}", "14 Mar 2016 10:30 +2500"),
    ]);
}

#[test]
fn directives_of_times() {
    check(&[
        (
            "{{ 'now' | date: '%c|%x|%X|%v|%+' }}",
            "Sat Nov 21 08:05:07 2026|11/21/26|08:05:07|21-NOV-2026|Sat Nov 21 08:05:07 UTC 2026",
        ),
        ("{{ 'now' | date: '%Q %s %L %Z' }}", "1795248307250 1795248307 250 UTC"),
        ("{{ 'now' | time_zone: 'Europe/Oslo' | date: '%H:%M %Z %z' }}", "09:05 CET +0100"),
        ("[{{ '2016-03-14T10:00:00+01:00' | date: '%Z' }}]", "[]"),
        ("{{ 'now' | time_zone: 'Europe/Oslo' }}", "2026-11-21 09:05:07 +0100"),
        ("{{ 'now' | time_zone: 'Europe/Oslo' | slice: 0, 4 }}", "2026"),
        ("{{ 'now' | date: '%%%b' }}", "%Nov"),
        ("{{ '2026-11-21T17:02:43Z' | date: '%r|%I %p' }}", "05:02:43 PM|05 PM"),
        ("{{ 'now' | date: '%^B %-d %_m %^_B %-_d %--d %00d' }}", "NOVEMBER 21 11 %^_B %-_d 21 21"),
        ("{{ 'now' | date: '%:z %::z %:::z' }}", "+00:00 +00:00:00 +00"),
        ("{{ 'now' | date: '%::::z %:Y %5:z' }}", "%::::z %:Y %5:z"),
        ("{{ '9999-12-31' | date: '%A %d.%m.%Y %j %V %G' }}", "Friday 31.12.9999 365 52 9999"),
        (
            "{{ '9999-12-31T23:59:59.999Z' | date: '%F %T.%L %Z %z %s %Q' }}",
            "9999-12-31 23:59:59.999 UTC +0000 253402300799 253402300799999",
        ),
        ("{{ '9999-12-31T23:59:59-05:00' | date: '%F %R %z' }}", "9999-12-31 23:59 -0500"),
        ("{{ '9999-12-31T01:00:00+05:30' | date: '%F %R %z' }}", "9999-12-31 01:00 +0530"),
        ("{{ '31 Dec 9999 23:00 EST' | date: '%F %R %z' }}", "9999-12-31 23:00 -0500"),
        (
            "{{ '9999-12-31T23:59:59Z' | time_zone: 'America/New_York' | date: '%F %T %Z' }}",
            "9999-12-31 18:59:59 EST",
        ),
        ("{{ '9999-12-31T23:59:59Z' | time_zone: 'Europe/Oslo' }}", "9999-12-31T23:59:59Z"),
        (
            "{{ 253402300799 | date: '%F' }} {{ 253402300800 | date: '%F' }}",
            "9999-12-31 253402300800",
        ),
        ("{{ '-009999-01-01' | date: '%m-%d' }}", "01-01"),
        (
            "{{ 'now' | time_zone: 'Europe/Oslo' | time_zone: 'Mars/Base' | date: '%R %Z' }}",
            "09:05 CET",
        ),
        // Without a zone of its own, a time is in UTC, also after an unknown zone.
        ("{{ 'now' | time_zone: 'Mars/Base' | date: '%R %Z' }}", "08:05 UTC"),
        ("{{ 1795248307 | time_zone: 'Mars/Base' | date: '%R %Z' }}", "08:05 UTC"),
        (
            "{{ '2026-11-21T08:05:07+05:30' | time_zone: 'Mars/Base' | date: '%R %z' }}",
            "08:05 +0530",
        ),
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
    assert_eq!(failure(&long), "a date format can have at most 256 bytes");
}
