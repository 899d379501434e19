//! Reading a snapshot once for two: who reads from here gets what comes, and a file has it, too.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::sync::mpsc::Sender;

use sha2::{Digest as _, Sha256};

use super::server::Made;
use crate::store::copies::{CopyError, hex};

/// What comes of a snapshot.
pub(super) struct Tee<'a> {
    from: &'a mut dyn Read,
    to: &'a File,
    made: &'a Made,
    /// Why reading failed.
    broken_off: &'a dyn Fn(io::Error) -> CopyError,
    /// Hears of the last byte, once all of them are in the file.
    whole: Sender<()>,
    hash: Sha256,
    bytes: u64,
    outcome: Option<Result<String, CopyError>>,
}

impl<'a> Tee<'a> {
    pub(super) fn new(
        from: &'a mut dyn Read,
        to: &'a File,
        made: &'a Made,
        broken_off: &'a dyn Fn(io::Error) -> CopyError,
        whole: Sender<()>,
    ) -> Self {
        Self {
            from,
            to,
            made,
            broken_off,
            whole,
            hash: Sha256::new(),
            bytes: 0,
            outcome: None,
        }
    }

    /// The SHA-256 of what came, or why it did not come whole; `None` when it was not read to its end.
    pub(super) fn outcome(self) -> Option<Result<String, CopyError>> {
        self.outcome
    }

    fn pass(&mut self, chunk: &mut [u8]) -> Result<usize, CopyError> {
        let read = self.from.read(chunk).map_err(self.broken_off)?;
        self.bytes += read as u64;
        if self.bytes > self.made.size || (read == 0 && self.bytes < self.made.size) {
            return Err(self.made.wrong_length(self.bytes));
        }
        self.hash.update(&chunk[..read]);
        self.to
            .write_all(&chunk[..read])
            .map_err(CopyError::io("write the file of a snapshot"))?;
        Ok(read)
    }

    fn end(&mut self) -> Result<String, CopyError> {
        let sha256 = hex(&self.hash.finalize_reset());
        match &self.made.checksum {
            Some(expected) if !expected.eq_ignore_ascii_case(&sha256) => Err(CopyError::Damaged(
                "the snapshot that came has another checksum than the server gives for it"
                    .to_owned(),
            )),
            _ => {
                // Nobody may be there any more to hear it.
                let _ = self.whole.send(());
                Ok(sha256)
            }
        }
    }
}

impl Read for Tee<'_> {
    fn read(&mut self, chunk: &mut [u8]) -> io::Result<usize> {
        if chunk.is_empty() || matches!(self.outcome, Some(Ok(_))) {
            return Ok(0);
        }
        let broken = || io::Error::other("the snapshot did not come whole");
        if self.outcome.is_some() {
            return Err(broken());
        }
        let ended = match self.pass(chunk) {
            Ok(0) => self.end(),
            Ok(read) => return Ok(read),
            Err(error) => Err(error),
        };
        let is_whole = ended.is_ok();
        self.outcome = Some(ended);
        if is_whole { Ok(0) } else { Err(broken()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// What came, what the file has, the outcome, whether the end was told.
    type Passed = (Vec<u8>, Vec<u8>, Option<Result<String, String>>, bool);

    /// Reads `bytes` as the snapshot that the server describes.
    fn passed(bytes: &[u8], made: &Made) -> Passed {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("points");
        let file = File::create_new(&path).unwrap();
        let (tell, whole) = mpsc::channel();
        let mut from = bytes;
        let explain = |error: io::Error| CopyError::Damaged(error.to_string());
        let mut tee = Tee::new(&mut from, &file, made, &explain, tell);
        let mut came = Vec::new();
        let is_read = tee.read_to_end(&mut came).is_ok();
        assert_eq!(tee.read(&mut [0]).is_ok(), is_read, "it stays as it ended");
        let outcome = tee
            .outcome()
            .map(|ended| ended.map_err(|error| error.to_string()));
        assert_eq!(outcome.as_ref().is_some_and(Result::is_ok), is_read);
        (
            came,
            std::fs::read(&path).unwrap(),
            outcome,
            whole.try_recv().is_ok(),
        )
    }

    fn made(size: u64, checksum: Option<&str>) -> Made {
        Made {
            name: "s".to_owned(),
            size,
            checksum: checksum.map(str::to_owned),
        }
    }

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn both_have_what_came_whole() {
        for checksum in [None, Some(ABC), Some(&*ABC.to_uppercase())] {
            let (came, file, outcome, is_told) = passed(b"abc", &made(3, checksum));
            assert_eq!((&*came, &*file), (&b"abc"[..], &b"abc"[..]));
            assert_eq!((outcome, is_told), (Some(Ok(ABC.to_owned())), true));
        }
    }

    #[test]
    fn what_is_not_what_the_server_says_never_ends_well() {
        for (bytes, made, reason) in [
            (&b"ab"[..], made(3, None), "has 2 bytes"),
            (b"abcd", made(3, None), "has 4 bytes"),
            (b"abd", made(3, Some(ABC)), "another checksum"),
        ] {
            let (_, _, outcome, is_told) = passed(bytes, &made);
            let error = outcome.unwrap().unwrap_err();
            assert!(error.contains(reason), "{error}");
            assert!(!is_told);
        }
    }

    #[test]
    fn what_nobody_reads_has_no_outcome() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create_new(folder.path().join("points")).unwrap();
        let (made, explain) = (made(3, None), |_| CopyError::Interrupted);
        let mut from = &b"abc"[..];
        let mut tee = Tee::new(&mut from, &file, &made, &explain, mpsc::channel().0);
        assert_eq!(tee.read(&mut [0; 2]).unwrap(), 2);
        assert!(tee.outcome().is_none());
    }
}
