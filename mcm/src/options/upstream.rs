//! Flags of upstream's programs that there is nothing to set by yet.
//!
//! A manifest that was written for upstream is to fail with their names, not with a guess at what else
//! might have been meant. A flag that is offered must not stand here.

const NOT_OFFERED: [&str; 1] = ["machine-preserve-timeout"];

/// What is wrong with arguments that use flags of upstream's which are not offered; `None`: nothing.
pub fn not_offered<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let names = arguments.into_iter().filter_map(|argument| {
        let flag = argument.strip_prefix("--")?;
        Some(flag.split_once('=').map_or(flag, |(name, _)| name))
    });
    let found: Vec<String> = names
        .filter(|name| NOT_OFFERED.contains(name))
        .map(|name| format!("--{name}"))
        .collect();
    (!found.is_empty()).then(|| {
        format!(
            "{}: mcm does not offer this of upstream's flags; leave it out (docs/compatibility.md says what is not there yet)",
            found.join(", ")
        )
    })
}
