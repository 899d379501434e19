//! Progress bars, for people at a terminal.

use std::cell::RefCell;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::pass::{PassName, Progress};

/// One bar on stderr for the step at hand.
#[derive(Debug, Default)]
pub struct Bars(RefCell<Option<ProgressBar>>);

impl Progress for Bars {
    fn begin(&self, store: &str, pass: PassName, step: &'static str, total: Option<u64>) {
        self.end();
        // A single unit, such as the only file of a store, needs no bar.
        let Some(total) = total.filter(|total| *total > 1) else {
            return;
        };
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}") {
            bar.set_style(style);
        }
        bar.set_message(format!("{store} {pass}: {step}"));
        *self.0.borrow_mut() = Some(bar);
    }

    fn advance(&self, units: u64) {
        if let Some(bar) = self.0.borrow().as_ref() {
            bar.inc(units);
        }
    }

    fn end(&self) {
        if let Some(bar) = self.0.borrow_mut().take() {
            bar.finish_and_clear();
        }
    }
}
