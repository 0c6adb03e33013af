//! The pictures of the book.

use std::collections::BTreeSet;

use regex::Regex;

use super::{files_below, pages_below};
use crate::support::files::{project, read};

/// The names of the files in docs/pictures with an ending.
fn names(ending: &str) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    files_below("docs/pictures", &mut files);
    files.iter().filter_map(|file| Some(file.strip_suffix(ending)?.to_owned())).collect()
}

#[test]
fn every_drawing_is_stored_with_colours_for_dark_pages() {
    let drawings = names(".mmd");
    assert!(!drawings.is_empty());
    for drawing in drawings {
        let svg = read(project(&format!("{drawing}.svg")));
        assert!(svg.contains("prefers-color-scheme: dark"), "{drawing}: run `scripts/docs`");
    }
}

#[test]
fn pictures_load_nothing() {
    let reference = Regex::new(r#"@import|(?:href|src)="[^#]|url\(\s*['"]?[^#'"\s]"#).unwrap();
    for picture in names(".svg") {
        let svg = read(project(&format!("{picture}.svg")));
        assert!(!reference.is_match(&svg), "{picture}");
    }
}

#[test]
fn every_picture_in_a_page_has_a_text() {
    let image = Regex::new(r"!\[([^\]]*)\]\(([^)]+)\)").expect("a regular expression");
    let mut images = 0;
    for page in pages_below("docs") {
        for image in image.captures_iter(&read(project(&page))) {
            images += 1;
            assert!(image[1].split(' ').count() > 5, "{page}: {}", &image[2]);
        }
    }
    assert!(images > 0);
}
