//! Units of measure: dimension and size, the same in every language.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct UnitId {
    /// Which dimension; units of one can be compared. Zero is no dimension.
    pub(crate) dimension: u8,
    /// Its size in the first unit of that dimension.
    pub(crate) size: f64,
}

struct Units {
    names: HashMap<String, UnitId>,
    symbols: HashMap<String, UnitId>,
    attached: HashMap<String, UnitId>,
}

static UNITS: LazyLock<Units> = LazyLock::new(|| read(include_str!("lexicon/units.toml")));

#[expect(
    clippy::panic,
    reason = "the file is compiled in and read by the tests"
)]
fn read(text: &str) -> Units {
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => panic!("units: {error}"),
    };
    let mut names = HashMap::new();
    let dimensions = table
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "symbols" | "attached"));
    for (dimension, (_, units)) in (1..).zip(dimensions) {
        for (name, size) in units.as_table().into_iter().flatten() {
            let size = size
                .as_float()
                .or_else(|| {
                    size.as_integer()
                        .and_then(|size| size.to_string().parse().ok())
                })
                .unwrap_or(1.0);
            names.insert(name.clone(), UnitId { dimension, size });
        }
    }
    let symbols = aliases(&table, "symbols", &names);
    let attached = aliases(&table, "attached", &names);
    Units {
        names,
        symbols,
        attached,
    }
}

fn aliases(
    table: &toml::Table,
    name: &str,
    units: &HashMap<String, UnitId>,
) -> HashMap<String, UnitId> {
    let aliases = table.get(name).and_then(toml::Value::as_table);
    aliases
        .into_iter()
        .flatten()
        .filter_map(|(symbol, unit)| Some((symbol.clone(), *units.get(unit.as_str()?)?)))
        .collect()
}

/// The unit of that name in `lexicon/units.toml`.
pub(crate) fn by_name(name: &str) -> Option<UnitId> {
    UNITS.names.get(name).copied()
}

/// The unit of a symbol that stands beside a number.
pub(crate) fn by_symbol(symbol: &str) -> Option<UnitId> {
    UNITS.symbols.get(symbol).copied()
}

/// The unit of a symbol written right behind the digits.
pub(crate) fn attached(symbol: &str) -> Option<UnitId> {
    by_symbol(symbol).or_else(|| UNITS.attached.get(symbol).copied())
}
