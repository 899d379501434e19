//! Stores that are found on a server.

use super::*;

/// A server of its own, for what must see no other collection.
fn own_server(collections: &[(&str, serde_json::Value)]) -> (Peer, PointStore) {
    let peer = Peer::start();
    let mut store = PointStore::at(&peer.url(), &peer.rest_url());
    for (name, payload) in collections {
        store.create(name, DIM.into(), None);
        let points: Vec<NewPoint> = (1..=5)
            .map(|n| {
                NewPoint::new(
                    uuid::Uuid::from_u128(n).to_string(),
                    payload.clone(),
                    vector(1),
                )
            })
            .collect();
        store.put(name, &points);
    }
    (peer, store)
}

/// The MD5 of the text that the memories have here.
const HASH: &str = "1cb251ec0d568de6a929b520c4aed8d1";

fn mem0() -> serde_json::Value {
    json!({"data": "text", "hash": HASH, "created_at": "2026-11-01T00:00:00+00:00", "user_id": "ana"})
}

fn init_server(store: &PointStore, args: &[&str]) -> Output {
    let mut all = args.to_vec();
    all.extend(["--rest-url", store.rest_url.as_str(), "--json"]);
    init(store.dir.path(), &all)
}

#[test]
fn a_server_whose_points_are_the_rows_is_all_that_need_be_named() {
    let entity = json!({"data": "Ana", "entity_type": "person", "linked_memory_ids": ["x"], "hash": "h", "created_at": "t"});
    let typescript = json!({"data": "text", "hash": HASH, "createdAt": "2026-11-01T00:00:00.000Z", "userId": "ana"});
    for memory in [mem0(), typescript] {
        let (_peer, store) = own_server(&[
            ("mem0", memory),
            ("mem0_entities", entity.clone()),
            (
                "mem0migrations",
                json!({"user_id": "u", "type": "user_identity"}),
            ),
        ]);
        let before = store.whole("mem0");
        let found = init_server(&store, &[&store.url]).expect(0);
        let line = &found.objects("init")[0];
        assert_eq!(line["preset"], "mem0-qdrant", "{found:#?}");
        assert_eq!(line["points"], format!("collection mem0 at {}", store.url));
        assert_eq!(store.night().code, Some(3), "copies wait");
        assert_eq!(store.whole("mem0"), before);
    }
}

#[test]
fn a_log_of_mem0_leads_to_its_server() {
    let (_peer, store) = own_server(&[("memories", mem0())]);
    let log = store.dir.path().join("log.sqlite");
    open(&log)
        .execute_batch(&format!(
            "{};
             INSERT INTO history(id, memory_id, event, is_deleted) VALUES('1', 'lost', 'ADD', 0), ('2', 'gone', 'DELETE', 1);",
            presets::find("mem0-qdrant").unwrap().ddl
        ))
        .unwrap();
    let found = init_server(&store, &["log.sqlite", &store.url]).expect(0);
    assert_eq!(
        found.objects("init")[0]["preset"],
        "mem0-qdrant",
        "{found:#?}"
    );
    let config = std::fs::read_to_string(store.dir.path().join("hypnos.toml")).unwrap();
    let named = format!("[store.log]\npath = \"{}\"", log.display());
    assert!(config.contains(&named), "{named:?} is not in {config}");
    let check = store.run(&["check", "--json"]);
    assert_eq!(
        check.objects("check")[0]["logged_without_point"],
        1,
        "{check:#?}"
    );
    // What a night takes is known to hypnos, though the log does not learn of it.
    let live = "INSERT INTO history(id, memory_id, event, is_deleted) VALUES(?1, ?1, 'ADD', 0)";
    for id in store.memories().into_keys() {
        open(&log).execute(live, [id]).unwrap();
    }
    write(
        &store.dir.path().join("hypnos.toml"),
        &config.replace("first_run = \"report\"", ""),
    );
    let night = store.night().expect(0);
    assert_eq!(
        night.pass("duplicates")["applied"]["delete"],
        4,
        "{night:#?}"
    );
    let check = store.run(&["check", "--json"]);
    assert_eq!(
        check.objects("check")[0]["logged_without_point"],
        1,
        "{check:#?}"
    );
    let alone = init(store.dir.path(), &["log.sqlite", "--force"]).expect(2);
    assert!(alone.stderr.contains("only a log"), "{alone:#?}");
}

