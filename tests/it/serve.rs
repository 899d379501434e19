//! The daemon: its schedule, its signals, its pages, and what keeps it going.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::daemon::Daemon;
use crate::support::held::wait;
use crate::support::{Backend, DAY, World, now, write};

mod load;
mod stores;

const HOUR: i64 = 3600;
const NIGHTLY: &str = "cron = \"0 3 * * *\"";

/// A store with two memories, one of them expired, at two in the morning.
fn at_two(schedule: &str) -> World {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    world.memory("ana", now() - 40 * DAY, Some(7));
    world.memory("ana", now(), None);
    world.schedule(schedule);
    world.set_clock(-HOUR);
    world
}

/// The runs in the journal of a store, newest first.
fn runs(world: &World, store: &str) -> Vec<Value> {
    let status = world.run(&["status", "--json", "--store", store]);
    let status = status.objects("status").remove(0);
    status["runs"].as_array().unwrap().clone()
}

/// When the next run is due, in seconds since the epoch.
#[expect(
    clippy::cast_possible_truncation,
    reason = "whole seconds of this century"
)]
fn next_run(daemon: &Daemon) -> i64 {
    daemon.figure("hypnos_next_run_timestamp_seconds").unwrap() as i64
}

#[test]
fn it_runs_at_its_time_on_a_clock_that_jumps_and_says_how_it_is() {
    let world = at_two(NIGHTLY);
    let mut daemon = world.daemon();
    daemon.told("STATUS=next run at");
    daemon.told("WATCHDOG=1");

    assert_eq!(daemon.get("/healthz"), (200, "ok\n".into()));
    assert_eq!(
        daemon.get("/readyz"),
        (503, "store agent: no night yet\n".into())
    );
    assert_eq!(next_run(&daemon) % DAY, 3 * HOUR);

    // Woken a minute after the time.
    world.set_clock(60);
    daemon.logged("run ended");
    assert_eq!(world.ids(), [2].into());
    assert_eq!(world.ids(), world.point_rows());
    daemon.told("last run applied (exit 0)");
    assert_eq!(daemon.get("/readyz"), (200, "ok\n".into()));
    daemon.wait("the count of what was done", |daemon| {
        daemon.figure("hypnos_actions_total{store=\"agent\",pass=\"ttl\",action=\"delete\",result=\"applied\"}")
            == Some(1.0)
    });

    // Put back to before the time: that night has run.
    world.set_clock(-5);
    daemon.idle();
    world.set_clock(120);
    daemon.idle();
    assert_eq!(runs(&world, "agent").len(), 1);
    // Asleep for the next three: one run.
    world.set_clock(3 * DAY + HOUR);
    daemon.logged_times("run ended", 2);
    daemon.idle();
    assert_eq!(runs(&world, "agent").len(), 2);
    assert_eq!(daemon.end(), Some(0));
}

#[test]
fn an_end_says_so_and_leaves_at_once_when_nothing_runs() {
    let world = at_two(NIGHTLY);
    for signal in [Signal::TERM, Signal::INT] {
        let mut daemon = world.daemon();
        daemon.send(signal);
        assert_eq!(daemon.child.wait().unwrap().code(), Some(0));
        daemon.has_told("STOPPING=1");
    }
    assert_eq!(world.ids().len(), 2);
}

#[test]
fn nothing_is_served_but_three_pages() {
    let world = at_two(NIGHTLY);
    let daemon = world.daemon();
    for (request, status) in [
        ("GET /metrics", 200),
        ("HEAD /metrics", 200),
        ("GET /healthz", 200),
        ("GET /", 404),
        ("GET /metrics/", 404),
        ("GET /../etc/passwd", 404),
        ("POST /metrics", 405),
        ("DELETE /readyz", 405),
        ("PUT /nothing", 404),
    ] {
        let (found, _) = daemon.request(&format!("{request} HTTP/1.1"));
        assert_eq!(found, status, "{request}");
    }
    let (_, body) = daemon.request("HEAD /metrics HTTP/1.1");
    assert_eq!(body, "");
}

