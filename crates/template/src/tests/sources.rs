//! Content blocks, and requests of tags.

use std::collections::BTreeMap;

use kit::json::Tree;

use super::*;

/// The content blocks of a workspace.
#[derive(Debug)]
struct Known;

impl Sources for Known {
    fn check(&self, source: Source<'_>) -> Result<(), String> {
        match source {
            Source::Catalog("games") | Source::Selection { catalog: "games", name: "s" } => Ok(()),
            Source::Address { beginning: "https://a.example/x", is_whole: true } => Ok(()),
            Source::Address { beginning: "https://a.example/", is_whole: false } => Ok(()),
            Source::Credential("crm") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    }
}

fn blocks(blocks: &[(&str, &str)]) -> BTreeMap<String, String> {
    blocks.iter().map(|(name, source)| ((*name).to_owned(), (*source).to_owned())).collect()
}

fn parse_with(source: &str, blocks: &BTreeMap<String, String>) -> Result<Template, TemplateError> {
    let names = Names { blocks: Some(blocks), sources: Some(&Known), ..NAMES };
    let template = Template::parse(source, &names)?;
    match template.mistake() {
        Some(mistake) => Err(mistake.clone()),
        None => Ok(template),
    }
}

/// Data with fixed responses.
struct Answers(Vec<(Request, Answer)>);

impl Data for Answers {
    fn field(&self, name: &str) -> View<'_> {
        if name == "id" { View::Text("ann") } else { View::Nothing }
    }

    fn object(&self, _: &str) -> View<'_> {
        View::Nothing
    }

    fn answer<'d>(&'d self, request: &Request) -> Option<&'d Answer> {
        self.0.iter().find(|(known, _)| known == request).map(|(_, answer)| answer)
    }
}

/// The first request of a template.
fn request(source: &str) -> Request {
    let names = Names { is_open: true, ..NAMES };
    let template = Template::parse(source, &names).unwrap_or_else(|e| panic!("{source}: {e}"));
    match template.render(&Answers(Vec::new()), NOW) {
        Err(Stop::Needs(request)) => *request,
        other => panic!("{source}: {other:?}"),
    }
}

fn content(source: &str) -> ContentRequest {
    match request(source) {
        Request::Content(content) => content,
        other => panic!("{source}: {other:?}"),
    }
}

fn with_answer(source: &str, answer: Answer) -> Result<String, Stop> {
    let template = Template::parse(source, &Names { is_open: true, ..NAMES }).unwrap();
    template.render(&Answers(vec![(request(source), answer)]), NOW)
}

#[test]
fn a_block_stands_for_its_source() {
    let blocks = blocks(&[
        ("plain", "text"),
        ("with space", "{% if a == 1 %}one{% else %}other{% endif %}"),
        ("outer", "<{{ content_blocks.${plain} }}{{b}}>{% assign c = 3 %}"),
        ("blank", " \n"),
        ("optional", "{{ nowhere | default: 'usual' }}"),
    ]);
    for (source, expected) in [
        ("{{content_blocks.${plain}}}", "text"),
        ("{{ content_blocks.${plain} | id: 'cb1' }}", "text"),
        (" {{- content_blocks.${plain} -}} !", "text!"),
        ("{% assign a = 1 %}{{content_blocks.${with space}}}", "one"),
        ("{% assign a = 2 %}{{content_blocks.${with space}}}", "other"),
        ("{% capture b %}b{% endcapture %}{{content_blocks.${outer}}}{{ c }}", "<textb>3"),
        ("{% for a in (1..2) %}{{content_blocks.${with space}}}{% endfor %}", "oneother"),
        ("{% if true %}{{content_blocks.${blank}}}{% endif %}", ""),
        ("{% echo content_blocks.${plain} %}", "text"),
        ("{{content_blocks.${optional}}}", "usual"),
        ("{% liquid\n echo content_blocks.${plain}\n echo 'x' %}", "textx"),
    ] {
        let template = parse_with(source, &blocks).unwrap_or_else(|e| panic!("{source}: {e}"));
        let rendered = template.render(&Answers(Vec::new()), NOW);
        assert_eq!(rendered.as_deref(), Ok(expected), "{source}");
    }
    let template = parse_with("{{content_blocks.${outer}}}{% assign b = 1 %}", &blocks).unwrap();
    assert_eq!(template.bytes_of_blocks(), blocks["outer"].len() + blocks["plain"].len());
}

