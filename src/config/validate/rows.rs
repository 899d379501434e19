//! Where the rows are, what their columns mean, and who still exists.

use std::path::Path;
use std::time::Duration;

use super::days;
use crate::config::checks::Checks;
use crate::config::raw;
use crate::config::reader::Key;
use crate::config::source::{self, Kind};
use crate::config::template::{placeholders, scope_of};
use crate::config::{Child, Encoding, Origin, Owners, Rows, Source, TimeFormat};
use crate::memory::Role;

/// Reads the mapping of the rows, and the scope of their namespaces (where that can be told).
///
/// Where points are the rows, their mirrors are named after `mirrors`, and have a table and columns of their own.
pub(super) fn rows(
    raw: &raw::Rows,
    namespace: &Key,
    mirrors: &Path,
    checks: &mut Checks,
) -> (Rows, Option<String>) {
    let kinds = [("sqlite", false), ("points", true)];
    let are_points = checks.choice(&raw.kind, false, &kinds);
    let path = if are_points {
        refuse_table(raw, checks);
        mirrors.display().to_string()
    } else {
        path(raw, checks)
    };
    let is_per_tenant = has_tenant_path(raw);
    if is_per_tenant && raw.tenant.is_on() {
        checks.refuse(&raw.tenant, "\"\": the path has a {tenant} already");
    }
    let key = namespace;
    let (namespace, scope) = namespace_of(key, has_tenants(raw), checks);
    if is_per_tenant && namespace == "{tenant}" {
        checks.refuse(key, "\"scope:owner\": the tenant of a path says no scope");
    }
    let table = if are_points { "points" } else { "memories" };
    let rows = Rows {
        points: None,
        path,
        table: checks.text(&raw.table, table, "the name of a table"),
        id: key_columns(&raw.id, checks),
        filter: source(&raw.filter, Kind::Value, checks),
        live: source(&raw.live, Kind::Value, checks),
        point: source(&raw.point, Kind::Value, checks),
        tenant: source(&raw.tenant, Kind::Tenant, checks),
        namespace,
        roles: roles(raw, checks),
        ttl_unit: ttl_unit(raw, checks),
        children: children(&raw.children, checks),
        points_table: None,
    };
    (rows, scope)
}

/// Whether the points are the rows.
pub(super) fn are_points(raw: &raw::Rows) -> bool {
    raw.kind.text() == Some("points")
}

/// Refuses the keys of a table where there is none.
fn refuse_table(raw: &raw::Rows, checks: &mut Checks) {
    for key in [&raw.path, &raw.table, &raw.id] {
        if key.is_given() {
            checks.refuse(
                key,
                "nothing with kind = \"points\": the points of [store.vectors] are the rows",
            );
        }
    }
}

/// Whether rows belong to tenants, by a column or by their file.
pub(super) fn has_tenants(raw: &raw::Rows) -> bool {
    raw.tenant.is_on() || has_tenant_path(raw)
}

/// Whether there is one file per tenant.
pub(super) fn has_tenant_path(raw: &raw::Rows) -> bool {
    raw.path
        .text()
        .is_some_and(|path| path.contains("{tenant}"))
}

/// The absolute path. Braces stand around the one `{tenant}` and nothing else, in the folder of the configuration, too,
/// or one file would be taken for many.
fn path(raw: &raw::Rows, checks: &mut Checks) -> String {
    let key = &raw.path;
    let allowed = "a path without a newline, a tab or the like, with {tenant} in it once at most and no other braces (nor in \
                   the folder of the configuration)";
    if !key.is_given() && checks.is_sound(&raw.at) {
        checks.refuse(key, allowed);
    }
    let written = checks.text(key, "", allowed);
    let absolute = checks.absolute(&written);
    let Some(absolute) = absolute.to_str() else {
        checks.refuse(key, "a path in a folder whose name is UTF-8");
        return String::new();
    };
    let tenants = placeholders(absolute);
    let is_plain = matches!(tenants.as_deref(), Some([] | ["tenant"]));
    if !is_plain || tenants != placeholders(&written) {
        checks.refuse(key, allowed);
    }
    absolute.to_owned()
}

fn namespace_of(key: &Key, has_tenants: bool, checks: &mut Checks) -> (String, Option<String>) {
    let (default, allowed) = if has_tenants {
        (
            "user:{tenant}",
            "\"scope:owner\" with {tenant} once in the owner and no other braces, such as \"user:{tenant}\"; or \
             \"{tenant}\" alone where the tenant says both",
        )
    } else {
        (
            "world:public",
            "\"scope:owner\" without braces, such as \"world:public\": these rows have no tenant",
        )
    };
    let namespace = checks.value(key, default.to_owned(), allowed, |value| {
        let text = value.as_str()?;
        scope_of(text, has_tenants).map(|_| text.to_owned())
    });
    let scope = checks
        .are_sound(&[key])
        .then(|| scope_of(&namespace, has_tenants));
    let scope = scope.flatten().map(str::to_owned);
    (namespace, scope)
}

/// The columns of a key: one name, or a list of them.
pub(super) fn key_columns(key: &Key, checks: &mut Checks) -> Vec<String> {
    let allowed = "the name of a column, or a list of the names of those that are the key together";
    checks.value(key, vec!["id".to_owned()], allowed, |value| {
        let name = |value: &toml::Value| {
            let name = value.as_str()?;
            let is_name = !name.trim().is_empty() && !name.contains(char::is_control);
            is_name.then(|| name.to_owned())
        };
        match value.as_array() {
            None => Some(vec![name(value)?]),
            Some(names) if names.is_empty() => None,
            Some(names) => names.iter().map(name).collect(),
        }
    })
}

