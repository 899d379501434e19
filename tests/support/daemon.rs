//! The daemon under test: the real binary, on a clock that the test moves, with its log, its pages and what it tells the
//! service manager.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::held::{self, PATIENCE};
use super::{World, now, send, tells_no_memory, write};

/// The beat of the daemon is a third of this.
const WATCHDOG_USEC: &str = "300000";

pub struct Daemon {
    pub child: Child,
    pub address: SocketAddr,
    log: Arc<Mutex<String>>,
    manager: Arc<Mutex<String>>,
    manager_seen: usize,
}

impl World {
    /// Gives the daemon a free port and a schedule.
    pub fn schedule(&mut self, keys: &str) -> &mut Self {
        let tables =
            format!("[metrics]\nlisten = \"127.0.0.1:0\"\n[schedule]\n{keys}\n[pass.orphans]");
        self.configure("[pass.orphans]", &tables)
    }

    /// Sets the clock of the daemon, and of every run by hand, to so many seconds after three in the morning (UTC) of the world's night.
    pub fn set_clock(&self, seconds: i64) {
        let shift = self.three + seconds - now();
        // Replaced whole: the daemon may be reading.
        write(&self.path("clock.new"), &shift.to_string());
        std::fs::rename(self.path("clock.new"), self.path("clock")).expect("clock");
    }

    pub fn daemon(&self) -> Daemon {
        self.daemon_with("", &[])
    }

    /// The daemon, once it is ready.
    pub fn daemon_with(&self, failpoints: &str, args: &[&str]) -> Daemon {
        let socket = self.path("notify");
        drop(std::fs::remove_file(&socket));
        let manager = UnixDatagram::bind(&socket).expect("socket");
        let mut child = self
            .command(args)
            .env("FAILPOINTS", failpoints)
            .env("NOTIFY_SOCKET", &socket)
            .env("WATCHDOG_USEC", WATCHDOG_USEC)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("hypnos");
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut daemon = Daemon {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            log: collect(stderr.lines().map_while(Result::ok)),
            manager: collect(messages(manager)),
            manager_seen: 0,
        };
        daemon.address = daemon.listening();
        daemon.told("READY=1");
        daemon
    }
}

/// Gathers lines in the background.
fn collect(lines: impl Iterator<Item = String> + Send + 'static) -> Arc<Mutex<String>> {
    let all = Arc::new(Mutex::new(String::new()));
    let into = Arc::clone(&all);
    std::thread::spawn(move || {
        for line in lines {
            let mut all = into.lock().unwrap();
            all.push_str(&line);
            all.push('\n');
        }
    });
    all
}

fn messages(socket: UnixDatagram) -> impl Iterator<Item = String> + Send {
    std::iter::from_fn(move || {
        let mut buffer = [0; 4096];
        let length = socket.recv(&mut buffer).ok()?;
        Some(String::from_utf8(buffer[..length].to_vec()).unwrap())
    })
}

impl Daemon {
    fn listening(&mut self) -> SocketAddr {
        self.logged("listening");
        let log = self.log();
        let address = log.split("127.0.0.1:").nth(1).unwrap();
        let port: String = address.chars().take_while(char::is_ascii_digit).collect();
        SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()))
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Everything that the service manager was told.
    pub fn notes(&self) -> String {
        self.manager.lock().unwrap().clone()
    }

    /// Waits until something is so.
    #[track_caller]
    pub fn wait(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        #[expect(clippy::disallowed_methods, reason = "a test must end")]
        let start = Instant::now();
        while !is_so(self) {
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && start.elapsed() < PATIENCE,
                "{what} does not come; {ended:?}\n{}\n{}",
                self.log(),
                self.notes()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the log has a text.
    #[track_caller]
    pub fn logged(&mut self, text: &str) {
        self.logged_times(text, 1);
    }

    /// Waits until the log has a text so many times.
    #[track_caller]
    pub fn logged_times(&mut self, text: &str, times: usize) {
        self.wait(text, |daemon| daemon.log().matches(text).count() >= times);
    }

    /// Waits until the service manager is told a text, after what was waited for before.
    #[track_caller]
    pub fn told(&mut self, text: &str) {
        self.wait(text, |daemon| {
            let notes = daemon.notes();
            let found = notes[daemon.manager_seen..].find(text);
            daemon.manager_seen += found.map_or(0, |at| at + text.len());
            found.is_some()
        });
    }

    /// Waits until what has ended is heard to have logged a text: its last lines are read after that.
    #[track_caller]
    pub fn has_logged(&self, text: &str) {
        held::wait(text, || self.log().contains(text));
    }

    /// The same of what it told the service manager.
    #[track_caller]
    pub fn has_told(&self, text: &str) {
        held::wait(text, || self.notes().contains(text));
    }

    /// Waits until the loop has gone round a few times.
    pub fn idle(&mut self) {
        for _ in 0..3 {
            self.manager_seen = self.notes().len();
            self.told("WATCHDOG=1");
        }
    }

    pub fn send(&self, signal: Signal) {
        send(&self.child, signal);
    }

    /// The answer to a request: status, and everything after the header.
    pub fn request(&self, head: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).expect("connect");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "{head}\r\nHost: localhost\r\n\r\n").expect("request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answer");
        tells_no_memory(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").expect("a header");
        let status = head.split(' ').nth(1).expect("a status");
        (status.parse().unwrap(), body.to_owned())
    }

    pub fn get(&self, path: &str) -> (u16, String) {
        self.request(&format!("GET {path} HTTP/1.1"))
    }

    /// The value of a series; `None` when there is no such one.
    pub fn figure(&self, series: &str) -> Option<f64> {
        let (status, page) = self.get("/metrics");
        assert_eq!(status, 200, "{page}");
        let mut lines = page.lines().filter_map(|line| line.rsplit_once(' '));
        let (_, value) = lines.find(|(name, _)| *name == series)?;
        Some(value.parse().unwrap())
    }

    /// Ends it by a signal; its exit code.
    #[must_use = "say which exit code it should have"]
    pub fn end(mut self) -> Option<i32> {
        self.send(Signal::TERM);
        self.child.wait().unwrap().code()
    }

    /// Ends it at once, as a power cut would.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if !std::thread::panicking() {
            tells_no_memory(&self.log());
            tells_no_memory(&self.notes());
        }
    }
}
