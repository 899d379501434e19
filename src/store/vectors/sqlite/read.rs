//! Reading points: pages of heads, counts, namespaces, vectors and whole copies.
//!
//! Mechanics: a page is the next rows after a key. With an index on the namespace the rows of others are skipped by
//! it; without one, each page is a window over all rows of which only the namespace's are shown, so that the whole
//! table is gone through once and no more. Vectors are selected only by [`VectorReader::vectors`] and by copies.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;

use rusqlite::types::ValueRef;
use serde_json::{Map, Value};

use crate::memory::PointId;
use crate::store::copies::Count;
use crate::store::image::{PointImage, RowImage, SqlValue};
use crate::store::vectors::{
    Captured, Description, PointHead, Selector, VectorError, VectorReader, payload,
};

use super::locate::{Located, repeated};
use super::schema::{Table, path, quote};
use super::{SqliteVectors, failed, keys, unsigned, values};

/// Rows that one page shows.
const PAGE: usize = 1_000;
/// Rows that one page looks at, when most of them may be someone else's.
const WINDOW: usize = 4_000;

/// Rows with what is shown of them; one whose key is no id has none.
type Page = Vec<(Option<PointId>, SqlValue)>;

/// What a scan needs of every row, beside its key.
struct Columns {
    /// The order of the pages: one or more columns that are unique together.
    order: Vec<String>,
    /// An expression that gives what the scan shows of a row.
    shown: String,
}

/// Where a scan stands.
struct Scan<'a> {
    of: Selector<'a>,
    columns: Columns,
    after: Option<Vec<SqlValue>>,
    page: usize,
}

impl VectorReader for SqliteVectors {
    fn describe(&self) -> Result<Description, VectorError> {
        Ok(Description {
            backend: "sqlite",
            version: rusqlite::version().to_owned(),
            points: self.count(Selector::All)?,
            dimensions: self.dimensions()?,
            distance: None,
            vectors: vec![String::new()],
            namespace_indexed: self.table.namespace_indexed,
        })
    }

    fn namespaces(&self) -> Result<Vec<(String, u64)>, VectorError> {
        self.check_stop()?;
        let Table {
            name, namespace, ..
        } = &self.table;
        let sql = format!(
            "SELECT {namespace}, count(*) FROM {name} \
             WHERE typeof({namespace}) = 'text' AND {namespace} <> '' \
             GROUP BY {namespace} COLLATE BINARY"
        );
        let read = || {
            let mut namespaces = BTreeMap::new();
            let mut statement = self.connection.prepare_cached(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                // Bytes that are no text cannot be the name of anyone.
                if let Ok(namespace) = row.get_ref(0)?.as_str() {
                    namespaces.insert(namespace.to_owned(), unsigned(row.get(1)?));
                }
            }
            Ok(namespaces.into_iter().collect())
        };
        read().map_err(failed("list the namespaces of points"))
    }

    fn count(&self, of: Selector<'_>) -> Result<u64, VectorError> {
        self.check_stop()?;
        let sql = format!(
            "SELECT count(*) FROM {} WHERE {}",
            self.table.name,
            self.condition(of, 1)
        );
        let parameters: Vec<&str> = parameter(of).into_iter().collect();
        self.connection
            .prepare_cached(&sql)
            .and_then(|mut statement| {
                statement.query_row(rusqlite::params_from_iter(parameters), |row| row.get(0))
            })
            .map(unsigned)
            .map_err(failed("count points"))
    }

    fn scroll(
        &self,
        of: Selector<'_>,
        keys: &[&str],
        visit: &mut dyn FnMut(Vec<PointHead>) -> ControlFlow<()>,
    ) -> Result<u64, VectorError> {
        let mut unnamed = 0;
        self.scan(of, self.shown(keys), &mut |page| {
            let rows = page.len();
            let heads: Vec<_> = page
                .into_iter()
                .filter_map(|(id, shown)| Some(head(id?, shown, keys)))
                .collect();
            unnamed += (rows - heads.len()) as u64;
            if heads.is_empty() {
                ControlFlow::Continue(())
            } else {
                visit(heads)
            }
        })?;
        Ok(unnamed)
    }

