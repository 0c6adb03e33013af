//! Lists of resources. Comparisons of indexed columns become conditions in SQL. For other filters,
//! the rows that match these conditions are read in chunks and compared.

use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::{Row, select};
use crate::filter::{Comparison, Filter, Literal, Operator};
use crate::query::Query;
use crate::resource::{Resource, Stored, folded};
use gateway::scim::ScimError;
use store::{StoreError, Tx, on};

/// More bytes than any name has.
const MAX_CONDITION_LENGTH: usize = 4 << 10;

/// Number of rows that are read at a time.
const CHUNK: i64 = 500;

/// The value of a parameter.
enum Parameter {
    Text(String),
    Id(Uuid),
}

macro_rules! bind {
    ($query:expr, $parameters:expr) => {
        $parameters.iter().fold($query, |query, parameter| match parameter {
            Parameter::Text(text) => query.bind(text),
            Parameter::Id(id) => query.bind(*id),
        })
    };
}

/// A part of a filter in SQL.
struct Conditions {
    /// Conditions that must all hold.
    sql: Vec<String>,
    parameters: Vec<Parameter>,
    /// Whether the conditions cover the whole filter.
    is_complete: bool,
}

/// The number of resources that match a filter, and a page of them, in the order of their creation.
pub(crate) async fn search<R: Resource>(
    tx: &mut Tx,
    query: &Query,
    base: &str,
) -> Result<(i64, Vec<Stored<R>>), ScimError> {
    let mut conditions = Conditions { sql: Vec::new(), parameters: Vec::new(), is_complete: true };
    conditions.add::<R>(&query.filter, tx.is_postgres());
    let (total, mut page) = if conditions.is_complete {
        page(tx, query, &conditions).await?
    } else {
        scan(tx, query, &conditions, base).await?
    };
    if R::LINKS.iter().any(|name| query.projection.shows(name)) {
        R::complete(tx, &mut page).await?;
    }
    Ok((total, page))
}

async fn page<R: Resource>(
    tx: &mut Tx,
    query: &Query,
    conditions: &Conditions,
) -> Result<(i64, Vec<Stored<R>>), StoreError> {
    let (condition, parameters) = (conditions.clause(), &conditions.parameters);
    let total = format!("SELECT count(*) FROM {} {condition}", R::TABLE);
    let total: i64 = on!(&mut *tx, c => {
        bind!(sqlx::query_scalar(AssertSqlSafe(total)), parameters).fetch_one(c).await?
    });
    let (offset_number, limit_number) = (parameters.len() + 1, parameters.len() + 2);
    let rest = format!("{condition} ORDER BY id LIMIT ${limit_number} OFFSET ${offset_number}");
    let page: Vec<Row> = on!(tx, c => {
        bind!(sqlx::query_as(select::<R>(&rest)), parameters)
            .bind(query.start_index - 1)
            .bind(query.count)
            .fetch_all(c)
            .await?
    });
    Ok((total, page.into_iter().map(Row::read).collect::<Result<_, _>>()?))
}

async fn scan<R: Resource>(
    tx: &mut Tx,
    query: &Query,
    conditions: &Conditions,
    base: &str,
) -> Result<(i64, Vec<Stored<R>>), ScimError> {
    let needs_links = R::LINKS.iter().any(|name| query.filter.reads(name));
    let (mut total, mut page) = (0, Vec::new());
    let mut after = Uuid::nil();
    loop {
        let number = conditions.parameters.len() + 1;
        let condition = match conditions.clause() {
            clause if clause.is_empty() => format!("WHERE id > ${number}"),
            clause => format!("{clause} AND id > ${number}"),
        };
        let rest = format!("{condition} ORDER BY id LIMIT {CHUNK}");
        let rows: Vec<Row> = on!(&mut *tx, c => {
            bind!(sqlx::query_as(select::<R>(&rest)), conditions.parameters)
                .bind(after)
                .fetch_all(c)
                .await
                .map_err(StoreError::from)?
        });
        let is_last = (rows.len() as i64) < CHUNK;
        let mut chunk: Vec<Stored<R>> =
            rows.into_iter().map(Row::read).collect::<Result<_, _>>()?;
        after = chunk.last().map_or(after, |last| last.id);
        if needs_links {
            R::complete(tx, &mut chunk).await?;
        }
        for stored in chunk {
            if query.filter.holds(&stored.shown(base)?.into()) {
                total += 1;
                if total >= query.start_index && (page.len() as i64) < query.count {
                    page.push(stored);
                }
            }
        }
        if is_last {
            return Ok((total, page));
        }
    }
}

impl Conditions {
    /// The conditions as a clause of a query.
    fn clause(&self) -> String {
        match self.sql.as_slice() {
            [] => String::new(),
            all => format!("WHERE {}", all.join(" AND ")),
        }
    }

    fn add<R: Resource>(&mut self, filter: &Filter, is_postgres: bool) {
        match filter {
            Filter::And(filters) => {
                filters.iter().for_each(|filter| self.add::<R>(filter, is_postgres));
            }
            Filter::Compare(comparison) => match self.condition::<R>(comparison, is_postgres) {
                Some(condition) => self.sql.push(condition),
                None => self.is_complete = false,
            },
            _ => self.is_complete = false,
        }
    }

    fn condition<R: Resource>(
        &mut self,
        comparison: &Comparison,
        is_postgres: bool,
    ) -> Option<String> {
        let ([attribute], Literal::Text(text)) = (&comparison.path[..], &comparison.value) else {
            return None;
        };
        let (column, is_name) = match attribute.name {
            "id" => ("id", false),
            "externalId" if is_postgres => ("(doc::jsonb ->> 'externalId')", false),
            "externalId" => ("json_extract(doc, '$.externalId')", false),
            name if name == R::SCHEMA.key => ("name_key", true),
            _ => return None,
        };
        let folded = if is_name { folded(text) } else { text.clone() };
        let (operator, value) = match comparison.operator {
            Operator::Equals => ("=", folded),
            Operator::Contains if is_name => ("LIKE", format!("%{}%", escaped(&folded))),
            Operator::StartsWith if is_name => ("LIKE", format!("{}%", escaped(&folded))),
            _ => return None,
        };
        // Matches no name; databases may not accept such a text.
        if text.len() > MAX_CONDITION_LENGTH || text.contains('\0') {
            return Some("1 = 0".into());
        }
        let parameter = match attribute.name {
            "id" => match Uuid::parse_str(text) {
                Ok(id) if id.to_string() == *text => Parameter::Id(id),
                _ => return Some("1 = 0".into()),
            },
            _ => Parameter::Text(value),
        };
        self.parameters.push(parameter);
        let escape = if operator == "LIKE" { " ESCAPE '\\'" } else { "" };
        Some(format!("{column} {operator} ${}{escape}", self.parameters.len()))
    }
}

/// Escapes a text for use in a pattern.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}
