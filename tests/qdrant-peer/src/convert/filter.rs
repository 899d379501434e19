//! Filters and the other selectors of a read.

use qdrant_client::qdrant as grpc;
use qdrant_client::qdrant::condition::ConditionOneOf;
use qdrant_client::qdrant::r#match::MatchValue;
use qdrant_client::qdrant::points_selector::PointsSelectorOneOf;
use qdrant_client::qdrant::{start_from, with_payload_selector, with_vectors_selector};
use qdrant_edge::{
    Direction, Filter, OrderBy, PayloadSelector, PayloadSelectorExclude, PayloadSelectorInclude,
    PointId, WithPayloadInterface, WithVector,
};
use serde_json::{Map, Value, json};
use tonic::Status;

use super::payload::number;
use super::{from_rest, json_path, point_id, point_ids};
use crate::error::{Answer, unsupported};

/// The points a write is about.
pub(crate) enum Selected {
    Ids(Vec<PointId>),
    Filter(Filter),
}

impl Selected {
    /// The two optional fields of the engine's payload operations.
    pub(crate) fn into_parts(self) -> (Option<Vec<PointId>>, Option<Filter>) {
        match self {
            Self::Ids(ids) => (Some(ids), None),
            Self::Filter(filter) => (None, Some(filter)),
        }
    }

    /// The filter, if that is what selects.
    pub(crate) fn filter(&self) -> Option<&Filter> {
        match self {
            Self::Ids(_) => None,
            Self::Filter(filter) => Some(filter),
        }
    }
}

pub(crate) fn selected(selector: grpc::PointsSelector) -> Answer<Selected> {
    match selector.points_selector_one_of {
        Some(PointsSelectorOneOf::Points(list)) => point_ids(list.ids).map(Selected::Ids),
        Some(PointsSelectorOneOf::Filter(given)) => filter(given).map(Selected::Filter),
        None => Err(Status::invalid_argument("Malformed PointsSelector type")),
    }
}

pub(crate) fn with_payload(selector: grpc::WithPayloadSelector) -> Answer<WithPayloadInterface> {
    use with_payload_selector::SelectorOptions;
    let paths = |fields: Vec<String>| {
        fields
            .iter()
            .map(|field| json_path(field))
            .collect::<Answer<Vec<_>>>()
    };
    Ok(match selector.selector_options {
        Some(SelectorOptions::Enable(flag)) => WithPayloadInterface::Bool(flag),
        Some(SelectorOptions::Include(include)) => WithPayloadInterface::Selector(
            PayloadSelector::Include(PayloadSelectorInclude::new(paths(include.fields)?)),
        ),
        Some(SelectorOptions::Exclude(exclude)) => WithPayloadInterface::Selector(
            PayloadSelector::Exclude(PayloadSelectorExclude::new(paths(exclude.fields)?)),
        ),
        None => return Err(Status::invalid_argument("No PayloadSelector")),
    })
}

pub(crate) fn with_vectors(selector: Option<grpc::WithVectorsSelector>) -> WithVector {
    use with_vectors_selector::SelectorOptions;
    match selector.and_then(|selector| selector.selector_options) {
        None => WithVector::Bool(false),
        Some(SelectorOptions::Enable(flag)) => WithVector::Bool(flag),
        Some(SelectorOptions::Include(include)) => WithVector::Selector(include.names),
    }
}

pub(crate) fn order_by(order: grpc::OrderBy) -> Answer<OrderBy> {
    let direction = order
        .direction
        .map(|direction| match grpc::Direction::try_from(direction) {
            Ok(grpc::Direction::Desc) => Direction::Desc,
            Ok(grpc::Direction::Asc) | Err(_) => Direction::Asc,
        });
    let start_from = order
        .start_from
        .and_then(|start| start.value)
        .map(|start| {
            let value = match start {
                start_from::Value::Float(float) => number(float)?,
                start_from::Value::Integer(integer) => Value::from(integer),
                start_from::Value::Timestamp(timestamp) => Value::String(timestamp.to_string()),
                start_from::Value::Datetime(text) => Value::String(text),
            };
            from_rest("start_from", value)
        })
        .transpose()?;
    Ok(OrderBy {
        key: json_path(&order.key)?,
        direction,
        start_from,
    })
}

/// A filter, by way of its REST form.
pub(crate) fn filter(filter: grpc::Filter) -> Answer<Filter> {
    from_rest("filter", filter_json(filter)?)
}

pub(crate) fn optional_filter(given: Option<grpc::Filter>) -> Answer<Option<Filter>> {
    given.map(filter).transpose()
}

fn filter_json(filter: grpc::Filter) -> Answer<Value> {
    let mut json = Map::new();
    for (clause, conditions) in [
        ("must", filter.must),
        ("should", filter.should),
        ("must_not", filter.must_not),
    ] {
        let conditions = conditions_json(conditions)?;
        if !conditions.is_empty() {
            json.insert(clause.to_owned(), Value::Array(conditions));
        }
    }
    if let Some(min_should) = filter.min_should {
        let conditions = conditions_json(min_should.conditions)?;
        json.insert(
            "min_should".to_owned(),
            json!({ "conditions": conditions, "min_count": min_should.min_count }),
        );
    }
    Ok(Value::Object(json))
}

/// The server leaves empty conditions out.
fn conditions_json(conditions: Vec<grpc::Condition>) -> Answer<Vec<Value>> {
    conditions
        .into_iter()
        .filter_map(|condition| condition.condition_one_of)
        .map(condition_json)
        .collect()
}