/// A column, as it is.
fn plain_source(column: &str) -> Source {
    Source {
        origin: Origin::Column(column.to_owned()),
        optional: false,
        time: TimeFormat {
            encoding: Encoding::Auto,
            zone: jiff::tz::TimeZone::UTC,
        },
    }
}

fn children(key: &Key, checks: &mut Checks) -> Vec<Child> {
    let allowed = "a list of \"TABLE.COLUMN = COLUMN\", with ? behind a TABLE that may be missing";
    checks.value(key, Vec::new(), allowed, |value| {
        let child = |value: &toml::Value| {
            let (reference, key) = value.as_str()?.split_once('=')?;
            let (table, column) = reference.trim().rsplit_once('.')?;
            let (table, optional) = table
                .strip_suffix('?')
                .map_or((table, false), |table| (table, true));
            let names = [table, column, key.trim()];
            let are_names = names
                .iter()
                .all(|name| !name.is_empty() && !name.contains(char::is_control));
            are_names.then(|| Child {
                table: table.to_owned(),
                optional,
                column: column.to_owned(),
                key: key.trim().to_owned(),
            })
        };
        value.as_array()?.iter().map(child).collect()
    })
}

/// A source, or none where an empty string or nothing is written.
fn source(key: &Key, kind: Kind, checks: &mut Checks) -> Option<Source> {
    let allowed = source::allowed_for(key.text().unwrap_or_default(), kind);
    checks.value(key, None, allowed, |value| match value.as_str()? {
        "" => Some(None),
        text => source::parse(text, kind).map(Some),
    })
}

fn roles(raw: &raw::Rows, checks: &mut Checks) -> Vec<(Role, Source)> {
    let ttl = if raw.ttl_minutes.is_on() {
        &raw.ttl_minutes
    } else {
        &raw.ttl_days
    };
    let keys = [
        (Role::Content, &raw.content, Kind::Value),
        (Role::Type, &raw.memory_type, Kind::Value),
        (Role::Context, &raw.context, Kind::Value),
        (Role::CreatedAt, &raw.created_at, Kind::Time),
        (Role::UpdatedAt, &raw.updated_at, Kind::Time),
        (Role::LastUsedAt, &raw.last_used_at, Kind::Time),
        (Role::ConfirmedAt, &raw.confirmed_at, Kind::Time),
        (Role::ExpiresAt, &raw.expires_at, Kind::Time),
        (Role::ValidTo, &raw.valid_to, Kind::Time),
        (Role::DeletedAt, &raw.deleted_at, Kind::Time),
        (Role::Ttl, ttl, Kind::Value),
        (Role::SupersededBy, &raw.superseded_by, Kind::Value),
        (Role::Supersedes, &raw.supersedes, Kind::Value),
        (Role::Uses, &raw.uses, Kind::Value),
        (Role::Salience, &raw.salience, Kind::Value),
        (Role::Source, &raw.source, Kind::Value),
        (Role::Pinned, &raw.pinned, Kind::Value),
        (Role::Trust, &raw.trust, Kind::Value),
        (Role::ContentHash, &raw.content_hash, Kind::Value),
    ];
    let mut roles = Vec::new();
    for (role, key, kind) in keys {
        roles.extend(source(key, kind, checks).map(|source| (role, source)));
    }
    roles
}

fn ttl_unit(raw: &raw::Rows, checks: &mut Checks) -> Duration {
    if raw.ttl_days.is_on() && raw.ttl_minutes.is_on() {
        checks.refuse(
            &raw.ttl_minutes,
            "\"\" where ttl_days is set: a row has one time to live",
        );
    }
    if raw.ttl_minutes.is_on() {
        Duration::from_mins(1)
    } else {
        days(1)
    }
}

/// Reads the owners table; `scope` is that of the namespaces, where it can be told.
pub(super) fn owners(
    raw: &raw::Owners,
    rows: &raw::Rows,
    scope: Option<&str>,
    checks: &mut Checks,
) -> Option<Owners> {
    if !raw.is_present || (raw.table.is_given() && !raw.table.is_on()) {
        return None;
    }
    let path = checks.optional_path(&raw.path);
    let has_no_file = has_tenant_path(rows) || are_points(rows);
    if path.is_none() && has_no_file && checks.are_sound(&[&raw.path]) {
        checks.refuse(
            &raw.path,
            "the path of the one database that knows every owner",
        );
    }
    if raw
        .path
        .text()
        .is_some_and(|path| path.contains(['{', '}']))
    {
        checks.refuse(&raw.path, "the path of one database, without braces");
    }
    let allowed = format!(
        "{:?}, the scope of the namespace",
        scope.unwrap_or_default()
    );
    let named = checks.text(&raw.scope, scope.unwrap_or_default(), &allowed);
    // The tenants may say their scope themselves, and then nothing is known of it here.
    if named.is_empty() && checks.are_sound(&[&raw.scope]) {
        checks.refuse(&raw.scope, "the scope that the table speaks for");
    }
    if scope.is_some_and(|scope| !scope.is_empty() && scope != named) {
        checks.refuse(&raw.scope, allowed);
    }
    Some(Owners {
        scope: named,
        path,
        table: checks.text(&raw.table, "users", "the name of a table"),
        id: checks.value(
            &raw.id,
            plain_source("id"),
            source::allowed_for(raw.id.text().unwrap_or_default(), Kind::Tenant),
            |value| source::parse(value.as_str()?, Kind::Tenant),
        ),
        deleted_at: source(&raw.deleted_at, Kind::Time, checks),
        removes_absent: checks.choice(&raw.absent, false, &[("keep", false), ("remove", true)]),
    })
}
