//! A run that stands still at a failpoint until the test lets it go, however long either of them takes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Output, World};

/// How long a test waits for what must come.
pub const PATIENCE: Duration = Duration::from_mins(1);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(5);

/// Waits until something is so, and fails when it does not come.
#[track_caller]
pub fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "a test must end")]
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what} does not come");
        std::thread::sleep(LOOK);
    }
}

/// Has a command be held where it comes by a failpoint that is armed with `return(hold)`; the file is there meanwhile.
pub fn hold_by(command: &mut Command, file: &Path) {
    command.env("HYPNOS_TEST_HOLD", file);
}

/// A run that is held. Dropped, it is killed.
pub struct Held {
    child: Option<Child>,
    file: PathBuf,
}

impl Held {
    /// Starts a run and waits until it is held.
    #[track_caller]
    pub fn start(command: &mut Command, failpoints: &str, file: PathBuf) -> Self {
        hold_by(command, &file);
        let child = command
            .env("FAILPOINTS", failpoints)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("hypnos");
        let mut held = Self {
            child: Some(child),
            file,
        };
        wait("the hold", || {
            if let Some(child) = &mut held.child
                && child.try_wait().unwrap().is_some()
            {
                let ended = held.child.take().unwrap().wait_with_output();
                panic!("{failpoints} is not come by: {ended:?}");
            }
            held.file.exists()
        });
        held
    }

    pub fn child(&self) -> &Child {
        self.child.as_ref().expect("it runs")
    }

    /// Lets it go, and waits for its end.
    #[must_use = "say which exit code it should have"]
    pub fn let_go(mut self) -> Output {
        std::fs::remove_file(&self.file).expect("it is held");
        let ended = self.child.take().expect("it runs").wait_with_output();
        Output::from(ended.expect("hypnos"))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

impl World {
    /// Starts a run that is held at a failpoint, `points.before=1*return(hold)`, and waits until it is.
    #[track_caller]
    pub fn held(&self, args: &[&str], failpoints: &str) -> Held {
        Held::start(&mut self.command(args), failpoints, self.hold())
    }

    /// The file that is there while somebody is held.
    pub fn hold(&self) -> PathBuf {
        self.path("hold")
    }

    pub fn is_held(&self) -> bool {
        self.hold().exists()
    }

    /// Lets go who is held.
    pub fn let_go(&self) {
        std::fs::remove_file(self.hold()).expect("somebody is held");
    }
}
