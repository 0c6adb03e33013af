//! Compares the rendering of corpus templates and generated ones with the reference implementation
//! of Liquid. Each file of the corpus has data, and templates with their output, or null if they
//! are rejected. python-liquid, which follows the reference, must agree; where it does not, a case
//! has its output (`oracle`) and the reason (`why`).

use std::borrow::Cow;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kit::json::JsonFields;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use template::{Data, MemberNames, Names, Object, Template, View};

/// 2026-11-21T08:05:07.250Z.
const NOW: i64 = 1_795_248_307_250;

/// JSON whose objects keep the order of their fields.
enum Ordered {
    Value(Value),
    List(Vec<Ordered>),
    JsonFields(Vec<(String, Ordered)>),
}

impl Ordered {
    fn read(json: &str) -> Self {
        match json.as_bytes()[0] {
            b'{' => {
                let JsonFields(members) = kit::json::parse(json).unwrap();
                let member = |(name, value): (Cow<'_, str>, &RawValue)| {
                    (name.into_owned(), Self::read(value.get()))
                };
                Self::JsonFields(members.into_iter().map(member).collect())
            }
            b'[' => {
                let list: Vec<&RawValue> = serde_json::from_str(json).unwrap();
                Self::List(list.into_iter().map(|value| Self::read(value.get())).collect())
            }
            _ => Self::Value(serde_json::from_str(json).unwrap()),
        }
    }

    fn view(&self) -> View<'_> {
        match self {
            Self::Value(value) => View::Json(value),
            Self::List(list) => View::List(list.iter().map(Self::view).collect()),
            Self::JsonFields(members) => {
                View::Members(members.iter().map(|(name, value)| (&**name, value.view())).collect())
            }
        }
    }

    fn members(&self) -> &[(String, Self)] {
        match self {
            Self::JsonFields(members) => members,
            _ => &[],
        }
    }
}

/// Each field defines a name.
impl Data for Ordered {
    fn field(&self, _: &str) -> View<'_> {
        View::Nothing
    }

    fn object(&self, name: &str) -> View<'_> {
        let member = self.members().iter().find(|(member, _)| member == name);
        member.map_or(View::Nothing, |(_, value)| value.view())
    }
}

