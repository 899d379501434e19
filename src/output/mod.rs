//! What a person or a program reads: the only place, with `command`, that prints.
//!
//! Data goes to stdout, logs to stderr, always. A reader that goes away (`hypnos ... | head`) ends the output, not the
//! run.

use std::io::{self, IsTerminal as _, Write};

use serde::Serialize;

pub mod memory;
pub mod progress;
pub mod run;

/// Where data goes.
pub struct Out {
    writer: io::Stdout,
    /// Whether a person looks at it.
    pub terminal: bool,
    /// Whether to print JSON.
    pub json: bool,
    broken: bool,
}

impl Out {
    /// Standard output.
    #[must_use]
    pub fn new(json: bool) -> Self {
        let writer = io::stdout();
        Self {
            terminal: writer.is_terminal() && !json,
            writer,
            json,
            broken: false,
        }
    }

    /// Prints one line of text.
    pub fn line(&mut self, line: &str) {
        if !self.broken {
            self.broken = writeln!(self.writer, "{line}").is_err();
        }
    }

    /// Prints one object on a line, with the schema number and its type in front.
    pub fn object(&mut self, kind: &'static str, body: &impl Serialize) {
        #[derive(Serialize)]
        struct Line<'a, T> {
            schema: u8,
            r#type: &'static str,
            #[serde(flatten)]
            body: &'a T,
        }
        match serde_json::to_string(&Line {
            schema: 1,
            r#type: kind,
            body,
        }) {
            Ok(line) => self.line(&line),
            Err(error) => tracing::error!(%error, kind, "write JSON"),
        }
    }

    /// Hands what was printed to the reader.
    pub fn flush(&mut self) {
        if !self.broken {
            self.broken = self.writer.flush().is_err();
        }
    }
}

/// Prints a failure of a whole command as an object.
pub fn failure(failure: &crate::error::Failure) {
    #[derive(Serialize)]
    struct Error<'a> {
        #[serde(rename = "error")]
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        hint: Option<&'a str>,
        exit: u8,
    }
    let crate::error::Failure {
        exit,
        message,
        hint,
    } = failure;
    let mut out = Out::new(true);
    out.object(
        "error",
        &Error {
            message,
            hint: hint.as_deref(),
            exit: exit.code(),
        },
    );
    out.flush();
}
