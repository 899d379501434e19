//! What the columns of the memories mean: the configured mapping, bound to the schema that is really there, and what it
//! makes of a row.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::Row;
use rusqlite::types::ValueRef;

use super::key::Key;
use super::schema::{Table, quoted};
use super::source::{BoundRole, bind_condition, bind_source, find_table, require_columns};
use super::value;
use super::{RowError, time};
use crate::config::{self, Origin, Source};
use crate::context::Context;
use crate::memory::{Memory, MemoryId, Namespace, Role, TimeToLive, Version};
use crate::store::image::{RowImage, SqlValue};

/// Where `{tenant}` stands in paths and namespaces.
pub(super) const TENANT: &str = "{tenant}";

/// The mapping of one row database.
#[derive(Debug)]
pub(super) struct Mapping {
    /// The table of memories.
    pub(super) table: Table,
    /// The key.
    pub(super) id: Key,
    /// The condition that a row is a memory, where not every one is.
    filter: Option<String>,
    /// The condition that the application shows a memory.
    live: Option<String>,
    /// The condition that a memory needs a point.
    point: Option<String>,
    tenant: Option<String>,
    namespace: String,
    partition_tenant: Option<Arc<str>>,
    roles: Vec<BoundRole>,
    ttl_unit: Duration,
    /// The columns that say what a memory is, apart from its use.
    essence: Vec<String>,
    /// What is read of a memory by an expression: it may stand in other rows.
    readings: Vec<Reading>,
    /// `SELECT` of id, tenant, the readings and the whole row, by id.
    image_sql: String,
}

/// An expression that says something of a memory.
#[derive(Debug)]
struct Reading {
    expression: String,
    /// Whether it says what the memory is, and not when or how often it was used.
    is_essence: bool,
}

/// A memory as it stands in the database.
#[derive(Debug)]
pub(super) struct Found {
    /// Its row.
    pub(super) row: RowImage,
    /// Whose it is.
    pub(super) namespace: Option<Namespace>,
    /// What the readings gave, in their order.
    read: Vec<SqlValue>,
}

impl Found {
    /// Changes whenever the row or what was read with it does.
    pub(super) fn version(&self) -> Version {
        self.row.version_with(&self.read)
    }
}

impl Mapping {
    /// Binds the configuration to a schema.
    ///
    /// # Errors
    ///
    /// When the table or a column is missing, or rows could not be addressed.
    pub(super) fn bind(
        conn: &Connection,
        tables: &[Table],
        rows: &config::Rows,
        partition_tenant: Option<&Arc<str>>,
    ) -> Result<Self, RowError> {
        let table = find_table(conn, tables, &rows.table)?;
        let columns = [&rows.tenant, &rows.filter, &rows.live, &rows.point];
        let columns = columns.into_iter().flatten();
        let needed = columns
            .chain(rows.roles.iter().map(|(_, source)| source))
            .filter(|source| !source.optional)
            .filter_map(Source::column);
        require_columns(table, rows.id.iter().map(String::as_str).chain(needed))?;
        let id = Key::bind(conn, table, &rows.id)?;
        let chain = [Role::SupersededBy, Role::Supersedes];
        if id.only().is_none() && chain.iter().any(|role| rows.source(*role).is_some()) {
            return Err(RowError::schema(format!(
                "the id of table {:?} is of several columns: no column can refer to it as superseded_by or supersedes",
                table.name
            )));
        }
        let tenant = match &rows.tenant {
            Some(source) => Some(
                bind_source(conn, table, "tenant", source)?
                    .map_or_else(|| "NULL".to_owned(), |bound| bound.expression),
            ),
            None => None,
        };
        if rows.namespace.contains(TENANT) && tenant.is_none() && partition_tenant.is_none() {
            return Err(RowError::schema(format!(
                "namespace {:?} needs a tenant, and neither a column nor the path names one",
                rows.namespace
            )));
        }
        let mut roles = Vec::with_capacity(rows.roles.len());
        for (role, source) in &rows.roles {
            if let Some(bound) = bind_source(conn, table, key_of(*role, rows), source)? {
                roles.push(BoundRole {
                    role: *role,
                    ..bound
                });
            }
        }
        let readings = readings(conn, table, rows)?;
        let tenant_expression = tenant.as_deref().unwrap_or("NULL").to_owned();
        let mut list = vec![id.expression(), tenant_expression];
        list.extend(readings.iter().map(|reading| reading.expression.clone()));
        let image_sql = format!(
            "SELECT {}, {} FROM {} AS m WHERE {}",
            list.join(", "),
            table.image_list(),
            quoted(&table.name),
            id.condition(1),
        );
        Ok(Self {
            readings,
            essence: essence(table, rows),
            id,
            filter: bind_condition(conn, table, "where", rows.filter.as_ref())?,
            live: bind_condition(conn, table, "live", rows.live.as_ref())?,
            point: bind_condition(conn, table, "point", rows.point.as_ref())?,
            table: table.clone(),
            tenant,
            namespace: rows.namespace.clone(),
            partition_tenant: partition_tenant.cloned(),
            roles,
            ttl_unit: rows.ttl_unit,
            image_sql,
        })
    }

