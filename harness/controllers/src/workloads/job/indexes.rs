//! The completion indexes of an Indexed job, and their text form in the status: `0-2,5`.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

use crate::workloads::meta;

/// The annotation and label with a pod's index.
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The index of a pod; `None` if it has none or if it is out of range.
pub fn index_of(pod: &Pod, completions: i32) -> Option<i32> {
    let index = i32::try_from(meta::number(&pod.metadata, INDEX)?).ok()?;
    (0..completions).contains(&index).then_some(index)
}

/// Parses indexes below `completions`; skips invalid parts.
pub fn parse(text: &str, completions: i32) -> BTreeSet<i32> {
    let mut indexes = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) {
            indexes.extend((first.max(0)..=last).take_while(|index| *index < completions));
        }
    }
    indexes
}

/// Formats indexes; three or more consecutive ones form a range.
pub fn text(indexes: &BTreeSet<i32>) -> String {
    let mut ranges: Vec<(i32, i32)> = Vec::new();
    for index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if last.saturating_add(1) == *index => *last = *index,
            _ => ranges.push((*index, *index)),
        }
    }
    let parts: Vec<String> = ranges
        .into_iter()
        .map(|(first, last)| match last.saturating_sub(first) {
            0 => first.to_string(),
            1 => format!("{first},{last}"),
            _ => format!("{first}-{last}"),
        })
        .collect();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", &[])]
    #[case("1", &[1])]
    #[case("0,1", &[0, 1])]
    #[case("0-2,5", &[0, 1, 2, 5])]
    #[case("0,2,4-9", &[0, 2, 4, 5, 6, 7, 8, 9])]
    fn indexes_are_written_as_ranges(#[case] written: &str, #[case] indexes: &[i32]) {
        let indexes: BTreeSet<i32> = indexes.iter().copied().collect();
        assert_eq!(text(&indexes), written);
        assert_eq!(parse(written, 10), indexes);
    }

    #[test]
    fn indexes_out_of_range_are_left_out() {
        assert_eq!(text(&parse("0-4", 3)), "0-2");
        assert_eq!(text(&parse("x,1", 3)), "1");
    }
}
