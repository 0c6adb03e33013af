//! Compares values: `==`, `<`, `contains`, and the order of `sort`.

use std::borrow::Cow;
use std::cmp::Ordering;

use kit::json::compare_numbers;

use super::super::Stop;
use super::super::budget::RenderBudget;
use super::Value;

impl Value<'_> {
    /// `==`: both have the same type and value. Nothing is coerced.
    pub fn equals(&self, other: &Self, budget: &mut RenderBudget) -> Result<bool, Stop> {
        budget.step(1)?;
        Ok(match (self, other) {
            (Self::Empty, Self::Empty) | (Self::Blank, Self::Blank) => true,
            (Self::Empty, value) | (value, Self::Empty) => value.is_empty(),
            (Self::Blank, value) | (value, Self::Blank) => value.is_blank(),
            (Self::Nil, Self::Nil) => true,
            (Self::Bool(left), Self::Bool(right)) => left == right,
            (Self::Int(left), Self::Int(right)) => left == right,
            (Self::Range(a, b), Self::Range(c, d)) => (a, b) == (c, d),
            (Self::Object(left), Self::Object(right)) => {
                if left.len() != right.len() {
                    return Ok(false);
                }
                for (name, value) in left.iter() {
                    budget.read(name.len())?;
                    let Some(other) = right.get(name) else { return Ok(false) };
                    if !value.equals(&other, budget)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Self::Object(_) | Self::Members(_), Self::Object(_) | Self::Members(_)) => {
                if self.size(budget)? != other.size(budget)? {
                    return Ok(false);
                }
                for pair in self.elements(budget)?.iter() {
                    let Some(name) = pair.at(0).as_text().map(str::to_owned) else { continue };
                    let Some(value) = other.own_member(&name, budget)? else { return Ok(false) };
                    if !pair.at(1).equals(&value, budget)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Self::List(_) | Self::Array(_), Self::List(_) | Self::Array(_)) => {
                if self.size(budget)? != other.size(budget)? {
                    return Ok(false);
                }
                let (left, right) = (self.elements(budget)?, other.elements(budget)?);
                for (left, right) in left.iter().zip(right.iter()) {
                    if !left.equals(right, budget)? {
                        return Ok(false);
                    }
                }
                true
            }
            _ => self.compare(other, budget)? == Some(Ordering::Equal),
        })
    }

    /// The order of two numbers or two strings; other values have no order.
    pub fn compare(
        &self,
        other: &Self,
        budget: &mut RenderBudget,
    ) -> Result<Option<Ordering>, Stop> {
        if let (Some(left), Some(right)) = (self.as_text(), other.as_text()) {
            budget.read(left.len().min(right.len()))?;
            return Ok(Some(left.cmp(right)));
        }
        Ok(self.compare_numbers(other))
    }

    /// A total order, for sorting: numbers, then strings, then values without an order, then nil.
    pub fn sort(&self, other: &Self) -> Ordering {
        let rank = |value: &Self| match value {
            Self::Nil => 3,
            Self::Int(_) | Self::Float(_) | Self::Exact(_) => 0,
            text if text.as_text().is_some() => 1,
            _ => 2,
        };
        if let (Some(left), Some(right)) = (self.as_text(), other.as_text()) {
            return left.cmp(right);
        }
        self.compare_numbers(other).unwrap_or_else(|| rank(self).cmp(&rank(other)))
    }

    /// The order of two numbers, to the last digit. A floating-point number has the digits that it
    /// is printed with.
    fn compare_numbers(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(left), Self::Int(right)) => Some(left.cmp(right)),
            (Self::Float(left), Self::Float(right)) => left.partial_cmp(right),
            _ => Some(compare_numbers(&self.digits_to_compare()?, &other.digits_to_compare()?)),
        }
    }

    fn digits_to_compare(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Int(int) => Some(int.to_string().into()),
            Self::Float(float) => Some(format!("{float:?}").into()),
            Self::Exact(digits) => Some((&**digits).into()),
            _ => None,
        }
    }

    /// `contains`: a string has a substring, an array an element, an object a field.
    pub fn contains(&self, part: &Self, budget: &mut RenderBudget) -> Result<bool, Stop> {
        if !part.is_true() {
            return Ok(false);
        }
        match self {
            Self::Object(object) => {
                Ok(part.as_text().is_some_and(|name| object.get(name).is_some()))
            }
            Self::Members(members) => {
                budget.step(members.len() as u64)?;
                Ok(part
                    .as_text()
                    .is_some_and(|part| members.iter().any(|(name, _)| **name == *part)))
            }
            Self::Range(from, to) => {
                Ok(matches!(part, Self::Int(part) if (*from..=*to).contains(part)))
            }
            Self::List(list) => {
                for element in list.iter() {
                    if element.equals(part, budget)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Array(array) => {
                for element in array.iter() {
                    if element.equals(part, budget)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            text => match (text.as_text(), part) {
                (None, _) => Ok(false),
                (Some(text), part) => {
                    budget.read(text.len())?;
                    Ok(text.contains(&*part.to_text(budget)?))
                }
            },
        }
    }
}