    /// Where a role is read from, if the schema has it.
    pub(super) fn role(&self, role: Role) -> Option<&BoundRole> {
        self.roles.iter().find(|bound| bound.role == role)
    }

    /// Where each of these roles is read from.
    pub(super) fn bound(&self, roles: &[Role]) -> Vec<Option<&BoundRole>> {
        roles.iter().map(|role| self.role(*role)).collect()
    }

    /// A fingerprint of what a memory is: all that a plan to keep it in another one's stead rests on.
    pub(super) fn essence(&self, found: &Found) -> Version {
        let read = self.readings.iter().zip(&found.read);
        let read = read.filter_map(|(reading, value)| reading.is_essence.then_some(value));
        found.row.version_of(&self.essence, read)
    }

    /// The versions of the memories of `ids`, in the same order; `None` for those that do not exist.
    pub(super) fn versions(
        &self,
        conn: &Connection,
        ids: &[MemoryId],
    ) -> Result<Vec<Option<Version>>, RowError> {
        let mut namespaces = self.namespaces();
        let mut version = |id| {
            let found = self.find(conn, id, &mut namespaces)?;
            Ok(found.map(|found| found.version()))
        };
        let versions: rusqlite::Result<_> = ids.iter().map(&mut version).collect();
        versions.map_err(RowError::sqlite("read memories"))
    }

    /// What a stored life says.
    pub(super) fn ttl_of(&self, value: &SqlValue) -> TimeToLive {
        time::decode_ttl(value::as_ref(value), self.ttl_unit)
    }

    /// The table of memories, under the name that the expressions of its sources know it by.
    pub(super) fn from(&self) -> String {
        format!("{} AS m", quoted(&self.table.name))
    }

    /// The expression of the tenant; `NULL` when rows do not name one.
    pub(super) fn tenant_expression(&self) -> &str {
        self.tenant.as_deref().unwrap_or("NULL")
    }

    /// The expression of a reference to another memory, NULL where it refers to nothing: NULL, blank text, 0.
    pub(super) fn reference_expression(&self, role: Role) -> Option<String> {
        let expression = &self.role(role)?.expression;
        Some(format!(
            "CASE WHEN trim({expression}) NOT IN ('', '0') THEN {expression} END"
        ))
    }

    /// `SELECT` of id, tenant, the three conditions and the roles asked for, as [`Self::memory`] reads them, of every row
    /// of the table.
    pub(super) fn select_sql(&self, roles: &[Role]) -> String {
        let mut list = format!("{}, {}", self.id.expression(), self.tenant_expression());
        let conditions = [&self.filter, &self.live, &self.point];
        let conditions = conditions.map(|condition| condition.as_deref().unwrap_or("1"));
        let roles = roles.iter().map(|role| {
            self.role(*role)
                .map_or("NULL", |bound| bound.expression.as_str())
        });
        for expression in conditions.into_iter().chain(roles) {
            list.push_str(", ");
            list.push_str(expression);
        }
        format!("SELECT {list} FROM {}", self.from())
    }

    /// The condition that a row is a memory.
    pub(super) fn is_memory(&self) -> &str {
        self.filter.as_deref().unwrap_or("1")
    }

    /// Every statement that reads memories.
    pub(super) fn statements(&self) -> Vec<String> {
        let all: Vec<Role> = self.roles.iter().map(|bound| bound.role).collect();
        vec![self.select_sql(&all), self.image_sql.clone()]
    }

