//! Strict mode: what a collection refuses although the engine could do it.

use qdrant_client::qdrant::StrictModeConfig;
use qdrant_edge::external::uuid::Uuid;
use qdrant_edge::{
    AnyVariants, Condition, FieldCondition, Filter, JsonPath, Match, PayloadSchemaType,
    RangeInterface, ValueVariants,
};
use tonic::Status;

use crate::collection::Collection;
use crate::convert::wide;
use crate::error::{Answer, bad_request, unsupported};

const ALL_TYPES: [PayloadSchemaType; 8] = [
    PayloadSchemaType::Bool,
    PayloadSchemaType::Datetime,
    PayloadSchemaType::Float,
    PayloadSchemaType::Geo,
    PayloadSchemaType::Integer,
    PayloadSchemaType::Keyword,
    PayloadSchemaType::Text,
    PayloadSchemaType::Uuid,
];

/// Refuses a config with a limit that the peer would not enforce.
pub(crate) fn check_supported(config: &StrictModeConfig) -> Answer<()> {
    let enforced = StrictModeConfig {
        enabled: config.enabled,
        max_query_limit: config.max_query_limit,
        unindexed_filtering_retrieve: config.unindexed_filtering_retrieve,
        unindexed_filtering_update: config.unindexed_filtering_update,
        search_allow_exact: config.search_allow_exact,
        upsert_max_batchsize: config.upsert_max_batchsize,
        search_max_batchsize: config.search_max_batchsize,
        ..StrictModeConfig::default()
    };
    if *config == enforced {
        Ok(())
    } else {
        Err(unsupported("this strict mode limit"))
    }
}

/// A change of a strict mode config: what it leaves open stays.
pub(crate) fn merged(old: StrictModeConfig, new: &StrictModeConfig) -> StrictModeConfig {
    StrictModeConfig {
        enabled: new.enabled.or(old.enabled),
        max_query_limit: new.max_query_limit.or(old.max_query_limit),
        unindexed_filtering_retrieve: new
            .unindexed_filtering_retrieve
            .or(old.unindexed_filtering_retrieve),
        unindexed_filtering_update: new
            .unindexed_filtering_update
            .or(old.unindexed_filtering_update),
        search_allow_exact: new.search_allow_exact.or(old.search_allow_exact),
        upsert_max_batchsize: new.upsert_max_batchsize.or(old.upsert_max_batchsize),
        search_max_batchsize: new.search_max_batchsize.or(old.search_max_batchsize),
        ..old
    }
}

/// The parts of a read that strict mode looks at.
#[derive(Debug, Default)]
pub(crate) struct Read<'a> {
    pub(crate) limit: Option<usize>,
    pub(crate) filter: Option<&'a Filter>,
    pub(crate) exact: bool,
}

pub(crate) fn check_read(collection: &Collection, read: &Read<'_>) -> Answer<()> {
    let Some(mode) = collection.strict_mode() else {
        return Ok(());
    };
    if let Some(limit) = read.limit {
        check_limit(wide(limit), mode.max_query_limit.map(u64::from), "limit")?;
    }
    if mode.unindexed_filtering_retrieve == Some(false) {
        check_filter(collection, read.filter)?;
    }
    if read.exact && mode.search_allow_exact == Some(false) {
        return Err(refused("Exact search disabled!", "Set exact=false."));
    }
    Ok(())
}

pub(crate) fn check_write(collection: &Collection, filter: Option<&Filter>) -> Answer<()> {
    match collection.strict_mode() {
        Some(mode) if mode.unindexed_filtering_update == Some(false) => {
            check_filter(collection, filter)
        }
        _ => Ok(()),
    }
}

/// A batch of points to write, `name` being what the message calls it.
pub(crate) fn check_batch(collection: &Collection, points: usize, name: &str) -> Answer<()> {
    let limit = collection
        .strict_mode()
        .and_then(|mode| mode.upsert_max_batchsize);
    check_limit(wide(points), limit, name)
}

pub(crate) fn check_searches(collection: &Collection, searches: usize) -> Answer<()> {
    let limit = collection
        .strict_mode()
        .and_then(|mode| mode.search_max_batchsize);
    check_limit(wide(searches), limit, "search batch size")
}

fn check_limit(value: u64, limit: Option<u64>, name: &str) -> Answer<()> {
    match limit {
        Some(limit) if value > limit => Err(refused(
            format!("Limit exceeded {value} > {limit} for \"{name}\""),
            format!("Reduce the \"{name}\" parameter to or below {limit}."),
        )),
        _ => Ok(()),
    }
}