#[test]
fn a_server_whose_rest_interface_does_not_answer_needs_attention() {
    let (_peer, store) = own_server(&[("memories", mem0())]);
    let nowhere = "http://127.0.0.1:1";
    let found = init(
        store.dir.path(),
        &[&store.url, "--rest-url", nowhere, "--json"],
    )
    .expect(3);
    let line = &found.objects("init")[0];
    assert_eq!(
        (&line["pairs"], &line["confirmed"]),
        (&false.into(), &true.into())
    );
    let notes = line["notes"].to_string();
    assert!(
        notes.contains(nowhere) && notes.contains("--rest-url"),
        "{notes}"
    );
    // Nothing is removed, as it says.
    let config = std::fs::read_to_string(store.dir.path().join("hypnos.toml")).unwrap();
    let apply = config.replace("\"report\"", "\"apply\"");
    write(&store.dir.path().join("hypnos.toml"), &apply);
    let before = store.whole("memories");
    let night = store.night().expect(1);
    let outcome = &night.pass("duplicates")["outcome"];
    assert_eq!(outcome, "refused", "{night:#?}");
    assert_eq!(store.whole("memories"), before);
    let _ = init_server(&store, &[&store.url, "--force"]).expect(0);
}

/// Points of another system beside them are none of its memories.
#[test]
fn a_log_of_mem0_tells_which_collection_is_meant() {
    let documents = json!({"page_content": "text", "metadata": {"user_id": "ana"}});
    let (_peer, store) = own_server(&[("memories", mem0()), ("documents", documents)]);
    let log = store.dir.path().join("history.db");
    let ddl = presets::find("mem0-qdrant").unwrap().ddl;
    open(&log).execute_batch(ddl).unwrap();
    let found = init_server(&store, &["history.db", &store.url]).expect(0);
    let line = &found.objects("init")[0];
    assert_eq!(line["preset"], "mem0-qdrant", "{found:#?}");
    assert_eq!(
        line["points"],
        format!("collection memories at {}", store.url)
    );
    let other = [
        "history.db",
        &store.url,
        "--collection",
        "documents",
        "--force",
    ];
    let _ = init_server(&store, &other).expect(10);
}

/// Other applications have a text, its hash and a time, too.
#[test]
fn points_whose_hash_is_not_that_of_their_text_are_not_taken_for_memories_of_mem0() {
    let page = json!({"data": "text", "hash": "9f86d081884c7d65", "created_at": "2026-11-01T00:00:00+00:00"});
    let (_peer, store) = own_server(&[("pages", page), ("memories", mem0())]);
    let found = init_server(&store, &[&store.url]).expect(0);
    let line = &found.objects("init")[0];
    assert_eq!(
        line["points"],
        format!("collection memories at {}", store.url)
    );
    let strange = init_server(&store, &[&store.url, "pages", "--force"]).expect(10);
    assert!(strange.stderr.contains("unknown"), "{strange:#?}");
    assert!(
        strange.stderr.contains("--preset mem0-qdrant"),
        "{strange:#?}"
    );
    // A person may know better.
    let args = [&store.url, "pages", "--preset", "mem0-qdrant", "--force"];
    let told = init_server(&store, &args).expect(0);
    assert_eq!(
        told.objects("init")[0]["preset"],
        "mem0-qdrant",
        "{told:#?}"
    );
}

#[test]
fn the_name_of_a_vector_is_found_and_of_several_one_is_a_guess() {
    for (names, code) in [
        (&["text-dense"][..], 0),
        (&["image", "text"], 3),
        (&["text \"x\""], 0),
    ] {
        let (_peer, mut store) = own_server(&[]);
        store.create_named("memories", DIM.into(), names);
        let points: Vec<NewPoint> = (1..=3)
            .map(|n| NewPoint::new(uuid::Uuid::from_u128(n).to_string(), mem0(), vector(1)))
            .collect();
        store.put_named("memories", &points, names);
        let found = init_server(&store, &[&store.url]).expect(code);
        let line = &found.objects("init")[0];
        assert_eq!(line["confirmed"], code == 0, "{found:#?}");
        let notes = line["notes"].to_string();
        let path = store.dir.path().join("hypnos.toml");
        let config: toml::Table = std::fs::read_to_string(&path).unwrap().parse().unwrap();
        let vectors = &config["store"][0]["vectors"];
        assert_eq!(vectors["vector"].as_str(), Some(names[0]));
        if code == 3 {
            assert!(notes.contains("several vectors, image, text"), "{notes}");
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(
                text.contains("a guess; there are \"image\", \"text\""),
                "{text}"
            );
        }
        // The vectors are compared: all is of one text.
        let planned = &found.plan("duplicates")["planned"];
        assert_eq!(planned["delete"], 2, "{found:#?}");
    }
}

