//! Tags whose values are requested from outside: catalog items and connected content.

use super::super::borrowed::List;
use super::super::node::{Content, Items, Part, Wanted};
use super::super::request::{Answer, ContentRequest, MAX_ID_BYTES, MAX_ITEMS, Request};
use super::super::value::Value;
use super::super::{Data, Stop};
use super::Render;

impl<'a> Render<'a, '_> {
    pub(super) fn items(&mut self, node: &'a Items) -> Result<(), Stop> {
        let catalog = node.catalog.to_string();
        let request = match &node.wanted {
            Wanted::Selection(name) => Request::Selection { catalog, name: name.to_string() },
            Wanted::Ids(patterns) => {
                let mut ids = Vec::new();
                for pattern in patterns {
                    match &pattern[..] {
                        // An array stands for all of its elements.
                        [Part::Value(chain)] => match self.chain(chain)? {
                            list @ (Value::List(_) | Value::Array(_)) => {
                                for element in list.loop_values(self.budget)?.iter() {
                                    let id = element.to_text(self.budget)?;
                                    self.add_id(&mut ids, &id)?;
                                }
                            }
                            value => {
                                let id = value.to_text(self.budget)?;
                                self.add_id(&mut ids, &id)?;
                            }
                        },
                        _ => {
                            let id = self.pattern(pattern)?;
                            self.add_id(&mut ids, &id)?;
                        }
                    }
                }
                Request::Items { catalog, ids }
            }
        };
        self.names[node.name] = match self.answer(request)? {
            Answer::Nothing => Value::List(List::Json(&[])),
            Answer::Json(value) => Value::from_tree(value),
            Answer::Text(text) => Value::Text(text),
        };
        Ok(())
    }

    fn add_id(&mut self, ids: &mut Vec<String>, id: &str) -> Result<(), Stop> {
        // No item has another id.
        if id.is_empty() || id.len() > MAX_ID_BYTES {
            return Ok(());
        }
        if ids.len() == MAX_ITEMS {
            let text = format!("`catalog_items` takes at most {MAX_ITEMS} items");
            return Err(Stop::Failed(text));
        }
        self.budget.make(id.len())?;
        ids.push(id.to_owned());
        Ok(())
    }

    pub(super) fn content(&mut self, node: &'a Content, out: &mut String) -> Result<(), Stop> {
        let mut headers = Vec::with_capacity(node.headers.len());
        for (name, value) in &node.headers {
            headers.push((self.pattern(name)?, self.pattern(value)?));
        }
        let request = ContentRequest {
            url: self.pattern(&node.url)?,
            is_post: node.is_post,
            headers,
            body: self.pattern(&node.body)?,
            content_type: match &node.content_type {
                Some(content_type) => Some(self.pattern(content_type)?),
                None => None,
            },
            credential: node.credential.as_deref().map(str::to_owned),
            max_age: node.max_age,
            retries: node.retries,
        };
        let value = match self.answer(Request::Content(request))? {
            Answer::Text(text) if node.save.is_none() => {
                self.print(text, out)?;
                Value::Nil
            }
            Answer::Nothing => Value::Nil,
            Answer::Json(value) => Value::from_tree(value),
            Answer::Text(text) => Value::Text(text),
        };
        self.names[node.save.unwrap_or(node.connected)] = value;
        Ok(())
    }

    fn pattern(&mut self, parts: &'a [Part]) -> Result<String, Stop> {
        let mut text = String::new();
        for part in parts {
            match part {
                Part::Text(part) => {
                    self.budget.make(part.len())?;
                    text.push_str(part);
                }
                Part::Value(chain) => {
                    let value = self.chain(chain)?;
                    let part = value.to_text(self.budget)?;
                    self.budget.make(part.len())?;
                    text.push_str(&part);
                }
            }
        }
        Ok(text)
    }

    fn answer(&mut self, request: Request) -> Result<&'a Answer, Stop> {
        self.budget.step(1)?;
        let data: &'a dyn Data = self.data;
        data.answer(&request).ok_or_else(|| Stop::Needs(Box::new(request)))
    }
}
