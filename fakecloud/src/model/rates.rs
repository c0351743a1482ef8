//! Rates of calls.

/// Whether a rate makes sense.
pub(crate) fn check_rate(per_second: f64, burst: u32) -> Result<(), String> {
    if !(per_second.is_finite() && per_second > 0.0) {
        return Err(format!(
            "perSecond is {per_second}, and must be more than 0, for example 0.5"
        ));
    }
    if burst == 0 {
        return Err("burst is 0, so that no call ever passes: make it at least 1".to_owned());
    }
    Ok(())
}
