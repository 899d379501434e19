//! Points at which a test can kill, fail or delay a run, one before and after every durable step, and one inside each
//! transaction.
//!
//! Built on the `fail` crate, whose `failpoints` feature only test builds turn on: without it [`hit`] is nothing. The
//! variable `FAILPOINTS` arms them, as `NAME=ACTION;NAME=ACTION`. The actions that mean something here:
//!
//! | action | what the point does |
//! | --- | --- |
//! | `return(kill)` | ends the process by SIGKILL: no destructor, no flush, as a power cut would |
//! | `return(error)` | fails with [`Injected`] |
//! | `return(delay)` | waits for 300 ms, then goes on |
//! | `return(hold)` | makes the file that `HYPNOS_TEST_HOLD` names, and goes on once it is gone |
//! | `return(tell)` | says on the log that it was come by, and goes on |
//! | `2*off->return(kill)` | lets two pass and kills the third |
//!
//! Tests can move the wall clock, too ([`clock_shift`]), and shorten the wait for a lock ([`patience`]).

use std::fmt;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::SignedDuration;

use crate::clock;

/// How long `return(delay)` waits.
const DELAY: Duration = Duration::from_millis(300);
/// The variable that names the file of `return(hold)`.
const HOLD: &str = "HYPNOS_TEST_HOLD";
/// How long `return(hold)` waits: a test that has failed lets nobody go.
const LONGEST_HOLD: Duration = Duration::from_mins(5);

/// Writes the closed list down once: the points, in the order in which a run comes by them, each with the name by which
/// `FAILPOINTS` arms it.
macro_rules! failpoints {
    ($($point:ident = $name:literal,)+) => {
        /// Every point, named after the durable step it stands before or after.
        ///
        /// `tests/crash` says for each where it is reached, and disturbs it there: a new one does not compile before it
        /// has its line.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "each is before, inside or after the step of that name")]
        pub enum Failpoint {
            $($point,)+
        }

        impl Failpoint {
            /// Every point, in the order in which a run comes by them.
            pub const ALL: &[Self] = &[$(Self::$point,)+];

            /// The name by which `FAILPOINTS` arms it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$point => $name,)+
                }
            }
        }
    };
}

