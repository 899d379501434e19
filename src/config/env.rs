//! The environment, as a value.

use std::io;
use std::path::PathBuf;

/// Name of the credential that systemd puts in `$CREDENTIALS_DIRECTORY`.
const CREDENTIAL: &str = "qdrant-api-key";

/// What the configuration takes from the environment of the process. Secrets are not printed: no `Debug`.
#[derive(Clone, Default)]
pub struct Env {
    /// `$CREDENTIALS_DIRECTORY`, which systemd sets for `LoadCredential=`.
    pub credentials_dir: Option<PathBuf>,
    /// `$HYPNOS_QDRANT_API_KEY`; an empty one is as good as none.
    pub qdrant_api_key: Option<String>,
}

impl Env {
    /// Reads the environment of this process.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the configuration reads the environment"
    )]
    #[must_use]
    pub fn from_process() -> Self {
        Self {
            credentials_dir: std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from),
            qdrant_api_key: std::env::var("HYPNOS_QDRANT_API_KEY").ok(),
        }
    }

    /// The API key of Qdrant: the credential, else the variable.
    ///
    /// # Errors
    ///
    /// The path of a credential that is there but cannot be read or is empty, and why.
    pub(super) fn api_key(&self) -> Result<Option<String>, (PathBuf, String)> {
        if let Some(path) = self
            .credentials_dir
            .as_ref()
            .map(|dir| dir.join(CREDENTIAL))
        {
            match std::fs::read_to_string(&path) {
                Ok(key) if key.trim().is_empty() => return Err((path, "empty".into())),
                Ok(key) => return Ok(Some(key.trim().to_owned())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err((path, error.kind().to_string())),
            }
        }
        let variable = self.qdrant_api_key.as_deref().map(str::trim);
        Ok(variable.filter(|key| !key.is_empty()).map(Into::into))
    }
}
