//! Filters that hash and sign texts.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::Sha256;

use super::super::Stop;
use super::super::budget::RenderBudget;
use super::super::value::Value;

type FilterResult<'a> = Result<Value<'a>, Stop>;

/// Cost of hashing a byte, relative to reading it.
const COST: usize = 8;

fn hex(bytes: &[u8]) -> String {
    hex::encode(bytes)
}

fn base64(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

fn hashed<'a, D: Digest>(budget: &mut RenderBudget, input: &Value<'a>) -> FilterResult<'a> {
    let text = input.to_text(budget)?;
    budget.read(text.len().saturating_mul(COST))?;
    Ok(Value::from_text(hex(&D::digest(text.as_bytes()))))
}

fn signed<'a, M: Mac + KeyInit>(
    budget: &mut RenderBudget,
    input: &Value<'a>,
    key: &Value<'a>,
    written: fn(&[u8]) -> String,
) -> FilterResult<'a> {
    let (text, key) = (input.to_text(budget)?, key.to_text(budget)?);
    budget.read(text.len().saturating_add(key.len()).saturating_mul(COST))?;
    // Never fails: HMAC accepts a key of any length.
    let Ok(mut mac) = <M as KeyInit>::new_from_slice(key.as_bytes()) else {
        return Ok(Value::Nil);
    };
    mac.update(text.as_bytes());
    Ok(Value::from_text(written(&mac.finalize().into_bytes())))
}

pub fn md5<'a>(budget: &mut RenderBudget, input: Value<'a>, _: &[Value<'a>]) -> FilterResult<'a> {
    hashed::<Md5>(budget, &input)
}

pub fn sha1<'a>(budget: &mut RenderBudget, input: Value<'a>, _: &[Value<'a>]) -> FilterResult<'a> {
    hashed::<Sha1>(budget, &input)
}

pub fn sha2<'a>(budget: &mut RenderBudget, input: Value<'a>, _: &[Value<'a>]) -> FilterResult<'a> {
    hashed::<Sha256>(budget, &input)
}

pub fn hmac_sha1_hex<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    keys: &[Value<'a>],
) -> FilterResult<'a> {
    signed::<Hmac<Sha1>>(budget, &input, &keys[0], hex)
}

pub fn hmac_sha1_base64<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    keys: &[Value<'a>],
) -> FilterResult<'a> {
    signed::<Hmac<Sha1>>(budget, &input, &keys[0], base64)
}

pub fn hmac_sha256_hex<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    keys: &[Value<'a>],
) -> FilterResult<'a> {
    signed::<Hmac<Sha256>>(budget, &input, &keys[0], hex)
}

pub fn hmac_sha256_base64<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    keys: &[Value<'a>],
) -> FilterResult<'a> {
    signed::<Hmac<Sha256>>(budget, &input, &keys[0], base64)
}