#[test]
fn a_client_that_sends_too_much_is_cut_off_and_others_are_served() {
    use std::io::{Read as _, Write as _};
    let world = at_two(NIGHTLY);
    let daemon = world.daemon();
    let mut greedy = std::net::TcpStream::connect(daemon.address).unwrap();
    greedy
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let line = format!("GET /metrics?{} HTTP/1.1\r\n", "x".repeat(1 << 20));
    // It may be cut off in the middle of this.
    let _ = greedy.write_all(line.as_bytes());
    let mut answer = Vec::new();
    let _ = greedy.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("200 OK"));
    // Clients that say nothing take a place each, for a while, and not all of them.
    let idle: Vec<_> = (0..20)
        .map(|_| std::net::TcpStream::connect(daemon.address).unwrap())
        .collect();
    assert_eq!(daemon.get("/healthz").0, 200);
    drop(idle);
}

#[test]
fn sighup_takes_a_valid_configuration_and_refuses_another() {
    let mut world = at_two(NIGHTLY);
    let mut daemon = world.daemon();
    let good = world.config.clone();

    world.configure("\"0 3 * * *\"", "\"0 4 * *\"");
    daemon.send(Signal::HUP);
    daemon.told("RELOADING=1");
    daemon.told("MONOTONIC_USEC=");
    daemon.told("READY=1");
    daemon.logged("the configuration is invalid");
    let (status, complaints) = daemon.get("/readyz");
    assert_eq!(status, 503);
    assert!(
        complaints.contains("configuration: invalid"),
        "{complaints}"
    );
    assert_eq!(
        next_run(&daemon) % DAY,
        3 * HOUR,
        "the old one stays in force"
    );

    world.config = good.replace("\"0 3 * * *\"", "\"30 4 * * *\"");
    world.write_config();
    daemon.send(Signal::HUP);
    daemon.told("RELOADING=1");
    daemon.told("READY=1");
    daemon.logged("was read again");
    daemon.wait("the new time", |daemon| {
        next_run(daemon) % DAY == 4 * HOUR + 1800
    });
    assert_eq!(
        daemon.get("/readyz"),
        (503, "store agent: no night yet\n".into())
    );
    world.set_clock(60);
    daemon.idle();
    assert_eq!(world.ids().len(), 2, "three is no longer the time");
    world.set_clock(2 * HOUR);
    daemon.logged("run ended");
    assert_eq!(world.ids(), [2].into());
}

#[test]
fn a_start_without_a_valid_configuration_or_an_address_fails() {
    let mut world = at_two(NIGHTLY);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    world.configure("127.0.0.1:0", &address);
    let refused = world.run(&[]).expect(1);
    assert!(refused.stderr.contains(&address), "{refused:#?}");
    world.configure("[schedule]", "[schedules]");
    world.run(&[]).expect(78);
}

#[test]
fn sigterm_lets_the_batch_be_finished() {
    let world = at_two(NIGHTLY);
    let mut daemon = world.daemon_with("points.before=1*return(hold)", &[]);
    world.set_clock(1);
    daemon.wait("the hold", |_| world.is_held());
    let status = world.run(&["status", "--json"]);
    assert_eq!(status.objects("status")[0]["open_intents"], 1);
    #[expect(clippy::disallowed_methods, reason = "the exit must come in time")]
    let sent = Instant::now();
    daemon.send(Signal::TERM);
    daemon.told("STOPPING=1");
    world.let_go();
    assert_eq!(daemon.child.wait().unwrap().code(), Some(0));
    assert!(sent.elapsed() < Duration::from_secs(30));
    daemon.has_logged("run ended");
    assert_eq!(world.ids(), [2].into(), "the batch was finished");
    assert_eq!(world.ids(), world.point_rows());
    assert_eq!(runs(&world, "agent")[0]["outcome"], "interrupted");

    // The rest of that night is made up for at the start, and nothing is left open.
    let mut daemon = world.daemon();
    daemon.logged("a run was missed");
    daemon.logged("run ended");
    assert_eq!(runs(&world, "agent")[0]["outcome"], "idle");
    assert_eq!(daemon.end(), Some(0));
}

