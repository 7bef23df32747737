//! The trace that a message belongs to: `traceparent` of W3C Trace Context (Recommendation of 23 November 2021).
//!
//! A producer's trace goes on through Redial: the field is kept with the message, and each attempt is a span of that trace. Of a header, or
//! of an attribute of an SQS message, what is invalid is ignored, as the specification asks of everyone on the way: it was often added by a
//! library that the producer does not see. In the message's own field it is an error like that of any other field.

use std::fmt;

use crate::shape::{Object, text};

/// What names a trace and, in it, a span: both not zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Traceparent {
    trace: [u8; 16],
    span: SpanId,
    flags: u8,
}

/// Never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

impl SpanId {
    /// One of these random bits.
    pub const fn of(random: u64) -> Self {
        Self(if random == 0 { 1_u64.to_be_bytes() } else { random.to_be_bytes() })
    }

    /// Sixteen hexadecimal digits.
    pub fn to_hex(self) -> String {
        hex::encode(self.0)
    }
}

/// The one flag of version 00.
const SAMPLED: u8 = 0x01;

/// The one that Level 2 of the specification adds: the trace's id is random.
const RANDOM: u8 = 0x02;

impl Traceparent {
    pub const NAME: &str = "traceparent";

    /// What the field is to be.
    pub const FORM: &str = "00-, a trace id of 32 and a span id of 16 hexadecimal digits, and flags of 2, in lower case, with - between them";

    /// The length of its text.
    pub const LENGTH: usize = 55;

    /// Reads version 00, the only one that is specified.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("00-").filter(|_| text.len() == Self::LENGTH)?;
        Self::after_version(rest)
    }

    /// Reads a header or an attribute: also of a later version, of which this much is known (3.2.4, "Versioning of traceparent").
    pub fn from_header(text: &str) -> Option<Self> {
        let text = text.trim_matches([' ', '\t']);
        if let Some(known) = Self::parse(text) {
            return Some(known);
        }
        let [version, rest] = [text.get(..2)?, text.get(3..Self::LENGTH)?];
        let is_later = bytes::<1>(version).is_some_and(|[version]| (1..0xff).contains(&version));
        let goes_on = text.as_bytes().get(Self::LENGTH).is_none_or(|next| *next == b'-');
        (is_later && goes_on && text.as_bytes()[2] == b'-').then(|| Self::after_version(rest))?
    }

    /// `trace-span-flags`, of their length.
    fn after_version(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?);
        let trace = bytes::<16>(trace).filter(|id| *id != [0; 16])?;
        let span = bytes::<8>(span).filter(|id| *id != [0; 8])?;
        let [flags] = bytes::<1>(flags)?;
        parts.next().is_none().then_some(Self {
            trace,
            span: SpanId(span),
            flags: flags & (SAMPLED | RANDOM),
        })
    }

    /// Takes the field. What is wrong with it is among the object's errors.
    pub(crate) fn take(object: &mut Object<'_>) -> Option<Self> {
        object.optional(Self::NAME, Self::FORM, text(Self::parse))
    }

    /// Thirty-two hexadecimal digits.
    pub fn trace_id(&self) -> String {
        hex::encode(self.trace)
    }

    pub const fn span(&self) -> SpanId {
        self.span
    }

    /// Whether its producer records the trace.
    pub const fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// That of a span of the same trace.
    #[must_use]
    pub const fn with_span(self, span: SpanId) -> Self {
        Self { span, ..self }
    }
}

/// Lower-case hexadecimal digits of exactly `N` bytes.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let is_lower_case = !text.bytes().any(|byte| byte.is_ascii_uppercase());
    (is_lower_case && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(bytes)
}

/// As it is written, in version 00.
impl fmt::Display for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace_id(), self.span.to_hex(), self.flags)
    }
}

impl fmt::Debug for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The example of the specification.
    const EXAMPLE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn the_example_of_the_specification_reads_back() {
        let read = Traceparent::parse(EXAMPLE).expect("valid");
        assert_eq!(read.to_string(), EXAMPLE);
        assert_eq!(read.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(read.span().to_hex(), "b7ad6b7169203331");
        assert!(read.is_sampled());
        let child = read.with_span(SpanId::of(7));
        assert_eq!(child.to_string(), "00-0af7651916cd43dd8448eb211c80319c-0000000000000007-01");
        assert_eq!(SpanId::of(0).to_hex(), "0000000000000001", "no span is zero");
    }

    #[test]
    fn unknown_flags_are_dropped_and_the_sampled_flag_is_read() {
        for (flags, kept, sampled) in [("00", "00", false), ("02", "02", false), ("ff", "03", true)] {
            let read = Traceparent::parse(&format!("{}{flags}", &EXAMPLE[..53])).expect("valid");
            assert_eq!((read.to_string(), read.is_sampled()), (format!("{}{kept}", &EXAMPLE[..53]), sampled));
        }
    }

    #[test]
    fn a_header_of_a_later_version_is_read_and_the_field_is_not() {
        let of = |version: &str, more: &str| format!("{version}{}{more}", &EXAMPLE[2..]);
        for later in [of("01", ""), of("fe", "-what-may-come"), format!(" {EXAMPLE}\t")] {
            let read = Traceparent::from_header(&later).map(|read| read.to_string());
            assert_eq!((read.as_deref(), Traceparent::parse(&later)), (Some(EXAMPLE), None), "{later}");
        }
    }

    #[test]
    fn what_is_invalid_by_the_specification_is_none() {
        let zeros = |from: usize, to: usize| {
            let mut text = EXAMPLE.to_owned();
            text.replace_range(from..to, &"0".repeat(to - from));
            text
        };
        for bad in [
            String::new(),
            EXAMPLE.to_uppercase(),
            zeros(3, 35),
            zeros(36, 52),
            format!("ff{}", &EXAMPLE[2..]),
            format!("{EXAMPLE}-00"),
            format!("{EXAMPLE}0"),
            format!("01{}x", &EXAMPLE[2..]),
            EXAMPLE[..54].to_owned(),
            EXAMPLE.replace('-', "_"),
            EXAMPLE.replacen("-b", "b-", 1),
            EXAMPLE.replace("0af7", "0ag7"),
            "é".repeat(30),
        ] {
            assert_eq!((Traceparent::parse(&bad), Traceparent::from_header(&bad)), (None, None), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_as_it_is_read(
            text in "0[01]-[0-9a-fA]{30,33}-[0-9a-f]{15,17}-0[0-3]|.{0,60}",
        ) {
            if let Some(read) = Traceparent::from_header(&text) {
                prop_assert_eq!(Traceparent::parse(&read.to_string()), Some(read));
            }
        }
    }
}
