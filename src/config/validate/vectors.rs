//! Where the points are, and how their ids follow from the rows.

use std::path::PathBuf;
use std::time::Duration;

use super::rows::key_columns;
use crate::config::address::Address;
use crate::config::checks::Checks;
use crate::config::raw;
use crate::config::reader::Key;
use crate::config::source;
use crate::config::template::placeholders;
use crate::config::{
    Backend, Env, PayloadFilter, PointRule, Qdrant, Rows, Spelling, VectorTable, Vectors,
    point_rule,
};

/// Backends by their name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Qdrant,
    Sqlite,
    None,
}

impl Kind {
    const NAMES: [(&str, Self); 3] = [
        ("qdrant", Self::Qdrant),
        ("sqlite", Self::Sqlite),
        ("none", Self::None),
    ];

    fn name(self) -> &'static str {
        Self::NAMES
            .into_iter()
            .find_map(|(name, kind)| (kind == self).then_some(name))
            .unwrap_or_default()
    }
}

/// Refuses keys that the operator wrote for a kind of store that this one is not. A preset may say more than is needed.
pub(super) fn refuse_foreign_keys(written: &raw::Vectors, checks: &mut Checks) {
    use Kind::{Qdrant, Sqlite};
    let owned: [(&Key, &[Kind]); 15] = [
        (&written.namespace_key, &[Qdrant, Sqlite]),
        (&written.namespace_value, &[Qdrant, Sqlite]),
        (&written.point_id, &[Qdrant, Sqlite]),
        (&written.text, &[Qdrant, Sqlite]),
        (&written.vector, &[Qdrant, Sqlite]),
        (&written.url, &[Qdrant]),
        (&written.rest_url, &[Qdrant]),
        (&written.api_key, &[Qdrant]),
        (&written.collection, &[Qdrant]),
        (&written.filter, &[Qdrant]),
        (&written.timeout, &[Qdrant]),
        (&written.path, &[Sqlite]),
        (&written.table, &[Sqlite]),
        (&written.id, &[Sqlite]),
        (&written.payload, &[Sqlite]),
    ];
    let mut given = owned.iter().filter(|(key, _)| key.is_given()).peekable();
    if !written.kind.is_given() && given.peek().is_some() {
        checks.refuse(&written.kind, "\"qdrant\", \"sqlite\" or \"none\"");
        return;
    }
    let kind = kind(written, checks);
    if !checks.are_sound(&[&written.kind]) {
        return;
    }
    for (key, owners) in given.filter(|(_, owners)| !owners.contains(&kind)) {
        let owners: Vec<_> = owners
            .iter()
            .map(|owner| format!("{:?}", owner.name()))
            .collect();
        checks.refuse(
            key,
            format!(
                "nothing with kind = {:?}: the key belongs to {}",
                kind.name(),
                owners.join(" and ")
            ),
        );
    }
}

fn kind(raw: &raw::Vectors, checks: &mut Checks) -> Kind {
    checks.choice(&raw.kind, Kind::None, &Kind::NAMES)
}

/// Reads the vector store; `None` for a store without vectors.
pub(super) fn vectors(
    raw: &raw::Vectors,
    rows: &Rows,
    has_tenants: bool,
    env: &Env,
    checks: &mut Checks,
) -> Option<Vectors> {
    let backend = match kind(raw, checks) {
        Kind::None => return None,
        Kind::Qdrant => Backend::Qdrant(qdrant(raw, has_tenants, env, checks)),
        Kind::Sqlite => Backend::Sqlite(table(raw, rows, checks)),
    };
    let spelling = spelling(raw, rows, has_tenants, &backend, checks);
    Some(Vectors {
        backend,
        spelling,
        namespace_key: checks.text(
            &raw.namespace_key,
            "namespace",
            "the payload key or column of the namespace",
        ),
        point_id: point_id(&raw.point_id, has_tenants, checks),
        text: checks.optional_text(&raw.text, "a payload key, or \"\" for none"),
    })
}

/// Makes the points the rows of a store, and answers where they are.
pub(super) fn make_rows(
    raw: &raw::Vectors,
    vectors: &mut Option<Vectors>,
    checks: &mut Checks,
) -> Option<Qdrant> {
    let Some(Vectors {
        backend: Backend::Qdrant(qdrant),
        point_id,
        ..
    }) = vectors
    else {
        checks.refuse(
            &raw.kind,
            "\"qdrant\" where rows.kind = \"points\": its points are the rows",
        );
        return None;
    };
    *point_id = PointRule::Column("id".to_owned());
    if qdrant.is_per_tenant() {
        checks.refuse(
            &raw.collection,
            "one collection where rows.kind = \"points\"",
        );
    }
    for key in [
        &raw.point_id,
        &raw.namespace_key,
        &raw.namespace_value,
        &raw.text,
    ] {
        if key.is_given() {
            checks.refuse(
                key,
                "nothing where rows.kind = \"points\": each point is its own row, and rows.tenant says whose it is",
            );
        }
    }
    Some(qdrant.clone())
}

/// How namespaces are written: in the payload, or in the names of the collections.
fn spelling(
    raw: &raw::Vectors,
    rows: &Rows,
    has_tenants: bool,
    backend: &Backend,
    checks: &mut Checks,
) -> Option<Spelling> {
    let expected: &[&str] = if has_tenants { &["tenant"] } else { &[] };
    let allowed = if has_tenants {
        "what the payload has, with {tenant} in it once and no other braces, such as \"user-memory-{tenant}\""
    } else {
        "what the payload has, without braces: these rows have no tenant"
    };
    let key = &raw.namespace_value;
    let mut value = checks.optional_text(key, allowed);
    if value
        .as_deref()
        .is_some_and(|value| placeholders(value).as_deref() != Some(expected))
    {
        checks.refuse(key, allowed);
    }
    if let Backend::Qdrant(server) = backend
        && server.is_per_tenant()
    {
        if value.is_some() {
            checks.refuse(
                key,
                "\"\": the name of the collection says whose its points are",
            );
        }
        value = Some(server.collection.clone());
    }
    let namespace = rows.namespace.clone();
    value
        .filter(|value| *value != namespace)
        .map(|value| Spelling { namespace, value })
}

