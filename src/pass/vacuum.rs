//! `vacuum`: free pages of the databases, given back where that is worth it and safe.
//!
//! Worth it: more free pages than both bounds say. Safe: the disk has room for the work, nothing knows rows by numbers
//! that VACUUM may change, no table or index needs a function that only the application has, and the agent does not
//! stand still for longer than it may. What is worth it and not safe is refused with what to do about it; the journal
//! mode and the log of the database are never touched.

use std::time::Duration;

use crate::config;
use crate::plan::{Plan, Unread, Upkeep};
use crate::store::files::StoreFile;
use crate::store::space::Space;
use crate::view::View;

use super::{Cx, Pass, PassError, PassName};

/// How much of a database VACUUM writes anew in a second, in bytes: less than half of what was measured on a disk that
/// is slow to sync (200 MB in 0.73 s).
const BYTES_PER_SECOND: u64 = 128 << 20;
/// How often VACUUM needs the size of the file as free disk: the copy, and the log or journal that undoes it.
const ROOM: u64 = 2;

/// The pass.
#[derive(Debug)]
pub struct Vacuum;

impl Pass for Vacuum {
    fn name(&self) -> PassName {
        PassName::Vacuum
    }

    fn plan(&self, view: &View<'_>, cx: &Cx<'_>) -> Result<Plan, PassError> {
        let mut plan = Plan::new(view.name(), PassName::Vacuum);
        let settings = &view.config().passes.vacuum;
        let mut refused = Vec::new();
        let files = view.store_files()?;
        let is_only = files.len() == 1;
        for file in files {
            cx.check_stop()?;
            match view.space(&file) {
                Ok((space, disk)) => match judge(&space, disk, settings) {
                    Verdict::Leave => {}
                    Verdict::Refuse(problem) => {
                        refused.push(Unread::new(file.partition, problem));
                    }
                    Verdict::Vacuum => plan.upkeep.push(upkeep(file, &space)),
                },
                Err(error) if !is_only => {
                    plan.unread.push(Unread::of_error(&file.partition, &error));
                }
                Err(error) => return Err(error.into()),
            }
        }
        if plan.upkeep.is_empty() && plan.unread.is_empty() && !refused.is_empty() {
            let problems: Vec<String> = refused
                .iter()
                .map(|refused| format!("{}: {}", refused.partition, refused.problem))
                .collect();
            return Err(PassError::Unsafe(problems.join("; ")));
        }
        plan.unread.extend(refused);
        Ok(plan)
    }
}

fn upkeep(file: StoreFile, space: &Space) -> Upkeep {
    Upkeep::Vacuum {
        half: file.half,
        partition: file.partition.clone(),
        bytes: space.bytes,
        free_bytes: space.free_bytes,
        incremental: space.is_incremental,
        file,
    }
}

/// What is to be done about one file.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It is not worth it.
    Leave,
    Vacuum,
    /// It is, and not safe.
    Refuse(String),
}

fn judge(space: &Space, disk: u64, settings: &config::Vacuum) -> Verdict {
    let Space {
        bytes,
        free_bytes,
        is_incremental,
        keyed_by_rowid,
        of_the_application,
    } = space;
    #[expect(
        clippy::cast_precision_loss,
        reason = "a share, for sizes far below 2^52 bytes"
    )]
    let share = *free_bytes as f64 / (*bytes).max(1) as f64;
    if share < settings.min_free_fraction.get() || *free_bytes < settings.min_free_bytes.0 {
        return Verdict::Leave;
    }
    // A few pages at a time: no copy, no number changes, nobody stands still.
    if *is_incremental {
        return Verdict::Vacuum;
    }
    if let Some(table) = keyed_by_rowid {
        return Verdict::Refuse(format!(
            "VACUUM may number the rows of table {table:?} anew, by which an index or a trigger knows them: give it an \
             INTEGER PRIMARY KEY"
        ));
    }
    if let Some(why) = of_the_application {
        return Verdict::Refuse(format!(
            "only the application can write it anew ({why}): let the application run VACUUM, or switch the pass off \
             (pass.vacuum.enabled = false)"
        ));
    }
    let room = bytes.saturating_mul(ROOM);
    if disk < room {
        return Verdict::Refuse(format!(
            "VACUUM needs {room} free bytes on the disk of the database, which has {disk}"
        ));
    }
    let stall = stall(bytes - free_bytes);
    if stall > settings.max_stall {
        return Verdict::Refuse(format!(
            "the agent could not write for about {:.1} s, and max_stall is {:.1} s: in a maintenance window, stop the \
             agent and run VACUUM, or set pass.vacuum.max_stall",
            stall.as_secs_f64(),
            settings.max_stall.as_secs_f64()
        ));
    }
    Verdict::Vacuum
}