fn check_filter(collection: &Collection, filter: Option<&Filter>) -> Answer<()> {
    let Some(filter) = filter else {
        return Ok(());
    };
    let schema = collection.info().payload_schema;
    let indexed = |key: &JsonPath| schema.get(key).map(|info| info.data_type);
    match unindexed_in(None, filter, &indexed) {
        None => Ok(()),
        Some((key, types)) => {
            let mut names: Vec<_> = types.iter().map(PayloadSchemaType::name).collect();
            names.sort_unstable();
            names.dedup();
            let names = names.join(", ");
            Err(refused(
                format!(
                    "Index required but not found for \"{key}\" of one of the following types: [{names}]"
                ),
                "Create an index for this key or use a different filter.",
            ))
        }
    }
}

fn refused(problem: impl std::fmt::Display, help: impl std::fmt::Display) -> Status {
    bad_request(format!("{problem}. Help: {help}"))
}

/// A key without an index, and the types of index that would do.
type Unindexed = Option<(JsonPath, Vec<PayloadSchemaType>)>;

/// The first key of a filter that no index serves.
fn unindexed_in(
    prefix: Option<&JsonPath>,
    filter: &Filter,
    indexed: &dyn Fn(&JsonPath) -> Option<PayloadSchemaType>,
) -> Unindexed {
    let min_should = filter.min_should.as_ref().map(|min| &min.conditions);
    [
        filter.must.as_ref(),
        filter.should.as_ref(),
        min_should,
        filter.must_not.as_ref(),
    ]
    .into_iter()
    .flatten()
    .flatten()
    .find_map(|condition| unindexed_condition(prefix, condition, indexed))
}

fn unindexed_condition(
    prefix: Option<&JsonPath>,
    condition: &Condition,
    indexed: &dyn Fn(&JsonPath) -> Option<PayloadSchemaType>,
) -> Unindexed {
    let (key, types) = match condition {
        Condition::Field(field) => (&field.key, types_for(field)),
        Condition::IsEmpty(empty) => (&empty.is_empty.key, ALL_TYPES.to_vec()),
        Condition::IsNull(null) => (&null.is_null.key, ALL_TYPES.to_vec()),
        Condition::Filter(filter) => return unindexed_in(prefix, filter, indexed),
        Condition::Nested(nested) => {
            let prefix = JsonPath::extend_or_new(prefix, nested.raw_key());
            return unindexed_in(Some(&prefix), nested.filter(), indexed);
        }
        Condition::HasId(_) | Condition::HasVector(_) | Condition::CustomIdChecker(_) => {
            return None;
        }
    };
    let key = JsonPath::extend_or_new(prefix, key);
    let served = indexed(&key).is_some_and(|kind| types.contains(&kind));
    (!served).then_some((key, types))
}

/// The types of index that serve a condition on a field.
fn types_for(field: &FieldCondition) -> Vec<PayloadSchemaType> {
    let mut types = Vec::new();
    match &field.r#match {
        None => {}
        Some(Match::Value(value)) => match &value.value {
            ValueVariants::String(text) => types.extend(keyword_types([text])),
            ValueVariants::Integer(_) => types.push(PayloadSchemaType::Integer),
            ValueVariants::Bool(_) => types.push(PayloadSchemaType::Bool),
        },
        Some(Match::Any(any)) => types.extend(variant_types(&any.any)),
        Some(Match::Except(except)) => types.extend(variant_types(&except.except)),
        Some(Match::Text(_) | Match::TextAny(_) | Match::Phrase(_)) => {
            types.push(PayloadSchemaType::Text);
        }
    }
    match field.range {
        None => {}
        Some(RangeInterface::DateTime(_)) => types.push(PayloadSchemaType::Datetime),
        Some(RangeInterface::Float(_)) => {
            types.extend([PayloadSchemaType::Float, PayloadSchemaType::Integer]);
        }
    }
    if field.geo_bounding_box.is_some() || field.geo_radius.is_some() || field.geo_polygon.is_some()
    {
        types.push(PayloadSchemaType::Geo);
    }
    if field.values_count.is_some() || field.is_empty.is_some() || field.is_null.is_some() {
        types.extend(ALL_TYPES);
    }
    types
}

fn variant_types(variants: &AnyVariants) -> Vec<PayloadSchemaType> {
    match variants {
        AnyVariants::Strings(texts) => keyword_types(texts),
        AnyVariants::Integers(_) => vec![PayloadSchemaType::Integer],
    }
}

/// Keywords, and uuids if every text is one.
fn keyword_types<'a>(texts: impl IntoIterator<Item = &'a String>) -> Vec<PayloadSchemaType> {
    let mut types = vec![PayloadSchemaType::Keyword];
    if texts.into_iter().all(|text| Uuid::parse_str(text).is_ok()) {
        types.push(PayloadSchemaType::Uuid);
    }
    types
}
