//! Thousands of tenants, for their figures.

use super::*;

/// Figures for many tenants: a night with few files open and little memory, and how long it takes.
fn measure(site: &Site, what: &str) {
    site.night().expect(0);
    site.at(21);
    let begun = std::time::Instant::now();
    let (night, peak) = site.bounded_night();
    let night = night.expect(0);
    println!("{what}: {:?}, {peak} KiB", begun.elapsed());
    assert!(peak < 512 << 10, "{peak} KiB");
    assert!(
        night.pass("orphans")["applied"]["drop_point"]
            .as_u64()
            .unwrap()
            > 0,
        "{night:#?}"
    );
}

/// Each of `tenants` with two memories, and every hundredth with a point that was left.
fn many(site: &Site, tenants: usize, mut put: impl FnMut(usize, Vec<(Uuid, Value)>)) {
    let mut db = site.rows();
    let tx = db.transaction().unwrap();
    for of in 0..tenants {
        let owner = user(of);
        tx.execute(
            "INSERT INTO user(id, email, name, role) VALUES(?1, ?1, 'n', 'user')",
            [&owner],
        )
        .unwrap();
        let tenant = format!("user-memory-{owner}");
        let mut points = leftovers(of, usize::from(of % 100 == 0), Some(&tenant));
        for number in 0..2 {
            let memory = id(&format!("memory/{of}"), number);
            let sql = "INSERT INTO memory(id, user_id, content, updated_at, created_at) VALUES(?1, ?2, ?1, 1780000000, 1780000000)";
            tx.execute(sql, params![memory.to_string(), owner]).unwrap();
            points.push((memory, payload("x", None, Some(&tenant), true)));
        }
        put(of, points);
    }
    tx.commit().unwrap();
}

#[test]
#[ignore = "takes minutes; prints figures"]
fn ten_thousand_tenants_in_one_collection() {
    let site = Site::new(
        "webui.db",
        presets::find("open-webui").unwrap().ddl,
        "open-webui",
        "",
    );
    site.collection(SHARED, &["tenant_id"]);
    let mut all = Vec::new();
    many(&site, 10_000, |_, points| all.extend(points));
    site.put(SHARED, &all);
    measure(&site, "10,000 tenants in one collection");
}

/// The peer keeps a file open for each collection.
fn as_many_files_as_may_be() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = rustix::process::Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}

fn collections_each(tenants: usize) -> Site {
    as_many_files_as_may_be();
    let ddl = presets::find("open-webui-collections").unwrap().ddl;
    let site = Site::new("webui.db", ddl, "open-webui-collections", "");
    many(&site, tenants, |of, points| {
        site.collection(&own(of), &[]);
        site.put(&own(of), &points);
    });
    site
}

#[test]
fn more_tenants_with_a_collection_each_than_files_may_be_open() {
    measure(&collections_each(100), "100 tenants with a collection each");
}

#[test]
#[ignore = "takes minutes; prints figures"]
fn a_thousand_tenants_with_a_collection_each() {
    measure(
        &collections_each(1_000),
        "1,000 tenants with a collection each",
    );
}
