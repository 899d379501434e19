//! The grammar of `point_id`: how the id of a point follows from its row.

use uuid::Uuid;

use super::PointRule;
use super::template::placeholders;

/// What is allowed, for messages.
pub(super) const ALLOWED: &str = "\"integer(id)\", \"uuid(id)\", \"uuid5(NS, TEMPLATE)\" with NS dns, url, oid, x500 or a UUID, \"column(NAME)\", \"column(sql(EXPRESSION))\", \
     \"payload(KEY)\" or \"payload(KEY, TEMPLATE)\"; a TEMPLATE has {id} in it, and may have {namespace} and {tenant}";

/// Reads a rule; `None` when it is not one, or when its template would give every row the same point.
pub(super) fn parse(text: &str) -> Option<PointRule> {
    let (name, arguments) = text.trim().strip_suffix(')')?.split_once('(')?;
    if name == "column" && arguments.trim_start().starts_with("sql") {
        return Some(PointRule::Column(arguments.trim().to_owned()));
    }
    let (first, second) = match arguments.split_once(',') {
        Some((first, second)) => (first.trim(), Some(second.trim())),
        None => (arguments.trim(), None),
    };
    match (name, first, second) {
        ("integer", "id", None) => Some(PointRule::Integer),
        ("uuid", "id", None) => Some(PointRule::Uuid),
        ("uuid5", namespace, Some(name)) => Some(PointRule::Uuid5 {
            namespace: uuid_namespace(namespace)?,
            template: template(name)?,
        }),
        ("column", column, None) if is_name(column) => Some(PointRule::Column(column.to_owned())),
        ("payload", key, name) if is_name(key) => Some(PointRule::Payload {
            key: key.to_owned(),
            template: template(name.unwrap_or("{id}"))?,
        }),
        _ => None,
    }
}

fn uuid_namespace(name: &str) -> Option<Uuid> {
    match name {
        "dns" => Some(Uuid::NAMESPACE_DNS),
        "url" => Some(Uuid::NAMESPACE_URL),
        "oid" => Some(Uuid::NAMESPACE_OID),
        "x500" => Some(Uuid::NAMESPACE_X500),
        other => Uuid::try_parse(other).ok(),
    }
}

/// A template that tells rows apart.
fn template(text: &str) -> Option<String> {
    let is_clean = !text.contains(char::is_control);
    (is_clean && placeholders(text)?.contains(&"id")).then(|| text.to_owned())
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.contains(|c: char| c.is_control() || matches!(c, '{' | '}' | '(' | ')'))
}

/// The template of a rule, where it has one.
pub(super) fn template_of(rule: &PointRule) -> Option<&str> {
    match rule {
        PointRule::Uuid5 { template, .. } | PointRule::Payload { template, .. } => Some(template),
        PointRule::Integer | PointRule::Uuid | PointRule::Column(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_read() {
        let uuid5 = |namespace, template: &str| PointRule::Uuid5 {
            namespace,
            template: template.into(),
        };
        let payload = |key: &str, template: &str| PointRule::Payload {
            key: key.into(),
            template: template.into(),
        };
        let own = Uuid::from_u128(0x3896_d314_1e95_4a3a_b45a_945f_9f0b_541d);
        for (text, rule) in [
            ("integer(id)", PointRule::Integer),
            (" uuid( id ) ", PointRule::Uuid),
            (
                "uuid5(dns, {namespace}::{id})",
                uuid5(Uuid::NAMESPACE_DNS, "{namespace}::{id}"),
            ),
            (
                "uuid5(url,a, (b) {tenant}/{id})",
                uuid5(Uuid::NAMESPACE_URL, "a, (b) {tenant}/{id}"),
            ),
            ("uuid5(oid, {id})", uuid5(Uuid::NAMESPACE_OID, "{id}")),
            ("uuid5(x500, {id})", uuid5(Uuid::NAMESPACE_X500, "{id}")),
            (
                "uuid5(3896d314-1e95-4a3a-b45a-945f9f0b541d, {id})",
                uuid5(own, "{id}"),
            ),
            ("column(point_id)", PointRule::Column("point_id".into())),
            (
                "column(sql(iif(m.a, m.b, m.c)))",
                PointRule::Column("sql(iif(m.a, m.b, m.c))".into()),
            ),
            ("payload(doc_id)", payload("doc_id", "{id}")),
            (
                "payload(meta.key, note:{id})",
                payload("meta.key", "note:{id}"),
            ),
        ] {
            assert_eq!(parse(text), Some(rule), "{text}");
        }
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for bad in [
            "",
            "id",
            "integer",
            "integer()",
            "integer(key)",
            "integer(id",
            "integer(id, x)",
            "Integer(id)",
            "uuid(key)",
            "uuid5(dns)",
            "uuid5(dns, )",
            "uuid5(dns, fixed)",
            "uuid5(dns, {tenant})",
            "uuid5(dns, {key})",
            "uuid5(dns, {id)",
            "uuid5(mars, {id})",
            "uuid5(, {id})",
            "uuid4(id)",
            "column()",
            "column(a, b)",
            "column({id})",
            "payload()",
            "payload(doc_id, )",
            "payload(doc_id, {tenant})",
            "payload({id})",
            "(id)",
            "uuid(id) # text",
        ] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
