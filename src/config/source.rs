//! The grammar of a source: where in a row something is read, and how a time is written there.
//!
//! ```text
//! source   = origin [ ":" encoding ] [ "@" zone ]
//! origin   = column [ "?" ] [ ":json(" path ")" ] | "sql" [ "?" ] "(" expression ")"
//! encoding = "epoch_s" | "epoch_ms" | "epoch_f" | "text" | "date" | "auto"
//! ```
//!
//! Encoding and zone belong to roles that are times; `auto` and UTC are meant where nothing is said.

use jiff::tz::TimeZone;

use super::expression::{self, Flaw};
use super::{Encoding, Origin, Source, TimeFormat};

/// What a role may say of its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A time: everything of the grammar.
    Time,
    /// Anything else: no encoding and no zone.
    Value,
    /// What a memory belongs to: besides, its column must exist, or every row would be nobody's.
    Tenant,
}

impl Kind {
    /// What is allowed, for messages.
    pub(super) fn allowed(self) -> &'static str {
        match self {
            Self::Time => {
                "\"column\", \"column?\", \"column:json($.key)\" or \"sql(EXPRESSION)\", then for a time \":epoch_s\", \":epoch_ms\", \
                 \":epoch_f\", \":text\", \":date\" or \":auto\", and \"@Area/City\" after one of the last three"
            }
            Self::Value => {
                "\"column\", \"column?\", \"column:json($.key)\" or \"sql(EXPRESSION)\", without an encoding: this is not a time"
            }
            Self::Tenant => {
                "\"column\", \"column:json($.key)\" or \"sql(EXPRESSION)\"; the column may not be optional"
            }
        }
    }
}

/// What is allowed in the place of an expression that says something else at each look, for messages.
const STEADY: &str = "an expression that says the same at every look, as long as nothing is written: without the clock \
    ('now', CURRENT_TIMESTAMP, a time function that is given no time), chance (random()) and counts of changes";

/// What is allowed in the place of this text, for messages.
pub(super) fn allowed_for(text: &str, kind: Kind) -> &'static str {
    let expression = text.strip_prefix("sql(").or(text.strip_prefix("sql?("));
    let expression = expression.and_then(|rest| rest.rsplit_once(')'));
    match expression.map(|(expression, _)| expression::check(expression)) {
        Some(Err(Flaw::Volatile)) => STEADY,
        _ => kind.allowed(),
    }
}

/// Reads a source; `None` when it is not one, or says what its role cannot have.
pub(super) fn parse(text: &str, kind: Kind) -> Option<Source> {
    let (origin, optional, rest) = match text
        .strip_prefix("sql(")
        .map(|expression| (expression, false))
        .or_else(|| Some((text.strip_prefix("sql?(")?, true)))
    {
        Some((expression, optional)) => {
            let (expression, rest) = expression.rsplit_once(')')?;
            (sql(expression)?, optional, rest)
        }
        None => column(text)?,
    };
    let says_time = !rest.is_empty();
    let time = time_format(rest)?;
    let fits = match kind {
        Kind::Time => true,
        Kind::Value => !says_time,
        Kind::Tenant => !says_time && !optional,
    };
    fits.then_some(Source {
        origin,
        optional,
        time,
    })
}

/// A column, whether it may be missing, and what follows.
fn column(text: &str) -> Option<(Origin, bool, &str)> {
    let column_end = text.find(['?', ':', '@']).unwrap_or(text.len());
    let (column, rest) = text.split_at(column_end);
    if column.trim().is_empty() || column.contains(char::is_control) {
        return None;
    }
    let (optional, rest) = match rest.strip_prefix('?') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let column = column.to_owned();
    Some(match rest.strip_prefix(":json(") {
        Some(rest) => {
            let (path, rest) = rest.rsplit_once(')')?;
            let path = json_path(path)?;
            (Origin::Json { column, path }, optional, rest)
        }
        None => (Origin::Column(column), optional, rest),
    })
}

fn sql(expression: &str) -> Option<Origin> {
    let is_sound = expression::check(expression).is_ok();
    is_sound.then(|| Origin::Sql(expression.trim().to_owned()))
}

/// A path that SQLite can follow: below the root, so that it names something inside the value.
fn json_path(path: &str) -> Option<String> {
    let inside = path
        .strip_prefix("$.")
        .or_else(|| path.strip_prefix("$["))?;
    (!inside.is_empty() && !path.contains(char::is_control)).then(|| path.to_owned())
}

fn time_format(text: &str) -> Option<TimeFormat> {
    let (encoding, zone) = match text.split_once('@') {
        Some((encoding, zone)) => (encoding, Some(zone)),
        None => (text, None),
    };
    let encoding = match encoding {
        "" | ":auto" => Encoding::Auto,
        ":epoch_s" => Encoding::EpochSeconds,
        ":epoch_ms" => Encoding::EpochMillis,
        ":epoch_f" => Encoding::EpochFloat,
        ":text" => Encoding::Text,
        ":date" => Encoding::Date,
        _ => return None,
    };
    let has_zone = matches!(encoding, Encoding::Text | Encoding::Date | Encoding::Auto);
    let zone = match zone {
        Some(zone) if has_zone => zone_of(zone)?,
        Some(_) => return None,
        None => TimeZone::UTC,
    };
    Some(TimeFormat { encoding, zone })
}

