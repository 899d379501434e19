//! What the operator wrote, key by key, before anything is believed.
//!
//! Mechanics: `section!` declares a table of the file once: its keys, its tables and its lists of tables. From that
//! follow the reading, the refusal of unknown keys, and the laying of one table over another (a store over its
//! preset). A key keeps its value untyped: what a value may be is decided in [`super::validate`], so that one wrong
//! type hides no other problem.

use toml::de::DeTable;

use super::problem::{Problem, SyntaxError};
use super::reader::{Key, Reader, join, parse};

/// The name of a key in the file: that of the field, but for those that Rust reserves.
macro_rules! key_name {
    (memory_type) => {
        "type"
    };
    (filter) => {
        "where"
    };
    ($key:ident) => {
        stringify!($key)
    };
}

macro_rules! section {
    (
        $(#[$about:meta])*
        $name:ident {
            $(keys { $($(#[$key_about:meta])* $key:ident,)* })?
            $(tables { $($(#[$table_about:meta])* $table:ident: $table_type:ident,)* })?
            $(lists { $($(#[$list_about:meta])* $list:ident: $list_type:ident,)* })?
        }
    ) => {
        $(#[$about])*
        #[allow(dead_code, reason = "every table knows its place, not every one is asked for it")]
        #[derive(Clone, Default)]
        pub(super) struct $name {
            /// Dotted path of the table.
            pub(super) at: String,
            /// Whether the file has the table.
            pub(super) is_present: bool,
            $($($(#[$key_about])* pub(super) $key: Key,)*)?
            $($($(#[$table_about])* pub(super) $table: $table_type,)*)?
            $($($(#[$list_about])* pub(super) $list: Vec<$list_type>,)*)?
        }

        #[allow(dead_code, reason = "every table can be laid over another, not every one is")]
        impl $name {
            const KEYS: &[&str] = &[
                $($(key_name!($key),)*)?
                $($(stringify!($table),)*)?
                $($(stringify!($list),)*)?
            ];

            /// The table as it is when nothing was written in it.
            pub(super) fn empty(at: &str) -> Self {
                Self {
                    at: at.to_owned(),
                    is_present: false,
                    $($($key: Key::new(at, key_name!($key)),)*)?
                    $($($table: $table_type::empty(&join(at, stringify!($table))),)*)?
                    $($($list: Vec::new(),)*)?
                }
            }

            fn read(table: &DeTable<'_>, at: &str, reader: &mut Reader<'_>) -> Self {
                let mut section = Self::empty(at);
                section.is_present = true;
                for (key, value) in table {
                    match key.get_ref().as_ref() {
                        $($(name if name == key_name!($key) => {
                            section.$key.value = reader.value(&section.$key.field, value);
                        })*)?
                        $($(name if name == stringify!($table) => {
                            let at = join(at, name);
                            if let Some(table) = reader.table(&at, value) {
                                section.$table = $table_type::read(table, &at, reader);
                            }
                        })*)?
                        $($(name if name == stringify!($list) => {
                            let at = join(at, name);
                            for (at, table) in reader.tables(&at, value) {
                                section.$list.push($list_type::read(table, &at, reader));
                            }
                        })*)?
                        _ => reader.unknown(at, key, Self::KEYS),
                    }
                }
                section
            }

            /// This table, with what is written in `base` where nothing is written here.
            #[must_use]
            pub(super) fn over(self, base: Self) -> Self {
                Self {
                    at: self.at,
                    is_present: self.is_present || base.is_present,
                    $($($key: self.$key.over(base.$key),)*)?
                    $($($table: self.$table.over(base.$table),)*)?
                    $($($list: if self.$list.is_empty() { base.$list } else { self.$list },)*)?
                }
            }

            /// The dotted path of every key under this table, lists as `name.key`.
            #[cfg(test)]
            pub(super) fn all_keys(at: &str) -> Vec<String> {
                #[allow(unused_mut, reason = "a table without tables of its own adds nothing")]
                let mut keys: Vec<String> = vec![$($(join(at, key_name!($key)),)*)?];
                $($(keys.extend($table_type::all_keys(&join(at, stringify!($table))));)*)?
                $($(keys.extend($list_type::all_keys(&join(at, stringify!($list))));)*)?
                keys
            }
        }
    };
}

section! {
    /// The whole file.
    File {
        keys {
            /// Folder of hypnos's own files.
            state_dir,
            /// Folder of the snapshot pairs.
            snapshot_dir,
        }
        tables {
            /// When the daemon runs.
            schedule: Schedule,
            /// Where figures are published.
            metrics: Metrics,
            /// How much one pass may remove.
            guard: Guard,
            /// How long a removal can be taken back.
            undo: Undo,
            /// Settings of the passes, for every store.
            pass: Pass,
        }
        lists {
            /// The stores.
            store: Store,
        }
    }
}

/// Whether a text was written as a configuration, be it right or wrong: it has a store, or known keys only.
#[must_use]
pub fn is_configuration(text: &str) -> bool {
    let Ok(file) = text.parse::<toml::Table>() else {
        return false;
    };
    let stores = file.get("store").and_then(toml::Value::as_array);
    let has_store = stores.is_some_and(|stores| stores.iter().all(toml::Value::is_table));
    let is_known = |key: &String| File::KEYS.contains(&key.as_str());
    has_store || !file.is_empty() && file.keys().all(is_known)
}

section! {
    /// `[schedule]`
    Schedule {
        keys {
            /// Five fields, as in crontab.
            cron,
            /// IANA name of the zone in which they are read.
            timezone,
            /// Whether a missed run starts when the daemon starts.
            catch_up,
            /// Longest time that a run may take.
            max_run,
            /// How long a store that is away is tried again.
            retry_for,
        }
    }
}

section! {
    /// `[metrics]`
    Metrics {
        keys {
            /// Address of the daemon's HTTP server.
            listen,
            /// A `.prom` file for one-shot runs; empty for none.
            textfile,
        }
    }
}

section! {
    /// `[guard]`
    Guard {
        keys {
            /// Share of a store or namespace that a pass may remove.
            max_fraction,
            /// Number of removals under which the share does not matter.
            min_count,
        }
    }
}

section! {
    /// `[undo]`
    Undo {
        keys {
            /// How long pre-images are kept.
            keep,
        }
    }
}

section! {
    /// `[[store]]`
    Store {
        keys {
            /// Unique name.
            name,
            /// `apply` or `report`.
            first_run,
            /// Whether a person has looked at the mapping.
            confirmed,
        }
        tables {
            /// Where the rows are.
            rows: Rows,
            /// Who still exists.
            owners: Owners,
            /// Where the points are.
            vectors: Vectors,
            /// What else names the memories.
            links: Links,
            /// What the application wrote down of them.
            log: Log,
            /// This store's own settings of the passes.
            pass: Pass,
        }
    }
}

section! {
    /// `[store.rows]`
    Rows {
        keys {
            /// What a row is: of a SQLite table, or a point.
            kind,
            /// The database file, with `{tenant}` for one file per tenant.
            path,
            /// Name of the preset that the other keys override.
            preset,
            /// The table of memories.
            table,
            /// The key column, or a list of those that are the key together.
            id,
            /// Which rows of the table are memories.
            filter,
            /// Which memories the application still shows.
            live,
            /// Which memories need a point.
            point,
            /// Rows of other tables that go with a memory.
            children,
            /// The column that names the owner.
            tenant,
            /// The text.
            content,
            /// The kind of memory.
            memory_type,
            /// What else than the owner the application asks by.
            context,
            /// When it was first written.
            created_at,
            /// When it was last changed.
            updated_at,
            /// When it was last retrieved.
            last_used_at,
            /// When a person last confirmed it.
            confirmed_at,
            /// When it ceases to hold.
            expires_at,
            /// When it ceased to be true.
            valid_to,
            /// When it was soft-deleted.
            deleted_at,
            /// Life from creation, in days.
            ttl_days,
            /// Life from creation, in minutes.
            ttl_minutes,
            /// The memory that replaced it.
            superseded_by,
            /// The memory that it replaced.
            supersedes,
            /// How often it was retrieved.
            uses,
            /// How much it matters.
            salience,
            /// Where it came from.
            source,
            /// Whether a person pinned it.
            pinned,
            /// How far its source is trusted.
            trust,
            /// The application's own fingerprint of the text.
            content_hash,
        }
    }
}

section! {
    /// `[store.links]`
    Links {
        keys {
            /// A collection whose points name memories, with `{collection}` for that of the memories.
            collection,
            /// The payload key with their ids.
            key,
        }
    }
}

section! {
    /// `[store.log]`
    Log {
        keys {
            /// The database.
            path,
            /// The query of what it says last of each memory: the id, whether it was deleted, the text.
            last,
        }
    }
}

section! {
    /// `[store.owners]`
    Owners {
        keys {
            /// The scope that the table speaks for.
            scope,
            /// The database file; empty for the row database itself.
            path,
            /// The table; empty for none, where a preset has one.
            table,
            /// The column with the owner's name.
            id,
            /// The column that marks a deleted owner; empty for none.
            deleted_at,
            /// `keep` or `remove`: the rows of an owner who is not in the table.
            absent,
        }
    }
}

section! {
    /// `[store.vectors]`
    Vectors {
        keys {
            /// `qdrant`, `sqlite` or `none`.
            kind,
            /// Template of the namespace.
            namespace,
            /// Payload key or column of the namespace.
            namespace_key,
            /// Template of what stands there, where that is not the namespace itself.
            namespace_value,
            /// How the id of a point follows from its row.
            point_id,
            /// Payload key of the text that the vector was made of.
            text,
            /// Qdrant: gRPC address.
            url,
            /// Qdrant: REST address.
            rest_url,
            /// Qdrant: the API key.
            api_key,
            /// Qdrant: the collection, or the template of those of the tenants.
            collection,
            /// Qdrant: which points of it are the store's.
            filter,
            /// Qdrant: bound on one call.
            timeout,
            /// Qdrant: the named vector. SQLite: the column of the vector.
            vector,
            /// SQLite: the database file.
            path,
            /// SQLite: the table of points.
            table,
            /// SQLite: its key column.
            id,
            /// SQLite: the payload column; empty for none.
            payload,
        }
    }
}

section! {
    /// `[pass]` and `[store.pass]`
    Pass {
        tables {
            /// Expiry.
            ttl: Ttl,
            /// Sweep of what belongs to nobody.
            orphans: Orphans,
            /// Duplicate clusters.
            duplicates: Duplicates,
            /// Fading.
            decay: Decay,
            /// Disagreeing pairs.
            contradictions: Contradictions,
            /// Stale confirmations.
            review: Review,
            /// Free pages.
            vacuum: Vacuum,
            /// Paired backups.
            snapshot: Snapshot,
        }
    }
}

section! {
    /// `[pass.ttl]`
    Ttl {
        keys {
            /// Whether it runs.
            enabled,
            /// Age at which history goes, or `never`.
            superseded_retention,
        }
    }
}

section! {
    /// `[pass.orphans]`
    Orphans {
        keys {
            /// Whether it runs.
            enabled,
            /// Time that an owner must have been marked deleted.
            grace,
            /// Time between two sightings of something absent.
            settle,
            /// Age under which a point is left.
            min_age,
        }
    }
}

section! {
    /// `[pass.duplicates]`
    Duplicates {
        keys {
            /// Whether it runs.
            enabled,
            /// Cosine that opens a cluster.
            cluster_at,
            /// Cosine to the survivor at which a member may join it.
            merge_at,
        }
    }
}

section! {
    /// `[pass.decay]`
    Decay {
        keys {
            /// Whether it runs.
            enabled,
            /// Strength under which a memory has faded.
            floor,
            /// Weibull scale of types without their own.
            default_scale,
            /// Weibull scale by type.
            scale,
            /// Weibull shape.
            shape,
            /// Types that never fade.
            exempt_types,
            /// Largest share of a namespace in any 20 hours.
            max_fraction,
        }
    }
}

section! {
    /// `[pass.contradictions]`
    Contradictions {
        keys {
            /// Whether it runs.
            enabled,
            /// How far apart two memories may have been created.
            window,
            /// Score from which a pair is queued.
            threshold,
            /// Weight of the common topic.
            topic_weight,
            /// `topic` or `sum`.
            scoring,
        }
        tables {
            /// Weights of the signals.
            weights: Weights,
        }
    }
}

section! {
    /// `[pass.contradictions.weights]`
    Weights {
        keys {
            /// One side negates, the other does not.
            negation,
            /// Opposite words.
            antonym,
            /// Different numbers.
            numeric,
            /// Different times.
            temporal,
        }
    }
}

section! {
    /// `[pass.review]`
    Review {
        keys {
            /// Whether it runs.
            enabled,
            /// Age of a confirmation at which it is asked again.
            stale_after,
            /// Time without use at which an exempt memory is asked about.
            unused_after,
            /// New entries a week.
            per_week,
        }
    }
}

section! {
    /// `[pass.vacuum]`
    Vacuum {
        keys {
            /// Whether it runs.
            enabled,
            /// Share of free pages from which it is worth it.
            min_free_fraction,
            /// Free bytes from which it is worth it.
            min_free_bytes,
            /// Longest time that a writer may stand still.
            max_stall,
        }
    }
}

section! {
    /// `[pass.snapshot]`
    Snapshot {
        keys {
            /// Whether it runs.
            enabled,
            /// Daily pairs kept.
            keep_daily,
            /// Weekly pairs kept.
            keep_weekly,
            /// Monthly pairs kept.
            keep_monthly,
        }
    }
}

section! {
    /// A preset: what it says of any store of its schema.
    Preset {
        keys {
            /// One line for `hypnos presets`.
            description,
            /// What a store of its schema is recognised by, see [`super::fingerprint`].
            fingerprint,
        }
        tables {
            /// The mapping of the rows.
            rows: Rows,
            /// The owners table.
            owners: Owners,
            /// How points follow from rows.
            vectors: Vectors,
            /// What else names the memories.
            links: Links,
            /// What the application wrote down of them.
            log: Log,
            /// Settings that the schema calls for.
            pass: Pass,
        }
    }
}

impl File {
    /// Reads a whole file; what is not known or not readable is in the list of problems.
    ///
    /// # Errors
    ///
    /// Every place where the text is not TOML.
    pub(super) fn parse(text: &str) -> Result<(Self, Vec<Problem>), Vec<SyntaxError>> {
        parse(text, "", Self::read)
    }
}

impl Preset {
    /// Reads a preset as if the operator had written it in the store at `at`.
    ///
    /// # Errors
    ///
    /// Every place where the text is not TOML.
    pub(super) fn parse(text: &str, at: &str) -> Result<(Self, Vec<Problem>), Vec<SyntaxError>> {
        parse(text, at, Self::read)
    }
}

#[cfg(test)]
mod tests;
