//! The constraints of one item of a limit range: minimum, maximum, and the ratio of limit and request.

use quantity::Quantity;
use serde_json::Value;

use super::{Amounts, amounts};

/// Appends what the item forbids about these requests and limits.
pub(super) fn check(limit: &Value, kind: &str, requests: &Amounts, limits: &Amounts, found: &mut Vec<String>) {
    for (name, least) in amounts(limit, "/min") {
        found.extend(minimum(name, kind, &least, requests.get(name), limits.get(name)));
    }
    for (name, most) in amounts(limit, "/max") {
        found.extend(maximum(name, kind, &most, requests.get(name), limits.get(name)));
    }
    for (name, most) in amounts(limit, "/maxLimitRequestRatio") {
        found.extend(ratio(name, kind, &most, requests.get(name), limits.get(name)));
    }
}

/// The same for an object without limits.
pub(super) fn check_requests(limit: &Value, kind: &str, requests: &Amounts, found: &mut Vec<String>) {
    for (name, least) in amounts(limit, "/min") {
        found.extend(minimum(name, kind, &least, requests.get(name), None));
    }
    for (name, most) in amounts(limit, "/max") {
        let bound = format!("maximum {name} usage per {kind} is {most}");
        found.extend(match requests.get(name) {
            None => Some(format!("{bound}.  No request is specified")),
            Some(request) if request.compare(&most).is_gt() => Some(format!("{bound}, but request is {request}")),
            Some(_) => None,
        });
    }
}

fn minimum(
    name: &str,
    kind: &str,
    least: &Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let bound = format!("minimum {name} usage per {kind} is {least}");
    let Some(request) = request else {
        return Some(format!("{bound}.  No request is specified"));
    };
    if request.compare(least).is_lt() {
        return Some(format!("{bound}, but request is {request}"));
    }
    let limit = limit.filter(|limit| limit.compare(least).is_lt())?;
    Some(format!("{bound}, but limit is {limit}"))
}

fn maximum(
    name: &str,
    kind: &str,
    most: &Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let bound = format!("maximum {name} usage per {kind} is {most}");
    let Some(limit) = limit else {
        return Some(format!("{bound}.  No limit is specified"));
    };
    if limit.compare(most).is_gt() {
        return Some(format!("{bound}, but limit is {limit}"));
    }
    let request = request.filter(|request| request.compare(most).is_gt())?;
    Some(format!("{bound}, but request is {request}"))
}

fn ratio(
    name: &str,
    kind: &str,
    most: &Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let bound = format!("{name} max limit to request ratio per {kind} is {most}");
    let set = |amount: Option<&Quantity>| amount.map(Quantity::milli).filter(|milli| *milli != 0);
    let Some(request) = set(request) else {
        return Some(format!("{bound}, but no request is specified or request is 0"));
    };
    let Some(limit) = set(limit) else {
        return Some(format!("{bound}, but no limit is specified or limit is 0"));
    };
    let allowed = most.milli().saturating_mul(request);
    let exceeds = limit.saturating_mul(1000) > allowed;
    exceeds.then(|| format!("{bound}, but provided ratio is {}", decimal(limit, request)))
}

/// The quotient with six digits after the point, as Go's `%f`.
fn decimal(dividend: i128, divisor: i128) -> String {
    const SCALE: i128 = 1_000_000;
    let doubled = dividend.saturating_mul(SCALE).saturating_mul(2);
    let scaled = doubled
        .saturating_add(divisor)
        .checked_div(divisor.saturating_mul(2))
        .unwrap_or_default();
    format!("{}.{:06}", scaled / SCALE, scaled % SCALE)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn quantity(text: &str) -> Option<Quantity> {
        (!text.is_empty()).then(|| text.parse().unwrap())
    }

    #[rstest]
    #[case("", "", Some("minimum cpu usage per Pod is 100m.  No request is specified"))]
    #[case("50m", "", Some("minimum cpu usage per Pod is 100m, but request is 50m"))]
    #[case("100m", "50m", Some("minimum cpu usage per Pod is 100m, but limit is 50m"))]
    #[case("100m", "", None)]
    fn a_minimum_needs_a_request(#[case] request: &str, #[case] limit: &str, #[case] expected: Option<&str>) {
        let least = quantity("100m").unwrap();
        let found = minimum(
            "cpu",
            "Pod",
            &least,
            quantity(request).as_ref(),
            quantity(limit).as_ref(),
        );
        assert_eq!(found.as_deref(), expected);
    }

    #[rstest]
    #[case("", "", Some("maximum cpu usage per Pod is 1.  No limit is specified"))]
    #[case("", "1100m", Some("maximum cpu usage per Pod is 1, but limit is 1100m"))]
    #[case("2", "1", Some("maximum cpu usage per Pod is 1, but request is 2"))]
    #[case("1", "1", None)]
    fn a_maximum_needs_a_limit(#[case] request: &str, #[case] limit: &str, #[case] expected: Option<&str>) {
        let most = quantity("1").unwrap();
        let found = maximum(
            "cpu",
            "Pod",
            &most,
            quantity(request).as_ref(),
            quantity(limit).as_ref(),
        );
        assert_eq!(found.as_deref(), expected);
    }

    #[rstest]
    #[case("", "1", Some("but no request is specified or request is 0"))]
    #[case("0", "1", Some("but no request is specified or request is 0"))]
    #[case("1", "", Some("but no limit is specified or limit is 0"))]
    #[case("300m", "1", Some("but provided ratio is 3.333333"))]
    #[case("500m", "1", None)]
    fn a_ratio_needs_both(#[case] request: &str, #[case] limit: &str, #[case] expected: Option<&str>) {
        let most = quantity("2").unwrap();
        let found = ratio(
            "cpu",
            "Pod",
            &most,
            quantity(request).as_ref(),
            quantity(limit).as_ref(),
        );
        let expected = expected.map(|end| format!("cpu max limit to request ratio per Pod is 2, {end}"));
        assert_eq!(found, expected);
    }
}
