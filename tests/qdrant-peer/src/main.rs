//! Serves a peer as a process of its own: prints its address, then serves until stdin closes.

fn main() -> std::process::ExitCode {
    qdrant_peer::serve_process(std::env::args().skip(1))
}
