//! The protobuf wire format: keys, varints, fixed and delimited values. Knows nothing of Kubernetes.

/// The reason why bytes are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    /// The bytes end within a value.
    #[error("unexpected EOF")]
    Truncated,
    /// A varint has more than 64 bits.
    #[error("integer overflow")]
    Overflow,
    /// A key with field number 0, a group, or an unknown wire type.
    #[error("illegal tag or wire type")]
    Key,
    /// The wire type of a value differs from the field's declaration.
    #[error("wrong wire type for field {0}")]
    WireType(&'static str),
    /// A string is not valid UTF-8.
    #[error("field {0} contains invalid UTF-8")]
    Utf8(&'static str),
    /// Embedded JSON is invalid, or a number has no JSON form.
    #[error("field {0} contains what cannot be written as JSON")]
    Json(&'static str),
    /// Messages are nested deeper than in any real object.
    #[error("messages are nested too deeply")]
    Depth,
}

/// The value of one field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wire<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 1.
    Fixed64(u64),
    /// Wire type 2: a string, bytes, a message, packed numbers.
    Bytes(&'a [u8]),
    /// Wire type 5.
    Fixed32,
}

/// Reads the fields of a message one by one.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Reads the bytes of a message.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Reads a bare varint, as in packed lists; `None` at the end.
    pub(super) fn next_varint(&mut self) -> Option<Result<u64, Malformed>> {
        (!self.rest.is_empty()).then(|| self.varint())
    }

    #[expect(clippy::arithmetic_side_effects, reason = "the loop limits the shift to 63 bits")]
    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for place in 0..10 {
            let (&byte, rest) = self.rest.split_first().ok_or(Malformed::Truncated)?;
            self.rest = rest;
            if place == 9 && byte > 1 {
                return Err(Malformed::Overflow);
            }
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed::Overflow)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(length).map_err(|_| Malformed::Truncated)?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Result<(u32, Wire<'a>), Malformed> {
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).map_err(|_| Malformed::Key)?;
        if number == 0 {
            return Err(Malformed::Key);
        }
        let value = match key & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => {
                let bytes = self.take(8)?;
                Wire::Fixed64(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
            }
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Wire::Fixed32
            }
            _ => return Err(Malformed::Key),
        };
        Ok((number, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Wire<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

impl<'a> Wire<'a> {
    pub(super) fn bytes(self, field: &'static str) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed::WireType(field)),
        }
    }

    pub(super) fn text(self, field: &'static str) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes(field)?).map_err(|_| Malformed::Utf8(field))
    }

    /// An integer; negative ones are in two's complement.
    pub(super) fn integer(self, field: &'static str) -> Result<i64, Malformed> {
        match self {
            Self::Varint(number) => Ok(number.cast_signed()),
            _ => Err(Malformed::WireType(field)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_order() {
        let bytes = [
            0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x19, 1, 0, 0, 0, 0, 0, 0, 0, 0x25, 0, 0, 0, 0,
        ];
        let fields: Result<Vec<_>, _> = Fields::new(&bytes).collect();
        assert_eq!(
            fields.unwrap(),
            [
                (1, Wire::Varint(150)),
                (2, Wire::Bytes(b"hi")),
                (3, Wire::Fixed64(1)),
                (4, Wire::Fixed32)
            ]
        );
    }

    #[test]
    fn malformed_bytes_end_the_iteration_with_an_error() {
        let error = |bytes: &[u8]| Fields::new(bytes).collect::<Result<Vec<_>, _>>().unwrap_err();
        assert_eq!(error(&[0x08]), Malformed::Truncated);
        assert_eq!(error(&[0x12, 0x05, b'x']), Malformed::Truncated);
        assert_eq!(error(&[0x00, 0x00]), Malformed::Key);
        assert_eq!(error(&[0x0b]), Malformed::Key);
        assert_eq!(
            error(&[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2]),
            Malformed::Overflow
        );
    }
}