    /// Reads one memory from a row of [`Self::select_sql`].
    pub(super) fn memory(
        &self,
        row: &Row<'_>,
        roles: &[Option<&BoundRole>],
        namespaces: &mut Namespaces<'_>,
    ) -> rusqlite::Result<Memory> {
        let mut memory = Memory::new(value::id_of(row.get_ref(0)?));
        memory.namespace = namespaces.of(row.get_ref(1)?);
        memory.is_other = !row.get::<_, bool>(2)?;
        memory.is_withdrawn = !row.get::<_, bool>(3)?;
        memory.needs_point = row.get(4)?;
        for (index, role) in roles.iter().enumerate() {
            if let Some(bound) = role {
                self.fill(&mut memory, bound, row.get_ref(index + 5)?);
            }
        }
        Ok(memory)
    }

    fn fill(&self, memory: &mut Memory, bound: &BoundRole, value: ValueRef<'_>) {
        let text = || value::text_of(value).map(std::borrow::Cow::into_owned);
        let moment = || time::decode(value, &bound.time);
        let reference = || value::reference_of(value, self.id.affinity);
        match bound.role {
            Role::Content => memory.content = text(),
            Role::Type => memory.kind = text(),
            Role::Context => memory.context = Context::read(value),
            Role::CreatedAt => memory.created_at = moment(),
            Role::UpdatedAt => memory.updated_at = moment(),
            Role::LastUsedAt => memory.last_used_at = moment(),
            Role::ConfirmedAt => memory.confirmed_at = moment(),
            Role::ExpiresAt => memory.expires_at = moment(),
            Role::ValidTo => memory.valid_to = moment(),
            Role::DeletedAt => memory.deleted_at = moment(),
            Role::Ttl => memory.ttl = time::decode_ttl(value, self.ttl_unit),
            Role::SupersededBy => memory.superseded_by = reference(),
            Role::Supersedes => memory.supersedes = reference(),
            Role::Uses => memory.uses = value::count_of(value),
            Role::Salience => memory.salience = value::number_of(value),
            Role::Source => memory.source = text(),
            Role::Pinned => memory.pinned = value::flag_of(value),
            Role::Trust => memory.trust = value::number_of(value),
            // Computed by the application from the content; hypnos compares texts itself.
            Role::ContentHash => {}
            Role::Point => {
                memory.point = value::spelling_of(value).map(std::borrow::Cow::into_owned);
            }
        }
    }

    /// A reader of namespaces, for one scan.
    pub(super) fn namespaces(&self) -> Namespaces<'_> {
        let one = |tenant: &str| Namespace::parse(&self.namespace.replace(TENANT, tenant));
        Namespaces {
            template: &self.namespace,
            by_row: self.tenant.is_some(),
            common: one(self.partition_tenant.as_deref().unwrap_or_default()),
            known: HashMap::new(),
        }
    }

    /// Reads the whole row of a memory, by its exact id: a column that ignores case finds others, too.
    pub(super) fn fetch(
        &self,
        conn: &Connection,
        id: &MemoryId,
    ) -> rusqlite::Result<Option<RowImage>> {
        let mut namespaces = self.namespaces();
        let found = self.find(conn, id, &mut namespaces)?;
        Ok(found.map(|found| found.row))
    }

    /// Reads memories by id, in the order of `ids`; those that do not exist are left out.
    pub(super) fn memories(
        &self,
        conn: &Connection,
        roles: &[Role],
        ids: &[MemoryId],
    ) -> Result<Vec<Memory>, RowError> {
        let read = || -> rusqlite::Result<Vec<Memory>> {
            let sql = format!("{} WHERE {}", self.select_sql(roles), self.id.condition(1));
            let mut statement = conn.prepare_cached(&sql)?;
            let mut namespaces = self.namespaces();
            let sources = self.bound(roles);
            let mut found = Vec::with_capacity(ids.len());
            for id in ids {
                let mut rows = statement.query([id])?;
                while let Some(row) = rows.next()? {
                    if value::id_of(row.get_ref(0)?).as_ref() == Some(id) {
                        found.push(self.memory(row, &sources, &mut namespaces)?);
                        break;
                    }
                }
            }
            Ok(found)
        };
        read().map_err(RowError::sqlite("read memories"))
    }

    /// The context of a memory as it is written, by its exact id; `None` where it says nothing.
    pub(super) fn context(
        &self,
        conn: &Connection,
        id: &MemoryId,
    ) -> Result<Option<String>, RowError> {
        let Some(bound) = self.role(Role::Context) else {
            return Ok(None);
        };
        let read = || -> rusqlite::Result<Option<String>> {
            let sql = format!(
                "SELECT {}, {} FROM {} WHERE {}",
                self.id.expression(),
                bound.expression,
                self.from(),
                self.id.condition(1)
            );
            let mut statement = conn.prepare_cached(&sql)?;
            let mut rows = statement.query([id])?;
            while let Some(row) = rows.next()? {
                if value::id_of(row.get_ref(0)?).as_ref() == Some(id) {
                    return Ok(value::context_of(row.get_ref(1)?));
                }
            }
            Ok(None)
        };
        read().map_err(RowError::sqlite("read a memory"))
    }

    /// Reads all that is said of a memory, by its exact id.
    pub(super) fn find(
        &self,
        conn: &Connection,
        id: &MemoryId,
        namespaces: &mut Namespaces<'_>,
    ) -> rusqlite::Result<Option<Found>> {
        let mut statement = conn.prepare_cached(&self.image_sql)?;
        let mut rows = statement.query([id])?;
        while let Some(row) = rows.next()? {
            if value::id_of(row.get_ref(0)?).as_ref() == Some(id) {
                let read = 2..2 + self.readings.len();
                return Ok(Some(Found {
                    namespace: namespaces.of(row.get_ref(1)?),
                    row: self.table.image(row, read.end)?,
                    read: read
                        .map(|column| Ok(row.get_ref(column)?.into()))
                        .collect::<rusqlite::Result<_>>()?,
                }));
            }
        }
        Ok(None)
    }
}

