//! A peer as a process of its own, for scripts and for tests that kill it.

use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

use crate::{Peer, PeerOptions};

const USAGE: &str = "usage: qdrant-peer [--port PORT] [--rest-port PORT] [--dir DIR] [--api-key KEY] [--version VERSION]";

/// Serves a peer with the options of a command line, without the program's name. Prints its gRPC address and, on a second
/// line, its REST address, then serves until stdin closes.
#[expect(clippy::print_stderr, reason = "the output of a program")]
pub fn serve_process(arguments: impl Iterator<Item = String>) -> ExitCode {
    let options = match parse(arguments) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let peer = Peer::start_with(options);
    let addresses = format!("{}\n{}\n", peer.url(), peer.rest_url());
    let mut out = io::stdout();
    if out
        .write_all(addresses.as_bytes())
        .and_then(|()| out.flush())
        .is_err()
    {
        return ExitCode::FAILURE;
    }
    // Whatever ends stdin ends the peer.
    drop(io::stdin().read_to_end(&mut Vec::new()));
    ExitCode::SUCCESS
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<PeerOptions, String> {
    let mut options = PeerOptions::default();
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{name} needs a value"));
        match name.as_str() {
            "--port" => options.port = port(&name, &value()?)?,
            "--rest-port" => options.rest_port = port(&name, &value()?)?,
            "--dir" => options.dir = Some(value()?.into()),
            "--api-key" => options.api_key = Some(value()?),
            "--version" => options.version = value()?,
            _ => return Err(format!("unknown argument: {name}")),
        }
    }
    Ok(options)
}

fn port(name: &str, value: &str) -> Result<u16, String> {
    value
        .parse()
        .map_err(|error| format!("parse {name}: {error}"))
}
