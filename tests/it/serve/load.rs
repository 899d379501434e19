//! Many scrapes and many runs.

use super::*;

/// Scrapes while a run is held, from several clients; how many.
fn scrape(clients: usize, each: usize) {
    let world = at_two(NIGHTLY);
    let mut daemon = world.daemon_with("points.before=1*pause", &[]);
    world.set_clock(1);
    daemon.told("STATUS=running since");
    let clients_scrape = |each| {
        std::thread::scope(|scope| {
            for _ in 0..clients {
                scope.spawn(|| {
                    for _ in 0..each {
                        let (status, page) = daemon.get("/metrics");
                        assert!(status == 200 && page.contains("hypnos_build_info"));
                    }
                });
            }
        });
    };
    clients_scrape(each / 10);
    let before = rss(daemon.child.id());
    clients_scrape(each);
    println!("{before} KiB before, {} KiB after", rss(daemon.child.id()));
}

/// Resident memory of a process, in KiB.
fn rss(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn scrapes_during_a_run_are_all_answered() {
    scrape(4, 50);
}

#[test]
#[ignore = "takes a minute; prints the memory before and after"]
fn ten_thousand_scrapes_during_a_run_are_all_answered() {
    scrape(8, 1250);
}

#[test]
#[ignore = "takes minutes; prints the memory along the way"]
fn memory_is_flat_over_two_hundred_runs() {
    let world = at_two(NIGHTLY);
    let mut daemon = world.daemon();
    let mut memory = Vec::new();
    for night in 0..200 {
        world.set_clock(night * DAY + 1);
        daemon.logged_times("run ended", usize::try_from(night).unwrap() + 1);
        memory.push(rss(daemon.child.id()));
    }
    println!("{memory:?}");
    let (early, late) = (memory[50], memory[199]);
    assert!(late < early + early / 10, "{early} KiB, then {late} KiB");
}
