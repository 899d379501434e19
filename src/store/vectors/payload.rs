//! Payload keys: paths into the JSON of a point, such as `namespace` or `metadata.doc_id`.

use serde_json::{Map, Value};

use crate::config::PayloadFilter;

/// Whether a payload has what a filter asks for: at each key one of its values, alone or as the only one of a list.
pub(crate) fn admits(filter: &PayloadFilter, payload: &Map<String, Value>) -> bool {
    filter.keys.iter().all(|(key, values)| {
        let value = match lookup(payload, key) {
            Some(Value::Array(list)) if list.len() == 1 => list.first(),
            value => value,
        };
        value.is_some_and(|value| values.iter().any(|wanted| wanted.is(value)))
    })
}

/// The value at `key`, where a dot steps into an object, as in Qdrant.
pub(crate) fn lookup<'a>(payload: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    let mut steps = key.split('.');
    let first = payload.get(steps.next()?)?;
    steps.try_fold(first, |value, step| value.get(step))
}

/// Those of `keys` that `payload` has, each under the name that was asked for.
pub(crate) fn select(payload: &Map<String, Value>, keys: &[&str]) -> Map<String, Value> {
    keys.iter()
        .filter_map(|key| Some(((*key).to_owned(), lookup(payload, key)?.clone())))
        .collect()
}

/// The text by which a value is found: a string as it is, an integer in decimal digits, nothing else.
pub(crate) fn search_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if number.is_i64() || number.is_u64() => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::Scalar;

    #[test]
    fn a_filter_admits_what_has_one_of_its_values_and_no_other() {
        let filter = PayloadFilter {
            keys: vec![
                (
                    "m.kind".into(),
                    vec![Scalar::Text("memory".into()), Scalar::Integer(7)],
                ),
                ("ok".into(), vec![Scalar::Bool(true)]),
            ],
        };
        for (payload, is_ours) in [
            (json!({"m": {"kind": "memory"}, "ok": true}), true),
            (json!({"m": {"kind": 7}, "ok": [true]}), true),
            (json!({"m": {"kind": "7"}, "ok": true}), false),
            (json!({"m": {"kind": 7.0}, "ok": true}), false),
            (json!({"m": {"kind": "Memory"}, "ok": true}), false),
            (
                json!({"m": {"kind": ["memory", "file"]}, "ok": true}),
                false,
            ),
            (json!({"m": {"kind": []}, "ok": true}), false),
            (json!({"m": {"kind": null}, "ok": true}), false),
            (json!({"m": {"kind": "memory"}}), false),
            (json!({"m": {"kind": "memory"}, "ok": "true"}), false),
            (json!({"m.kind": "memory", "ok": true}), false),
            (json!({}), false),
        ] {
            let payload = payload.as_object().unwrap();
            assert_eq!(admits(&filter, payload), is_ours, "{payload:?}");
            assert!(admits(&PayloadFilter::default(), payload));
        }
    }

    #[test]
    fn keys_step_into_objects_and_keep_their_names() {
        let payload = json!({"a": 1, "m": {"doc": "x", "n": null}, "list": [1], "": "empty"});
        let payload = payload.as_object().unwrap();
        let selected = select(
            payload,
            &["a", "m.doc", "m.n", "m.none", "a.b", "list.0", "z", ""],
        );
        assert_eq!(
            Value::Object(selected),
            json!({"a": 1, "m.doc": "x", "m.n": null, "": "empty"})
        );
    }

    #[test]
    fn only_text_and_integers_are_searched() {
        for (value, text) in [
            (json!("7"), Some("7")),
            (json!(7), Some("7")),
            (json!(-7), Some("-7")),
            (json!(7.5), None),
            (json!(7.0), None),
            (json!(true), None),
            (json!(null), None),
            (json!(["7"]), None),
        ] {
            assert_eq!(search_text(&value).as_deref(), text, "{value}");
        }
    }
}
