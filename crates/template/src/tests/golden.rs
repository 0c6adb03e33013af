//! The public cases of golden-liquid (MIT, <https://github.com/jg-rp/golden-liquid>), without its
//! tags: `tests/golden`. The page docs/reference/template-compatibility.md has the counts.

use std::collections::BTreeSet;

use kit::json::{Tree, TreeObject};

use super::*;

const CASES: &str = include_str!("../../tests/golden/golden_liquid.json");

/// The cases that render in another way, as the page lists them.
const DIFFERENT: [&str; 21] = [
    "filters, base64 decode, not a string",
    "filters, base64 url safe decode, not a string",
    "filters, concat, non array-like argument is an error",
    "filters, has, array of ints, string argument, default value",
    "filters, map, array containing a non object",
    "filters, map, left value not an array",
    "filters, reject, array containing an int, default value",
    "filters, sort, incompatible types",
    "filters, sum, properties arguments with non-hash items",
    "filters, where, left value is not an array",
    "identifiers, capture only digits",
    "identifiers, only digits",
    "identifiers, trailing question mark in for loop variable",
    "tags, case, unexpected when token",
    "tags, comment, incomplete tags are not parsed",
    "tags, comment, malformed tags are not parsed",
    "tags, for, limit is not a string or number",
    "tags, for, offset is not a string or number",
    "tags, if, else tag expressions are ignored",
    "tags, tablerow, cols is a float",
    "tags, unless, else tag expressions are ignored",
];

struct Case<'a> {
    name: &'a str,
    template: &'a str,
    data: Option<&'a TreeObject>,
    /// The allowed outputs; none if the reference rejects the template.
    results: Option<Vec<&'a str>>,
    includes_others: bool,
}

fn text<'a>(case: &'a TreeObject, name: &str) -> Option<&'a str> {
    match case.get(name) {
        Some(Tree::Text(text)) => Some(text),
        _ => None,
    }
}

fn case(tree: &Tree) -> Case<'_> {
    let Tree::Object(case) = tree else { panic!("no object: {tree:?}") };
    let results = match case.get("results") {
        Some(Tree::Array(results)) => Some(results.iter().filter_map(|result| match result {
            Tree::Text(text) => Some(&**text),
            _ => None,
        })),
        _ => None,
    };
    let results = results.map(Iterator::collect);
    Case {
        name: text(case, "name").unwrap(),
        template: text(case, "template").unwrap(),
        data: match case.get("data") {
            Some(Tree::Object(data)) => Some(data),
            _ => None,
        },
        results: results.or_else(|| text(case, "result").map(|result| vec![result])),
        includes_others: case.get("templates").is_some(),
    }
}

impl Data for Case<'_> {
    fn field(&self, _: &str) -> View<'_> {
        View::Nothing
    }

    fn object(&self, name: &str) -> View<'_> {
        self.data.and_then(|data| data.get(name)).into()
    }
}

impl Case<'_> {
    /// Whether the output is that of the reference; if not, what it is. Requests with a mistake are
    /// rejected, even if it renders.
    fn run(&self) -> Result<(), String> {
        let names = self.data.into_iter().flat_map(TreeObject::iter).map(|(name, _)| name);
        let mut names: Vec<String> = names.map(|name| name.to_string()).collect();
        let (template, mistake) = loop {
            let object = |name| Object { name, members: MemberNames::Any };
            let objects: Vec<_> = names.iter().map(String::as_str).map(object).collect();
            let known = Names { objects: &objects, ..Names::default() };
            let template = Template::parse(self.template, &known);
            let mistake = template.as_ref().ok().and_then(Template::mistake).cloned();
            // What renders with a name without a value needs it to be known.
            let mistaken = mistake.as_ref().filter(|_| self.results.is_some());
            let unknown = mistaken.and_then(|mistake| {
                Some(mistake.text.strip_prefix("unknown name `")?.split('`').next()?.to_owned())
            });
            match unknown {
                Some(name) => names.push(name),
                None => break (template, mistake),
            }
        };
        let rendered = template.map_err(|error| format!("rejected: {error}"));
        let now = jiff::Timestamp::now().as_millisecond();
        let rendered = rendered.and_then(|template| {
            template.render(self, now).map_err(|stop| format!("rejected: {stop:?}"))
        });
        let rendered = match mistake {
            Some(mistake) => rendered.and(Err(format!("rejected: {mistake}"))),
            None => rendered,
        };
        match (&self.results, rendered) {
            (None, Err(_)) => Ok(()),
            (Some(results), Ok(text)) if results.contains(&text.as_str()) => Ok(()),
            (_, Ok(text) | Err(text)) => Err(text),
        }
    }
}

#[test]
fn golden_cases_render_as_documented() {
    let Tree::Array(cases) = Tree::parse(CASES).unwrap() else { panic!("no array") };
    let cases: Vec<Case<'_>> = cases.iter().map(case).collect();
    let (including, others): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case.includes_others);
    for case in &including {
        let rejected = Template::parse(case.template, &Names::default()).err();
        let text = rejected.expect(case.name).text;
        assert!(text.contains("include other templates"), "{}: {text}", case.name);
    }
    let mut different = BTreeSet::new();
    for case in &others {
        if let Err(text) = case.run() {
            let results = case.results.as_deref();
            println!("{}: {:?}: {text:?}, not {results:?}", case.name, case.template);
            different.insert(case.name);
        }
    }
    assert_eq!(different, BTreeSet::from(DIFFERENT));
    let thousands = |count: usize| match count {
        ..1_000 => count.to_string(),
        _ => format!("{},{:03}", count / 1_000, count % 1_000),
    };
    let page = std::fs::read_to_string(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs/reference/template-compatibility.md"),
    );
    let counts = format!(
        "golden-liquid has {} public cases. Of these, {} include other templates, and Longshore \
         rejects them. Of the other {}, {} render as in the reference implementation.",
        thousands(cases.len()),
        including.len(),
        thousands(others.len()),
        thousands(others.len() - different.len()),
    );
    assert!(page.unwrap().contains(&counts), "{counts}");
}
