//! Lists of memories in a store that shares its collection.

use super::*;

const SHARED: &str = "where = { kind = \"memory\" }\n\
    [pass.orphans]\nsettle = \"0s\"\nmin_age = \"0s\"";

/// What is of another kind is no memory, and is there all the same: nothing is planned that could not be done.
#[test]
fn the_id_of_a_point_of_another_kind_stays_in_a_list() {
    let of_kind = |number: u32, kind: &str| {
        let payload = with(memory(number), &json!({"user_id": "ana", "kind": kind}));
        point(id(number), number, payload)
    };
    let points = [of_kind(2, "memory"), of_kind(3, "document")];
    let lists = [
        json!([id(2), id(3)]),
        json!([id(3)]),
        json!([id(3), id(99), id(2)]),
    ];
    let numbered = (1..).zip(&lists);
    let entities: Vec<NewPoint> = numbered.map(|(n, list)| entity(n, list, &ana())).collect();
    let store = PointStore::at(&url(), &rest_url());
    let linked = Linked::configured(store, &points, &entities, &format!("{SHARED}\n{CALM}"));
    let memories = linked.store.memories();
    assert_eq!(linked.drift(), 1);
    let night = linked.store.night().expect(0);
    let orphans = night.pass("orphans");
    assert_eq!(orphans["planned"], json!({"unlink": 1}), "{orphans:#}");
    assert_eq!(orphans["applied"], json!({"unlink": 1}), "{orphans:#}");
    let left: Vec<Value> = linked.lists().into_values().collect();
    let expected = [lists[0].clone(), lists[1].clone(), json!([id(3), id(2)])];
    assert_eq!(left, expected);
    assert_eq!(linked.store.memories(), memories);
    is_idle(&linked.store.night().expect(0));
    assert_eq!(linked.drift(), 0);
}
