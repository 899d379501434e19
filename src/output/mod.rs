//! What a person or a program reads: the only place, with `command`, that prints.
//!
//! Data goes to stdout, logs to stderr, always. A reader that goes away (`hypnos ... | head`) ends the output, not the
//! run, and is no error; a device that is full is one, once the work is done.
//!
//! No line carries a control character, whatever a tenant is called.

use std::io::{self, IsTerminal as _, Write};

use serde::Serialize;

mod escape;
pub mod findings;
pub mod memory;
pub mod progress;
pub mod run;
pub mod words;

/// Where data goes.
pub struct Out {
    writer: io::Stdout,
    /// Whether a person looks at it.
    pub terminal: bool,
    /// Whether to print JSON.
    pub json: bool,
    broken: Option<io::Error>,
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
            broken: None,
        }
    }

    /// Prints one line of text, with every character that a terminal would obey spelled out.
    pub fn line(&mut self, line: &str) {
        self.raw_line(&escape::for_people(line));
    }

    /// Prints the lines of a text.
    pub fn lines(&mut self, text: &str) {
        for line in text.lines() {
            self.line(line);
        }
    }

    /// Prints a text of this program's own as it is: tabs are part of it.
    pub fn verbatim(&mut self, text: &str) {
        if self.broken.is_none() {
            self.broken = self.writer.write_all(text.as_bytes()).err();
        }
    }

    fn raw_line(&mut self, line: &str) {
        if self.broken.is_none() {
            self.broken = writeln!(self.writer, "{line}").err();
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
            Ok(line) => self.raw_line(&escape::for_programs(&line)),
            Err(error) => tracing::error!(%error, kind, "write JSON"),
        }
    }

    /// Hands what was printed to the reader.
    pub fn flush(&mut self) {
        if self.broken.is_none() {
            self.broken = self.writer.flush().err();
        }
    }

    /// Ends the output.
    ///
    /// # Errors
    ///
    /// When something could not be written although its reader was still there.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush();
        match self.broken {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }
}

/// The text with every character that a terminal would obey spelled out, but for the ends of its lines.
#[must_use]
pub fn safe(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(escape::for_people).collect();
    lines.join("\n")
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
