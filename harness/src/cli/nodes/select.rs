//! Selects nodes: by names, globs and VM ids, or a random number of them.

use clock::Seed;
use fakecloud::glob;
use fakecloud::proto::Kubelet;
use scenario::closest::similar;

use crate::cli::Stop;

/// The nodes that match the patterns, in the order of their VMs' creation, each once. Without patterns: all.
///
/// # Errors
/// When a pattern matches no node, with similar names.
pub(super) fn select(all: Vec<Kubelet>, patterns: &[String]) -> Result<Vec<Kubelet>, Stop> {
    for pattern in patterns {
        if !all.iter().any(|kubelet| matches(pattern, kubelet)) {
            return Err(Stop::Usage(missing(&all, pattern)));
        }
    }
    let wanted = |kubelet: &Kubelet| patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, kubelet));
    Ok(all.into_iter().filter(wanted).collect())
}

fn matches(pattern: &str, kubelet: &Kubelet) -> bool {
    pattern == kubelet.vm_id || glob::matches(pattern, &kubelet.node)
}

fn missing(all: &[Kubelet], pattern: &str) -> String {
    if all.is_empty() {
        return "this fakecloud has no VMs yet: apply a Machine, or start `drydock up --nodes N`".to_owned();
    }
    let near = match pattern.contains(['*', '?']) {
        true => Vec::new(),
        false => similar(pattern, all.iter().map(|kubelet| kubelet.node.as_str())),
    };
    match near.as_slice() {
        [] => format!("no node matches {pattern:?}; `drydock nodes list` lists them"),
        near => format!("there is no node {pattern:?}; near it are: {}", near.join(", ")),
    }
}

/// Draws `count` of the nodes with the seed, and keeps their order.
///
/// # Errors
/// When there are fewer nodes.
pub(super) fn draw(mut all: Vec<Kubelet>, count: usize, seed: u64) -> Result<Vec<Kubelet>, Stop> {
    if count > all.len() {
        return Err(Stop::Usage(format!(
            "--random {count} is more than the {} nodes that exist",
            all.len()
        )));
    }
    let mut stream = Seed::new(seed).stream("drydock nodes");
    while all.len() > count {
        let index = stream.below(all.len() as u64) as usize;
        all.remove(index);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn nodes(names: &[&str]) -> Vec<Kubelet> {
        let node = |name: &&str| Kubelet {
            node: (*name).to_owned(),
            vm_id: format!("vm-{name}"),
            ..Kubelet::default()
        };
        names.iter().map(node).collect()
    }

    fn names(nodes: &[Kubelet]) -> Vec<&str> {
        nodes.iter().map(|node| node.node.as_str()).collect()
    }

    #[rstest]
    #[case::none(&[], &["b-1", "a-1", "a-2"])]
    #[case::a_name(&["a-1"], &["a-1"])]
    #[case::a_glob(&["a-*"], &["a-1", "a-2"])]
    #[case::a_vm(&["vm-a-2"], &["a-2"])]
    #[case::twice(&["a-1", "*-1"], &["b-1", "a-1"])]
    fn nodes_are_selected_by_name_glob_or_vm(#[case] patterns: &[&str], #[case] expected: &[&str]) {
        let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        let chosen = select(nodes(&["b-1", "a-1", "a-2"]), &patterns).unwrap();
        assert_eq!(names(&chosen), expected);
    }

    #[rstest]
    #[case::mistyped("nod-1", "there is no node \"nod-1\"; near it are: node-1")]
    #[case::strange("zzzzzzzzzzz", "no node matches \"zzzzzzzzzzz\"; `drydock nodes list` lists them")]
    #[case::glob("x*", "no node matches \"x*\"")]
    fn the_error_of_an_unknown_name_contains_similar_names(#[case] pattern: &str, #[case] expected: &str) {
        let error = select(nodes(&["node-1"]), &[pattern.to_owned()])
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn the_drawn_nodes_depend_only_on_the_seed() {
        let all: Vec<String> = (0..100).map(|number| format!("node-{number}")).collect();
        let all = nodes(&all.iter().map(String::as_str).collect::<Vec<_>>());
        let drawn = |seed| names(&draw(all.clone(), 10, seed).unwrap()).join(" ");
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
        assert_eq!(drawn(7).split(' ').count(), 10);
        let error = draw(all.clone(), 101, 1).unwrap_err().to_string();
        assert!(error.contains("more than the 100 nodes"), "{error}");
    }
}