/// The output of a template; none if it is rejected.
fn render(source: &str, data: &Ordered, allows_mistakes: bool) -> Option<String> {
    let names = data.members().iter().map(|(name, _)| name.as_str());
    let objects: Vec<_> = names.map(|name| Object { name, members: MemberNames::Any }).collect();
    let template =
        Template::parse(source, &Names { objects: &objects, ..Names::default() }).ok()?;
    let is_refused = template.mistake().is_some() && !allows_mistakes;
    template.render(data, NOW).ok().filter(|_| !is_refused)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// A file of the corpus.
struct File {
    name: String,
    data: String,
    cases: Vec<Value>,
}

fn corpus() -> Vec<File> {
    let files = fs::read_dir(folder().join("corpus")).unwrap().map(|file| file.unwrap().path());
    let read = |file: PathBuf| {
        let text = fs::read_to_string(&file).unwrap();
        let members: JsonFields<'_> = kit::json::parse(&text).unwrap();
        let member = |name| members.get(name).unwrap().to_owned();
        let cases = serde_json::from_str(&member("cases")).unwrap();
        File { name: file.display().to_string(), data: member("data"), cases }
    };
    files.map(read).collect()
}

/// The output of python-liquid.
fn oracle(cases: &[Value]) -> Vec<Value> {
    let requirements = folder().join("requirements.txt");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(root.join("scripts/python")).arg(requirements).output().unwrap();
    assert!(output.status.success(), "scripts/python: {output:?}");
    let python = String::from_utf8(output.stdout).unwrap();
    let mut command = Command::new(python.trim());
    command.arg(folder().join("oracle.py")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut oracle = command.spawn().unwrap();
    let mut input = oracle.stdin.take().unwrap();
    input.write_all(json!(cases).to_string().as_bytes()).unwrap();
    drop(input);
    let output = oracle.wait_with_output().unwrap();
    assert!(output.status.success(), "the oracle: {}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn renders_the_corpus_as_the_reference_does() {
    let mut wrong = Vec::new();
    for File { name, data, cases } in corpus() {
        let (data, is_of_mistakes) = (Ordered::read(&data), name.ends_with("refused.json"));
        for case in cases {
            let source = case["template"].as_str().unwrap();
            let rendered = render(source, &data, !is_of_mistakes);
            if json!(rendered) != case["result"] {
                wrong.push(format!("{source:?}: {rendered:?}, not {}", case["result"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_corpus_has_every_filter_of_the_reference() {
    let texts: String = corpus().iter().map(|file| json!(file.cases).to_string()).collect();
    // Only this family of services, or only python-liquid, has these.
    let others = [
        "as_json_string",
        "hmac_sha1_base64",
        "hmac_sha1_hex",
        "hmac_sha256_base64",
        "hmac_sha256_hex",
        "json_escape",
        "json_parse",
        "md5",
        "money",
        "number_with_delimiter",
        "property_accessor",
        "sha1",
        "sha2",
        "sort_numeric",
        "time_zone",
        "url_escape",
        "url_param_escape",
    ];
    for filter in template::filter_names().filter(|name| !others.contains(name)) {
        assert!(texts.contains(&format!("| {filter}")), "{filter}");
    }
}

#[test]
#[ignore = "scripts/test --all"]
fn the_oracle_agrees_with_the_corpus() {
    let mut wrong = Vec::new();
    for File { data, cases, .. } in corpus() {
        let data: Value = serde_json::from_str(&data).unwrap();
        let with_data = |case: &Value| json!({ "template": case["template"], "data": data });
        let rendered = oracle(&cases.iter().map(with_data).collect::<Vec<_>>());
        for (case, rendered) in cases.iter().zip(rendered) {
            let expected = case.get("oracle").unwrap_or(&case["result"]);
            let is_explained = case.get("oracle").is_some() == case["why"].is_string();
            if rendered != *expected || !is_explained {
                wrong.push(format!("{}: {rendered}, not {expected}", case["template"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The data of generated templates.
fn data() -> Value {
    json!({
        "s": "Hello, World", "e": "", "i": 42, "f": 2.5, "n": [3, 1, 2],
        "l": ["b", "A", "c"], "p": [{ "k": "x", "v": 1 }, { "k": "y", "v": 2 }],
    })
}

/// Templates with only the features that both implement the same.
fn source() -> impl Strategy<Value = String> {
    let one_of = |values: &'static [&'static str]| prop::sample::select(values);
    let text = one_of(&["s", "e", "'a b'", "'x,y,z'", "i", "'<b>&'"]);
    let number = one_of(&["i", "f", "7", "-3", "0.5", "'12'"]);
    let list = one_of(&["n", "l", "(1..4)", "'a,b,b' | split: ','", "p | map: 'k'"]);
    let text_filter = one_of(&[
        "upcase",
        "downcase",
        "capitalize",
        "append: '!'",
        "prepend: s",
        "size",
        "strip",
        "replace: 'l', 'L'",
        "remove: 'o'",
        "slice: 1, 3",
        "slice: -1, 1",
        "truncate: 8",
        "escape",
        "url_encode",
        "split: ',' | join: '-'",
        "split: '' | reverse | join",
        "default: 'd'",
        "base64_encode",
        "strip_html",
        "replace_first: 'l', '_'",
        "truncatewords: 9",
        "squish",
    ]);
    let number_filter = one_of(&[
        "plus: 3",
        "minus: 0.5",
        "times: 2",
        "abs",
        "ceil",
        "floor",
        "at_least: 4",
        "at_most: 4",
        "divided_by: 2",
        "plus: f",
        "times: 1.5",
    ]);
    let list_filter = one_of(&[
        "reverse",
        "uniq",
        "compact",
        "concat: n",
        "slice: 1, 2",
        "sort_natural",
        "where: 'k'",
    ]);
    let value = prop_oneof![
        (text, prop::collection::vec(text_filter, 0..4)),
        (number, prop::collection::vec(number_filter, 0..3)),
    ];
    let value = value.prop_map(|(value, filters)| [&[value], &filters[..]].concat().join(" | "));
    let lists = (list, prop::collection::vec(list_filter.clone(), 0..1));
    let list = lists.prop_map(|(list, filters)| [&[list], &filters[..]].concat().join(" | "));
    let condition = one_of(&[
        "s",
        "e",
        "i > 40",
        "f == 2.5",
        "s contains 'World'",
        "n contains 1",
        "e == empty",
        "i < 3 or s != e",
        "l[1] == 'A' and false",
        "p[0].k == 'x'",
        "nope",
        "n.size >= 3",
    ]);
    let window = one_of(&["", "limit: 2", "offset: 1", "reversed", "limit: 1 offset: 1"]);
    let leaf = prop_oneof![
        3 => value.clone().prop_map(|value| format!("{{{{ {value} }}}}")),
        1 => list.clone().prop_map(|list| format!("{{{{ {list} | join: '/' }}}}")),
        1 => value.clone().prop_map(|value| format!("{{% assign v = {value} %}}{{{{ v }}}}")),
        1 => one_of(&["text ", " b\n", "{%- # c -%}", "{% increment c %}", "{{ p[1].v }}", "{{ v }}",
            "{% cycle 'a', 'b' %}", "{{ forloop.index }}", "{% raw %}{{ x }}{% endraw %}",
            "{% comment %} c {% endcomment %}", "{{ l.first }}{{ n.last }}"]).prop_map(str::to_owned),
    ];
    let block = leaf.prop_recursive(3, 24, 4, move |inside| {
        let body = prop::collection::vec(inside, 1..4).prop_map(|parts| parts.concat());
        prop_oneof![
            (condition.clone(), body.clone(), body.clone()).prop_map(|(condition, then, otherwise)| format!(
                "{{% if {condition} %}}{then}{{% else %}}{otherwise}{{% endif %}}"
            )),
            (condition.clone(), body.clone()).prop_map(|(condition, body)| format!(
                "{{% unless {condition} %}}{body}{{% endunless %}}"
            )),
            (list.clone(), window.clone(), body.clone()).prop_map(|(list, window, body)| format!(
                "{{% assign list = {list} %}}{{% for x in list {window} %}}{{{{ x }}}}{body}{{% else %}}none{{% endfor %}}"
            )),
            (value.clone(), body.clone()).prop_map(|(value, body)| format!(
                "{{% assign c = {value} %}}{{% case c %}}{{% when 42, 'x' %}}{body}{{% else %}}other{{% endcase %}}"
            )),
            body.clone().prop_map(|body| format!(
                "{{% capture v %}}{body}{{% endcapture %}}[{{{{ v }}}}]"
            )),
            (window.clone(), body).prop_map(|(window, body)| {
                let window = window.replace("reversed", "cols: 2");
                format!("{{% tablerow x in n {window} %}}-{body}{{% endtablerow %}}")
            }),
        ]
    });
    prop::collection::vec(block, 1..4).prop_map(|parts| parts.concat())
}

#[test]
#[ignore = "scripts/test --all"]
fn the_oracle_renders_generated_templates_alike() {
    const TEMPLATES: usize = 3_000;
    let (mut runner, data) = (TestRunner::deterministic(), data());
    let sources = (0..TEMPLATES).map(|_| source().new_tree(&mut runner).unwrap().current());
    let sources: Vec<String> = sources.collect();
    let cases = sources.iter().map(|source| json!({ "template": source, "data": data }));
    let rendered = oracle(&cases.collect::<Vec<_>>());
    let (mut wrong, data) = (Vec::new(), Ordered::read(&data.to_string()));
    for (source, expected) in sources.iter().zip(rendered) {
        let ours = render(source, &data, true);
        if json!(ours) != expected {
            wrong.push(format!("{source:?}: {ours:?}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {TEMPLATES}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Other cases, such as the public ones of golden-liquid: `LONGSHORE_TEMPLATE_CASES=FILE`, an
/// object whose `tests` have `template`, `data`, and `result`, `results` or `invalid`.
#[test]
#[ignore = "on request"]
fn renders_other_cases_on_request() {
    let Ok(file) = std::env::var("LONGSHORE_TEMPLATE_CASES") else { return };
    let text = fs::read_to_string(file).unwrap();
    let all: JsonFields<'_> = kit::json::parse(&text).unwrap();
    let all: Vec<&RawValue> = serde_json::from_str(all.get("tests").unwrap()).unwrap();
    let (mut cases, mut wrong) = (0, Vec::new());
    for case in all {
        let members: JsonFields<'_> = kit::json::parse(case.get()).unwrap();
        let data = Ordered::read(members.get("data").unwrap_or("{}"));
        let case: Value = serde_json::from_str(case.get()).unwrap();
        // Templates that include other templates are rejected.
        if case.get("templates").is_some() {
            continue;
        }
        cases += 1;
        let (source, is_invalid) = (case["template"].as_str().unwrap(), case["invalid"] == true);
        let rendered = render(source, &data, !is_invalid);
        let results = case["results"].as_array().cloned().unwrap_or(vec![case["result"].clone()]);
        if !results.contains(&json!(rendered)) {
            wrong.push(format!("{}: {source:?}: {rendered:?}, not {results:?}", case["name"]));
        }
    }
    println!("{}\n{} of {} are wrong", wrong.join("\n"), wrong.len(), cases);
}
