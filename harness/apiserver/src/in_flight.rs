//! Limits the bytes of request bodies that the server holds at the same time.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::status::ApiError;

/// The maximum size of a request body in bytes.
pub(crate) const MAX_BODY: usize = 3 * 1024 * 1024;
/// The maximum size of all bodies in flight. A body of unknown length counts as one of the maximum size.
const MAX_BYTES: u64 = 96 * 1024 * 1024;

/// The bytes in flight of one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight(Arc<Mutex<u64>>);

/// The bytes of one request, until it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    all: InFlight,
    bytes: u64,
}

impl InFlight {
    /// Reserves the bytes of a body of at most `upper` bytes.
    ///
    /// # Errors
    /// 429 if there are too many bytes in flight.
    pub(crate) fn reserve(&self, upper: Option<u64>) -> Result<Reservation, ApiError> {
        let limit = MAX_BODY as u64;
        let bytes = upper.unwrap_or(limit).min(limit);
        let mut reserved = self.0.lock();
        let sum = reserved.saturating_add(bytes);
        if bytes > 0 && sum > MAX_BYTES {
            let message = "Too many requests, please try again later.";
            return Err(ApiError::new(429, "TooManyRequests", message).retry_after(1));
        }
        *reserved = sum;
        Ok(Reservation {
            all: self.clone(),
            bytes,
        })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut reserved = self.all.0.lock();
        *reserved = reserved.saturating_sub(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_refused_above_the_limit_until_others_end() {
        let in_flight = InFlight::default();
        let mut held: Vec<Reservation> = (0..32).map(|_| in_flight.reserve(None).unwrap()).collect();
        let refused = in_flight.reserve(Some(1)).unwrap_err();
        assert_eq!(refused.code, 429);
        assert!(
            in_flight.reserve(Some(0)).is_ok(),
            "requests without a body are not affected"
        );
        held.pop();
        assert!(in_flight.reserve(Some(u64::MAX)).is_ok());
    }
}