#[test]
fn errors_in_blocks_name_their_position() {
    let blocks = blocks(&[
        ("open", "a\n {% if true %}"),
        ("field", "{{${frist_name}}}"),
        ("outer", "x {{content_blocks.${field}}}"),
        ("itself", "{{content_blocks.${itself}}}"),
    ]);
    for (source, expected) in [
        (
            "\n x{{content_blocks.${opn}}}",
            "line 2, column 5: unknown name `content_blocks.${opn}`; did you mean `content_blocks.${open}`?",
        ),
        (
            "{{content_blocks.${open}}}",
            "line 1, column 3: content_blocks.${open}, line 2, column 2: `if` is not closed by `endif`",
        ),
        (
            "{{content_blocks.${outer}}}",
            "line 1, column 3: content_blocks.${outer}, line 1, column 5: content_blocks.${field}, line 1, column 3: unknown name `${frist_name}`; did you mean `${first_name}`?",
        ),
    ] {
        let error = parse_with(source, &blocks).unwrap_err().to_string();
        assert_eq!(error, expected, "{source}");
    }
    let error = parse_with("{{content_blocks.${itself}}}", &blocks).unwrap_err().to_string();
    assert!(error.ends_with("a content block cannot include itself"), "{error}");
    let chain: Vec<(String, String)> = (0..9)
        .map(|n| (format!("b{n}"), format!("{{{{content_blocks.${{b{}}}}}}}", n + 1)))
        .collect();
    let chain = chain.into_iter().chain([("b9".to_owned(), "end".to_owned())]).collect();
    assert!(parse_with("{{content_blocks.${b5}}}", &chain).is_ok());
    let error = parse_with("{{content_blocks.${b4}}}", &chain).unwrap_err().to_string();
    assert!(error.ends_with("content blocks can nest at most 5 levels"), "{error}");
}

#[test]
fn blocks_that_multiply_are_refused() {
    let row = |name: &str| format!("{{{{content_blocks.${{{name}}}}}}}").repeat(1_500);
    let (a, b, c) = (row("b"), row("c"), "x".repeat(50_000));
    let blocks = blocks(&[("a", &a), ("b", &b), ("c", &c)]);
    let error = parse_with("{{content_blocks.${a}}}", &blocks).unwrap_err().to_string();
    assert!(error.ends_with("content blocks can have at most 1048576 bytes in total"), "{error}");
}

