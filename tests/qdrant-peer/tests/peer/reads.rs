//! Filters, pages, counts, facets, searches.

use std::collections::{BTreeMap, HashMap};

use qdrant_client::Qdrant;
use qdrant_client::qdrant::{
    Condition, CountPointsBuilder, CreateFieldIndexCollectionBuilder, DatetimeRange, Direction,
    Distance, FacetCountsBuilder, FieldType, Filter, GeoBoundingBox, GeoPoint, GeoRadius,
    GetPointsBuilder, OrderByBuilder, PayloadExcludeSelector, PayloadIncludeSelector, PointId,
    PointStruct, QueryPointsBuilder, Range, ScrollPointsBuilder, SearchPointsBuilder, Timestamp,
    ValuesCount, facet_value,
};
use qdrant_peer::Code;
use serde_json::json;

use crate::{NAME, ids, numbers, payload, point, refusal, upsert, with_collection};

async fn matching(client: &Qdrant, filter: Filter) -> Vec<PointId> {
    let scroll = ScrollPointsBuilder::new(NAME).filter(filter).limit(100);
    ids(&client.scroll(scroll).await.unwrap().result)
}

async fn index(client: &Qdrant, key: &str, kind: FieldType) {
    client
        .create_field_index(CreateFieldIndexCollectionBuilder::new(NAME, key, kind).wait(true))
        .await
        .unwrap();
}

fn keyword(key: &str, value: &str) -> Condition {
    Condition::matches(key, value.to_owned())
}

fn second(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanos: 0 }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn every_condition_selects_what_it_says() {
    let (_peer, client) = with_collection(2, Distance::Dot).await;
    let points = [
        json!({"ns": "user:a", "n": 1, "f": 0.5, "flag": true, "at": "2026-03-29T02:30:00Z", "tags": ["x", "y"]}),
        json!({"ns": "user:b", "n": 2, "f": 1.5, "flag": false, "at": "2026-03-29T03:30:00+01:00", "tags": []}),
        json!({"ns": "team:a", "n": 3, "f": -1.0, "at": "2027-01-01T00:00:00Z", "text": "the quick brown fox"}),
        json!({"n": null, "deep": [{"a": 1, "b": 1}, {"a": 2, "b": 2}]}),
        json!({"where": {"lon": -46.6, "lat": -23.5}, "deep": [{"a": 1, "b": 2}]}),
    ];
    let points = (1..).zip(points).map(|(id, json)| point(id, json));
    upsert(&client, points.collect()).await;

    let number = |gte: f64, lt: f64| Range {
        gte: Some(gte),
        lt: Some(lt),
        ..Range::default()
    };
    let sao_paulo = GeoPoint {
        lon: -46.6,
        lat: -23.6,
    };
    let corner = |lon, lat| Some(GeoPoint { lon, lat });
    let half_past_two = 1_774_751_400;
    let cases: Vec<(&str, Condition, Vec<u64>)> = vec![
        ("keyword", keyword("ns", "user:a"), vec![1]),
        ("integer", Condition::matches("n", 2), vec![2]),
        ("bool", Condition::matches("flag", false), vec![2]),
        ("element of a list", keyword("tags", "y"), vec![1]),
        (
            "any keyword",
            Condition::matches("ns", vec!["user:a".to_owned(), "team:a".to_owned()]),
            vec![1, 3],
        ),
        (
            "any integer",
            Condition::matches("n", vec![1, 3]),
            vec![1, 3],
        ),
        (
            "except sees no point without the key",
            {
                let except =
                    !qdrant_client::qdrant::r#match::MatchValue::from(vec!["user:a".to_owned()]);
                Condition::matches("ns", except)
            },
            vec![2, 3],
        ),
        (
            "text",
            Condition::matches_text("text", "quick brown"),
            vec![3],
        ),
        ("range", Condition::range("f", number(0.5, 1.5)), vec![1]),
        (
            "range of times",
            Condition::datetime_range(
                "at",
                DatetimeRange {
                    gte: Some(second(half_past_two)),
                    lt: Some(second(half_past_two + 1)),
                    ..DatetimeRange::default()
                },
            ),
            vec![1, 2],
        ),
        ("is_empty", Condition::is_empty("ns"), vec![4, 5]),
        (
            "is_empty of a list",
            Condition::is_empty("tags"),
            vec![2, 3, 4, 5],
        ),
        ("is_null", Condition::is_null("n"), vec![4]),
        ("has_id", Condition::has_id([2, 5, 9]), vec![2, 5]),
        (
            "values_count",
            Condition::values_count(
                "tags",
                ValuesCount {
                    gte: Some(2),
                    ..ValuesCount::default()
                },
            ),
            vec![1],
        ),
        (
            "geo radius",
            Condition::geo_radius(
                "where",
                GeoRadius {
                    center: Some(sao_paulo),
                    radius: 50_000.0,
                },
            ),
            vec![5],
        ),
        (
            "geo box",
            Condition::geo_bounding_box(
                "where",
                GeoBoundingBox {
                    top_left: corner(-47.0, -23.0),
                    bottom_right: corner(-46.0, -24.0),
                },
            ),
            vec![5],
        ),
        (
            "nested",
            Condition::nested(
                "deep",
                Filter::must([Condition::matches("a", 1), Condition::matches("b", 2)]),
            ),
            vec![5],
        ),
        (
            "a filter in a filter",
            Filter::should([keyword("ns", "user:b"), Condition::matches("n", 3)]).into(),
            vec![2, 3],
        ),
    ];
    for (name, condition, expected) in cases {
        let found = matching(&client, Filter::must([condition.clone()])).await;
        assert_eq!(found, numbers(expected.clone()), "{name}");
        let others = (1..=5).filter(|id| !expected.contains(id));
        let found = matching(&client, Filter::must_not([condition])).await;
        assert_eq!(found, numbers(others), "not {name}");
    }
    let min_should = Filter::min_should(
        2,
        vec![
            keyword("ns", "user:a"),
            Condition::matches("n", 1),
            Condition::matches("n", 2),
        ],
    );
    assert_eq!(matching(&client, min_should).await, numbers([1]));
    assert_eq!(matching(&client, Filter::default()).await, numbers(1..=5));
}