/// Namespaces by tenant: a store has few of them and many rows.
pub(super) struct Namespaces<'a> {
    template: &'a str,
    /// Whether each row names its tenant.
    by_row: bool,
    /// The namespace of every row, where rows do not.
    common: Option<Namespace>,
    known: HashMap<String, Option<Namespace>>,
}

impl Namespaces<'_> {
    /// The namespace of a row with this tenant. `None` when it is NULL, blank or no key.
    pub(super) fn of(&mut self, tenant: ValueRef<'_>) -> Option<Namespace> {
        if !self.by_row {
            return self.common.clone();
        }
        let tenant = value::spelling_of(tenant)?;
        if let Some(known) = self.known.get(tenant.as_ref()) {
            return known.clone();
        }
        let namespace = Namespace::parse(&self.template.replace(TENANT, &tenant));
        self.known.insert(tenant.into_owned(), namespace.clone());
        namespace
    }
}

/// Whether a role says when or how often a memory was used, and not what it is.
fn is_of_use(role: Role) -> bool {
    matches!(
        role,
        Role::CreatedAt
            | Role::UpdatedAt
            | Role::LastUsedAt
            | Role::ConfirmedAt
            | Role::Uses
            | Role::Salience
    )
}

/// What the sources of memories read by an expression, which the row alone does not tell.
fn readings(
    conn: &Connection,
    table: &Table,
    rows: &config::Rows,
) -> Result<Vec<Reading>, RowError> {
    let conditions = [
        ("tenant", &rows.tenant),
        ("where", &rows.filter),
        ("live", &rows.live),
        ("point", &rows.point),
    ];
    let conditions = conditions
        .into_iter()
        .filter_map(|(key, source)| Some((key, source.as_ref()?, true)));
    let roles = rows.roles.iter();
    let roles = roles.map(|(role, source)| (key_of(*role, rows), source, !is_of_use(*role)));
    let mut readings = Vec::new();
    for (key, source, is_essence) in conditions.chain(roles) {
        if matches!(source.origin, Origin::Sql(_))
            && let Some(bound) = bind_source(conn, table, key, source)?
        {
            readings.push(Reading {
                expression: bound.expression,
                is_essence,
            });
        }
    }
    Ok(readings)
}

/// The key that says where a role is read from.
fn key_of(role: Role, rows: &config::Rows) -> &'static str {
    if role == Role::Ttl && rows.ttl_unit == Duration::from_mins(1) {
        return "ttl_minutes";
    }
    role.key()
}

/// The columns, as the schema spells them, of everything about a memory but when and how often it was used.
fn essence(table: &Table, rows: &config::Rows) -> Vec<String> {
    let roles = rows.roles.iter().filter(|(role, _)| !is_of_use(*role));
    let conditions = [&rows.tenant, &rows.filter, &rows.live, &rows.point];
    let sources = roles
        .map(|(_, source)| source)
        .chain(conditions.into_iter().flatten());
    let mut columns: Vec<String> = sources
        .filter_map(|source| table.column(source.column()?))
        .map(|column| column.name.clone())
        .collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}
