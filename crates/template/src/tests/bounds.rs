//! Limits that hold for every template.

use std::time::{Duration, Instant};

use super::*;

/// Far more than needed here, and far less than an unlimited run would take.
const SOON: Duration = Duration::from_secs(60);

/// Threads that render have a much larger stack.
const SMALL_STACK: usize = 512 << 10;

fn on_a_small_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::Builder::new().stack_size(SMALL_STACK).spawn(work);
    thread.expect("a thread").join().expect("no panic")
}

#[test]
fn a_source_has_a_bound() {
    assert!(parse(&"a".repeat(MAX_SOURCE)).is_ok());
    assert_eq!(
        error(&"a".repeat(MAX_SOURCE + 1)),
        "line 1, column 1: a template can have at most 262144 bytes"
    );
}

#[test]
fn parsing_time_is_linear_in_the_source() {
    let until = Instant::now() + SOON;
    for piece in [
        " ",
        "{",
        "{{",
        "{%",
        "{{ ",
        "{{-",
        " {%-",
        "{{a",
        "{{'",
        "{{a|",
        "{{a[",
        "${",
        "{{${",
        "{%#",
        "{% raw %}",
        "{% comment %}",
        "{% raw %}{%",
        "{% if a %}",
        "{% if a ",
        "{% cycle a,",
        "{{ a }} \n",
        "{{ a | default: b, ",
        "}}",
        "%}",
        "\"",
        "{{ 1.",
        "{{ a.b",
        "{% assign a = ",
        "{% for a in b %}{% endfor %}",
        "{{ (1..",
        "é",
        "{% comment %}{% endcomment %}",
        "{% comment %}{% raw %}",
        "{% doc %}",
        "{% liquid ",
        "{% liquid %}",
        "{% liquid\necho 1 %}",
        "{% ifchanged %}",
        "{% # a\n",
        "{{ {{ a",
        "{{ a | default: b: c, ",
        "{% message_extras :key a :value b %}",
        "{{${first_nam}}}",
        "{{${x}}}{{ y }}",
        "{{ campaign.${x} }}",
        "{{ a | default: b, allow_false: c }}",
    ] {
        let source = piece.repeat(MAX_SOURCE / piece.len());
        let _ = parse(&source);
        assert!(Instant::now() < until, "{piece}");
    }
}

#[test]
fn nothing_overflows_the_stack() {
    on_a_small_stack(|| {
        for (open, close) in [
            ("{% if true %}", "{% endif %}"),
            ("{% unless false %}", "{% endunless %}"),
            ("{% for i in (1..1) %}", "{% endfor %}"),
            ("{% case 1 %}{% when 1 %}", "{% endcase %}"),
            ("{% capture a %}", "{{ a }}{% endcapture %}"),
            ("{% tablerow i in (1..1) %}", "{% endtablerow %}"),
            ("{% ifchanged %}", "{% endifchanged %}"),
        ] {
            let nested = |depth: usize| format!("{}x{}", open.repeat(depth), close.repeat(depth));
            let _ = try_render(&nested(MAX_NESTING));
            assert!(error(&nested(MAX_NESTING + 1)).contains("nest at most 32 levels"), "{open}");
            assert!(parse(&nested(4_000)).is_err(), "{open}");
            let open = open.repeat(MAX_SOURCE / open.len());
            assert!(parse(&open).is_err());
        }
        let lines = format!("{{% {}echo 1 %}}", "liquid ".repeat(MAX_NESTING));
        assert_eq!(render(&lines), "1");
        let lines = format!("{{% {}echo 1 %}}", "liquid ".repeat(30_000));
        assert!(error(&lines).contains("nest at most 32 levels"));
        let lines = format!("{{% liquid\n{}", "if true\n".repeat(30_000));
        assert!(error(&format!("{lines} %}}")).contains("nest at most 32 levels"));
        for index in ["a[", "(1..", "a.b[", "[", "{{", "1 | plus: {{"] {
            let source = format!("{{{{ {}", index.repeat(60_000));
            assert!(
                error(&source[..MAX_SOURCE.min(source.len())]).contains("nest at most 8 levels"),
                "{index}"
            );
        }
        let many = |piece: &str, count: usize| piece.repeat(count);
        let long = format!("{{% if a{} %}}{{% endif %}}x", many(" or a", 50_000));
        assert_eq!(render(&long), "x");
        let long = format!("{{% if a %}}{}{{% endif %}}x", many("{% elsif a %}", 20_000));
        assert_eq!(render(&long), "x");
        let long = format!("{{{{ a{} }}}}x", many(".a", 100_000));
        assert_eq!(render(&long), "x");
        let long = format!("{{{{ a{} }}}}x", many(" | strip", 20_000));
        assert!(error(&long).contains("at most 64 filters"));
        let long = format!("{}{}", many("{% comment %}", 9_000), many("{% endcomment %}", 9_000));
        assert_eq!(render(&long), "");
    });
}

