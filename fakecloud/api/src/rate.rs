//! Rates of calls.

/// Why a rate is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RateError {
    /// No call passes after the burst.
    #[error("perSecond is {0}, and must be more than 0, for example 0.5")]
    PerSecond(f64),
    /// No call ever passes.
    #[error("burst is 0, so that no call ever passes: make it at least 1")]
    Burst,
}

/// Checks a rate.
///
/// # Errors
/// The invalid field.
pub fn check_rate(per_second: f64, burst: u32) -> Result<(), RateError> {
    if !(per_second.is_finite() && per_second > 0.0) {
        return Err(RateError::PerSecond(per_second));
    }
    if burst == 0 {
        return Err(RateError::Burst);
    }
    Ok(())
}