failpoints! {
    LockBefore = "lock.before",
    LockTaken = "lock.taken",
    StateCreateBefore = "state.create.before",
    StateFilled = "state.filled",
    // A file that was made or renamed is in the blocks of its folder.
    FolderSynced = "folder.synced",
    StateCreated = "state.created",
    // In every transaction of a state file, once all is written and nothing is committed.
    StateUncommitted = "state.uncommitted",
    RunBefore = "run.before",
    RunBegun = "run.begun",
    ReplayBefore = "replay.before",
    ReplayTenant = "replay.tenant",
    ReplaySettleBefore = "replay.settle.before",
    ReplaySettled = "replay.settled",
    ReplayCountBefore = "replay.count.before",
    ReplayCounted = "replay.counted",
    SightingsBefore = "sightings.before",
    SightingsWritten = "sightings.written",
    AcceptBefore = "accept.before",
    Accepted = "accepted",
    // The removal of rows with their points, and of the points that go without a row ("drops").
    IntentBefore = "intent.before",
    IntentWritten = "intent.written",
    DropIntentBefore = "drop.intent.before",
    DropIntentWritten = "drop.intent.written",
    PointsBefore = "points.before",
    DropsBefore = "drops.before",
    // Inside the vector store: looked at, asked to remove and not committed (a table), confirmed and not yet seen gone.
    PointsCompared = "points.compared",
    PointsUncommitted = "points.uncommitted",
    PointsConfirmed = "points.confirmed",
    PointsRemoved = "points.removed",
    DropsRemoved = "drops.removed",
    RowsBefore = "rows.before",
    RowsUncommitted = "rows.uncommitted",
    RowsCommitted = "rows.committed",
    MarksBefore = "marks.before",
    MarksUncommitted = "marks.uncommitted",
    MarksCommitted = "marks.committed",
    // The lists of points that name memories which are gone.
    ListIntentBefore = "list.intent.before",
    ListIntentWritten = "list.intent.written",
    ListsBefore = "lists.before",
    ListCompared = "list.compared",
    ListConfirmed = "list.confirmed",
    ListsDone = "lists.done",
    ListSettleBefore = "list.settle.before",
    ListSettleWritten = "list.settle.written",
    PutBackBefore = "put_back.before",
    PutBackCompared = "put_back.compared",
    PutBackUncommitted = "put_back.uncommitted",
    PutBackConfirmed = "put_back.confirmed",
    PutBackDone = "put_back.done",
    SettleBefore = "settle.before",
    SettleWritten = "settle.written",
    DropSettleBefore = "drop.settle.before",
    DropSettleWritten = "drop.settle.written",
    ComparedBefore = "compared.before",
    ComparedWritten = "compared.written",
    QueueBefore = "queue.before",
    QueueClosed = "queue.closed",
    QueueWritten = "queue.written",
    AnswerBefore = "answer.before",
    AnswerWritten = "answer.written",
    SnoozeBefore = "snooze.before",
    SnoozeWritten = "snooze.written",
    VacuumBefore = "vacuum.before",
    VacuumDone = "vacuum.done",
    PairBegun = "pair.begun",
    // What a new copy of a database holds is in its blocks.
    CopySynced = "pair.copy_synced",
    RowsCopied = "pair.rows_copied",
    // A collection that is written anew beside the live one: made and empty, and full.
    AnewMade = "pair.anew_made",
    AnewWritten = "pair.anew_written",
    PointsCopied = "pair.points_copied",
    ManifestWritten = "pair.manifest_written",
    PairPublished = "pair.published",
    PairDropBefore = "pair.drop_before",
    PairDropped = "pair.dropped",
    PassBefore = "pass.before",
    PassRecorded = "pass.recorded",
    PruneBefore = "prune.before",
    PruneTenant = "prune.tenant",
    PruneDone = "prune.done",
    FinishBefore = "finish.before",
    FinishWritten = "finish.written",
    RunFinished = "run.finished",
    UndoBefore = "undo.before",
    UndoBegun = "undo.begun",
    UndoSettleBefore = "undo_settle.before",
    UndoSettled = "undo_settle.written",
    ForgetBefore = "forget.before",
    ForgetBegun = "forget.begun",
    ForgetStateBefore = "forget_state.before",
    ForgetStateDone = "forget_state.done",
    ForgetOverwritten = "forget.overwritten",
    ForgetPairsBefore = "forget_pairs.before",
    ForgetPairsDone = "forget_pairs.done",
    RestoreBegun = "restore.begun",
    RestoreStaged = "restore.staged",
    RestoreCleaned = "restore.cleaned",
    RestoreDecided = "restore.decided",
    RestoreGivenUp = "restore.given_up",
    SwapBefore = "swap.before",
    SwapDone = "swap.done",
    RestoreSwitched = "restore.switched",
    RestoreFinished = "restore.finished",
}

impl fmt::Display for Failpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The failure that `return(error)` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("failpoint {0} injected this failure")]
pub struct Injected(pub Failpoint);

/// Keeps the points armed for as long as it lives.
#[must_use = "the points are disarmed when this is dropped"]
pub struct Armed(
    #[expect(dead_code, reason = "held for its destructor")] fail::FailScenario<'static>,
);

/// Arms the points that the variable `FAILPOINTS` names; `None` in a build without them. Called once, by `main`.
///
/// # Panics
///
/// When the variable cannot be read as points and actions, or names a point that does not exist: a test of it would
/// pass without testing anything.
#[must_use]
pub fn setup() -> Option<Armed> {
    if !fail::has_failpoints() {
        return None;
    }
    let armed = Armed(fail::FailScenario::setup());
    for (name, _) in fail::list() {
        let known = Failpoint::ALL.iter().any(|point| point.as_str() == name);
        assert!(known, "FAILPOINTS names {name:?}, which does not exist");
    }
    Some(armed)
}

