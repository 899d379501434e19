//! The real Prometheus, scraping a page once a second.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::file;
use crate::support::{World, write};

/// How often it is asked whether it has come so far, every 100 ms.
const PATIENCE: u32 = 600;

pub(super) struct Prometheus {
    child: Child,
    address: SocketAddr,
}

impl Prometheus {
    /// Starts it, with the alerts loaded, on whatever answers at the address.
    pub(super) fn scraping(world: &World, target: SocketAddr) -> Self {
        // The port that was free may be somebody else's by now; it ends then.
        let mut tries = (0..5).map(|_| Self::start(world, target));
        tries
            .find_map(|mut started| started.answers().then_some(started))
            .expect("prometheus to answer")
    }

    fn start(world: &World, target: SocketAddr) -> Self {
        let address = free_address();
        let config = world.path("prometheus.yml");
        write(
            &config,
            &format!(
                "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
                 rule_files: [\"{}\"]\n\
                 scrape_configs: [{{ job_name: hypnos, static_configs: [{{ targets: [\"{target}\"] }}] }}]\n",
                file("dashboards/alerts.yml").display()
            ),
        );
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                world.path("tsdb").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus");
        Self { child, address }
    }

    /// Waits for its first answer; none comes when it has ended.
    fn answers(&mut self) -> bool {
        (0..PATIENCE).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            self.child.try_wait().expect("prometheus").is_some()
                || self.try_value("vector(1)").is_some()
        }) && self.child.try_wait().expect("prometheus").is_none()
    }

    /// Waits until so many more scrapes are stored.
    pub(super) fn wait_for_scrapes(&self, more: u32) {
        let count = "count_over_time(hypnos_build_info[1h])";
        let known = self.try_value(count).unwrap_or_default();
        for _ in 0..PATIENCE {
            let seen = self.try_value(count).unwrap_or_default();
            if seen >= known + f64::from(more) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("no new scrapes within a minute");
    }

    /// How many series a query gives.
    #[track_caller]
    pub(super) fn series(&self, query: &str) -> usize {
        let answer = self
            .query(query)
            .unwrap_or_else(|| panic!("no answer to {query}"));
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        match answer["data"]["resultType"].as_str() {
            Some("vector") => answer["data"]["result"].as_array().unwrap().len(),
            other => panic!("{query} gives a {other:?}"),
        }
    }

    /// The value of a query that gives one series.
    #[track_caller]
    pub(super) fn value(&self, query: &str) -> f64 {
        self.try_value(query)
            .unwrap_or_else(|| panic!("no value of {query}"))
    }

    fn try_value(&self, query: &str) -> Option<f64> {
        let answer = self.query(query)?;
        answer["data"]["result"][0]["value"][1]
            .as_str()?
            .parse()
            .ok()
    }

    fn query(&self, query: &str) -> Option<Value> {
        let mut encoded = String::new();
        for byte in query.bytes() {
            let _ = write!(encoded, "%{byte:02X}");
        }
        let path = format!("/api/v1/query?query={encoded}");
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .ok()?;
        write!(
            stream,
            "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n",
            self.address
        )
        .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        serde_json::from_str(body).ok()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address")
}

/// Serves the file, as it is when somebody asks, until the test ends: what `node_exporter` does with it.
pub(super) fn serve(page: PathBuf) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            drop(answer(&stream, &page));
        }
    });
    address
}

fn answer(mut stream: &TcpStream, page: &PathBuf) -> std::io::Result<()> {
    let request = BufReader::new(stream).lines();
    // The request ends with an empty line.
    request
        .take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty()))
        .for_each(drop);
    let body = std::fs::read_to_string(page)?;
    let head = "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\r\n";
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}