#[tokio::test]
async fn pages_cover_every_point_once_and_in_order() {
    let (_peer, client) = with_collection(2, Distance::Dot).await;
    let uuid = |n: u64| format!("00000000-0000-4000-8000-{n:012}");
    let points = (0..2_500).map(|n| match n % 2 {
        0 => point(n, json!({"n": n})),
        _ => PointStruct::new(uuid(n), vec![1.0, 0.0], payload(json!({"n": n}))),
    });
    for chunk in points.collect::<Vec<_>>().chunks(500) {
        upsert(&client, chunk.to_vec()).await;
    }
    let (mut seen, mut offset, mut pages) = (Vec::new(), None::<PointId>, 0);
    loop {
        let mut scroll = ScrollPointsBuilder::new(NAME)
            .limit(300)
            .with_payload(false);
        if let Some(offset) = offset.take() {
            scroll = scroll.offset(offset);
        }
        let page = client.scroll(scroll).await.unwrap();
        assert!(page.result.iter().all(|point| point.payload.is_empty()));
        seen.extend(ids(&page.result));
        pages += 1;
        match page.next_page_offset {
            Some(next) => offset = Some(next),
            None => break,
        }
    }
    let expected: Vec<PointId> = (0..2_500)
        .step_by(2)
        .map(PointId::from)
        .chain((1..2_500).step_by(2).map(|n| PointId::from(uuid(n))))
        .collect();
    assert_eq!(seen, expected);
    assert_eq!(pages, 9);
}

#[tokio::test]
async fn the_offset_is_the_id_to_start_with() {
    let (_peer, client) = with_collection(2, Distance::Dot).await;
    upsert(&client, (1..=5).map(|id| point(id, json!({}))).collect()).await;
    let page = client
        .scroll(ScrollPointsBuilder::new(NAME).limit(2).offset(3))
        .await
        .unwrap();
    assert_eq!(ids(&page.result), numbers([3, 4]));
    assert_eq!(page.next_page_offset, Some(5.into()));
}

#[tokio::test]
async fn order_by_needs_an_index_and_takes_no_offset() {
    let (_peer, client) = with_collection(2, Distance::Dot).await;
    let points = [(1, 30), (2, 10), (3, 20)].map(|(id, at)| point(id, json!({"at": at})));
    upsert(&client, points.to_vec()).await;
    let ordered = || {
        let order = OrderByBuilder::new("at").direction(Direction::Desc as i32);
        ScrollPointsBuilder::new(NAME).order_by(order)
    };
    let (code, message) = refusal(client.scroll(ordered()).await);
    assert_eq!(code, Code::InvalidArgument);
    assert!(
        message.starts_with("Wrong input: No range index for `order_by` key: `at`."),
        "{message}"
    );
    index(&client, "at", FieldType::Integer).await;
    let page = client.scroll(ordered()).await.unwrap();
    assert_eq!(ids(&page.result), numbers([1, 3, 2]));
    assert_eq!(page.next_page_offset, None);
    let (_, message) = refusal(client.scroll(ordered().offset(1)).await);
    assert!(
        message.starts_with("Wrong input: Cannot use an `offset` when using `order_by`."),
        "{message}"
    );
}

#[tokio::test]
async fn payload_selectors_include_and_exclude() {
    let (_peer, client) = with_collection(2, Distance::Dot).await;
    upsert(
        &client,
        vec![point(1, json!({"a": 1, "b": {"c": 2, "d": 3}}))],
    )
    .await;
    let scroll = ScrollPointsBuilder::new(NAME);
    let include = scroll.clone().with_payload(PayloadIncludeSelector {
        fields: vec!["b.c".to_owned()],
    });
    let exclude = scroll.clone().with_payload(PayloadExcludeSelector {
        fields: vec!["b.c".to_owned()],
    });
    let expected = |json| HashMap::from(payload(json));
    let all = client.scroll(scroll).await.unwrap().result;
    assert_eq!(
        all[0].payload,
        expected(json!({"a": 1, "b": {"c": 2, "d": 3}}))
    );
    assert!(all[0].vectors.is_none());
    let included = client.scroll(include).await.unwrap().result;
    assert_eq!(included[0].payload, expected(json!({"b": {"c": 2}})));
    let excluded = client.scroll(exclude).await.unwrap().result;
    assert_eq!(
        excluded[0].payload,
        expected(json!({"a": 1, "b": {"d": 3}}))
    );
    let got = client
        .get_points(GetPointsBuilder::new(NAME, numbers([1])))
        .await
        .unwrap()
        .result;
    assert_eq!(
        got[0].payload,
        HashMap::new(),
        "without a selector a get brings no payload"
    );
}

