//! The exit codes: one enum, used by every command.

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exit {
    /// Done, or nothing to do.
    Done,
    /// A pass failed.
    Failed,
    /// The command line makes no sense.
    Usage,
    /// Finished, but something was refused, skipped or left over.
    LeftOver,
    /// A store is missing, or its schema does not match.
    NoStore,
    /// Another run holds the lock.
    Locked,
    /// The configuration is invalid.
    Config,
    /// A signal ended the run early; what was begun is finished by the next run.
    Interrupted,
}

impl Exit {
    /// The code.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::LeftOver => 3,
            Self::NoStore => 10,
            Self::Locked => 11,
            Self::Config => 78,
            Self::Interrupted => 130,
        }
    }

    /// Which of two codes a run over several stores ends with: the one that most needs a person.
    #[must_use]
    pub fn gravity(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::LeftOver => 1,
            Self::Locked => 2,
            Self::NoStore => 3,
            Self::Failed => 4,
            Self::Usage => 5,
            Self::Config => 6,
            Self::Interrupted => 7,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