#[test]
fn loops_are_paid_for_in_steps() {
    for source in [
        "{% for i in (1..500000000) %}{% endfor %}",
        "{% for i in (1..500000000) limit: 400000000 %}{% endfor %}",
        "{% for i in (-9223372036854775808..9223372036854775807) %}{{ i }}{% endfor %}",
        "{% tablerow i in (1..500000000) cols: 1000000 %}{% endtablerow %}",
        "{% for a in (1..1000) %}{% for b in (1..1000) %}{% for c in (1..1000) %}{% endfor %}{% endfor %}{% endfor %}",
    ] {
        let failure = failure(source);
        assert!(
            failure.contains("more than 500000 steps") || failure.contains("prints more"),
            "{failure}"
        );
    }
    assert!(failure("{{ (1..500000000) | join }}").contains("creates more than 16777216 bytes"));
    assert!(failure("{{ (1..500000000) | reverse | size }}").contains("creates more"));
    // Lists of which only the size is used are never built.
    check(&[("{% assign r = (1..500000000) %}{{ r.size }} {{ r.last }}", "500000000 500000000")]);
    check(&[("{% for i in (1..500000000) offset: 499999999 %}{{ i }}{% endfor %}", "500000000")]);
}

#[test]
fn output_is_bounded() {
    let text = "x".repeat(1 << 10);
    let source = format!("{{% for i in (1..1024) %}}{text}{{% endfor %}}");
    assert_eq!(render(&source).len(), MAX_OUTPUT);
    let source = format!("{{% for i in (1..1024) %}}{text}{{% endfor %}}x");
    assert_eq!(failure(&source), "the template prints more than 1048576 bytes");
    let source = format!(
        "{{% for i in (1..1025) %}}{{% capture a %}}{text}{{% endcapture %}}{{% endfor %}}"
    );
    assert_eq!(failure(&source), "the template prints more than 1048576 bytes");
}

#[test]
fn filter_output_is_bounded() {
    let double = |filter: &str, times: usize| {
        let assign = format!("{{% assign a = a | {filter} %}}");
        format!("{{% assign a = 'abc,def,' %}}{}", assign.repeat(times))
    };
    for filter in [
        "append: a",
        "prepend: a",
        "replace: 'a', a",
        "concat: a",
        "split: '' | join: a",
        "escape | append: a",
        "url_encode | append: a",
        "as_json_string | append: a",
        "split: ',' | concat: a | join: a",
        "replace: '', a",
        "base64_url_safe_encode | append: a",
        "squish | append: a",
        "json_escape | append: a",
        "split: '' | sort_numeric | join: a",
    ] {
        assert!(failure(&double(filter, 64)).contains("the template "), "{filter}");
    }
    // All elements share the same text: the array is small, but prints much.
    let source = format!(
        "{{% capture a %}}{}{{% endcapture %}}{{% assign b = 'x' | split: '' | concat: a %}}{}",
        "y".repeat(200_000),
        "{% assign b = b | concat: b %}".repeat(12)
    );
    for end in [
        "{{ b }}",
        "{{ b | join }}",
        "{{ b | uniq | size }}",
        "{{ b | as_json_string | size }}",
        "{{ b | sort | size }}",
        "{{ b | sort_natural | size }}",
        "{{ b | sort_numeric | size }}",
        "{{ b | has: 'z' }}",
        "{{ b | find: 'z' }}",
        "{{ b | find_index: 'z' }}",
        "{{ b | reject: 'z' | size }}",
        "{{ b | where: 'z' | size }}",
        "{{ b | map: 'z' | size }}",
        "{% for x in b %}{{ x | sha2 }}{{ x | md5 }}{{ x | sha1 }}{% endfor %}",
        "{% for x in b %}{{ x | hmac_sha256_hex: x }}{% endfor %}",
        "{% for x in b %}{{ 'a' | hmac_sha1_base64: x }}{% endfor %}",
        "{% for x in b %}{% assign y = x | squish %}{% endfor %}",
        "{% for x in b %}{% assign y = x | money %}{{ x | json_parse }}{% endfor %}",
        "{% for x in b %}{% ifchanged %}{{ x }}{{ forloop.index }}{% endifchanged %}{% endfor %}",
        "{% for x in b %}{% cycle x: 1, 2 %}{% endfor %}",
        "{% for x in b %}{% case x %}{% when x, x, x %}{{ x }}{% endcase %}{% endfor %}",
        "{% liquid\nfor x in b\necho x\nendfor %}",
        "{% for x in (1..99999) %}{% assign c = 'campaign' %}{{ [c] }}{{ ['event_properties'] }}{% endfor %}",
        "{% for x in b %}{% if x == a %}{% endif %}{% endfor %}",
        "{% for x in b %}{{ x | size }}{% endfor %}",
        "{% for x in b %}{% if x contains 'z' %}{% endif %}{% endfor %}",
    ] {
        let failure = failure(&format!("{source}{end}"));
        assert!(failure.starts_with("the template "), "{end}: {failure}");
    }
}