#[tokio::test]
async fn counts_are_exact() {
    let (_peer, client) = with_collection(2, Distance::Dot).await;
    upsert(
        &client,
        (0..100)
            .map(|id| point(id, json!({"even": id % 2 == 0})))
            .collect(),
    )
    .await;
    let count = async |request: CountPointsBuilder| {
        client.count(request).await.unwrap().result.unwrap().count
    };
    let all = CountPointsBuilder::new(NAME).exact(true);
    assert_eq!(count(all.clone()).await, 100);
    let even = Filter::must([Condition::matches("even", true)]);
    assert_eq!(count(all.filter(even)).await, 50);
}

#[tokio::test]
async fn facets_need_an_index_and_count_every_value() {
    let (_peer, client) = with_collection(2, Distance::Dot).await;
    let points = (0..60).map(|id| point(id, json!({"ns": format!("user:{}", id % 15)})));
    upsert(&client, points.chain([point(99, json!({}))]).collect()).await;
    let facet = || FacetCountsBuilder::new(NAME, "ns").exact(true);
    let (code, message) = refusal(client.facet(facet()).await);
    assert_eq!(code, Code::InvalidArgument);
    assert_eq!(
        message,
        "Wrong input: No appropriate index for faceting: `ns`. Please create one to facet on this field. Check \
         https://qdrant.tech/documentation/concepts/indexing/#payload-index to see which payload schemas support Match \
         conditions"
    );
    index(&client, "ns", FieldType::Keyword).await;
    let hits = client.facet(facet().limit(100)).await.unwrap().hits;
    let counts: BTreeMap<String, u64> = hits
        .into_iter()
        .map(|hit| match hit.value.unwrap().variant.unwrap() {
            facet_value::Variant::StringValue(value) => (value, hit.count),
            other => panic!("not a keyword: {other:?}"),
        })
        .collect();
    assert_eq!(counts, (0..15).map(|n| (format!("user:{n}"), 4)).collect());
    let default = client
        .facet(FacetCountsBuilder::new(NAME, "ns"))
        .await
        .unwrap();
    assert_eq!(default.hits.len(), 10);
    let one = Filter::must([keyword("ns", "user:3")]);
    let filtered = client.facet(facet().filter(one)).await.unwrap().hits;
    assert_eq!(filtered.len(), 1);
}

#[tokio::test]
async fn searches_rank_by_distance_within_the_filter() {
    let (_peer, client) = with_collection(2, Distance::Cosine).await;
    let points = [
        (1, [1.0, 0.0]),
        (2, [1.0, 1.0]),
        (3, [0.0, 1.0]),
        (4, [-1.0, 0.0]),
    ]
    .map(|(id, vector): (u64, [f32; 2])| {
        PointStruct::new(id, vector.to_vec(), payload(json!({"n": id})))
    });
    upsert(&client, points.to_vec()).await;
    let found = |points: Vec<qdrant_client::qdrant::ScoredPoint>| {
        points
            .into_iter()
            .map(|point| (point.id.unwrap(), point.score))
            .collect::<Vec<_>>()
    };
    let close = |found: Vec<(PointId, f32)>, expected: &[(u64, f32)]| {
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((id, score), (expected_id, expected_score)) in found.iter().zip(expected) {
            assert_eq!(*id, PointId::from(*expected_id));
            assert!(
                (score - expected_score).abs() < 1e-6,
                "{score} for {expected_score}"
            );
        }
    };
    let half = std::f32::consts::FRAC_1_SQRT_2;
    let search = SearchPointsBuilder::new(NAME, vec![5.0, 0.0], 3);
    close(
        found(client.search_points(search).await.unwrap().result),
        &[(1, 1.0), (2, half), (3, 0.0)],
    );
    let query = QueryPointsBuilder::new(NAME).query(vec![5.0, 0.0]);
    let filtered = query
        .clone()
        .filter(Filter::must_not([Condition::matches("n", 1)]))
        .score_threshold(0.5);
    close(
        found(client.query(filtered).await.unwrap().result),
        &[(2, half)],
    );
    close(
        found(client.query(query.limit(1).offset(1)).await.unwrap().result),
        &[(2, half)],
    );
    let by_id = QueryPointsBuilder::new(NAME)
        .query(PointId::from(1))
        .limit(2);
    close(
        found(client.query(by_id).await.unwrap().result),
        &[(2, half), (3, 0.0)],
    );
}
