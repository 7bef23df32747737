//! A message's payload: bytes that only the sealer and the wire may see.

use std::fmt;

/// Longest plaintext of a web push, in bytes: a body of 4,096 (RFC 8291, 4) less the header of 86, the tag of 16 and
/// the padding delimiter of 1 (RFC 8188, 2).
pub const MAX_WEB_PUSH_PLAINTEXT: usize = 4096 - 86 - 16 - 1;

#[derive(Clone, PartialEq, Eq, Default)]
pub struct Payload {
    bytes: Vec<u8>,
    media: Media,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Media {
    #[default]
    Bytes,
    Text,
    Json,
}

impl Media {
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Bytes => "application/octet-stream",
            Self::Text => "text/plain; charset=utf-8",
            Self::Json => "application/json",
        }
    }
}

impl Payload {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, media: Media::Bytes }
    }

    pub fn written_as(media: Media, bytes: Vec<u8>) -> Self {
        Self { bytes, media }
    }

    pub fn media(&self) -> Media {
        self.media
    }

    /// Never log what this returns.
    pub fn expose(&self) -> &[u8] {
        &self.bytes
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload(redacted, {} bytes)", self.bytes.len())
    }
}
