//! The public cases of golden-liquid (MIT, <https://github.com/jg-rp/golden-liquid>), without its
//! tags: `tests/golden`. The page docs/reference/template-compatibility.md has the counts.

use std::fmt::Write as _;

use kit::json::{Tree, TreeObject};

use super::*;

const CASES: &str = include_str!("../../tests/golden/golden_liquid.json");

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
    /// Whether the output is that of the reference; if not, what it is.
    fn run(&self) -> Result<(), String> {
        let names = self.data.into_iter().flat_map(TreeObject::iter).map(|(name, _)| name);
        let objects: Vec<_> = names.map(|name| Object { name, members: None }).collect();
        let names = Names { objects: &objects, is_open: true, ..Names::default() };
        let template = Template::parse(self.template, &names);
        let is_rejected = template.as_ref().map_or(true, |template| template.mistake().is_some());
        let rendered = template.map_err(|error| format!("rejected: {error}"));
        let now = jiff::Timestamp::now().as_millisecond();
        let rendered = rendered.and_then(|template| {
            template.render(self, now).map_err(|stop| format!("rejected: {stop:?}"))
        });
        match (&self.results, rendered) {
            (None, Err(_)) => Ok(()),
            (None, Ok(_)) if is_rejected => Ok(()),
            (Some(results), Ok(text)) if results.contains(&text.as_str()) => Ok(()),
            (_, Ok(text) | Err(text)) => Err(text),
        }
    }
}

#[test]
fn golden_cases_render_as_the_page_says() {
    let Tree::Array(cases) = Tree::parse(CASES).unwrap() else { panic!("no array") };
    let cases: Vec<Case<'_>> = cases.iter().map(case).collect();
    let including = cases.iter().filter(|case| case.includes_others).count();
    for case in cases.iter().filter(|case| case.includes_others) {
        let rejected = Template::parse(case.template, &Names::default()).err();
        let text = rejected.expect(case.name).text;
        assert!(text.contains("include other templates"), "{}: {text}", case.name);
    }
    let (mut different, mut report) = (Vec::new(), String::new());
    for case in cases.iter().filter(|case| !case.includes_others) {
        if let Err(text) = case.run() {
            let expected = case.results.as_deref();
            writeln!(report, "{}: {:?}: {expected:?}, not {text:?}", case.name, case.template)
                .unwrap();
            different.push(case.name);
        }
    }
    let others = cases.len() - including;
    let same = others - different.len();
    println!("{} cases, {including} include others; {same} of {others} are the same", cases.len());
    println!("{report}");
    assert_eq!(different, Vec::<&str>::new());
}