/// Comes by a point: does what it is armed with, and mostly nothing.
///
/// # Errors
///
/// When it is armed with `return(error)`.
///
/// # Panics
///
/// When it is armed with a `return` that is none of those this module lists, or held without a file or for too long.
pub fn hit(point: Failpoint) -> Result<(), Injected> {
    // The crate's macro would leave `point` and the actions unused in builds without the feature; its function is
    // the same thing, and the constant folds it away there.
    if !fail::has_failpoints() {
        return Ok(());
    }
    match fail::eval(point.as_str(), |argument| argument) {
        None => Ok(()),
        Some(argument) => act(point, argument.as_deref().unwrap_or_default()),
    }
}

/// The variable that names a file with the seconds by which a test has moved the wall clock.
const CLOCK: &str = "HYPNOS_TEST_CLOCK";

/// How far a test has moved the wall clock: what the file says that `HYPNOS_TEST_CLOCK` names, read anew each time.
/// Zero without the variable, and in a build without failpoints.
#[must_use]
pub fn clock_shift() -> SignedDuration {
    static FILE: LazyLock<Option<PathBuf>> =
        LazyLock::new(|| std::env::var_os(CLOCK).map(PathBuf::from));
    if !fail::has_failpoints() {
        return SignedDuration::ZERO;
    }
    let seconds = FILE
        .as_ref()
        .and_then(|file| std::fs::read_to_string(file).ok())
        .and_then(|text| text.trim().parse().ok());
    SignedDuration::from_secs(seconds.unwrap_or(0))
}

/// The longest wait for the lock of a database that a test allows, in milliseconds; zero when it has said nothing.
static PATIENCE: AtomicU64 = AtomicU64::new(0);

/// Has nobody in this process wait longer than so long for the lock of a database. For tests in which nobody lets go of it.
pub fn shorten_patience(to: Duration) {
    let millis = u64::try_from(to.as_millis()).unwrap_or(u64::MAX);
    PATIENCE.store(millis, Ordering::Relaxed);
}

/// How long to wait for the lock of a database: as long as that, in a build without failpoints.
#[must_use]
pub fn patience(usual: Duration) -> Duration {
    if !fail::has_failpoints() {
        return usual;
    }
    match PATIENCE.load(Ordering::Relaxed) {
        0 => usual,
        millis => usual.min(Duration::from_millis(millis)),
    }
}

/// Tells by a file that the point is reached, and stands still until a test removes it: no test has to guess how long
/// another process takes.
fn hold(point: Failpoint) {
    let file = std::env::var_os(HOLD).map_or_else(PathBuf::new, PathBuf::from);
    let made = std::fs::File::create_new(&file);
    assert!(made.is_ok(), "failpoint {point}: {HOLD}: {made:?}");
    let watch = clock::Stopwatch::start();
    while file.exists() {
        let waited = watch.elapsed();
        assert!(waited < LONGEST_HOLD, "failpoint {point}: nobody lets go");
        clock::pause(Duration::from_millis(5));
    }
}