/// Where rows belong to the points, the name is found with them.
#[test]
fn the_name_of_the_vector_of_rows_is_found_too() {
    let (_peer, mut store) = own_server(&[]);
    let db = open(&store.dir.path().join("memory.db"));
    db.execute_batch(presets::find("ttl-days").unwrap().ddl)
        .unwrap();
    db.execute_batch(
        "INSERT INTO users(id, email) VALUES('ana', 'a@example.org');
         INSERT INTO memories VALUES(1, 'ana', 'c', 'h', 1700000000, NULL, NULL)",
    )
    .unwrap();
    store.create_named("agent", DIM.into(), &["text"]);
    let id = crate::support::point_id("user:ana", 1).to_string();
    let point = NewPoint::new(id, json!({"namespace": "user:ana"}), vector(1));
    store.put_named("agent", &[point], &["text"]);
    let found = init_server(&store, &["memory.db", &store.url]).expect(0);
    let line = &found.objects("init")[0];
    assert_eq!(line["points"], format!("collection agent at {}", store.url));
    assert_eq!(line["rows_with_point"], 1, "{found:#?}");
    let config = std::fs::read_to_string(store.dir.path().join("hypnos.toml")).unwrap();
    assert!(config.contains("vector = \"text\""), "{config}");
}

/// mem0 keeps one log for all collections, unless it is told otherwise.
#[test]
fn of_several_collections_of_mem0_the_log_tells_which_is_meant() {
    let (_peer, mut store) = own_server(&[("notes", mem0()), ("old", mem0())]);
    store.create("memories", DIM.into(), None);
    let id = |n: u128| uuid::Uuid::from_u128(0xa << 100 | n).to_string();
    let point = |n| NewPoint::new(id(n), mem0(), vector(1));
    store.put("memories", &[point(1), point(2)]);
    let log = open(&store.dir.path().join("history.db"));
    log.execute_batch(presets::find("mem0-qdrant").unwrap().ddl)
        .unwrap();
    let says = |memory: &str, event: &str| {
        let sql = "INSERT INTO history(id, memory_id, event, is_deleted) VALUES(?1 || ?2, ?1, ?2, ?2 = 'DELETE')";
        log.execute(sql, [memory, event]).unwrap();
    };
    let look = |args: &[&str]| {
        let all = [&["history.db", store.url.as_str(), "--force"], args].concat();
        init_server(&store, &all)
    };
    let unknown = look(&[]).expect(2);
    for part in ["notes has 0 of 0", "--collection"] {
        assert!(unknown.stderr.contains(part), "{unknown:#?}");
    }
    says(&id(1), "ADD");
    says(&id(9), "ADD");
    // A memory of `old`, by its number, and deleted.
    says(&uuid::Uuid::from_u128(1).to_string(), "DELETE");
    let found = look(&[]).expect(0);
    let line = &found.objects("init")[0];
    assert_eq!(
        line["points"],
        format!("collection memories at {}", store.url)
    );
    assert!(line["notes"].to_string().contains("1 of the 2"), "{line}");
    // One of each: which of the others is meant, nobody can tell.
    says(&uuid::Uuid::from_u128(2).to_string(), "ADD");
    let asked = look(&[]).expect(2);
    for part in [
        "memories has 1 of 3",
        "notes has 1 of 3",
        "old has 1 of 3",
        "--collection",
    ] {
        assert!(asked.stderr.contains(part), "{asked:#?}");
    }
    let _ = look(&["--collection", "old"]).expect(0);
}