/// How long a writer would stand still, about.
fn stall(used_bytes: u64) -> Duration {
    Duration::from_millis(used_bytes.saturating_mul(1000) / BYTES_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Env, parse};

    const MIB: u64 = 1 << 20;

    fn settings() -> config::Vacuum {
        let text =
            "[[store]]\nname = \"a\"\n[store.rows]\npath = \"m.db\"\npreset = \"ttl-days\"\n";
        let config = parse(text, std::path::Path::new("/h.toml"), &Env::default()).unwrap();
        config.stores[0].passes.vacuum.clone()
    }

    fn space(bytes: u64, free_bytes: u64) -> Space {
        Space {
            bytes,
            free_bytes,
            is_incremental: false,
            keyed_by_rowid: None,
            of_the_application: None,
        }
    }

    #[test]
    fn both_bounds_must_be_passed() {
        let judge = |space: Space| judge(&space, u64::MAX, &settings());
        for (bytes, free, verdict) in [
            (0, 0, Verdict::Leave),
            (100 * MIB, 15 * MIB, Verdict::Leave),
            (100 * MIB, 16 * MIB, Verdict::Vacuum),
            (160 * MIB, 16 * MIB, Verdict::Vacuum),
            (161 * MIB, 16 * MIB, Verdict::Leave),
            (16 * MIB, 16 * MIB, Verdict::Vacuum),
        ] {
            assert_eq!(judge(space(bytes, free)), verdict, "{free} of {bytes}");
        }
    }

    #[test]
    fn what_is_not_safe_is_refused_with_what_to_do() {
        let settings = settings();
        let refusal = |space: &Space, disk| match judge(space, disk, &settings) {
            Verdict::Refuse(why) => why,
            other => panic!("{other:?}"),
        };
        let sound = space(100 * MIB, 50 * MIB);
        assert_eq!(judge(&sound, 200 * MIB, &settings), Verdict::Vacuum);
        assert!(refusal(&sound, 200 * MIB - 1).contains("free bytes on the disk"));
        let keyed = Space {
            keyed_by_rowid: Some("notes".into()),
            ..sound
        };
        assert!(refusal(&keyed, u64::MAX).contains("\"notes\""));
        let own = Space {
            of_the_application: Some("no such function: embed".into()),
            ..space(100 * MIB, 50 * MIB)
        };
        assert!(refusal(&own, u64::MAX).contains("(no such function: embed)"));
        let five_seconds = 5 * BYTES_PER_SECOND;
        let large = |used| space(used + 1000 * MIB, 1000 * MIB);
        assert_eq!(
            judge(&large(five_seconds), u64::MAX, &settings),
            Verdict::Vacuum
        );
        let why = refusal(&large(five_seconds + MIB), u64::MAX);
        assert!(why.contains("maintenance window"), "{why}");
    }

    #[test]
    fn pages_given_back_a_few_at_a_time_need_neither_room_nor_rest() {
        let space = Space {
            bytes: 1 << 40,
            free_bytes: 1 << 39,
            is_incremental: true,
            keyed_by_rowid: Some("notes".into()),
            of_the_application: Some("no such function: embed".into()),
        };
        assert_eq!(judge(&space, 0, &settings()), Verdict::Vacuum);
    }
}