#[expect(
    clippy::panic,
    reason = "only in a build with failpoints: a test that misspells one would pass without testing anything"
)]
fn act(point: Failpoint, argument: &str) -> Result<(), Injected> {
    match argument {
        "kill" => {
            let myself = rustix::process::getpid();
            let sent = rustix::process::kill_process(myself, rustix::process::Signal::KILL);
            unreachable!("{point} survived its own SIGKILL: {sent:?}")
        }
        "error" => Err(Injected(point)),
        "delay" => {
            clock::pause(DELAY);
            Ok(())
        }
        "hold" => {
            hold(point);
            Ok(())
        }
        "tell" => {
            tracing::warn!("came by {point}");
            Ok(())
        }
        other => panic!("failpoint {point}: cannot return({other})"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Output};

    use super::*;
    use crate::clock::Stopwatch;

    /// Tells the child process that it is one.
    const CHILD: &str = "HYPNOS_TEST_FAILPOINT_CHILD";

    /// Runs [`comes_by_three_times`] in a process of its own: arming points here would arm them for every test.
    fn run_with(failpoints: &str) -> Output {
        run(failpoints).output().unwrap()
    }

    fn run(failpoints: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "--nocapture"])
            .arg("failpoint::tests::comes_by_three_times")
            .env("FAILPOINTS", failpoints)
            .env_remove(HOLD)
            .env(CHILD, "1");
        command
    }

    #[test]
    /// The other half of the tests below, in a process of its own; without the variable it has nothing to do.
    fn comes_by_three_times() {
        if std::env::var_os(CHILD).is_none() {
            return;
        }
        let armed = setup();
        for _ in 0..3 {
            println!("hit {:?}", hit(Failpoint::RowsBefore));
        }
        drop(armed);
        println!("disarmed {:?}", hit(Failpoint::RowsBefore));
    }

    fn lines(output: &Output) -> Vec<String> {
        let stdout = String::from_utf8_lossy(&output.stdout);
        stdout
            .lines()
            .filter_map(|line| {
                let start = line.find("hit ").or_else(|| line.find("disarmed "))?;
                Some(line[start..].to_owned())
            })
            .collect()
    }

    #[test]
    fn each_action_does_what_it_says() {
        let error = "hit Err(Injected(RowsBefore))";
        let (ok, disarmed) = ("hit Ok(())", "disarmed Ok(())");
        for (failpoints, expected) in [
            ("", [ok, ok, ok, disarmed]),
            ("rows.committed=return(error)", [ok, ok, ok, disarmed]),
            ("rows.before=return(error)", [error, error, error, disarmed]),
            (
                "rows.before=2*off->return(error)",
                [ok, ok, error, disarmed],
            ),
            ("rows.before=1*return(delay)", [ok, ok, ok, disarmed]),
        ] {
            let output = run_with(failpoints);
            assert!(output.status.success(), "{failpoints}: {output:?}");
            assert_eq!(lines(&output), expected, "{failpoints}");
        }
    }

    #[test]
    fn a_delay_takes_its_time() {
        let watch = Stopwatch::start();
        act(Failpoint::RowsBefore, "delay").unwrap();
        assert!(watch.elapsed() >= DELAY);
    }

    #[test]
    fn who_is_held_goes_on_when_it_is_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hold");
        let mut child = run("rows.before=1*return(hold)")
            .env(HOLD, &file)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        while !file.exists() {
            assert_eq!(child.try_wait().unwrap(), None, "it does not hold");
            clock::pause(Duration::from_millis(5));
        }
        clock::pause(DELAY);
        assert_eq!(child.try_wait().unwrap(), None, "it is still held");
        std::fs::remove_file(&file).unwrap();
        let output = child.wait_with_output().unwrap();
        let ok = "hit Ok(())";
        assert_eq!(lines(&output), [ok, ok, ok, "disarmed Ok(())"]);
    }

    #[test]
    fn a_kill_is_a_sigkill_at_the_hit_it_was_asked_for() {
        let output = run_with("rows.before=1*off->return(kill)");
        assert_eq!(output.status.signal(), Some(9), "{output:?}");
        assert_eq!(lines(&output), ["hit Ok(())"]);
    }

    #[test]
    fn a_misspelt_point_or_action_is_not_silently_nothing() {
        for wrong in [
            "rows.befor=return(error)",
            "rows.before=return(sleep)",
            "rows.before=return(hold)",
            "rows.before",
        ] {
            assert!(!run_with(wrong).status.success(), "{wrong}");
        }
    }

    #[test]
    fn every_point_has_a_name_of_its_own() {
        let names: BTreeSet<_> = Failpoint::ALL.iter().map(|point| point.as_str()).collect();
        assert_eq!(names.len(), Failpoint::ALL.len());
        assert!(
            Failpoint::ALL.is_sorted(),
            "ALL leaves out or doubles a point"
        );
    }
}