#[test]
fn several_collections_of_memories_are_a_question_and_strange_ones_none() {
    let langchain = json!({"page_content": "text", "metadata": {"user_id": "ana"}});
    let files = json!({"text": "a page", "metadata": {"file_id": "f"}, "tenant_id": "file-f"});
    let (_peer, store) = own_server(&[
        ("notes", mem0()),
        ("documents", langchain),
        ("open-webui_files", files),
    ]);
    let asked = init_server(&store, &[&store.url]).expect(2);
    for part in [
        "documents (langchain)",
        "notes (mem0-qdrant)",
        "--collection",
    ] {
        assert!(asked.stderr.contains(part), "{asked:#?}");
    }
    assert!(!asked.stderr.contains("open-webui_files"));
    let strange = init_server(&store, &[&store.url, "open-webui_files"]).expect(10);
    assert!(strange.stderr.contains("unknown"), "{strange:#?}");
    let told = init_server(&store, &[&store.url, "documents"]).expect(0);
    assert_eq!(told.objects("init")[0]["preset"], "langchain", "{told:#?}");
    let other = init_server(
        &store,
        &[
            &store.url,
            "documents",
            "--force",
            "--preset",
            "mem0-qdrant",
        ],
    )
    .expect(10);
    assert!(other.stderr.contains("unknown"), "{other:#?}");
}

#[test]
fn open_webui_is_told_from_its_database_and_the_points_of_its_memories() {
    let (_peer, mut store) = own_server(&[(
        "chat_files",
        json!({"text": "a page", "metadata": {"file_id": "f", "hash": "h"}, "tenant_id": "file-f"}),
    )]);
    let webui = store.dir.path().join("copy of webui");
    let db = open(&webui);
    db.execute_batch(presets::find("open-webui").unwrap().ddl)
        .unwrap();
    db.execute_batch(
        "INSERT INTO user(id, name, email, role, profile_image_url, last_active_at, updated_at, created_at)
           VALUES('ana', 'Ana', 'a@example.org', 'user', '', 1, 1, 1);",
    )
    .unwrap();
    store.create("chat_memories", DIM.into(), None);
    let mut points = Vec::new();
    for n in 1..=4_u128 {
        let id = uuid::Uuid::from_u128(n << 64 | 7).to_string();
        // One of the points has lost its row.
        if n < 4 {
            db.execute(
                "INSERT INTO memory(id, user_id, content, updated_at, created_at) VALUES(?1, 'ana', ?1, 1700000000, 1700000000)",
                [&id],
            )
            .unwrap();
        }
        let payload = json!({"text": id, "metadata": {"created_at": 1_700_000_000}, "tenant_id": "user-memory-ana"});
        points.push(NewPoint::new(
            id,
            payload,
            vector(i64::try_from(n).unwrap()),
        ));
    }
    store.put("chat_memories", &points);
    let files = store.whole("chat_files");
    let found = init_server(&store, &["copy of webui", &store.url]).expect(0);
    let line = &found.objects("init")[0];
    assert_eq!(line["preset"], "open-webui", "{found:#?}");
    assert_eq!(
        line["points"],
        format!("collection chat_memories at {}", store.url)
    );
    assert_eq!(
        (&line["rows_with_point"], &line["rows_looked_at"]),
        (&3.into(), &3.into())
    );
    assert_eq!(
        found.objects("check")[0]["drift"]["point_without_row"],
        1,
        "{found:#?}"
    );
    assert_eq!(store.whole("chat_files"), files);

    let silent = init(store.dir.path(), &["copy of webui", "-o", "x.toml"]).expect(2);
    assert!(silent.stderr.contains("on a Qdrant server"), "{silent:#?}");
    let other = init_server(
        &store,
        &[
            "copy of webui",
            &store.url,
            "-o",
            "x.toml",
            "--collection",
            "chat_files",
        ],
    )
    .expect(10);
    assert!(other.stderr.contains("looks like the points"), "{other:#?}");
}

/// What is a slip is found before a store is read for minutes.
#[test]
fn an_address_without_a_scheme_and_a_folder_that_is_not_there_are_named_first() {
    let world = store(Backend::Sqlite);
    let bare = init(world.dir.path(), &["memory.db", "localhost:6334"]).expect(2);
    assert!(bare.stderr.contains("http://localhost:6334"), "{bare:#?}");
    let nowhere = init(
        world.dir.path(),
        &["memory.db", "vectors.db", "--output", "no/such/hypnos.toml"],
    )
    .expect(1);
    assert!(nowhere.stderr.contains("mkdir no/such"), "{nowhere:#?}");
    assert!(!world.path("hypnos.toml").exists());
}