#[test]
fn items_are_asked_for_by_their_ids() {
    for (source, expected) in [
        ("{% catalog_items games 1234 %}", &["1234"][..]),
        ("{% catalog_items games a-b 12_c \"q r\" %}", &["a-b", "12_c", "q r"]),
        ("{% catalog_items games {{ 'x' | append: 1 }} p{{ 2 }}s {{ 3 }} %}", &["x1", "p2s", "3"]),
        (
            "{% assign l = 'a,b' | split: ',' %}{% catalog_items games {{ l }} {{ none }} %}",
            &["a", "b"],
        ),
        ("{%- catalog_items games {{ 'x' }} -%}", &["x"]),
        ("{% liquid\n catalog_items games 1 2\n%}", &["1", "2"]),
    ] {
        let ids = expected.iter().map(|id| (*id).to_owned()).collect();
        assert_eq!(request(source), Request::Items { catalog: "games".into(), ids }, "{source}");
    }
    let selection = Request::Selection { catalog: "games".into(), name: "s".into() };
    assert_eq!(request("{% catalog_selection_items games s %}"), selection);
    let items = Tree::parse(r#"[{"id":"1","title":"Tales"}]"#).unwrap();
    let source = "{% catalog_items games 1 %}{{ items[0].title }} {{ items.size }}";
    assert_eq!(with_answer(source, Answer::Json(items)).as_deref(), Ok("Tales 1"));
    assert_eq!(with_answer(source, Answer::Nothing).as_deref(), Ok(" 0"));
    let many = format!("{{% catalog_items games {} %}}", "1 ".repeat(51));
    assert!(parse(&many).unwrap_err().text.contains("at most 50 items"));
    let many = "{% assign l = 'a' | split: '' %}{% for i in (1..6) %}{% assign l = l | concat: l \
                %}{% endfor %}{% catalog_items games {{ l }} %}";
    let failed = Template::parse(many, &NAMES).unwrap().render(&Answers(Vec::new()), NOW);
    assert!(matches!(failed, Err(Stop::Failed(_))), "{failed:?}");
    // Ids that no item has need no memory: here some 32 GiB.
    let (id, long) = ("a".repeat(250), "a".repeat(251));
    let ids = format!("{{% catalog_items games {{{{ '{long}' }}}} {long} {id} %}}");
    assert_eq!(request(&ids), Request::Items { catalog: "games".into(), ids: vec![id] });
    let huge = "{% assign a = '0123456789abcdef' %}\
                {% for i in (1..18) %}{% assign a = a | append: a %}{% endfor %}\
                {% assign l = a | split: '|' %}\
                {% for i in (1..13) %}{% assign l = l | concat: l %}{% endfor %}\
                {% catalog_items games {{ l }} %}";
    assert_eq!(request(huge), Request::Items { catalog: "games".into(), ids: Vec::new() });
}

#[test]
fn a_request_has_its_options() {
    let bare = content("{% connected_content https://a.example/x %}");
    let expected = ContentRequest {
        url: "https://a.example/x".into(),
        is_post: false,
        headers: Vec::new(),
        body: String::new(),
        content_type: None,
        credential: None,
        max_age: Some(300),
        retries: false,
    };
    assert_eq!(bare, expected);
    let all = content(
        "{% connected_content\n  https://a.example/{{${id} | append: '-1'}}?a={{ 'b c' | url_param_escape }}\n  \
         :method POST\n  :headers {\n \"X-A\": \"v {{ 'w' }}\",\n 'X-B': '2' }\n  \
         :body a={{ 1 }}&b=c: d  e\n  :content_type application/json\n  :basic_auth crm\n  \
         :save got\n  :cache_max_age 900\n  :retry\n%}",
    );
    let headers = [("X-A", "v w"), ("X-B", "2")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    let expected = ContentRequest {
        url: "https://a.example/ann-1?a=b%20c".into(),
        is_post: true,
        headers: headers.into(),
        body: "a=1&b=c: d  e".into(),
        content_type: Some("application/json".into()),
        credential: Some("crm".into()),
        max_age: Some(900),
        retries: true,
    };
    assert_eq!(all, expected);
    let post = content(
        "{% connected_content 'https://a.example' :method post :body {\"a\": \"{{ 1 }}\"} %}",
    );
    assert_eq!((post.max_age, post.body.as_str()), (None, "{\"a\": \"1\"}"));
    let uncached = content("{% connected_content {{ 'https://a' }}.example :no_cache %}");
    assert_eq!((uncached.max_age, uncached.url.as_str()), (None, "https://a.example"));
}

#[test]
fn an_answer_is_saved_or_printed() {
    let json = || Answer::Json(Tree::parse(r#"{"a":[1,2],"__http_status__":200}"#).unwrap());
    let text = || Answer::Text("text".into());
    let tag = |options: &str| format!("{{% connected_content https://a.example {options} %}}");
    for (source, answer, expected) in [
        (tag("") + "{{ connected.a[1] }}", json(), "2"),
        (tag(":save x") + "{{ x.__http_status__ }}{{ connected }}", json(), "200"),
        (tag("") + "!", text(), "text!"),
        (tag(":save x") + "{{ x }}!", text(), "text!"),
        (tag("") + "{{ connected }}!", Answer::Nothing, "!"),
        (
            tag(":save x") + "{% if x.__http_status__ != 200 %}none{% endif %}",
            Answer::Nothing,
            "none",
        ),
        ("{% if true %} ".to_owned() + &tag(":save x") + " {% endif %}", json(), ""),
    ] {
        assert_eq!(with_answer(&source, answer).as_deref(), Ok(expected), "{source}");
    }
    let abort = tag(":save x") + "{% if x == null %}{% abort_message('no data') %}{% endif %}";
    assert_eq!(with_answer(&abort, Answer::Nothing), Err(Stop::Aborted("no data".into())));
}

#[test]
fn an_answer_has_the_bounds_of_a_rendering() {
    let source = "{% connected_content https://a.example :save x %}{% for a in x %}{% for b in x %}\
                  {% for c in x %}{{ a }}{% endfor %}{% endfor %}{% endfor %}";
    let numbers = Tree::parse(&json!(vec![1; 10_000]).to_string()).unwrap();
    let failed = with_answer(source, Answer::Json(numbers));
    assert!(matches!(failed, Err(Stop::Failed(_))), "{failed:?}");
    let print = "{% connected_content https://a.example %}";
    assert!(with_answer(print, Answer::Text("x".repeat(MAX_OUTPUT))).is_ok());
    let failed = with_answer(print, Answer::Text("x".repeat(MAX_OUTPUT + 1)));
    assert!(matches!(failed, Err(Stop::Failed(_))), "{failed:?}");
}

#[test]
fn unusable_sources_are_rejected() {
    let none = BTreeMap::new();
    for source in [
        "{% catalog_items games 1 %}",
        "{% catalog_selection_items games s %}",
        "{% connected_content https://a.example/x :basic_auth crm %}",
        "{% connected_content https://a.example/{{${external_id}}} :auth_credentials crm %}",
    ] {
        parse_with(source, &none).unwrap_or_else(|error| panic!("{source}: {error}"));
    }
    for (source, at) in [
        ("{% catalog_items other 1 %}", "line 1, column 18: Catalog(\"other\")"),
        ("{% catalog_selection_items games other %}", "line 1, column 28: Selection"),
        ("{% connected_content https://b.example/x %}", "line 1, column 22: Address"),
        (
            "{% connected_content https://a.example/x :basic_auth x %}",
            "line 1, column 54: Credential",
        ),
        ("{% catalog_items %}", "line 1, column 18: expected the name of a catalog"),
        (
            "{% catalog_items games 1 :rerender %}",
            "line 1, column 26: `catalog_items` has no options",
        ),
        (
            "{% catalog_selection_items games %}",
            "line 1, column 34: expected the name of a selection",
        ),
        ("{% connected_content %}", "line 1, column 22: the URL is missing"),
        (
            "{% connected_content https://a.example/x y %}",
            "line 1, column 42: expected `:`, found `y`",
        ),
        (
            "{% connected_content https://a.example/x :nope %}",
            "line 1, column 43: `connected_content` has no option `:nope`",
        ),
        (
            "{% connected_content https://a.example/x :method put %}",
            "line 1, column 50: `method` must be `get` or `post`",
        ),
        (
            "{% connected_content https://a.example/x :cache_max_age 5 %}",
            "line 1, column 57: `cache_max_age` must be 300 to 14400 seconds",
        ),
        (
            "{% connected_content https://a.example/x :headers x %}",
            "line 1, column 51: expected `{`",
        ),
        (
            "{% connected_content https://a.example/x :headers {\"a\": b} %}",
            "line 1, column 57: expected a string in quotes",
        ),
        ("{% connected_content https://a.example/{{ x %}", "line 1, column 45: expected `}}`"),
        ("{% connected_content https://a.example/x", "line 1, column 1: `{%` is not closed"),
    ] {
        let error = parse_with(source, &none).unwrap_err().to_string();
        assert!(error.starts_with(at), "{source}: {error}");
    }
}

#[test]
fn unknown_sources_are_known_also_after_another_mistake() {
    for (source, is_unknown) in [
        ("{{ nowhere }}{% catalog_items games 1 %}", false),
        ("{{ nowhere }}{% catalog_items other 1 %}", true),
        ("{% catalog_selection_items games other %}", true),
        ("{% connected_content https://b.example/x %}", true),
        ("{% connected_content https://a.example/x :basic_auth crm %}", false),
        ("{% connected_content https://a.example/x :basic_auth x %}", true),
    ] {
        let names = Names { sources: Some(&Known), ..NAMES };
        let template = Template::parse(source, &names).unwrap();
        assert_eq!(template.has_unknown_source(), is_unknown, "{source}");
    }
}

#[test]
fn aborts_have_a_plain_reason() {
    for (source, reason) in [
        ("{% abort_message(no venue name) %}", "no venue name"),
        ("{% abort_message('quoted') %}", "quoted"),
        ("{% assign why = 'because' %}{% abort_message(why) %}", "because"),
        ("{% abort_message('a' | append: 'b') %}", "ab"),
    ] {
        assert_eq!(try_render(source), Err(Stop::Aborted(reason.into())), "{source}");
    }
}

#[test]
fn tag_parsing_time_is_linear() {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    for piece in [
        "{% connected_content a :body  ",
        "{% connected_content {{",
        "{% connected_content a :headers {'",
        " :x",
        "{% catalog_items a ",
        "{{content_blocks.${a}}}",
        "{% abort_message(a ",
    ] {
        let source = piece.repeat(MAX_SOURCE / piece.len());
        let _ = parse(&source);
        let _ = parse(&format!("{{% connected_content a :body {source}"));
    }
    assert!(std::time::Instant::now() < until);
}