    fn find(
        &self,
        namespace: &str,
        key: &str,
        values: &[String],
    ) -> Result<Vec<(String, Option<PointId>)>, VectorError> {
        let Some(payload) = &self.table.payload else {
            return Ok(Vec::new());
        };
        let path = path(key)?;
        let shown = format!(
            "CASE WHEN json_type({payload}, {path}) IN ('text', 'integer') \
             THEN CAST(json_extract({payload}, {path}) AS TEXT) END"
        );
        let wanted: HashSet<&str> = values.iter().map(String::as_str).collect();
        let mut found = Vec::new();
        self.scan(Selector::Namespace(namespace), shown, &mut |page| {
            found.extend(page.into_iter().filter_map(|(id, shown)| match shown {
                SqlValue::Text(bytes) => {
                    let value = String::from_utf8(bytes).ok()?;
                    wanted.contains(value.as_str()).then_some((value, id))
                }
                _ => None,
            }));
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    fn heads(&self, ids: &[PointId], keys: &[&str]) -> Result<Vec<PointHead>, VectorError> {
        self.check_stop()?;
        let mut heads = Vec::with_capacity(ids.len());
        self.read_rows(ids, &self.shown(keys), &mut |located, row| {
            let shown = row.get_ref(0).map_err(failed("read a payload"))?.into();
            heads.push(head(located.id.clone(), shown, keys));
            Ok(())
        })?;
        Ok(heads)
    }

    fn vectors(&self, ids: &[PointId]) -> Result<Vec<(PointId, Vec<f32>)>, VectorError> {
        self.check_stop()?;
        let mut found: Vec<(PointId, Option<Vec<f32>>)> = Vec::with_capacity(ids.len());
        let vector = |value: ValueRef<'_>| value.as_blob().ok().and_then(floats);
        if self.table.id_indexed {
            let ids: BTreeSet<PointId> = ids.iter().cloned().collect();
            self.look_up(&ids, &self.table.vector, &mut |id, row| {
                found.push((id.clone(), vector(row.get_ref(1)?)));
                Ok(())
            })?;
        } else {
            self.read_rows(ids, &self.table.vector, &mut |located, row| {
                let value = row.get_ref(0).map_err(failed("read a vector"))?;
                found.push((located.id.clone(), vector(value)));
                Ok(())
            })?;
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let ambiguous = repeated(found.iter().map(|(id, _)| id));
        found.retain(|(id, _)| !ambiguous.contains(id));
        let vectors = found.into_iter();
        Ok(vectors
            .filter_map(|(id, vector)| Some((id, vector?)))
            .collect())
    }

    fn capture(&self, ids: &[PointId]) -> Result<Captured, VectorError> {
        self.check_stop()?;
        let names = &self.table.columns;
        let mut list: Vec<_> = names.iter().map(|name| quote(name)).collect();
        list.push(self.table.namespace.clone());
        if self.table.has_hidden_rowid {
            list.push(self.table.key_list());
        }
        let mut images = Vec::with_capacity(ids.len());
        let ambiguous = self.read_rows(ids, &list.join(", "), &mut |located, row| {
            let doing = failed("copy a point");
            let stored = values(row, 0..names.len()).map_err(&doing)?;
            let rowid = self
                .table
                .has_hidden_rowid
                .then(|| row.get(names.len() + 1))
                .transpose()
                .map_err(&doing)?;
            let namespace = row.get_ref(names.len()).map_err(&doing)?;
            let namespace = namespace.as_str().ok().map(str::to_owned);
            let image = RowImage {
                table: self.table.plain_name.clone(),
                rowid,
                columns: names.iter().cloned().zip(stored).collect(),
            };
            let body = postcard::to_stdvec(&image).map_err(|error| {
                VectorError::Malformed(format!("copy of point {}: {error}", located.id))
            })?;
            images.push(PointImage {
                id: located.id.clone(),
                namespace,
                body,
            });
            Ok(())
        })?;
        Ok(Captured { images, ambiguous })
    }

    fn changed(&self, images: &[PointImage]) -> Result<BTreeSet<PointId>, VectorError> {
        let ids: Vec<PointId> = images.iter().map(|image| image.id.clone()).collect();
        let captured = self.capture(&ids)?;
        let now: HashMap<PointId, PointImage> = captured
            .images
            .into_iter()
            .map(|image| (image.id.clone(), image))
            .collect();
        let differs = |image: &&PointImage| {
            now.get(&image.id)
                .is_some_and(|now| columns(now) != columns(image))
        };
        let mut changed = captured.ambiguous;
        changed.extend(images.iter().filter(differs).map(|image| image.id.clone()));
        Ok(changed)
    }
}

/// What a copy holds; where in the table it stood does not matter.
fn columns(image: &PointImage) -> Option<Vec<(String, SqlValue)>> {
    let row: RowImage = postcard::from_bytes(&image.body).ok()?;
    Some(row.columns)
}

impl SqliteVectors {
    /// An expression that gives the namespace of a row and, where some of its keys are wanted, its payload.
    fn shown(&self, keys: &[&str]) -> String {
        let namespace = &self.table.namespace;
        let payload = match &self.table.payload {
            Some(payload) if !keys.is_empty() => format!("json({payload})"),
            _ => "NULL".to_owned(),
        };
        format!(
            "json_object('namespace', CASE WHEN typeof({namespace}) = 'text' THEN {namespace} END, 'payload', {payload})"
        )
    }

    /// Counts what [`count_points`] counts, without the JSON of a row, and from the indexes where those have it all: for a
    /// copy, which nobody writes to while it is counted.
    ///
    /// [`count_points`]: crate::store::copies::count_points
    pub(super) fn count_rows(&self) -> Result<Count, VectorError> {
        let Table { id, namespace, .. } = &self.table;
        // Bytes that are no text cannot be the name of anyone.
        let mut count = Count::default();
        if self.table.id_unique && self.table.namespace_indexed {
            let mut nameless = 0;
            self.each_row([id], |[id]| match keys::point_id(id) {
                Some(id) => count.ids.add(&id.to_string()),
                None => nameless += 1,
            })?;
            if nameless == 0 {
                self.each_row([namespace], |[namespace]| {
                    count.add_nameless(namespace.as_str().ok());
                })?;
                return Ok(count);
            }
            count = Count::default();
        }
        self.each_row([id, namespace], |[id, namespace]| {
            match keys::point_id(id) {
                Some(id) => count.add(&id.to_string(), namespace.as_str().ok()),
                None => count.total += 1,
            }
        })?;
        Ok(count)
    }

    /// Shows these columns of every row in one statement.
    fn each_row<const N: usize>(
        &self,
        columns: [&String; N],
        mut visit: impl FnMut([ValueRef<'_>; N]),
    ) -> Result<(), VectorError> {
        let columns = columns.map(String::as_str).join(", ");
        let sql = format!("SELECT {columns} FROM {}", self.table.name);
        let doing = failed("count the rows of points");
        let mut statement = self.connection.prepare(&sql).map_err(&doing)?;
        let mut rows = statement.query([]).map_err(&doing)?;
        let mut seen = 0_usize;
        while let Some(row) = rows.next().map_err(&doing)? {
            if seen.is_multiple_of(PAGE) {
                self.check_stop()?;
            }
            seen += 1;
            let mut values = [ValueRef::Null; N];
            for (index, value) in values.iter_mut().enumerate() {
                *value = row.get_ref(index).map_err(&doing)?;
            }
            visit(values);
        }
        Ok(())
    }

    fn dimensions(&self) -> Result<Option<u64>, VectorError> {
        if self.dimensions.get().is_none() {
            let Table { name, vector, .. } = &self.table;
            let sql = format!(
                "SELECT length({vector}) FROM {name} WHERE typeof({vector}) = 'blob' \
                 AND length({vector}) > 0 AND length({vector}) % 4 = 0 LIMIT 1"
            );
            let read = || {
                let mut statement = self.connection.prepare(&sql)?;
                let mut rows = statement.query([])?;
                rows.next()?.map(|row| row.get(0)).transpose()
            };
            let bytes = read().map_err(failed("read the length of a vector"))?;
            self.dimensions.set(bytes.map(|bytes| unsigned(bytes) / 4));
        }
        Ok(self.dimensions.get())
    }

    /// Goes through the rows of `of` page by page, with what `shown` gives for each. A row whose key is no id has
    /// none.
    fn scan(
        &self,
        of: Selector<'_>,
        shown: String,
        visit: &mut dyn FnMut(Page) -> ControlFlow<()>,
    ) -> Result<(), VectorError> {
        let is_all = matches!(of, Selector::All);
        let order = if is_all && shown == "NULL" && self.table.id_unique {
            vec![self.table.id.clone()]
        } else {
            self.table.key.clone()
        };
        let page = if is_all || self.table.namespace_indexed {
            PAGE
        } else {
            WINDOW
        };
        let mut scan = Scan {
            of,
            columns: Columns { order, shown },
            after: None,
            page,
        };
        let schema = self.schema_version()?;
        loop {
            self.check_stop()?;
            let (rows, is_last) = self.next_page(&mut scan)?;
            if !rows.is_empty() && visit(rows).is_break() {
                return Ok(());
            }
            if is_last {
                break;
            }
        }
        // A VACUUM may have given other rowids to the rows, and pages in their order would then have missed some.
        if self.schema_version()? != schema {
            return Err(VectorError::Refused {
                call: "reading pages",
                reason: "the database was rebuilt meanwhile".to_owned(),
            });
        }
        Ok(())
    }

    /// The next rows that are shown, and whether no row is left.
    fn next_page(&self, scan: &mut Scan<'_>) -> Result<(Page, bool), VectorError> {
        let sql = self.page_sql(scan);
        let parameters = parameter(scan.of)
            .map(|namespace| SqlValue::Text(namespace.into()))
            .into_iter()
            .chain(scan.after.take().into_iter().flatten());
        let doing = failed("read a page of points");
        let mut statement = self.connection.prepare_cached(&sql).map_err(&doing)?;
        let mut rows = statement
            .query(rusqlite::params_from_iter(parameters))
            .map_err(&doing)?;
        let mut page = Vec::new();
        let mut seen = 0;
        while let Some(row) = rows.next().map_err(&doing)? {
            seen += 1;
            if seen == scan.page {
                let order = 3..3 + scan.columns.order.len();
                scan.after = Some(values(row, order).map_err(&doing)?);
            }
            let column = |index| row.get_ref(index).map_err(&doing);
            if column(0)? == ValueRef::Integer(1) {
                page.push((keys::point_id(column(1)?), column(2)?.into()));
            }
        }
        Ok((page, seen < scan.page))
    }

    fn page_sql(&self, scan: &Scan<'_>) -> String {
        let Table { name, id, .. } = &self.table;
        let Columns { order, shown } = &scan.columns;
        let condition = self.condition(scan.of, 1);
        let order = order.join(", ");
        let mut filters = Vec::new();
        if self.table.namespace_indexed {
            filters.push(condition.clone());
        }
        if let Some(after) = &scan.after {
            let marks = vec!["?"; after.len()].join(", ");
            filters.push(format!("({order}) > ({marks})"));
        }
        let filter = if filters.is_empty() {
            "1".to_owned()
        } else {
            filters.join(" AND ")
        };
        let page = scan.page;
        format!(
            "SELECT ({condition}) IS TRUE, {id}, CASE WHEN {condition} THEN {shown} END, {order} \
             FROM {name} WHERE {filter} ORDER BY {order} LIMIT {page}"
        )
    }

    /// The condition that a row is one of `of`; the namespace is parameter `first`.
    fn condition(&self, of: Selector<'_>, first: usize) -> String {
        let namespace = &self.table.namespace;
        match of {
            Selector::All => "1".to_owned(),
            // The first comparison finds the index, the second takes no other spelling for the same.
            Selector::Namespace(_) => {
                format!("({namespace} = ?{first} AND {namespace} = ?{first} COLLATE BINARY)")
            }
            Selector::WithoutNamespace => format!("({namespace} IS NULL OR {namespace} = '')"),
        }
    }

    fn schema_version(&self) -> Result<i64, VectorError> {
        self.connection
            .pragma_query_value(None, "schema_version", |row| row.get(0))
            .map_err(failed("read the schema version"))
    }

    /// Reads the columns of `list` of those of `ids` that have one row; gives those that have several.
    fn read_rows(
        &self,
        ids: &[PointId],
        list: &str,
        visit: &mut dyn FnMut(&Located, &rusqlite::Row<'_>) -> Result<(), VectorError>,
    ) -> Result<BTreeSet<PointId>, VectorError> {
        let found = self.locate(ids.iter().cloned())?;
        let _snapshot = self.read_transaction()?;
        let sql = format!(
            "SELECT {list} FROM {} WHERE {} AND {} IS ?{}",
            self.table.name,
            self.table.key_is(1),
            self.table.id,
            self.table.key.len() + 1
        );
        let doing = failed("read points");
        let mut statement = self.connection.prepare_cached(&sql).map_err(&doing)?;
        for located in &found.rows {
            self.check_stop()?;
            let parameters = located.key.iter().chain([&located.raw]);
            let mut rows = statement
                .query(rusqlite::params_from_iter(parameters))
                .map_err(&doing)?;
            if let Some(row) = rows.next().map_err(&doing)? {
                visit(located, row)?;
            }
        }
        Ok(found.ambiguous)
    }
}

/// The parameter that [`SqliteVectors::condition`] compares with.
fn parameter(of: Selector<'_>) -> Option<&str> {
    match of {
        Selector::Namespace(namespace) => Some(namespace),
        Selector::All | Selector::WithoutNamespace => None,
    }
}

/// A point without its vectors, from what [`SqliteVectors::shown`] gives.
fn head(id: PointId, shown: SqlValue, keys: &[&str]) -> PointHead {
    let mut shown = object(shown);
    let namespace = match shown.remove("namespace") {
        Some(Value::String(namespace)) => Some(namespace),
        _ => None,
    };
    let payload = match shown.remove("payload") {
        Some(Value::Object(payload)) => payload::select(&payload, keys),
        _ => Map::new(),
    };
    PointHead {
        id,
        namespace,
        payload,
    }
}

/// The payload of a row, empty when it has none.
fn object(shown: SqlValue) -> Map<String, Value> {
    match shown {
        SqlValue::Text(json) => serde_json::from_slice(&json).unwrap_or_default(),
        _ => Map::new(),
    }
}

fn floats(bytes: &[u8]) -> Option<Vec<f32>> {
    let (values, rest) = bytes.as_chunks::<4>();
    let is_whole = rest.is_empty() && !values.is_empty();
    is_whole.then(|| {
        values
            .iter()
            .map(|value| f32::from_le_bytes(*value))
            .collect()
    })
}