#[test]
fn a_killed_run_is_finished_at_the_start_and_the_schedule_goes_on() {
    let world = at_two(NIGHTLY);
    let total =
        "hypnos_actions_total{store=\"agent\",pass=\"ttl\",action=\"delete\",result=\"applied\"}";
    let mut daemon = world.daemon_with("points.removed=pause", &[]);
    world.set_clock(1);
    daemon.wait("a removed point", |_| !world.point_rows().contains(&1));
    daemon.kill();
    assert_eq!(world.ids().len(), 2, "half done");

    let mut daemon = world.daemon();
    daemon.logged("run ended");
    assert_eq!(world.ids(), [2].into());
    daemon.wait("the total", |daemon| daemon.figure(total) == Some(1.0));
    world.set_clock(DAY + 1);
    daemon.logged_times("run ended", 2);
    daemon.idle();
    assert_eq!(daemon.figure(total), Some(1.0), "totals do not go back");
    let outcomes: Vec<Value> = runs(&world, "agent")
        .iter()
        .map(|run| run["outcome"].clone())
        .collect();
    assert_eq!(outcomes, ["idle", "idle", "unfinished"]);
    daemon.kill();

    // A start in the middle of the day has nothing to make up for.
    let mut daemon = world.daemon();
    daemon.idle();
    assert_eq!(runs(&world, "agent").len(), 3);
}

#[test]
fn a_run_that_keeps_crashing_waits_for_its_time() {
    let world = at_two(NIGHTLY);
    let daemon = world.daemon_with("points.removed=return(kill)", &[]);
    world.set_clock(1);
    let mut daemon = daemon;
    assert!(!daemon.child.wait().unwrap().success());
    for _ in 0..2 {
        let mut again = world
            .command(&[])
            .env("FAILPOINTS", "run.begun=return(kill)")
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        assert!(!again.wait().unwrap().success());
    }
    let mut daemon = world.daemon();
    daemon.logged("all cut off");
    daemon.idle();
    assert_eq!(runs(&world, "agent").len(), 3);
    world.set_clock(DAY + 1);
    daemon.logged("run ended");
    assert_eq!(world.ids(), [2].into());
}

#[test]
fn the_log_is_json_or_fit_for_the_journal_and_tells_no_memory() {
    let world = at_two(NIGHTLY);
    let mut daemon = world.daemon_with("", &["--log-format", "json"]);
    world.set_clock(1);
    daemon.logged("run ended");
    for line in daemon.log().lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        assert!(
            event["message"].is_string() && event["level"].is_string(),
            "{line}"
        );
    }
    let told = daemon.log() + &daemon.notes() + &daemon.get("/metrics").1;
    assert!(!told.contains("canary"), "{told}");
    assert_eq!(daemon.end(), Some(0));

    // As systemd does it: device and inode of the stream, in the environment.
    let journal = world.path("journal");
    write(&journal, "");
    let file = std::fs::OpenOptions::new()
        .append(true)
        .open(&journal)
        .unwrap();
    let stat = rustix::fs::fstat(&file).unwrap();
    let mut child = world
        .command(&[])
        .env("JOURNAL_STREAM", format!("{}:{}", stat.st_dev, stat.st_ino))
        .stderr(file)
        .spawn()
        .unwrap();
    let said = || std::fs::read_to_string(&journal).unwrap();
    wait("a line", || said().ends_with('\n'));
    let line = said();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.starts_with("<6> INFO "), "{line}");
}
