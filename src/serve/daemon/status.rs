//! What `systemctl status` shows of the daemon.

use super::Daemon;

impl Daemon {
    pub(super) fn status(&self) -> String {
        let now = match &self.work {
            Some(work) => format!("running since {:.0}", work.since),
            None => match self.agenda.next_run() {
                Some(next) => format!("next run at {next:.0}"),
                None => "no run is planned".to_owned(),
            },
        };
        let again = match self.agenda.to_try_again() {
            [] => None,
            stores => Some(format!("to be tried again: {}", stores.join(", "))),
        };
        let last = self.last.as_ref().map(|last| format!("last run {last}"));
        let parts: Vec<String> = [Some(now), last, again].into_iter().flatten().collect();
        parts.join("; ")
    }
}