/// A zone by its IANA name.
pub(super) fn zone_of(name: &str) -> Option<TimeZone> {
    TimeZone::get(name).ok().filter(|zone| !zone.is_unknown())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(encoding: Encoding, zone: &str) -> TimeFormat {
        TimeFormat {
            encoding,
            zone: TimeZone::get(zone).unwrap(),
        }
    }

    #[test]
    fn the_whole_grammar_is_read() {
        use Encoding::{Auto, Date, EpochFloat, EpochMillis, EpochSeconds, Text};
        let cases = [
            ("seen", "seen", false, None, time(Auto, "UTC")),
            ("seen?", "seen", true, None, time(Auto, "UTC")),
            ("seen:auto", "seen", false, None, time(Auto, "UTC")),
            (
                "created_at:epoch_s",
                "created_at",
                false,
                None,
                time(EpochSeconds, "UTC"),
            ),
            ("at:epoch_f", "at", false, None, time(EpochFloat, "UTC")),
            (
                "last seen:date@Asia/Tokyo",
                "last seen",
                false,
                None,
                time(Date, "Asia/Tokyo"),
            ),
            (
                "seen:text@America/Sao_Paulo",
                "seen",
                false,
                None,
                time(Text, "America/Sao_Paulo"),
            ),
            (
                "seen@Europe/Berlin",
                "seen",
                false,
                None,
                time(Auto, "Europe/Berlin"),
            ),
            (
                "meta?:json($.seen):epoch_ms",
                "meta",
                true,
                Some("$.seen"),
                time(EpochMillis, "UTC"),
            ),
            (
                "meta:json($.\"a (b)\"[0]):text@UTC",
                "meta",
                false,
                Some("$.\"a (b)\"[0]"),
                time(Text, "UTC"),
            ),
        ];
        for (text, column, optional, json, time) in cases {
            let column = column.to_owned();
            let origin = match json {
                Some(path) => Origin::Json {
                    column,
                    path: path.into(),
                },
                None => Origin::Column(column),
            };
            let expected = Source {
                origin,
                optional,
                time,
            };
            assert_eq!(parse(text, Kind::Time), Some(expected), "{text}");
        }
    }

    #[test]
    fn an_expression_is_read_up_to_its_last_parenthesis() {
        use Encoding::{Auto, Text};
        for (text, expression, optional, time) in [
            ("sql(m.a)", "m.a", false, time(Auto, "UTC")),
            (
                "sql?( max(m.a, 1) ):text@Asia/Tokyo",
                "max(m.a, 1)",
                true,
                time(Text, "Asia/Tokyo"),
            ),
        ] {
            let expected = Source {
                origin: Origin::Sql(expression.into()),
                optional,
                time,
            };
            assert_eq!(parse(text, Kind::Time), Some(expected), "{text}");
        }
        assert!(parse("sql((SELECT u.name FROM users u))", Kind::Tenant).is_some());
        for bad in [
            "sql?(m.a)",
            "sql(m.a):text",
            "sql()",
            "sql(m.a",
            "sql(a) (b)",
        ] {
            assert_eq!(parse(bad, Kind::Tenant), None, "{bad}");
        }
    }

    #[test]
    fn what_is_no_source_is_refused() {
        for bad in [
            "",
            " ",
            "?",
            ":epoch_s",
            "@UTC",
            "a:epoch",
            "a:epoch_us",
            "a:",
            "a?:",
            "a:json",
            "a:json()",
            "a:json(text)",
            "a:json($)",
            "a:json($.)",
            "a:json($.x",
            "a:json($.x)y",
            "a:json($.x):",
            "a??",
            "a@",
            "a@Mars/Olympus",
            "a@Etc/Unknown",
            "a:text@",
            "a:epoch_s@UTC",
            "a:epoch_ms@Asia/Tokyo",
            "a:text:date",
            "a:text?",
            "a\nb",
            "a:EPOCH_S",
        ] {
            assert_eq!(parse(bad, Kind::Time), None, "{bad:?}");
        }
    }

    #[test]
    fn only_times_have_encodings_and_only_the_tenant_must_exist() {
        for encoded in ["a:text", "a:auto", "a@UTC", "a:json($.x):epoch_s"] {
            assert_eq!(parse(encoded, Kind::Value), None, "{encoded}");
            assert_eq!(parse(encoded, Kind::Tenant), None, "{encoded}");
        }
        assert!(parse("meta?:json($.x)", Kind::Value).is_some());
        assert!(parse("meta:json($.x)", Kind::Tenant).is_some());
        assert_eq!(parse("user_id?", Kind::Tenant), None);
    }
}
