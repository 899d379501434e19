//! Rows of other tables that belong to a memory which is not there, where only the configuration says that they belong to
//! one (`children`): no foreign key has kept them right. They are counted, and left.

use std::collections::BTreeMap;

use super::schema::{Table, quoted};
use crate::config;

/// The query of how many there are; `None` where no table of the schema is named so.
pub(super) fn count_sql(tables: &[Table], memories: &Table, rows: &config::Rows) -> Option<String> {
    let mut gone: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for child in &rows.children {
        let same = |table: &&Table| table.name.eq_ignore_ascii_case(&child.table);
        if let Some(table) = tables.iter().find(same) {
            let (column, key) = (quoted(&child.column), quoted(&child.key));
            // NULL in the list would make every other one unknown.
            let condition = format!(
                "{column} NOT IN (SELECT {key} FROM {} WHERE {key} IS NOT NULL)",
                quoted(&memories.name)
            );
            gone.entry(&table.name).or_default().push(condition);
        }
    }
    let count = |(table, conditions): (&str, Vec<String>)| {
        let conditions = conditions.join(" OR ");
        format!(
            "(SELECT count(*) FROM {} WHERE {conditions})",
            quoted(table)
        )
    };
    let counts: Vec<String> = gone.into_iter().map(count).collect();
    (!counts.is_empty()).then(|| format!("SELECT {}", counts.join(" + ")))
}