#[test]
fn json_that_is_read_is_bounded() {
    for piece in ["1,", "[],", "{\"a\":1},"] {
        let json = piece.repeat(100_000 / piece.len());
        let source = format!(
            "{{% capture j %}}[{json}1]{{% endcapture %}}\
             {{% for i in (1..99) %}}{{% assign a = j | json_parse %}}{{% endfor %}}"
        );
        assert!(failure(&source).contains("creates more"), "{piece}");
    }
    // The maximum depth of JSON.
    let deep = format!("{{{{ '{}1{}' | json_parse | size }}}}", "[".repeat(100), "]".repeat(100));
    assert_eq!(render(&deep), "1");
    let deep = format!("{{{{ '{}' | json_parse | size }}}}", "[".repeat(100_000));
    assert_eq!(render(&deep), "0");
    let flat = format!(
        "{{% assign a = '{}1{}' | json_parse %}}{{{{ a | join }}}}{{{{ a | sum }}}}",
        "[".repeat(100),
        "]".repeat(100)
    );
    assert_eq!(render(&flat), "11");
}

#[test]
fn rendering_time_is_bounded() {
    let until = Instant::now() + SOON;
    let text = "<script".repeat(20_000);
    let tags = format!("{{{{ '{text}' | strip_html | size }}}}");
    assert_eq!(render(&tags), "140000");
    let words = "a ".repeat(60_000);
    let source = format!(
        "{{% assign a = '{words}' %}}{{% for i in (1..100000) %}}{{{{ a | truncatewords: 50000 | size }}}}{{% endfor %}}"
    );
    assert!(failure(&source).starts_with("the template "));
    let source = format!("{{{{ '{words}' | split: ' ' | uniq | size }}}}");
    assert_eq!(render(&source), "1");
    assert!(Instant::now() < until);
}

#[test]
fn the_bounds_of_a_message_are_those_of_its_texts_together() {
    let template = parse("{% for i in (1..100000) %}{% endfor %}").unwrap();
    let (data, mut work) = (Sample::default(), RenderBudget::new(NOW));
    let rendered = (0..10).take_while(|_| template.render_within(&data, &mut work).is_ok());
    assert_eq!(rendered.count(), 4);
}

#[test]
fn a_panic_fails_only_its_rendering() {
    let stop = guarded(|| -> Result<(), Stop> { panic!("as planned") });
    assert_eq!(stop, Err(Stop::Failed("the template could not be rendered".into())));
}

#[test]
fn threads_share_a_template() {
    let template = parse("{{${first_name}}} {{ 'now' | date: '%Y' }}").unwrap();
    let threads = [0, 1].map(|_| {
        let template = template.clone();
        std::thread::spawn(move || {
            let data = sample();
            (0..100).map(|_| template.render(&data, NOW).unwrap()).collect::<Vec<_>>()
        })
    });
    for thread in threads {
        assert_eq!(thread.join().unwrap(), vec!["Ann 2026"; 100]);
    }
}
