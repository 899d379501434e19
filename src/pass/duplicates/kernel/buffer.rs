//! Bytes that start at a cache line.

/// The alignment, in bytes: a line of the cache, and a row of a tile register.
const LINE: usize = 64;

/// Zeroed bytes whose first one starts a cache line; a load that straddles two lines takes several times as long.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    pub(super) fn zeroed(len: usize) -> Self {
        let bytes = vec![0; len + LINE];
        let start = bytes.as_ptr().align_offset(LINE).min(LINE);
        Self { bytes, start, len }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_starts_at_a_line_and_has_its_length() {
        for len in [0, 1, 63, 64, 1000] {
            let mut buffer = Buffer::zeroed(len);
            assert_eq!(buffer.bytes().as_ptr().addr() % LINE, 0);
            assert_eq!(buffer.bytes(), vec![0; len]);
            assert_eq!(buffer.bytes_mut().len(), len);
        }
    }
}