/// The port that is in everybody's settings is that of the other interface.
#[test]
fn the_rest_port_in_place_of_the_other_is_told_apart() {
    let world = store(Backend::Sqlite);
    let wrong = init(world.dir.path(), &["memory.db", &qdrant::rest_url()]);
    assert_ne!(wrong.code, Some(0));
    assert!(wrong.stderr.contains("6334, not 6333"), "{wrong:#?}");
}

/// The layout is told by the collections that are there, not by the rows.
#[test]
fn open_webui_with_a_collection_for_each_user_is_told_from_its_collections() {
    let users = [1_u128, 2].map(|n| uuid::Uuid::from_u128(n << 80 | 5).to_string());
    let own = users
        .clone()
        .map(|user| format!("open-webui_user-memory-{user}"));
    let page = json!({"text": "a page", "metadata": {"file_id": "f", "hash": "h"}});
    let (_peer, mut store) = own_server(&[("open-webui_file-f", page)]);
    let db = open(&store.dir.path().join("renamed"));
    db.execute_batch(presets::find("open-webui-collections").unwrap().ddl)
        .unwrap();
    for (n, (user, collection)) in (1_u128..).zip(users.iter().zip(&own)) {
        let sql =
            "INSERT INTO user(id, name, email, role) VALUES(?1, 'n', 'a@example.org', 'user')";
        db.execute(sql, [user]).unwrap();
        store.create(collection, DIM.into(), None);
        let mut points = Vec::new();
        for m in 1..=4_u128 {
            let id = uuid::Uuid::from_u128(n << 64 | m).to_string();
            if m < 4 {
                let sql = "INSERT INTO memory(id, user_id, content, updated_at, created_at) VALUES(?1, ?2, ?1, 1, 1)";
                db.execute(sql, [&id, user]).unwrap();
            }
            let payload = json!({"text": id, "metadata": {"created_at": 1_700_000_000}});
            points.push(NewPoint::new(id, payload, vector(1)));
        }
        store.put(collection, &points);
    }
    drop(db);
    let found = init_server(&store, &["renamed", &store.url]).expect(0);
    let line = &found.objects("init")[0];
    assert_eq!(line["preset"], "open-webui-collections", "{found:#?}");
    assert_eq!(
        (&line["rows_with_point"], &line["rows_looked_at"]),
        (&6.into(), &6.into()),
        "{found:#?}"
    );
    let drift = &found.objects("check")[0]["drift"];
    assert_eq!(drift["point_without_row"], 2, "{found:#?}");
}

#[test]
fn openmemory_of_mem0_is_told_from_its_database_and_the_points_of_its_memories() {
    let user = uuid::Uuid::from_u128(77).simple().to_string();
    let (_peer, mut store) = own_server(&[("other", mem0())]);
    let db = open(&store.dir.path().join("renamed"));
    db.execute_batch(presets::find("mem0-openmemory").unwrap().ddl)
        .unwrap();
    db.execute("INSERT INTO users(id, user_id) VALUES(?1, 'ana')", [&user])
        .unwrap();
    db.execute(
        "INSERT INTO apps(id, owner_id, name) VALUES('a', ?1, 'cursor')",
        [&user],
    )
    .unwrap();
    store.create("openmemory", DIM.into(), None);
    let mut points = Vec::new();
    for n in 1..=5_u128 {
        let id = uuid::Uuid::from_u128(n << 100 | 0xabc);
        if n < 5 {
            let sql = "INSERT INTO memories(id, user_id, app_id, content, state, created_at, updated_at)
                       VALUES(?1, ?2, 'a', 'c', 'active', '2026-11-01 10:00:00.000000', '2026-11-01 10:00:00.000000')";
            db.execute(sql, [&id.simple().to_string(), &user]).unwrap();
        }
        let mut payload = mem0();
        payload["source_app"] = json!("openmemory");
        payload["mcp_client"] = json!("cursor");
        points.push(NewPoint::new(id.to_string(), payload, vector(1)));
    }
    store.put("openmemory", &points);
    drop(db);
    let found = init_server(&store, &["renamed", &store.url]).expect(0);
    let line = &found.objects("init")[0];
    assert_eq!(line["preset"], "mem0-openmemory", "{found:#?}");
    assert_eq!(
        (&line["rows_with_point"], &line["rows_looked_at"]),
        (&4.into(), &4.into()),
        "{found:#?}"
    );
    let drift = &found.objects("check")[0]["drift"];
    assert_eq!(drift["point_without_row"], 1, "{found:#?}");
}
