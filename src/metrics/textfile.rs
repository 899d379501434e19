//! Figures of a one-shot run, for the textfile collector of Prometheus' `node_exporter`.

use std::io;
use std::path::Path;

use super::Metrics;
use crate::clock::Timestamp;
use crate::durable;

/// The collector runs as another user.
const READABLE: u32 = 0o644;

/// Puts the page for an instant there: of a file the collector sees the old one or the new one, never half of one.
///
/// # Errors
///
/// When it cannot be written; then the old one stands.
pub fn write(metrics: &Metrics, path: &Path, now: Timestamp) -> io::Result<()> {
    durable::put(path, metrics.render(now).as_bytes(), READABLE)
}
