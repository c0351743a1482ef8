//! Writes the protobuf wire format. Knows nothing of Kubernetes.

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty message with room for that number of bytes.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(capacity),
        }
    }

    /// The bytes of the message.
    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    fn raw_varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            // The lower seven bits, and that more follow.
            self.bytes.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    fn key(&mut self, field: u32, wire_type: u64) {
        self.raw_varint(u64::from(field) << 3 | wire_type);
    }

    /// An unsigned integer, or a boolean.
    pub(super) fn varint(&mut self, field: u32, number: u64) {
        self.key(field, 0);
        self.raw_varint(number);
    }

    /// A signed integer without zigzag encoding: negative numbers have ten bytes.
    pub(super) fn signed(&mut self, field: u32, number: i64) {
        self.varint(field, number.cast_unsigned());
    }

    /// Eight bytes.
    pub(super) fn fixed64(&mut self, field: u32, bits: u64) {
        self.key(field, 1);
        self.bytes.extend_from_slice(&bits.to_le_bytes());
    }

    /// Bytes, or an encoded message.
    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, 2);
        self.raw_varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// A string.
    pub(super) fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    /// A message that `write` fills.
    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.key(field, 2);
        let start = self.bytes.len();
        write(self);
        let end = self.bytes.len();
        self.raw_varint(end.saturating_sub(start) as u64);
        // The length, which is known now, comes first.
        let length = self.bytes.len().saturating_sub(end);
        if let Some(message) = self.bytes.get_mut(start..) {
            message.rotate_right(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_message_precedes_it() {
        let mut out = Writer::default();
        out.message(1, |out| {
            out.varint(1, 300);
            out.message(2, |out| out.text(1, "a"));
        });
        assert_eq!(out.finish(), [10, 8, 8, 172, 2, 18, 3, 10, 1, b'a']);
    }

    #[test]
    fn negative_numbers_have_ten_bytes() {
        let mut out = Writer::default();
        out.signed(1, -1);
        assert_eq!(out.finish(), [8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
    }
}