fn point_id(key: &Key, has_tenants: bool, checks: &mut Checks) -> PointRule {
    let default = PointRule::Uuid5 {
        namespace: uuid::Uuid::NAMESPACE_DNS,
        template: "{namespace}::{id}".to_owned(),
    };
    let rule = checks.value(key, default, point_rule::ALLOWED, |value| {
        point_rule::parse(value.as_str()?)
    });
    let template = point_rule::template_of(&rule).unwrap_or_default();
    if !has_tenants && template.contains("{tenant}") {
        checks.refuse(
            key,
            "a template without {tenant}: these rows have no tenant",
        );
    }
    rule
}

fn qdrant(raw: &raw::Vectors, has_tenants: bool, env: &Env, checks: &mut Checks) -> Qdrant {
    let local = "http://127.0.0.1:6334";
    let url = address(&raw.url, Address::parse(local), checks);
    let rest = url.as_ref().map(|url| url.at_port(6333));
    let rest_url = address(&raw.rest_url, rest, checks);
    let api_key = api_key(&raw.api_key, env, checks);
    for (key, address) in [(&raw.url, &url), (&raw.rest_url, &rest_url)] {
        // A rest_url that is not written follows from url, and so would its problem.
        let is_told = key.field == raw.url.field || key.is_given();
        let Some(address) = address.as_ref().filter(|_| is_told) else {
            continue;
        };
        if api_key.is_some() && !address.is_private() {
            checks.refuse_value(
                &key.field,
                format!("{:?}", address.to_string()),
                "an https address, since there is an API key, which http would show to everyone on the way",
            );
        }
    }
    let shown = |address: Option<Address>| address.map(|a| a.to_string()).unwrap_or_default();
    Qdrant {
        url: shown(url),
        rest_url: shown(rest_url),
        api_key,
        collection: collection(&raw.collection, has_tenants, checks),
        filter: checks.value(
            &raw.filter,
            PayloadFilter::default(),
            PayloadFilter::ALLOWED,
            PayloadFilter::parse,
        ),
        vector: checks
            .optional_text(
                &raw.vector,
                "the name of a vector, or \"\" for the unnamed one",
            )
            .unwrap_or_default(),
        timeout: checks.positive_duration(&raw.timeout, Duration::from_secs(30)),
    }
}

/// One collection, or one for each tenant.
fn collection(key: &Key, has_tenants: bool, checks: &mut Checks) -> String {
    let allowed = if has_tenants {
        "the name of a collection, with {tenant} in it once at most and no other braces"
    } else {
        "the name of a collection, without braces: these rows have no tenant"
    };
    let name = checks.text(key, "memories", allowed);
    let fits = match placeholders(&name).as_deref() {
        Some([]) => true,
        // A name that is all tenant would make every collection of the server one of ours.
        Some(["tenant"]) => has_tenants && name != "{tenant}",
        _ => false,
    };
    if !fits {
        checks.refuse(key, allowed);
    }
    name
}

fn address(key: &Key, default: Option<Address>, checks: &mut Checks) -> Option<Address> {
    checks.value(key, default, Address::ALLOWED, |value| {
        Address::parse(value.as_str()?).map(Some)
    })
}

/// The key in the file, else the one of the environment.
fn api_key(key: &Key, env: &Env, checks: &mut Checks) -> Option<String> {
    let written = checks.optional_text(key, "a string");
    let secret = if written.is_some() {
        written
    } else {
        env.api_key().unwrap_or_else(|(path, why)| {
            checks.refuse_value(
                &key.field,
                format!("{} ({why})", path.display()),
                "a credential that can be read and holds the key",
            );
            None
        })
    };
    let is_header = |secret: &String| secret.chars().all(|c| c.is_ascii_graphic());
    if secret.as_ref().is_some_and(|secret| !is_header(secret)) {
        checks.refuse_value(&key.field, "***", "visible ASCII characters without spaces");
    }
    secret
}

fn table(raw: &raw::Vectors, rows: &Rows, checks: &mut Checks) -> VectorTable {
    let path = checks.optional_path(&raw.path);
    let is_sound = checks.are_sound(&[&raw.path]);
    if raw
        .path
        .text()
        .is_some_and(|path| path.contains(['{', '}']))
    {
        checks.refuse(&raw.path, "the path of one database, without braces");
    }
    if path.is_none() && rows.is_per_tenant() && is_sound {
        checks.refuse(
            &raw.path,
            "the path of the database with the points of every tenant",
        );
    }
    for key in [&raw.payload, &raw.namespace_key] {
        let text = key.text().unwrap_or_default();
        if text.starts_with("sql(") && source::parse(text, source::Kind::Value).is_none() {
            checks.refuse(
                key,
                "the name of a column, or sql(EXPRESSION) of what is the same at every call",
            );
        }
    }
    let payload = if raw.payload.is_given() {
        checks.optional_text(
            &raw.payload,
            "the name of a column, sql(EXPRESSION), or \"\" for none",
        )
    } else {
        Some("payload".to_owned())
    };
    VectorTable {
        path: path.unwrap_or_else(|| PathBuf::from(&rows.path)),
        table: checks.text(&raw.table, "points", "the name of a table"),
        id: key_columns(&raw.id, checks),
        vector: checks.text(&raw.vector, "vector", "the name of a column"),
        payload,
    }
}