fn condition_json(condition: ConditionOneOf) -> Answer<Value> {
    Ok(match condition {
        ConditionOneOf::Field(field) => field_json(field)?,
        ConditionOneOf::IsEmpty(empty) => json!({ "is_empty": { "key": checked(empty.key)? } }),
        ConditionOneOf::IsNull(null) => json!({ "is_null": { "key": checked(null.key)? } }),
        ConditionOneOf::HasId(ids) => json!({ "has_id": ids_json(ids.has_id)? }),
        ConditionOneOf::HasVector(vector) => json!({ "has_vector": vector.has_vector }),
        ConditionOneOf::Filter(filter) => filter_json(filter)?,
        ConditionOneOf::Nested(nested) => {
            let filter = nested
                .filter
                .ok_or_else(|| Status::invalid_argument("Nested condition must have a filter"))?;
            json!({ "nested": { "key": checked(nested.key)?, "filter": filter_json(filter)? } })
        }
        ConditionOneOf::Slice(_) => return Err(unsupported("slice conditions")),
    })
}

fn field_json(field: grpc::FieldCondition) -> Answer<Value> {
    let mut json = Map::new();
    json.insert("key".to_owned(), Value::String(checked(field.key)?));
    let mut set = |name: &str, value: Value| {
        json.insert(name.to_owned(), value);
    };
    if let Some(given) = field.r#match {
        set("match", match_json(given)?);
    }
    // A numeric range wins over one of times, as on the server.
    match (field.range, field.datetime_range) {
        (Some(range), _) => set(
            "range",
            range_json([range.lt, range.gt, range.gte, range.lte], number)?,
        ),
        (None, Some(range)) => set(
            "range",
            range_json([range.lt, range.gt, range.gte, range.lte], |time| {
                Ok(Value::String(time.to_string()))
            })?,
        ),
        (None, None) => {}
    }
    if let Some(count) = field.values_count {
        set(
            "values_count",
            range_json([count.lt, count.gt, count.gte, count.lte], |count| {
                Ok(Value::from(count))
            })?,
        );
    }
    if let Some(flag) = field.is_empty {
        set("is_empty", Value::Bool(flag));
    }
    if let Some(flag) = field.is_null {
        set("is_null", Value::Bool(flag));
    }
    if let Some(bounds) = field.geo_bounding_box {
        let (Some(top_left), Some(bottom_right)) = (bounds.top_left, bounds.bottom_right) else {
            return Err(Status::invalid_argument("Malformed GeoBoundingBox type"));
        };
        set(
            "geo_bounding_box",
            json!({ "top_left": geo_json(top_left)?, "bottom_right": geo_json(bottom_right)? }),
        );
    }
    if let Some(circle) = field.geo_radius {
        let Some(center) = circle.center else {
            return Err(Status::invalid_argument("Malformed GeoRadius type"));
        };
        let radius = number(f64::from(circle.radius))?;
        set(
            "geo_radius",
            json!({ "center": geo_json(center)?, "radius": radius }),
        );
    }
    if let Some(polygon) = field.geo_polygon {
        let Some(exterior) = polygon.exterior else {
            return Err(Status::invalid_argument(
                "Malformed GeoPolygon type - field `exterior` is required",
            ));
        };
        let interiors = polygon
            .interiors
            .into_iter()
            .map(line_json)
            .collect::<Answer<Vec<_>>>()?;
        set(
            "geo_polygon",
            json!({ "exterior": line_json(exterior)?, "interiors": interiors }),
        );
    }
    Ok(Value::Object(json))
}

fn match_json(given: grpc::Match) -> Answer<Value> {
    Ok(match given.match_value {
        Some(MatchValue::Keyword(keyword)) => json!({ "value": keyword }),
        Some(MatchValue::Integer(integer)) => json!({ "value": integer }),
        Some(MatchValue::Boolean(flag)) => json!({ "value": flag }),
        Some(MatchValue::Text(text)) => json!({ "text": text }),
        Some(MatchValue::TextAny(text)) => json!({ "text_any": text }),
        Some(MatchValue::Phrase(phrase)) => json!({ "phrase": phrase }),
        Some(MatchValue::Keywords(any)) => json!({ "any": any.strings }),
        Some(MatchValue::Integers(any)) => json!({ "any": any.integers }),
        Some(MatchValue::ExceptKeywords(except)) => json!({ "except": except.strings }),
        Some(MatchValue::ExceptIntegers(except)) => json!({ "except": except.integers }),
        Some(MatchValue::Prefix(_) | MatchValue::Substring(_)) | None => {
            return Err(Status::invalid_argument("Malformed Match condition"));
        }
    })
}

/// The bounds that are given, in the order less, greater, greater or equal, less or equal.
fn range_json<T>(bounds: [Option<T>; 4], json: impl Fn(T) -> Answer<Value>) -> Answer<Value> {
    let mut range = Map::new();
    for (name, bound) in ["lt", "gt", "gte", "lte"].into_iter().zip(bounds) {
        if let Some(bound) = bound {
            range.insert(name.to_owned(), json(bound)?);
        }
    }
    Ok(Value::Object(range))
}

fn geo_json(point: grpc::GeoPoint) -> Answer<Value> {
    Ok(json!({ "lon": number(point.lon)?, "lat": number(point.lat)? }))
}

fn line_json(line: grpc::GeoLineString) -> Answer<Value> {
    let points = line
        .points
        .into_iter()
        .map(geo_json)
        .collect::<Answer<Vec<_>>>()?;
    Ok(json!({ "points": points }))
}

fn ids_json(ids: Vec<grpc::PointId>) -> Answer<Vec<Value>> {
    ids.into_iter()
        .map(|id| {
            Ok(match point_id(id)? {
                PointId::NumId(number) => Value::from(number),
                PointId::Uuid(uuid) => Value::String(uuid.to_string()),
            })
        })
        .collect()
}

/// A payload key that is a path.
fn checked(key: String) -> Answer<String> {
    drop(json_path(&key)?);
    Ok(key)
}
